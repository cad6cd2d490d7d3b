"""Databases of every released schema open, migrate forward and read the same; those of newer ones are refused."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.store.trees import DIMENSIONS, NOW, file
from viking_rpc.errors import FailedPreconditionError, VikingError
from viking_rpc.store import schema
from viking_rpc.store.database import Database
from viking_rpc.store.dump import dump, state_of
from viking_rpc.store.store import Store

_DATA = Path(__file__).parent.parent / "data" / "store"
VERSIONS = sorted(path.name for path in _DATA.iterdir() if (path / "store.db.gz").exists())
#: After what expires in the golden databases did.
LATER = NOW + 1_000_000


def read(path: Path) -> dict[str, Any]:
    """Return all that a database holds, as JSON values."""
    with Database.open(path, create=False) as database:
        accounts = database.accounts()
        revisions = {account: database.revision(account) for account in accounts}
        counts = {account: list(database.counts(account, now_us=LATER)) for account in accounts}
        meta = database.meta
    contexts: dict[str, dict[str, Any]] = {}
    with state_of(path) as connection:
        for account in accounts:
            contexts[account] = {}
            for stored in dump(connection, account, LATER):
                write = stored.write
                facts = {
                    name: getattr(write, name) for name in write.__dataclass_fields__ if name not in {"rows", "etag"}
                }
                facts["tags"] = dict(write.tags)
                facts["relations"] = [[link.uri, link.reason] for link in write.relations]
                parts = (
                    b for r in write.rows for b in (r.vector.tobytes(), r.terms.tobytes(), r.term_counts.tobytes())
                )
                facts["rows"] = [int(row.level) for row in write.rows]
                facts["digest"] = hashlib.sha256(b"".join(parts)).hexdigest()
                contexts[account][write.uri] = facts | {"source_hash": stored.source_hash}
    told = {name: getattr(meta, name) for name in ("store_id", "created_us", "model", "dimensions", "analysis")}
    return {"meta": told, "revisions": revisions, "counts": counts, "contexts": contexts}


@pytest.fixture(params=VERSIONS)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Unpack a golden database; returns its path and what must be read from it."""
    folder = _DATA / request.param
    path = tmp_path / "viking.db"
    path.write_bytes(gzip.decompress((folder / "store.db.gz").read_bytes()))
    return path, json.loads((folder / "store.json").read_text())


def test_every_schema_has_its_golden_database() -> None:
    assert [f"v{number}" for number in range(1, schema.VERSION + 1)] == VERSIONS


def test_a_golden_database_reads_the_same(golden: tuple[Path, dict[str, Any]]) -> None:
    path, wanted = golden
    assert read(path) == wanted
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert schema.differences(connection) == []
    connection.close()


def test_a_golden_database_takes_writes_and_makes_a_tree(golden: tuple[Path, dict[str, Any]]) -> None:
    path, wanted = golden
    with Store.open(path.parent, model="golden", dimensions=DIMENSIONS) as store:
        for account, revision in wanted["revisions"].items():
            assert store.snapshot(account).revision == revision
            committed = store.apply(account, [file("viking://resources/new")])
            assert committed.revision == revision + 1
        repeated = store.database.apply("default", [], now_us=NOW, request_id="second")
        assert repeated.is_repeat


def test_a_newer_schema_is_refused_and_left_alone(golden: tuple[Path, dict[str, Any]]) -> None:
    path, _ = golden
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    for work in (lambda: Database.open(path), lambda: Store.open(path.parent, model="golden", dimensions=8)):
        with pytest.raises(FailedPreconditionError) as caught:
            work()
        assert caught.value.reason == "SCHEMA_TOO_NEW"
        assert caught.value.metadata["found"] == str(schema.VERSION + 1)
    assert path.read_bytes() == before


_NEXT = "CREATE TABLE later (x) STRICT; ALTER TABLE meta ADD COLUMN note TEXT NOT NULL DEFAULT ''"


def test_a_migration_goes_forward_and_keeps_all(
    golden: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, wanted = golden
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, _NEXT.replace("(x)", "(x TEXT)")))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    with pytest.raises(FailedPreconditionError) as caught, state_of(path):
        pass
    assert caught.value.reason == "SCHEMA_TOO_OLD"
    assert read(path) == wanted
    with state_of(path) as connection:
        assert connection.execute("SELECT COUNT(*) FROM later").fetchone() == (0,)
        assert schema.differences(connection) == []


def test_a_migration_that_fails_leaves_the_old_schema(
    golden: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, wanted = golden
    with monkeypatch.context() as changed:
        changed.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, _NEXT))  # a STRICT table wants types
        changed.setattr(schema, "VERSION", schema.VERSION + 1)
        with pytest.raises(VikingError):
            Database.open(path)
    assert read(path) == wanted


_MIGRATOR = """
import sys
from viking_rpc.store import schema
from viking_rpc.store.database import Database

numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT i FROM n"
script = f"CREATE TABLE later (x INTEGER) STRICT; INSERT INTO later {numbers}; CREATE INDEX later_x ON later (x)"
schema.MIGRATIONS, schema.VERSION = (*schema.MIGRATIONS, script), schema.VERSION + 1
print("migrating", flush=True)
Database.open(sys.argv[1]).close()
"""


def test_a_kill_in_the_middle_of_a_migration_leaves_the_old_schema_or_the_new_one(
    golden: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, wanted = golden
    chance = random.Random(3)
    for _ in range(4):
        with subprocess.Popen([sys.executable, "-c", _MIGRATOR, str(path)], stdout=subprocess.PIPE) as migrator:
            assert migrator.stdout is not None
            migrator.stdout.readline()
            threading.Event().wait(chance.random() * 0.1)
            migrator.send_signal(signal.SIGKILL)
        connection = sqlite3.connect(path)
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if found > schema.VERSION:
            assert connection.execute("SELECT COUNT(*) FROM later").fetchone() == (300_000,)
            connection.close()
            monkeypatch.setattr(schema, "VERSION", found)
            assert read(path) == wanted
            break
        connection.close()
        assert "later" not in tables
        assert read(path) == wanted
