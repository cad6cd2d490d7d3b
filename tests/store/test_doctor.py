"""The doctor finds each kind of damage, repairs what needs no guess, leaves the rest as it is, and keeps a copy."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.index.test_update import Hands
from tests.store.trees import ACCOUNT, directory, file
from viking_rpc.domain.context import ContextWrite, Kind, Level, Relation, Row
from viking_rpc.errors import FailedPreconditionError, NotFoundError
from viking_rpc.ingest.rows import terms_of
from viking_rpc.store import checks
from viking_rpc.store.checks import Finding
from viking_rpc.store.doctor import Report, examine, repair
from viking_rpc.store.dump import dump, state_of
from viking_rpc.store.lock import DataLock
from viking_rpc.store.store import Store, StoreSettings

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.store.operations import Operation

DIM = 4
P = "viking://resources/p"
SETTINGS = StoreSettings(min_ann_rows=20, max_fresh_rows=1_000_000, max_fresh_share=1e9)


def open_store(folder: Path) -> Store:
    return Store.open(folder, model="m", dimensions=DIM, settings=SETTINGS, clock=Hands())


def written(write: ContextWrite, seed: int) -> ContextWrite:
    """Give a write the rows that its texts have."""
    rng = np.random.default_rng(seed)
    levels = [Level.DETAIL] if write.kind is Kind.FILE else [Level.ABSTRACT, Level.OVERVIEW]
    rows = []
    for level in levels:
        vector = rng.standard_normal(DIM).astype(np.float32)
        rows.append(Row(level, vector / np.linalg.norm(vector), *terms_of(write, level)))
    facts = {name: getattr(write, name) for name in write.__dataclass_fields__}
    return ContextWrite(**{**facts, "rows": tuple(rows)})


def fill(store: Store) -> None:
    operations: list[Operation] = []
    for i in range(12):
        write = file(
            f"{P}/d{i % 3}/f{i}", title=f"Lock {i}", content=f"The solenoid {i} burns", tags={"n": str(i)}
        ).write
        operations.append(type(file(P))(written(write, i), f"hash{i}"))
    listing = directory(f"{P}/d0", abstract="Locks", overview="# Locks\n\nAll of them", relations=(Relation(P),)).write
    operations.append(type(file(P))(written(listing, 99)))
    store.apply(ACCOUNT, operations)
    store.apply("other", [file(f"{P}/x")])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Make a sound store, with trees laid out."""
    with open_store(tmp_path / "data") as store:
        fill(store)
        store.lay_out(ACCOUNT)
        store.lay_out("other")
    return tmp_path / "data"


def checked(data: Path, **facts: bool) -> Report:
    return examine(data, settings=SETTINGS, terms_of=terms_of, **facts)


def repaired(data: Path) -> Report:
    return repair(data, settings=SETTINGS, terms_of=terms_of)


def damage(data: Path, *statements: str) -> None:
    connection = sqlite3.connect(data / "viking.db", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = OFF")
    for statement in statements:
        assert connection.execute(statement.replace("_F5_", _F5)).rowcount != 0, statement
    connection.close()


def contents(path: Path) -> dict[str, tuple[object, ...]]:
    with state_of(path) as connection:
        return {
            stored.write.uri: (
                *(stored.write.kind, stored.write.content, stored.write.relations, stored.source_hash),
                *((row.level, row.vector.tobytes(), row.terms.tobytes()) for row in stored.write.rows),
            )
            for stored in dump(connection, ACCOUNT, 0)
        }


def test_a_sound_store_has_no_findings_and_is_not_touched(data: Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "viking.lock"}
    for report in (checked(data), checked(data, is_quick=True), repaired(data)):
        assert report.findings == ()
        assert report.is_sound
        assert (report.n_accounts, report.n_contexts, report.n_rows) == (2, 20, 14)
        assert (report.model, report.dimensions, report.holder) == ("m", DIM, "")
    after = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "viking.lock"}
    assert {path: before[path] for path in before if path.suffix not in {".db-wal", ".db-shm"}} == {
        path: after[path] for path in after if path.suffix not in {".db-wal", ".db-shm"}
    }


_F5 = "(SELECT id FROM context WHERE name = 'f5')"


@pytest.mark.parametrize(
    ("check", "statements", "gone"),
    [
        ("orphans", ("INSERT INTO row SELECT 4000002, vector, terms, term_counts FROM row LIMIT 1",), set()),
        ("orphans", ("INSERT INTO body VALUES (1000, 'a', 'b')",), set()),
        ("orphans", ("INSERT INTO relation VALUES (1000, 0, 1, 'viking://resources', '')",), set()),
        ("orphans", ("INSERT INTO change VALUES (99, 1, 1, 1)",), set()),
        ("parents", ("UPDATE context SET parent_id = 5000 WHERE id = _F5_",), {f"{P}/d2/f5"}),
        (
            "parents",
            ("UPDATE context SET parent_id = (SELECT id FROM context WHERE name = 'f1') WHERE name = 'd1'",),
            {f"{P}/d1", *(f"{P}/d1/f{i}" for i in (1, 4, 7, 10))},
        ),
        ("rows", ("UPDATE row SET id = _F5_ * 4 WHERE id = _F5_ * 4 + 2",), set()),
        ("counts", ("UPDATE account SET n_files = n_files + 1",), set()),
        ("log", ("DELETE FROM change WHERE context_id = 3",), set()),
        ("log", ("UPDATE change SET revision = 77 WHERE context_id = 3",), set()),
        ("terms", ("UPDATE row SET terms = x'00' WHERE id = _F5_ * 4 + 2",), set()),
        ("terms", ("UPDATE row SET term_counts = terms WHERE id = _F5_ * 4 + 2",), set()),
        ("terms", ("UPDATE row SET terms = x'', term_counts = x'' WHERE id = _F5_ * 4 + 2",), set()),
        ("vectors", ("UPDATE row SET vector = x'0011' WHERE id = _F5_ * 4 + 2",), set()),
        ("vectors", ("UPDATE row SET vector = x'0000c07f0000c07f0000c07f0000c07f' WHERE id = _F5_ * 4 + 2",), set()),
        ("lengths", ("UPDATE row SET vector = x'0000803f0000803f0000803f0000803f' WHERE id = _F5_ * 4 + 2",), set()),
        ("analysis", ("UPDATE meta SET value = '0' WHERE key = 'analysis'",), set()),
    ],
)
def test_what_can_be_repaired_is_and_all_else_stays(
    data: Path, check: str, statements: tuple[str, ...], gone: set[str]
) -> None:
    sound = contents(data / "viking.db")
    damage(data, *statements)
    report = checked(data)
    assert not report.is_sound
    assert check in {finding.check for finding in report.findings}
    report = repaired(data)
    assert report.is_sound, report.findings
    assert all(finding.is_repaired for finding in report.findings if not finding.is_note)
    assert checked(data).findings == ()
    after = contents(data / "viking.db")
    assert set(after) == set(sound) - gone
    changed = {uri for uri in after if after[uri] != sound[uri]}
    assert changed <= ({f"{P}/d2/f5"} if check in {"rows", "vectors", "lengths"} else set())
    with sqlite3.connect(report.saved_as) as saved:
        assert saved.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    saved.close()
    with open_store(data) as store:
        assert store.snapshot(ACCOUNT).n_contexts == len(after)
        assert store.notes == []
        store.apply(ACCOUNT, [file(f"{P}/later")])
    assert repaired(data).saved_as == ""


def test_all_terms_are_made_again_part_by_part(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_ROWS_PER_PART", 3)
    sound = contents(data / "viking.db")
    damage(data, "UPDATE row SET terms = x'', term_counts = x''", "UPDATE meta SET value = '0' WHERE key = 'analysis'")
    report = repaired(data)
    assert report.is_sound
    assert {finding.check: finding.n for finding in report.findings} == {"terms": 14, "analysis": 14}
    assert contents(data / "viking.db") == sound


@pytest.mark.parametrize(
    ("check", "statement"),
    [
        ("kinds", "UPDATE context SET kind = 2 WHERE name = 'd1'"),
        ("scopes", "UPDATE context SET name = 'elsewhere' WHERE name = 'resources'"),
        ("names", "UPDATE context SET name = 'a/b' WHERE id = _F5_"),
        ("tags", "UPDATE context SET tags = 'x' WHERE id = _F5_"),
    ],
)
def test_what_would_need_a_guess_is_only_told(data: Path, check: str, statement: str) -> None:
    damage(data, statement)
    found = [finding for finding in checked(data).findings if finding.check == check]
    assert [(finding.n > 0, finding.repair) for finding in found] == [(True, "")]


def test_an_index_that_disagrees_with_its_table_is_made_again(data: Path) -> None:
    connection = sqlite3.connect(data / "viking.db")
    kept = connection.execute("SELECT * FROM sqlite_master WHERE name = 'relation_target'").fetchone()
    connection.close()
    hidden = ("PRAGMA writable_schema = ON", "DELETE FROM sqlite_master WHERE name = 'relation_target'")
    shown = ("PRAGMA writable_schema = ON", "INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)")
    for statements in (hidden, ("UPDATE relation SET uri = 'viking://resources/q'",), shown):
        connection = sqlite3.connect(data / "viking.db")
        for statement in statements:
            connection.execute(statement, kept if "?" in statement else ())
        connection.commit()
        connection.close()
    (finding,) = (finding for finding in checked(data).findings if finding.check == "integrity")
    assert finding.repair == "reindexes"
    assert checked(data, is_quick=True).is_sound
    assert repaired(data).is_sound


def test_a_damaged_file_is_told_and_left_alone(data: Path) -> None:
    path = data / "viking.db"
    with path.open("r+b") as stored:
        stored.seek(-5 * 8192, 2)
        stored.write(b"\xa5" * (4 * 8192))
    before = path.read_bytes()
    for report in (checked(data), repaired(data)):
        assert [(finding.check, finding.repair) for finding in report.findings] == [("integrity", "")]
        assert "backup" in report.findings[0].message
        assert report.saved_as == ""
    assert path.read_bytes() == before


def test_a_schema_that_somebody_changed_is_told(data: Path) -> None:
    damage(data, "DROP INDEX relation_target")
    found = [(finding.check, finding.examples, finding.repair) for finding in repaired(data).findings]
    assert found == [("integrity", ("index relation_target",), "")]


@pytest.mark.parametrize("how", ["damaged", "missing", "other contents", "stray"])
def test_derived_files_are_rebuilt_without_touching_the_database(data: Path, how: str) -> None:
    folder = data / "checkpoints"
    name = "tree-" + ACCOUNT.encode().hex()
    if how == "damaged":
        (path,) = folder.glob(f"{name}.*.data")
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    elif how == "missing":
        for path in folder.glob(f"{name}*"):
            path.unlink()
    elif how == "other contents":
        damage(data, "UPDATE context SET version = 7 WHERE name = 'f1'")
    else:
        (folder / "tree-ff.tmp").write_text("")
    (finding,) = checked(data).findings
    assert finding.is_note == (how in {"missing", "stray"})
    before = (data / "viking.db").read_bytes()
    report = repaired(data)
    assert report.is_sound
    assert report.saved_as == ""
    assert (data / "viking.db").read_bytes() == before
    assert checked(data).findings == ()


def test_an_account_too_small_for_a_checkpoint_lacks_none(data: Path) -> None:
    for path in (data / "checkpoints").iterdir():
        path.unlink()
    small = replace(SETTINGS, min_checkpoint_rows=1000)
    assert examine(data, settings=small, terms_of=terms_of).findings == ()
    shared = replace(SETTINGS, is_shared=True)
    assert repair(data, settings=shared, terms_of=terms_of).is_sound
    assert checked(data).findings == ()


def test_a_live_store_is_checked_but_not_repaired(data: Path) -> None:
    with DataLock.acquire(data, address="127.0.0.1:1"), open_store(data) as store:
        store.apply(ACCOUNT, [file(f"{P}/fresh")])
        report = checked(data)
        assert report.is_sound
        assert "127.0.0.1:1" in report.holder
        with pytest.raises(FailedPreconditionError) as caught:
            repaired(data)
        assert caught.value.reason == "DATA_DIRECTORY_LOCKED"


def test_where_there_is_no_store_nothing_is_made(tmp_path: Path) -> None:
    for work in (checked, repaired):
        with pytest.raises(NotFoundError):
            work(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_finding_that_is_a_note_or_is_repaired_is_no_fault() -> None:
    note = Finding("files", "x", 1, is_note=True)
    assert Report("", findings=(note, Finding("terms", "x", 1, is_repaired=True))).is_sound
    assert not Report("", findings=(note, Finding("terms", "x", 1))).is_sound
