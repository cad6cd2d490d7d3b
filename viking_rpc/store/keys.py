"""The keys of a data directory: a small database of its own, which a server reads while somebody else changes it.

As soon as the file exists the server wants a key from everybody. It is one file at any time, without the write-ahead
log of `viking.db`: writes are rare, and what belongs to a file that somebody deleted must not come back with the next.
"""

from __future__ import annotations

import os
import uuid
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.domain.identity import Role
from viking_rpc.domain.keys import Key, KeyLimits, Token, check_key, digest_of, new_salt
from viking_rpc.errors import (
    DataLossError,
    FailedPreconditionError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from viking_rpc.store import schema
from viking_rpc.store.checkpoint import NO_ROOM
from viking_rpc.store.failures import map_errors
from viking_rpc.store.files import flush

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

KEYS_NAME: Final = "keys.db"

_APPLICATION_ID: Final = 0x76_6B_65_79  # "vkey"
_VERSION: Final = 1
#: Its owner alone: accounts and users are nobody else's business, though no secret can be found here.
KEYS_MODE: Final = 0o600
#: A reader is asked in an event loop, and waits for a writer that brings a key to the disk, but not for long.
_READER_WAIT_MS: Final = 50
_SCHEMA: Final = """
CREATE TABLE key (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL,
    user TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('root', 'admin', 'user')),
    may_act_for INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER,
    revoked_us INTEGER,
    rate REAL,
    burst INTEGER,
    max_calls INTEGER,
    salt BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT, WITHOUT ROWID
"""
_COLUMNS: Final = (
    "id, account, user, role, may_act_for, created_us, expires_us, revoked_us, rate, burst, max_calls, salt, digest"
)


def add_key(
    folder: Path,
    *,
    account: str,
    user: str,
    role: Role,
    now_us: int,
    may_act_for: bool = False,
    expires_us: int | None = None,
    limits: KeyLimits | None = None,
) -> tuple[Key, Token]:
    """Make a key; the first one makes the file, and with it the server ask for keys.

    Args:
        folder: the data directory, made when it is missing; a server may have it open.
        account, user, role, may_act_for, expires_us, limits: as in `Key`.
        now_us: the time, microseconds since the epoch.

    Returns:
        The key, and its token, which is kept nowhere.

    Raises:
        InvalidArgumentError: INVALID_ACCOUNT, INVALID_USER, INVALID_VALUE.
        VikingError: the file cannot be read or written, as told by `store.failures`.
    """
    limits = limits or KeyLimits()
    check_key(account, user, limits)
    path = folder / KEYS_NAME
    _make(path)
    token, salt = Token.new(), new_salt()
    digest = digest_of(salt, token.secret)
    key = Key(
        *(token.id, account, user, role, may_act_for, now_us, expires_us, None, limits),
        salt=salt,
        digest=digest,
    )
    values = (
        *(key.id, account, user, role.value, int(may_act_for), now_us, expires_us, None),
        *(limits.rate, limits.burst, limits.max_calls, salt, digest),
    )
    with open_keys(path, is_writer=True) as connection:
        places = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO key ({_COLUMNS}) VALUES ({places})", values)
    return key, token


def list_keys(folder: Path) -> list[Key]:
    """Return all keys, the oldest first, also those that are expired or revoked; none where there is no file.

    Raises:
        VikingError: the file cannot be read.
    """
    path = folder / KEYS_NAME
    if not path.exists():
        return []
    with open_keys(path) as connection:
        return [_key(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM key ORDER BY created_us, id")]


def revoke_key(folder: Path, key_id: str, *, now_us: int) -> Key:
    """Refuse a key from now on; it stays in the list. One that is revoked already stays as it is.

    Raises:
        NotFoundError: KEY_NOT_FOUND.
        VikingError: the file cannot be read or written.
    """
    path = folder / KEYS_NAME
    if path.exists():
        with open_keys(path, is_writer=True) as connection:
            connection.execute(
                "UPDATE key SET revoked_us = ? WHERE id = ? AND revoked_us IS NULL",
                (now_us, key_id),
            )
            row = connection.execute(f"SELECT {_COLUMNS} FROM key WHERE id = ?", (key_id,)).fetchone()
        if row is not None:
            return _key(row)
    message = f"there is no key with the id {key_id!r} in {folder}; viking keys list shows them"
    raise NotFoundError("KEY_NOT_FOUND", message, {"id": key_id, "path": str(folder)})


def has_keys(folder: Path) -> bool:
    """Return whether a data directory has a file of keys, even an empty or a damaged one."""
    return (folder / KEYS_NAME).exists()


@contextmanager
def open_keys(path: Path, *, is_writer: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a file of keys for as long as the block runs.

    Raises:
        FailedPreconditionError: NOT_OUR_DATABASE, SCHEMA_TOO_NEW.
        VikingError: as told by `store.failures`.
    """
    with map_errors(path), closing(_connect(path, is_writer=is_writer)) as connection:
        yield connection


def check_keys(folder: Path) -> str:
    """Return what is wrong with the keys of a data directory; empty when nothing is, or there are none."""
    path = folder / KEYS_NAME
    if not path.exists():
        return ""
    try:
        with open_keys(path) as connection:
            found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
            return "" if found == "ok" else found
    except (DataLossError, FailedPreconditionError) as error:
        return error.message


class KeyReader:
    """Looks keys up for a server, and notices when somebody changed them; for one thread.

    Args:
        folder: the data directory.
    """

    def __init__(self, folder: Path) -> None:
        """Open nothing yet."""
        self._path = folder / KEYS_NAME
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._version = -1

    @property
    def has_file(self) -> bool:
        """Return whether the file was there at the last look."""
        return self._file is not None

    def look(self) -> bool:
        """Return whether a key may have changed since the last look; some ten microseconds.

        Raises:
            VikingError: the file is there and cannot be read; the next look tries again.
        """
        file = self._place()
        has_changed = file != self._file
        if has_changed:
            self.close()
        self._file = file
        if file is None:
            return has_changed
        if self._connection is None:
            has_changed = True
            self._connection = _connect(self._path, is_writer=False, wait_ms=_READER_WAIT_MS)
        try:
            with map_errors(self._path):
                version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except UnavailableError:  # somebody is writing, and has not committed yet
            return has_changed
        except BaseException:
            self._disconnect()
            raise
        has_changed |= version != self._version
        self._version = version
        return has_changed

    def find(self, key_id: str) -> Key | None:
        """Return the key of an id.

        Raises:
            VikingError: the file cannot be read.
        """
        if self._connection is None:
            return None
        with map_errors(self._path):
            row = self._connection.execute(f"SELECT {_COLUMNS} FROM key WHERE id = ?", (key_id,)).fetchone()
        return None if row is None else _key(row)

    def close(self) -> None:
        """Let the file go; a later look opens it again."""
        self._file = None
        self._disconnect()

    def _place(self) -> tuple[int, int] | None:
        """Return which file it is; None when there is none."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            facts = {"path": str(self._path)}
            message = f"{self._path} cannot be opened ({error.strerror})"
            raise FailedPreconditionError("DATABASE_CANNOT_OPEN", message, facts) from error
        return found.st_dev, found.st_ino

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _key(row: tuple[Any, ...]) -> Key:
    return Key(
        id=row[0],
        account=row[1],
        user=row[2],
        role=Role(row[3]),
        may_act_for=bool(row[4]),
        created_us=row[5],
        expires_us=row[6],
        revoked_us=row[7],
        limits=KeyLimits(row[8], row[9], row[10]),
        salt=row[11],
        digest=row[12],
    )


def _connect(path: Path, *, is_writer: bool, wait_ms: int | None = None) -> sqlite3.Connection:
    """Open the file; another process that writes it is waited for as long as elsewhere, unless it is said how long.

    Raises:
        FailedPreconditionError: NOT_OUR_DATABASE, SCHEMA_TOO_NEW.
        VikingError: as told by `store.failures`.
    """
    with map_errors(path):
        connection = schema.connect(path, is_writer=is_writer)
        try:
            if wait_ms is not None:
                connection.execute(f"PRAGMA busy_timeout = {wait_ms}")
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        except BaseException:
            connection.close()
            raise
    if application != _APPLICATION_ID or version > _VERSION:
        connection.close()
        if application != _APPLICATION_ID:
            message = f"{path} holds no keys of ours"
            raise FailedPreconditionError("NOT_OUR_DATABASE", message, {"path": str(path)})
        raise FailedPreconditionError(
            "SCHEMA_TOO_NEW",
            f"{path} has schema version {version}, this release reads up to {_VERSION}; use a newer release",
            {"path": str(path), "found": str(version), "supported": str(_VERSION)},
        )
    return connection


def _make(path: Path) -> None:
    """Make the file where there is none, whole when it gets its name: an empty one is never taken for no keys."""
    if path.exists():
        return
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, KEYS_MODE))
        try:
            owner = path.parent.stat()
            if os.geteuid() == 0:  # else who calls for an administrator's rights would shut the server out
                os.chown(partial, owner.st_uid, owner.st_gid)
            with map_errors(partial), closing(schema.connect(partial, is_writer=True)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
                connection.execute("COMMIT")
            with suppress(FileExistsError):  # somebody else was first
                os.link(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        flush(path.parent)
    except OSError as error:
        facts = {"path": str(path.parent), "error": str(error)}
        if error.errno in NO_ROOM:
            raise ResourceExhaustedError("DISK_FULL", f"no room for keys in {path.parent}", facts) from error
        message = f"keys cannot be kept in {path.parent} ({error})"
        raise FailedPreconditionError("DATA_DIRECTORY_READ_ONLY", message, facts) from error
