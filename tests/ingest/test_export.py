"""An export is a corpus, and reading it back gives the same contexts, rows and answers; a damaged one is refused."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.index.test_update import Hands, answers, make_row
from tests.store.trees import ACCOUNT, NOW, directory, file
from viking_rpc.domain.context import ContextType, Level, Relation, Row
from viking_rpc.errors import (
    AlreadyExistsError,
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from viking_rpc.ingest.corpus import is_export, read_directories, read_leaves
from viking_rpc.ingest.export import DATA_NAMES, export_account
from viking_rpc.ingest.plan import plan_corpus
from viking_rpc.ingest.restore import read_export, restore
from viking_rpc.ingest.rows import terms_of
from viking_rpc.store.database import Delete, Move, Touch
from viking_rpc.store.dump import dump, state_of
from viking_rpc.store.store import Store, StoreSettings

if TYPE_CHECKING:
    from pathlib import Path

DIM = 4
P = "viking://resources/p"
SETTINGS = StoreSettings(min_ann_rows=20, max_fresh_rows=1_000_000, max_fresh_share=1e9)


def open_store(folder: Path, model: str = "m") -> Store:
    return Store.open(folder, model=model, dimensions=DIM, settings=SETTINGS, clock=Hands())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Make a store with everything that a context can have, after moves, touches and deletions."""
    with open_store(tmp_path / "data") as store:
        files = [
            file(
                f"{P}/d{i % 5}/f{i}",
                rows=(make_row(Level.DETAIL, i),),
                title=f"t{i}",
                content=f"text {i}\n\u20ac\u4e2d",
            )
            for i in range(40)
        ]
        store.apply(ACCOUNT, files)
        store.apply(
            ACCOUNT,
            [
                directory(
                    f"{P}/d0",
                    abstract="short",
                    overview="# long\n",
                    content="both",
                    tags={"b": "2", "a": "\u4e2d"},
                    relations=(Relation(f"{P}/d1", "near"), Relation("viking://user/u/x")),
                    rows=(make_row(Level.ABSTRACT, 50), make_row(Level.OVERVIEW, 51)),
                ),
                file(
                    f"{P}/given",
                    type=ContextType.SKILL,
                    abstract="a",
                    overview="o",
                    create_us=NOW - 7,
                    update_us=NOW - 3,
                    expire_us=NOW * 2,
                    active_count=9,
                ),
                file("viking://user/u/memories/m", content="by position"),
                file(f"{P}/expired", expire_us=NOW - 1),
            ],
        )
        store.apply(ACCOUNT, [Move(f"{P}/d0", "viking://agent/skills/moved"), Delete(f"{P}/d3", is_recursive=True)])
        store.apply(ACCOUNT, [Touch((f"{P}/given", f"{P}/d1/f1"))])
        store.apply("other", [file(f"{P}/not-mine")])
        store.lay_out(ACCOUNT)
    return tmp_path / "data"


def contents(data: Path) -> dict[str, tuple[object, ...]]:
    """Return all that an export must keep."""
    with state_of(data / "viking.db") as connection:
        return {
            stored.write.uri: (
                stored.source_hash,
                *(getattr(stored.write, name) for name in stored.write.__dataclass_fields__ if name != "rows"),
                *((r.level, r.vector.tobytes(), r.terms.tobytes(), r.term_counts.tobytes()) for r in stored.write.rows),
            )
            for stored in dump(connection, ACCOUNT, NOW)
        }


def told(store: Store) -> str:
    """Return the answers of a store without the etags, which are its own."""
    return re.sub(r"etag='[^']*'", "", repr(answers(store.snapshot(ACCOUNT), NOW, 0.5)))


def test_an_export_gives_equal_contexts_rows_and_answers(data: Path, tmp_path: Path) -> None:
    before = contents(data)
    manifest = export_account(data, tmp_path / "out", ACCOUNT, now_us=NOW)
    assert (manifest.model, manifest.dimensions, manifest.n_rows) == ("m", DIM, 34)
    assert manifest.n_directories + manifest.n_files == len(before)
    assert f"{P}/expired" not in before
    report = restore(read_export(tmp_path / "out"), tmp_path / "copy", settings=SETTINGS, now_us=NOW + 5)
    assert (report.added, report.updated, report.n_files) == (len(before), 0, manifest.n_files)
    assert contents(tmp_path / "copy") == before
    with open_store(data) as store, open_store(tmp_path / "copy") as copy:
        assert copy.notes == []
        assert told(copy) == told(store)
        assert [child.uri for child in copy.children(ACCOUNT, "viking://")] == [
            child.uri for child in store.children(ACCOUNT, "viking://")
        ]
    again = export_account(tmp_path / "copy", tmp_path / "again", ACCOUNT, now_us=NOW)
    for name in ("dirs.jsonl.gz", "corpus.jsonl.gz"):
        assert again.files[name] == manifest.files[name]


def test_a_second_restore_replaces_and_keeps_what_is_not_in_it(data: Path, tmp_path: Path) -> None:
    export_account(data, tmp_path / "out", ACCOUNT, now_us=NOW)
    before = contents(data)
    with open_store(data) as store:
        store.apply(
            ACCOUNT, [Delete(f"{P}/d1", is_recursive=True), file(f"{P}/d2/f2", content="changed"), file(f"{P}/new")]
        )
    report = restore(read_export(tmp_path / "out"), data, settings=SETTINGS, now_us=NOW)
    assert (report.added, report.updated) == (9, len(before) - 9)
    after = contents(data)
    assert after.pop(f"{P}/new")
    assert after == before


def test_an_export_is_a_corpus(data: Path, tmp_path: Path) -> None:
    export_account(data, tmp_path / "out", ACCOUNT, now_us=NOW)
    assert is_export(tmp_path / "out")
    leaves = {leaf.uri: leaf for leaf in read_leaves(tmp_path / "out")}
    assert leaves[f"{P}/d1/f1"].text == "text 1\n\u20ac\u4e2d"
    assert leaves["viking://user/u/memories/m"].type is ContextType.MEMORY
    assert leaves[f"{P}/given"].update_us == NOW - 3
    directories = {entry.uri: entry.text for entry in read_directories(tmp_path / "out")}
    assert directories["viking://agent/skills/moved"] == "# long\n"
    assert {context.uri for context in plan_corpus(tmp_path / "out").contexts} >= set(leaves)


def test_terms_of_another_analysis_are_counted_again(data: Path, tmp_path: Path) -> None:
    export_account(data, tmp_path / "out", ACCOUNT, now_us=NOW)
    path = tmp_path / "out/export.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"analysis": "0"}))
    restore(read_export(tmp_path / "out"), tmp_path / "copy", settings=SETTINGS, now_us=NOW)
    with state_of(tmp_path / "copy/viking.db") as connection:
        (write,) = (s.write for s in dump(connection, ACCOUNT, NOW) if s.write.uri == f"{P}/d1/f1")
    terms, counts = terms_of(write, Level.DETAIL)
    assert (write.rows[0].terms.tolist(), write.rows[0].term_counts.tolist()) == (terms.tolist(), counts.tolist())


@pytest.mark.parametrize("name", [*DATA_NAMES, "export.json"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_export_is_refused_before_anything_is_written(
    data: Path, tmp_path: Path, name: str, how: str
) -> None:
    export_account(data, tmp_path / "out", ACCOUNT, now_us=NOW)
    path = tmp_path / "out" / name
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw if how == "flipped" else raw[: len(raw) // 2])
    if how == "gone":
        path.unlink()
    with pytest.raises(DataLossError) as caught:
        restore(read_export(tmp_path / "out"), tmp_path / "copy", settings=SETTINGS, now_us=NOW)
    assert caught.value.reason == "EXPORT_DAMAGED"
    assert name in caught.value.message
    assert not (tmp_path / "copy").exists()


def test_a_newer_format_and_another_model_are_refused(data: Path, tmp_path: Path) -> None:
    export_account(data, tmp_path / "out", ACCOUNT, now_us=NOW)
    with open_store(tmp_path / "copy", model="another"):
        pass
    with pytest.raises(FailedPreconditionError) as caught:
        restore(read_export(tmp_path / "out"), tmp_path / "copy", settings=SETTINGS, now_us=NOW)
    assert caught.value.reason == "MODEL_MISMATCH"
    path = tmp_path / "out/export.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    with pytest.raises(FailedPreconditionError) as caught:
        read_export(tmp_path / "out")
    assert caught.value.reason == "EXPORT_FORMAT"


def test_where_an_export_cannot_go_or_come_from(data: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("x")
    with pytest.raises(AlreadyExistsError):
        export_account(data, tmp_path / "full", ACCOUNT, now_us=NOW)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
    with pytest.raises(FailedPreconditionError):
        export_account(data, tmp_path / "full/mine/out", ACCOUNT, now_us=NOW)
    for source, account in ((tmp_path / "none", ACCOUNT), (data, "nobody")):
        with pytest.raises(NotFoundError):
            export_account(source, tmp_path / "out", account, now_us=NOW)
    assert not (tmp_path / "out").exists()


def test_a_line_that_makes_no_sense_is_named(data: Path, tmp_path: Path) -> None:
    export_account(data, tmp_path / "out", ACCOUNT, now_us=NOW)
    export = read_export(tmp_path / "out")
    for vectors in (np.empty((0, DIM), np.float32), export.vectors[:-1]):
        cut = type(export)(export.folder, export.manifest, vectors, export.terms, export.counts)
        with pytest.raises(InvalidArgumentError) as caught:
            list(cut.writes())
        assert "jsonl.gz:" in caught.value.message


def test_a_store_without_a_model_comes_back_too(tmp_path: Path) -> None:
    from viking_rpc.store.database import Database

    (tmp_path / "data").mkdir()
    with Database.open(tmp_path / "data/viking.db") as database:
        database.apply(ACCOUNT, [file(f"{P}/a", content="x")], now_us=NOW)
    export_account(tmp_path / "data", tmp_path / "out", ACCOUNT, now_us=NOW)
    restore(read_export(tmp_path / "out"), tmp_path / "copy", settings=SETTINGS, now_us=NOW)
    assert contents(tmp_path / "copy") == contents(tmp_path / "data")


def test_rows_of_zero_length_come_back(tmp_path: Path) -> None:
    empty = Row(Level.DETAIL, np.zeros(DIM, np.float32), np.empty(0, np.uint64), np.empty(0, np.float32))
    with open_store(tmp_path / "data") as store:
        store.apply(ACCOUNT, [file(f"{P}/a", rows=(empty,))])
    export_account(tmp_path / "data", tmp_path / "out", ACCOUNT, now_us=NOW)
    restore(read_export(tmp_path / "out"), tmp_path / "copy", settings=SETTINGS, now_us=NOW)
    assert contents(tmp_path / "copy") == contents(tmp_path / "data")
