"""How errors of SQLite and of the file system are told in our own terms."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from viking_rpc.errors import (
    DataLossError,
    FailedPreconditionError,
    ResourceExhaustedError,
    UnavailableError,
    VikingError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_RESTORE = "restore a backup, or recover with `sqlite3 FILE .recover`"


def translate(error: sqlite3.Error, path: Path) -> VikingError:
    """Return the error that says what happened to the database at `path` and what helps."""
    # Extended codes carry the primary one in their low byte. Errors of the driver itself have no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
    facts = {"path": str(path), "sqlite": getattr(error, "sqlite_errorname", type(error).__name__)}
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DataLossError("DATABASE_CORRUPT", f"{path} is damaged ({error}); {_RESTORE}", facts)
    if code == sqlite3.SQLITE_FULL:
        return ResourceExhaustedError("DISK_FULL", f"no room to write {path}; free space, then retry", facts)
    if code == sqlite3.SQLITE_READONLY:
        return FailedPreconditionError("DATABASE_READ_ONLY", f"{path} cannot be written ({error})", facts)
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return FailedPreconditionError("DATABASE_CANNOT_OPEN", f"{path} cannot be opened ({error})", facts)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return UnavailableError("DATABASE_BUSY", f"{path} is locked by another process", facts, retry_after_s=1.0)
    if code == sqlite3.SQLITE_IOERR:
        return UnavailableError("DISK_ERROR", f"the disk failed while {path} was used ({error})", facts)
    if code == sqlite3.SQLITE_TOOBIG:
        return ResourceExhaustedError("TEXT_TOO_BIG", "a text or vector is larger than the database takes", facts)
    return VikingError("DATABASE_ERROR", f"{path}: {error}", facts)


@contextmanager
def map_errors(path: Path) -> Iterator[None]:
    """Let no error of SQLite leave the block untranslated."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error
