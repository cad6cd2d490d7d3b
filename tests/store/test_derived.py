"""A laid-out snapshot and its checkpoint are the same; what was made otherwise is not taken."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.retrieve.worlds import AXIS, DIM, lay_out, make_account, run
from viking_rpc.domain.context import ContextType, Kind, Level, Row
from viking_rpc.domain.query import Mode, Query, RetrieveRequest, Scope, TraceLevel
from viking_rpc.index.ann import AnnParameters
from viking_rpc.index.bfloat16 import MAX_ERROR, decode
from viking_rpc.index.blobs import Texts
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.owners import with_owners
from viking_rpc.index.records import ROOT_KEY, ChangeSet, NodeRecord
from viking_rpc.index.text import hash_terms
from viking_rpc.index.update import apply_changes
from viking_rpc.retrieve.retriever import SearchSettings
from viking_rpc.store.checkpoint import DamagedCheckpointError, StaleCheckpointError
from viking_rpc.store.derived import load_snapshot, save_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.index.snapshot import Snapshot

PARAMETERS = AnnParameters()
#: Not part of a state: what only an update or a reader fills.
_EPHEMERAL = {"buffers", "replaced", "memo", "node_of_fresh", "node_of_fresh_key", "owners", "vocabulary"}


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    world = {path: replace(context, expire_us=0) for path, context in make_account(4, 1500).items()}
    return with_owners(lay_out(world, has_words=True), min_rows=20, parameters=PARAMETERS)


def load(folder: Path, **changed: object) -> Snapshot:
    facts = {"model": "m", "dimensions": DIM, "layout": "l", "max_revision": 1, "parameters": PARAMETERS} | changed
    return load_snapshot(folder, "tree", **facts)  # type: ignore[arg-type]


def is_same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray)
        return a.dtype == b.dtype and np.array_equal(a, b) and not b.flags.writeable
    if isinstance(a, Texts):
        assert isinstance(b, Texts)
        return is_same(a.data, b.data) and is_same(a.offset, b.offset)
    if isinstance(a, tuple):
        assert isinstance(b, tuple)
        return len(a) == len(b) and all(map(is_same, a, b))
    return a == b


def test_every_field_comes_back(tmp_path: Path, snapshot: Snapshot) -> None:
    save_snapshot(snapshot, tmp_path, "tree", model="m", layout="l")
    loaded = load(tmp_path)
    differing = [
        field.name
        for field in fields(snapshot)
        if field.name not in _EPHEMERAL and not is_same(getattr(snapshot, field.name), getattr(loaded, field.name))
    ]
    assert differing == []
    words = [field.name for field in fields(snapshot.vocabulary) if field.name != "extra"]  # of fresh rows only
    assert all(is_same(getattr(snapshot.vocabulary, name), getattr(loaded.vocabulary, name)) for name in words)
    assert [owner.node for owner in loaded.owners] == [owner.node for owner in snapshot.owners] != []


@pytest.mark.parametrize("mode", list(Mode))
def test_answers_are_the_same(tmp_path: Path, snapshot: Snapshot, mode: Mode) -> None:
    save_snapshot(snapshot, tmp_path, "tree", model="m", layout="l")
    settings = SearchSettings(max_exact_rows=10)
    query = Query(vector=AXIS, lexical_text="sloe fig ERR-4711")
    request = RetrieveRequest(
        query, Scope(("viking://resources", "viking://agent")), mode=mode, trace_level=TraceLevel.SCORES
    )
    first = run(snapshot, request, settings=settings).result
    again = run(load(tmp_path), request, settings=settings).result
    assert again.matches == first.matches
    assert again.stats.seed_path == first.stats.seed_path != "exact"


def test_an_account_without_rows_comes_back(tmp_path: Path) -> None:
    bare = build_snapshot([], revision=1, dimensions=DIM)
    save_snapshot(bare, tmp_path, "tree", model="m", layout="l")
    loaded = load(tmp_path)
    assert (loaded.n_nodes, loaded.n_rows) == (1, 0)
    assert run(loaded).result.matches == ()


@pytest.mark.parametrize("changed", [{"model": "n"}, {"dimensions": 7}, {"layout": "k"}, {"max_revision": 0}])
def test_what_was_made_otherwise_is_stale(tmp_path: Path, snapshot: Snapshot, changed: dict[str, object]) -> None:
    save_snapshot(snapshot, tmp_path, "tree", model="m", layout="l")
    with pytest.raises(StaleCheckpointError):
        load(tmp_path, **changed)


def test_another_layout_version_is_stale(tmp_path: Path, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    save_snapshot(snapshot, tmp_path, "tree", model="m", layout="l")
    monkeypatch.setattr("viking_rpc.store.derived.LAYOUT_VERSION", -1)
    with pytest.raises(StaleCheckpointError):
        load(tmp_path)


def test_a_graph_that_is_gone_is_damage(tmp_path: Path, snapshot: Snapshot) -> None:
    save_snapshot(snapshot, tmp_path, "tree", model="m", layout="l")
    manifest = json.loads((tmp_path / "tree.json").read_text().splitlines()[0])
    names = [entry["file"] for entry in manifest["files"].values()]
    assert len(names) > 1
    (tmp_path / names[0]).unlink()
    with pytest.raises(DamagedCheckpointError, match="missing"):
        load(tmp_path)


def test_a_write_appends_to_a_mapped_checkpoint_in_place(tmp_path: Path, snapshot: Snapshot) -> None:
    save_snapshot(snapshot, tmp_path, "tree", model="m", layout="l")
    contents = {path: path.read_bytes() for path in tmp_path.iterdir()}
    loaded = load(tmp_path)
    row = Row(Level.DETAIL, np.ones(DIM, np.float32), *map(np.sort, (hash_terms(["fig", "new"]), np.ones(2, "f4"))))
    record = NodeRecord(10**6, ROOT_KEY, "late", Kind.FILE, ContextType.RESOURCE, rows=(row,))
    grown = apply_changes(loaded, ChangeSet(2, (record,)))
    for name in ("vectors", "term_id", "term_weight"):
        before, after = getattr(loaded.rows, name), getattr(grown.rows, name)
        assert len(after) > len(before)
        assert np.shares_memory(before, after)
        assert np.array_equal(before, getattr(snapshot.rows, name))
    assert grown.rows.vectors[-1].tolist() == [1.0] * DIM
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == contents


def test_rows_of_bfloat16_come_back(tmp_path: Path) -> None:
    records = [NodeRecord(1, ROOT_KEY, "f", Kind.FILE, ContextType.RESOURCE, rows=(make_row(0.1),))]
    laid_out = build_snapshot(records, revision=1, dimensions=DIM, rows="bfloat16")
    save_snapshot(laid_out, tmp_path, "tree", model="m", layout="l")
    loaded = load(tmp_path)
    assert loaded.rows.vectors.dtype == np.uint16
    assert is_same(laid_out.rows, loaded.rows)
    late = NodeRecord(2, ROOT_KEY, "g", Kind.FILE, ContextType.RESOURCE, rows=(make_row(0.2),))
    grown = apply_changes(loaded, ChangeSet(2, (late,)))
    np.testing.assert_allclose(decode(grown.rows.vectors), [[0.1] * DIM, [0.2] * DIM], rtol=MAX_ERROR)


def make_row(value: float) -> Row:
    return Row(Level.DETAIL, np.full(DIM, value, np.float32), np.empty(0, np.uint64), np.empty(0, np.float32))
