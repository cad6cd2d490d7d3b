"""The tables of a data directory, the settings of a connection, and the forward migrations between versions."""

from __future__ import annotations

import sqlite3
import time
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

from viking_rpc.errors import FailedPreconditionError, NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

#: "VKNG": marks the file as ours, so that another program's database is never written to.
APPLICATION_ID = 0x564B4E47
PAGE_BYTES = 8192
BUSY_TIMEOUT_S = 10.0
#: STRICT tables came with it.
MIN_SQLITE = (3, 37, 0)

# Version 1. A context names its parent by key and itself by its last segment, so that a move rewrites one record.
# What a scan or a touch does not need (overview, content) lies in `body`. A context with parent 0 is a scope root;
# there is no record for 0, hence no foreign key. Keys are never used twice (AUTOINCREMENT): a change log entry whose
# key is gone is a deletion. A row's id is context * 4 + level: one b-tree in the order of a scan, no second index.
_V1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE account (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL DEFAULT 0,
    log_start INTEGER NOT NULL DEFAULT 0,      -- the change log is whole for revisions above this one
    n_changes INTEGER NOT NULL DEFAULT 0,      -- entries in the change log
    n_directories INTEGER NOT NULL DEFAULT 0,
    n_files INTEGER NOT NULL DEFAULT 0,
    n_rows INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE context (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id INTEGER NOT NULL REFERENCES account (id),
    parent_id INTEGER NOT NULL,
    name TEXT NOT NULL CHECK (name <> ''),
    kind INTEGER NOT NULL CHECK (kind IN (1, 2)),
    type INTEGER NOT NULL CHECK (type IN (1, 2, 3)),
    is_type_given INTEGER NOT NULL CHECK (is_type_given IN (0, 1)),   -- 0: by position, follows a move
    version INTEGER NOT NULL,
    create_us INTEGER NOT NULL,
    update_us INTEGER NOT NULL,
    expire_us INTEGER NOT NULL,
    active_count INTEGER NOT NULL,
    source_hash TEXT NOT NULL,
    title TEXT NOT NULL,
    tags TEXT NOT NULL,                        -- a JSON object, empty when there are none
    abstract TEXT NOT NULL,
    UNIQUE (account_id, parent_id, name)
) STRICT;
CREATE INDEX context_account ON context (account_id);
CREATE INDEX context_expiry ON context (account_id, expire_us, parent_id) WHERE expire_us > 0;

CREATE TABLE body (
    context_id INTEGER PRIMARY KEY REFERENCES context (id) ON DELETE CASCADE,
    overview TEXT NOT NULL,
    content TEXT NOT NULL
) STRICT;

CREATE TABLE row (
    id INTEGER PRIMARY KEY,                    -- context * 4 + level
    vector BLOB NOT NULL,                      -- float32[dimensions], little-endian
    terms BLOB NOT NULL,                       -- uint64[n_terms], little-endian, sorted
    term_counts BLOB NOT NULL                  -- float32[n_terms], little-endian
) STRICT;

CREATE TABLE relation (
    context_id INTEGER NOT NULL REFERENCES context (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    account_id INTEGER NOT NULL REFERENCES account (id),
    uri TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (context_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX relation_target ON relation (account_id, uri);

CREATE TABLE change (
    account_id INTEGER NOT NULL REFERENCES account (id),
    revision INTEGER NOT NULL,
    context_id INTEGER NOT NULL,
    op INTEGER NOT NULL,                       -- 1 written, 2 deleted, 3 moved, 4 touched
    PRIMARY KEY (account_id, revision, context_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE request (
    id INTEGER PRIMARY KEY,
    account_id INTEGER NOT NULL REFERENCES account (id),
    request_id TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    answer TEXT NOT NULL,                      -- JSON, see codec.py
    UNIQUE (account_id, request_id)
) STRICT;
CREATE INDEX request_age ON request (created_us);
"""

#: MIGRATIONS[i] turns version i into version i + 1; an empty file is version 0. Released entries never change.
MIGRATIONS: tuple[str, ...] = (_V1,)
VERSION = len(MIGRATIONS)


def connect(path: Path, *, is_writer: bool, create: bool = False) -> sqlite3.Connection:
    """Open a connection with the settings that every connection of ours has.

    Raises:
        NotFoundError: the file is missing and `create` is False.
        sqlite3.Error: it cannot be opened.
    """
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        needed = ".".join(map(str, MIN_SQLITE))
        raise FailedPreconditionError(
            "SQLITE_TOO_OLD",
            f"SQLite {needed} or newer is needed, this Python has {sqlite3.sqlite_version}",
            {"needed": needed, "found": sqlite3.sqlite_version},
        )
    if not create and not path.exists():
        raise NotFoundError("DATABASE_NOT_FOUND", f"there is no database at {path}", {"path": str(path)})
    connection = sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,  # transactions are begun and ended by hand
        check_same_thread=False,  # a connection serves one thread at a time, not always the same one
        cached_statements=256,
    )
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        if is_writer:
            # FULL: a commit is on the disk before it is acknowledged, power cuts included.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA cache_size = -32768")
            connection.execute("PRAGMA journal_size_limit = 67108864")
        else:
            connection.execute("PRAGMA cache_size = -8192")
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a file is a database of ours and bring its schema up to date, in one transaction.

    Raises:
        FailedPreconditionError: another program's database, or the schema of a newer release.
    """
    found = read_version(connection, path)
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = WAL")
    if found == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = read_version(connection, path)  # another process may have been first
        for version in range(found, VERSION):
            for statement in _statements(MIGRATIONS[version]):
                connection.execute(statement)
        if found == 0:
            facts = {"store_id": uuid.uuid4().hex, "created_us": str(time.time_ns() // 1000)}
            connection.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", facts.items())
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def read_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the file's schema version, 0 for an empty file.

    Raises:
        FailedPreconditionError: another program's database, or the schema of a newer release.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    is_empty = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0] == 0
    if application != APPLICATION_ID and not is_empty:
        raise FailedPreconditionError(
            "NOT_OUR_DATABASE", f"{path} is a database of another program", {"path": str(path)}
        )
    if version > VERSION:
        raise FailedPreconditionError(
            "SCHEMA_TOO_NEW",
            f"{path} has schema version {version}, this release reads up to {VERSION}; use a newer release",
            {"path": str(path), "found": str(version), "supported": str(VERSION)},
        )
    return 0 if is_empty else version


def differences(connection: sqlite3.Connection) -> list[str]:
    """Return which tables and indexes are not as the migrations make them: `index context_expiry`."""
    query = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    with closing(sqlite3.connect(":memory:")) as model:
        for script in MIGRATIONS:
            model.executescript(script)
        wanted = set(model.execute(query))
    differing = wanted.symmetric_difference(connection.execute(query))
    return sorted({f"{kind} {name}" for kind, name, _ in differing})


def _statements(script: str) -> list[str]:
    """Split a script of ours at its semicolons; `executescript` would commit the transaction first."""
    return [statement for statement in script.split(";") if statement.strip()]
