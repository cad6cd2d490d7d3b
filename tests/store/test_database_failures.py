"""A broken disk, a foreign file, a lock and a kill each have their clear end, and what was acknowledged stays."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.store.trees import ACCOUNT, DIMENSIONS, NOW, ROOT, file, row, scanned
from viking_rpc.errors import (
    DataLossError,
    FailedPreconditionError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from viking_rpc.store import schema
from viking_rpc.store.database import Database, Delete, Move

if TYPE_CHECKING:
    from pathlib import Path


def test_a_missing_database_is_made_only_when_asked(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        Database.open(tmp_path / "viking.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FailedPreconditionError) as caught:
        Database.open(tmp_path / "nowhere" / "viking.db")
    assert caught.value.reason == "DATABASE_CANNOT_OPEN"


def test_a_newer_schema_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "viking.db"
    Database.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(FailedPreconditionError) as caught:
        Database.open(path)
    assert caught.value.reason == "SCHEMA_TOO_NEW"
    assert "99" in caught.value.message
    assert str(schema.VERSION) in caught.value.message


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "viking.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(FailedPreconditionError) as caught:
        Database.open(path)
    assert caught.value.reason == "NOT_OUR_DATABASE"
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_data_loss_with_a_hint(tmp_path: Path) -> None:
    path = tmp_path / "viking.db"
    path.write_bytes(random.Random(1).randbytes(8192))
    with pytest.raises(DataLossError) as caught:
        Database.open(path)
    assert "backup" in caught.value.message


def test_a_database_that_is_damaged_inside_is_data_loss_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "viking.db"
    with Database.open(path) as database:
        database.apply(ACCOUNT, [file(f"{ROOT}/{i}", abstract="x" * 500) for i in range(100)], now_us=NOW)
    n_bytes = path.stat().st_size
    with path.open("r+b") as stored:
        stored.seek(2 * schema.PAGE_BYTES)
        stored.write(b"\xff" * (n_bytes - 2 * schema.PAGE_BYTES))
    with pytest.raises(DataLossError), Database.open(path) as database:
        scanned(database)


def test_a_full_disk_refuses_the_write_and_keeps_the_rest(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/kept")], now_us=NOW)
    with database._writer.transaction() as connection:
        n_pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {n_pages}")
    with pytest.raises(ResourceExhaustedError) as caught:
        database.apply(ACCOUNT, [file(f"{ROOT}/big", content="x" * 10**6)], now_us=NOW)
    assert caught.value.reason == "DISK_FULL"
    with database._writer.transaction() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    assert set(scanned(database)) == {ROOT, f"{ROOT}/kept"}
    assert database.apply(ACCOUNT, [file(f"{ROOT}/big", content="x" * 10**6)], now_us=NOW).revision == 2


def test_a_database_that_cannot_be_written_says_so(database: Database) -> None:
    with database._writer.transaction() as connection:
        connection.execute("PRAGMA query_only = ON")
    with pytest.raises(FailedPreconditionError) as caught:
        database.apply(ACCOUNT, [file(f"{ROOT}/a")], now_us=NOW)
    assert caught.value.reason == "DATABASE_READ_ONLY"


def test_a_lock_of_another_process_is_unavailable_with_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "BUSY_TIMEOUT_S", 0.01)
    with Database.open(tmp_path / "viking.db") as database:
        other = sqlite3.connect(tmp_path / "viking.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError) as caught:
            database.apply(ACCOUNT, [file(f"{ROOT}/a")], now_us=NOW)
        assert caught.value.reason == "DATABASE_BUSY"
        assert caught.value.retry_after_s
        assert database.revision(ACCOUNT) == 0
        other.close()
        assert database.apply(ACCOUNT, [file(f"{ROOT}/a")], now_us=NOW).revision == 1


def test_a_commit_is_flushed_before_it_is_acknowledged(database: Database) -> None:
    with database._writer.transaction() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1


def batches(thread: int, n: int) -> list[object]:
    """Return the operations of a writer's batch: three contexts, at times a delete and a move of earlier ones."""
    base = f"{ROOT}/t{thread}"
    operations: list[object] = [file(f"{base}/b{n}/{i}", content="x" * 3000, rows=(row(n),)) for i in range(3)]
    if n % 4 == 3:
        operations += [Delete(f"{base}/b{n - 1}", is_recursive=True), Move(f"{base}/b{n - 2}", f"{base}/moved{n}")]
    return operations


def expected_files(thread: int, n_batches: int) -> set[str]:
    """Return the files that are there after a writer's first batches."""
    base = f"{ROOT}/t{thread}"
    folders: set[str] = set()
    for n in range(n_batches):
        folders.add(f"b{n}")
        if n % 4 == 3:
            folders -= {f"b{n - 1}", f"b{n - 2}"}
            folders.add(f"moved{n}")
    return {f"{base}/{folder}/{i}" for folder in folders for i in range(3)}


_N_THREADS = 3
_WRITER = f"""
import itertools, sys, threading
from tests.store.test_database_failures import batches
from viking_rpc.store.database import Database

database = Database.open(sys.argv[1])
database.bind_model("m", {DIMENSIONS})
first = [int(n) for n in sys.argv[2:]]

def write(thread):
    for n in itertools.count(first[thread]):
        database.apply("{ACCOUNT}", batches(thread, n), now_us=1)
        sys.stdout.write(f"{{thread}} {{n}}\\n")
        sys.stdout.flush()

for thread in range({_N_THREADS}):
    threading.Thread(target=write, args=(thread,)).start()
"""


def test_a_kill_loses_nothing_acknowledged_and_tears_no_batch(tmp_path: Path) -> None:
    path = tmp_path / "viking.db"
    done = [0] * _N_THREADS
    chance = random.Random(5)
    for _ in range(5):
        arguments = [sys.executable, "-c", _WRITER, str(path), *map(str, done)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randrange(1, 60)):
                thread, n = map(int, writer.stdout.readline().split())
                done[thread] = n + 1
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout:  # acknowledged before the signal arrived; the last line may be cut
                if line.endswith("\n"):
                    thread, n = map(int, line.split())
                    done[thread] = n + 1
        with Database.open(path, create=False) as database:
            tree = scanned(database)
            for thread in range(_N_THREADS):
                found = {uri for uri, record in tree.items() if uri.startswith(f"{ROOT}/t{thread}/") and record.rows}
                # The batch in flight may have been committed and not acknowledged.
                is_ahead = found == expected_files(thread, done[thread] + 1)
                assert is_ahead or found == expected_files(thread, done[thread])
                done[thread] += is_ahead
            assert database.revision(ACCOUNT) == sum(done)
            problems = database._writer._connection.execute("PRAGMA integrity_check").fetchall()
            assert problems == [("ok",)]
            assert database._writer._connection.execute("PRAGMA foreign_key_check").fetchall() == []
