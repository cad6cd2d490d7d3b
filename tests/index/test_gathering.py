"""Columns gathered from a stream of records, and put into another order without a copy of all."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.index.test_update import DIM, make_row, rows_of
from viking_rpc.domain.context import ContextType, Kind, Level, Relation
from viking_rpc.index import gathering
from viking_rpc.index.bfloat16 import ROW_TYPES
from viking_rpc.index.blobs import Texts
from viking_rpc.index.gathering import Gathered, take_slices
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.records import ROOT_KEY, NodeRecord
from viking_rpc.index.snapshot import Snapshot
from viking_rpc.index.vocabulary import Vocabulary


@given(st.lists(st.binary(max_size=9)), st.randoms(use_true_random=False), st.integers(1, 20))
def test_slices_are_taken_in_any_order(runs: list[bytes], random: object, at_once: int) -> None:
    order = list(range(len(runs))) * 2
    random.shuffle(order)  # type: ignore[attr-defined]
    offset = np.concatenate([[0], np.cumsum([len(run) for run in runs])]).astype(np.int64)
    data = np.frombuffer(b"".join(runs), np.uint8)
    usual, gathering._ENTRIES_AT_ONCE = gathering._ENTRIES_AT_ONCE, at_once
    try:
        taken, made = take_slices(data, offset, np.array(order, np.int32))
    finally:
        gathering._ENTRIES_AT_ONCE = usual
    assert [taken[made[i] : made[i + 1]].tobytes() for i in range(len(order))] == [runs[i] for i in order]


@pytest.mark.parametrize("n_rows", [0, 10, 700, 2000], ids=["unknown", "too few", "right", "too many"])
@pytest.mark.parametrize("rows", ["float32", "bfloat16"])
def test_vectors_are_put_in_order_in_their_own_memory(n_rows: int, rows: str) -> None:
    gathered = Gathered(DIM, n_rows, ROW_TYPES[rows])
    vectors = np.arange(700 * DIM, dtype=np.float32).reshape(700, DIM) % 128  # bfloat16 holds them as they are
    for i, vector in enumerate(vectors, 1):
        row = make_row(Level.DETAIL, 0)
        row.vector[:] = vector
        gathered.add([NodeRecord(i, ROOT_KEY, str(i), Kind.FILE, ContextType.RESOURCE, rows=(row,))])
    order = np.random.default_rng(n_rows).permutation(700)
    taken = gathered.take_vectors(order)
    expected = vectors if rows == "float32" else (vectors.view(np.uint32) >> 16).astype(np.uint16)
    assert np.array_equal(taken[:700], expected[order])


def is_same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, Texts):
        return isinstance(b, Texts) and is_same(a.data, b.data) and is_same(a.offset, b.offset)
    if isinstance(a, Vocabulary):
        return isinstance(b, Vocabulary) and is_same(a.hashes, b.hashes) and is_same(a.mean_length, b.mean_length)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(is_same, a, b))
    return a == b


def records(n: int) -> list[NodeRecord]:
    """Make a tree whose keys say nothing of places: parents may have the greater one, as after a move."""
    rng = np.random.default_rng(n)
    keys = rng.permutation(np.arange(1, 3 * n))[:n].tolist()
    made, directories = [], [ROOT_KEY]
    for i, key in enumerate(keys):
        kind = Kind.DIRECTORY if i % 3 == 0 else Kind.FILE
        names = ("a", "a-b", "a0", "\u00e9", "\U0001f600", "z")
        made.append(
            NodeRecord(
                key,
                int(rng.choice(directories)),
                f"{names[i % 6]}{i}",
                kind,
                ContextType.RESOURCE,
                title=f"t{i}" * (i % 3),
                abstract="x" * (i % 50),
                tags={"k": str(i % 2)} if i % 5 == 0 else {},
                create_us=i,
                update_us=2 * i,
                active_count=i % 4,
                version=1 + i % 3,
                relations=(Relation("viking://resources/a", "why"),) if i % 7 == 0 else (),
                rows=rows_of(kind, i),
            )
        )
        if kind is Kind.DIRECTORY:
            directories.append(key)
    return made


@pytest.mark.parametrize("n", [0, 1, 2, 40, 500])
def test_the_order_of_the_records_does_not_matter(n: int) -> None:
    made = records(n)
    first = build_snapshot(made, revision=1, dimensions=DIM)
    made = [made[i] for i in np.random.default_rng(1).permutation(n)]
    again = build_snapshot(iter(made), revision=1, dimensions=DIM, n_rows=sum(len(one.rows) for one in made))
    tags = [
        [one.tags_between(*ends) for ends in zip(one.tree.tag_lo, one.tree.tag_hi, strict=True)]
        for one in (first, again)
    ]
    assert tags[0] == tags[1]
    names = [field.name for field in fields(Snapshot) if field.name not in ("buffers", "memo", "tag_ids", "tree")]
    names = [name for name in names if not name.startswith("node_of_")]
    assert [name for name in names if not is_same(getattr(first, name), getattr(again, name))] == []
    trees = [one.tree._replace(tag_id=np.empty(0)) for one in (first, again)]
    assert is_same(*trees)
    uris = [again.uri(node) for node in range(again.n_nodes)]
    assert [uris[node] for node in again.tie_order] == sorted(uris)
    assert uris == sorted(uris, key=lambda uri: (0 if uri == "viking://" else uri.count("/") - 1, uris.index(uri)))
    for node in range(1, again.n_nodes):
        assert again.node_of_key(int(again.key[node])) == node
