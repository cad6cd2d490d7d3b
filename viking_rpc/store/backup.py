"""Copy a store while others write it: one state of the database under an identity of its own, ready to be opened."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import uuid
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from viking_rpc.errors import AlreadyExistsError, DataLossError, FailedPreconditionError, ResourceExhaustedError
from viking_rpc.store import schema
from viking_rpc.store.checkpoint import NO_ROOM, copy_checkpoint
from viking_rpc.store.failures import translate
from viking_rpc.store.keys import KEYS_MODE, KEYS_NAME, open_keys

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.errors import VikingError

DATABASE_NAME: Final = "viking.db"
CHECKPOINT_FOLDER: Final = "checkpoints"
#: What an operator wrote into a data directory; it belongs to a copy of it.
_CONFIG_NAME: Final = "viking.toml"


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup holds.

    Args:
        folder: the new data directory.
        store_id: its identity, another one than the original's.
        revisions: by account, the state that was copied.
        database_bytes: size of its database.
        n_checkpoints: checkpoints that were copied along.
    """

    folder: str
    store_id: str
    revisions: dict[str, int]
    database_bytes: int
    n_checkpoints: int


def back_up(source: Path, target: Path, *, with_checkpoints: bool = False) -> BackupReport:
    """Copy a data directory; what was acknowledged before the call is in it, and no batch is in it by half.

    The copy is a data directory: opening it restores it. It has its own identity, so that checkpoints of the original,
    whose states may have gone another way since, are never taken for its own.

    Args:
        source: a data directory; a server may be writing to it.
        target: missing or empty; made when it is missing.
        with_checkpoints: also copy the laid-out trees, so that the copy starts as fast as the original.

    Raises:
        NotFoundError: there is no database.
        AlreadyExistsError: BACKUP_EXISTS, the target holds something.
        DataLossError: the original is damaged.
        ResourceExhaustedError, FailedPreconditionError: the target is full, or cannot be written.
    """
    with closing(_reader(source / DATABASE_NAME)) as reader:
        store_id = uuid.uuid4().hex
        made_folder = _prepare(target)
        try:
            # Before the database: a checkpoint of a later revision than the database's would be of no use.
            n_checkpoints = 0
            if with_checkpoints:
                old_id = reader.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()[0]
                n_checkpoints = _copy_checkpoints(source, target, old_id, store_id)
            copy_database(reader, source / DATABASE_NAME, target / DATABASE_NAME, store_id=store_id)
            _copy_keys(source, target)
            if (source / _CONFIG_NAME).is_file():
                shutil.copyfile(source / _CONFIG_NAME, target / _CONFIG_NAME)
            _flush(target)
            return _report(target, store_id, n_checkpoints)
        except OSError as error:
            _clear(target, made_folder=made_folder)
            raise _told(error, target) from error
        except BaseException:
            _clear(target, made_folder=made_folder)
            raise


def copy_database(reader: sqlite3.Connection, source: Path, target: Path, *, store_id: str = "") -> None:
    """Copy one state of a database into a new file, which is whole on the disk when it gets its name.

    Args:
        reader: a connection to the original.
        source: its file, for what is said of errors.
        target: must not exist.
        store_id: the copy's identity; empty keeps the original's.

    Raises:
        DataLossError, ResourceExhaustedError, FailedPreconditionError: as told of either file.
    """
    partial = target.with_name(target.name + ".partial")
    try:
        with closing(sqlite3.connect(partial, isolation_level=None)) as copy:
            # In one step: a copy by parts begins anew whenever somebody writes. WAL lets them write meanwhile.
            reader.backup(copy, pages=-1)
            if store_id:
                facts = {"store_id": store_id, "backed_up_us": str(time.time_ns() // 1000)}
                query = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
                copy.execute("BEGIN IMMEDIATE")
                copy.executemany(query, facts.items())
                copy.execute("COMMIT")
            copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        _remove(partial)
        told = translate(error, target)
        raise (translate(error, source) if isinstance(told, DataLossError) else told) from error
    if found != "ok":
        _remove(partial)
        message = f"the copy of {source} is damaged ({found}); check the original: viking doctor"
        raise DataLossError("DATABASE_CORRUPT", message, {"path": str(source), "found": found})
    _flush(partial)
    partial.replace(target)
    _flush(target.parent)


def _copy_keys(source: Path, target: Path) -> None:
    """Copy the keys of a data directory, where it has any: what is restored asks for the same ones.

    Raises:
        VikingError: as `copy_database`.
    """
    path = source / KEYS_NAME
    if not path.exists():
        return
    with open_keys(path) as reader:
        copy_database(reader, path, target / KEYS_NAME)
    (target / KEYS_NAME).chmod(KEYS_MODE)


def _reader(path: Path) -> sqlite3.Connection:
    try:
        connection = schema.connect(path, is_writer=False)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    try:
        schema.read_version(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(target: Path) -> bool:
    """Make the target; returns whether it was missing."""
    try:
        target.mkdir(parents=True)
    except FileExistsError:
        if target.is_dir() and not any(target.iterdir()):
            return False
        message = f"{target} holds something; a backup takes a new or an empty folder"
        raise AlreadyExistsError("BACKUP_EXISTS", message, {"path": str(target)}) from None
    except OSError as error:
        raise _told(error, target) from error
    return True


def _copy_checkpoints(source: Path, target: Path, old_id: str, store_id: str) -> int:
    folder = source / CHECKPOINT_FOLDER
    n_copied = 0
    for manifest in sorted(folder.glob("*.json")):
        n_copied += copy_checkpoint(
            folder, target / CHECKPOINT_FOLDER, manifest.stem, relabel=lambda layout: layout.replace(old_id, store_id)
        )
    return n_copied


def _report(target: Path, store_id: str, n_checkpoints: int) -> BackupReport:
    with closing(_reader(target / DATABASE_NAME)) as copy:
        revisions = dict(copy.execute("SELECT name, revision FROM account ORDER BY name").fetchall())
    n_bytes = (target / DATABASE_NAME).stat().st_size
    return BackupReport(str(target), store_id, revisions, n_bytes, n_checkpoints)


def _clear(target: Path, *, made_folder: bool) -> None:
    """Take away what was made: nothing that looks like a backup may be left of one that failed."""
    if made_folder:
        shutil.rmtree(target, ignore_errors=True)
        return
    shutil.rmtree(target / CHECKPOINT_FOLDER, ignore_errors=True)
    for name in (DATABASE_NAME, KEYS_NAME, _CONFIG_NAME):
        (target / name).unlink(missing_ok=True)


def _remove(partial: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        partial.with_name(partial.name + suffix).unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _told(error: OSError, target: Path) -> VikingError:
    facts = {"path": str(target), "error": str(error)}
    if error.errno in NO_ROOM:
        return ResourceExhaustedError("DISK_FULL", f"no room for a backup in {target}; free space, then retry", facts)
    return FailedPreconditionError("BACKUP_NOT_WRITABLE", f"no backup can be written to {target} ({error})", facts)
