"""Write an account as a corpus that holds all of it: texts as any corpus has them, and beside them vectors and terms.

A folder with `corpus.jsonl.gz` (files) and `dirs.jsonl.gz` (directories) in the form of an evaluation corpus, each line
with more fields; `vectors.npy` float32[n_rows, dimensions], `terms.npy` uint64[n_terms] and `term_counts.npy`
float32[n_terms]; and `export.json`, written last, which says what it all is and has a checksum of each file. A line's
`rows` are its rows: [level, row of vectors.npy, first term, number of terms]. Etags are not in it: they belong to a
store.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import time
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from viking_rpc.domain.context import Kind
from viking_rpc.domain.uri import Uri
from viking_rpc.errors import AlreadyExistsError, FailedPreconditionError, NotFoundError, ResourceExhaustedError
from viking_rpc.ingest.corpus import MANIFEST_NAME
from viking_rpc.store.backup import DATABASE_NAME
from viking_rpc.store.checkpoint import NO_ROOM
from viking_rpc.store.dump import dump, state_of
from viking_rpc.store.reading import find_account

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from numpy.typing import DTypeLike, NDArray

    from viking_rpc.domain.context import ContextWrite
    from viking_rpc.errors import VikingError
    from viking_rpc.store.dump import Stored

FORMAT_VERSION: Final = 1
DIRECTORIES_NAME, FILES_NAME = "dirs.jsonl.gz", "corpus.jsonl.gz"
VECTORS_NAME, TERMS_NAME, COUNTS_NAME = "vectors.npy", "terms.npy", "term_counts.npy"
DATA_NAMES: Final = (DIRECTORIES_NAME, FILES_NAME, VECTORS_NAME, TERMS_NAME, COUNTS_NAME)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an export says of itself; `files` has the size and checksum of each file."""

    format: int
    account: str
    model: str
    dimensions: int
    analysis: str
    revision: int
    created_us: int
    n_directories: int
    n_files: int
    n_rows: int
    n_terms: int
    files: dict[str, dict[str, int]]


def export_account(data: Path, folder: Path, account: str, *, now_us: int) -> Manifest:
    """Write one state of an account into a folder; a server may be writing to the store meanwhile.

    Args:
        data: the data directory.
        folder: missing or empty.
        account: whose contexts.
        now_us: what is expired by then is left out.

    Raises:
        NotFoundError: there is no store; ACCOUNT_NOT_FOUND.
        AlreadyExistsError: EXPORT_EXISTS, the folder holds something.
        ResourceExhaustedError, FailedPreconditionError: the folder is full, or cannot be written.
    """
    with state_of(data / DATABASE_NAME) as connection:
        found = find_account(connection, account)
        if found is None:
            raise NotFoundError("ACCOUNT_NOT_FOUND", f"{data} has no account {account}", {"account": account})
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        is_new = _prepare(folder)
        try:
            with _Writer(folder, int(meta.get("dimensions", 0))) as writer:
                for stored in dump(connection, account, now_us):
                    writer.add(stored)
            manifest = Manifest(
                FORMAT_VERSION,
                account,
                meta.get("model", ""),
                int(meta.get("dimensions", 0)),
                meta.get("analysis", ""),
                found.revision,
                time.time_ns() // 1000,
                writer.n_of[Kind.DIRECTORY],
                writer.n_of[Kind.FILE],
                writer.vectors.n,
                writer.terms.n,
                {name: sums_of(folder / name) for name in DATA_NAMES},
            )
            text = json.dumps({name: getattr(manifest, name) for name in manifest.__dataclass_fields__}, indent=1)
            (folder / MANIFEST_NAME).write_text(text + "\n", encoding="utf-8")
            for name in (*DATA_NAMES, MANIFEST_NAME, "."):
                _flush(folder / name)
        except OSError as error:
            _clear(folder, is_new=is_new)
            raise _told(error, folder) from error
        except BaseException:
            _clear(folder, is_new=is_new)
            raise
    return manifest


def sums_of(path: Path) -> dict[str, int]:
    """Return size and checksum of a file."""
    size, crc32 = 0, 0
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            crc32 = zlib.crc32(part, crc32)
            size += len(part)
    return {"size": size, "crc32": crc32}


class _Array:
    """An array in a file, to which one appends; its length is written into its head at the end."""

    def __init__(self, file: IO[bytes], dtype: DTypeLike, tail: tuple[int, ...] = ()) -> None:
        self._file = file
        self._dtype = np.dtype(dtype)
        self._tail = tail
        self.n = 0
        self._file.write(self._head())

    def append(self, values: NDArray[Any]) -> None:
        """Append along the first axis."""
        self._file.write(np.ascontiguousarray(values, self._dtype).tobytes())
        self.n += len(values)

    def finish(self) -> None:
        """Say how long it became; numpy leaves room in the head for any number."""
        self._file.seek(0)
        self._file.write(self._head())

    def _head(self) -> bytes:
        head = io.BytesIO()
        facts = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.n, *self._tail)}
        np.lib.format.write_array_header_1_0(head, facts)
        return head.getvalue()


class _Writer:
    """The files of an export while they are written."""

    def __init__(self, folder: Path, dimensions: int) -> None:
        self._stack = ExitStack()
        self.n_of = {Kind.DIRECTORY: 0, Kind.FILE: 0}
        try:
            self._lines = {
                Kind.DIRECTORY: self._open_lines(folder / DIRECTORIES_NAME),
                Kind.FILE: self._open_lines(folder / FILES_NAME),
            }
            self.vectors = _Array(self._stack.enter_context((folder / VECTORS_NAME).open("wb")), "<f4", (dimensions,))
            self.terms = _Array(self._stack.enter_context((folder / TERMS_NAME).open("wb")), "<u8")
            self._counts = _Array(self._stack.enter_context((folder / COUNTS_NAME).open("wb")), "<f4")
        except BaseException:
            self._stack.close()
            raise

    def _open_lines(self, path: Path) -> gzip.GzipFile:
        # Without a time in it: the same contents make the same file.
        return self._stack.enter_context(gzip.GzipFile(path, "wb", compresslevel=6, mtime=0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if kind is None:
                for array in (self.vectors, self.terms, self._counts):
                    array.finish()

    def add(self, stored: Stored) -> None:
        """Write one context."""
        write = stored.write
        line = _line_of(stored)
        rows = []
        for row in write.rows:
            rows.append([int(row.level), self.vectors.n, self.terms.n, len(row.terms)])
            self.vectors.append(row.vector[np.newaxis])
            self.terms.append(row.terms)
            self._counts.append(row.term_counts)
        if rows:
            line["rows"] = rows
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        self._lines[write.kind].write(text.encode() + b"\n")
        self.n_of[write.kind] += 1


def _line_of(stored: Stored) -> dict[str, Any]:
    """Return a context as a line of a corpus; what is empty is left out, but for what every corpus has."""
    write = stored.write
    type_ = Uri.from_canonical(write.uri).type if write.type is None else write.type
    line: dict[str, Any] = {"uri": write.uri, "context_type": type_.name.lower(), "title": write.title}
    line["text"] = write.content if write.kind is Kind.FILE else write.overview or write.abstract
    if write.update_us:
        line["updated_at"] = _iso(write)
    extra = {
        "is_type_given": write.type is not None,
        "abstract": write.abstract,
        "overview": write.overview,
        "content": write.content if write.kind is Kind.DIRECTORY else "",
        "tags": dict(write.tags),
        "create_us": write.create_us,
        "update_us": write.update_us,
        "expire_us": write.expire_us,
        "active_count": write.active_count,
        "relations": [[link.uri, link.reason] for link in write.relations],
        "source_hash": stored.source_hash,
    }
    return line | {name: value for name, value in extra.items() if value}


def _iso(write: ContextWrite) -> str:
    try:
        return datetime.fromtimestamp((write.update_us or 0) / 1e6, UTC).isoformat()
    except (OverflowError, ValueError, OSError):  # a time beyond the year 9999 is in `update_us` only
        return ""


def _prepare(folder: Path) -> bool:
    """Make the folder; returns whether it was missing."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if folder.is_dir() and not any(folder.iterdir()):
            return False
        message = f"{folder} holds something; an export takes a new or an empty folder"
        raise AlreadyExistsError("EXPORT_EXISTS", message, {"path": str(folder)}) from None
    except OSError as error:
        raise _told(error, folder) from error
    return True


def _clear(folder: Path, *, is_new: bool) -> None:
    """Take away what was made: nothing that looks like an export may be left of one that failed."""
    if is_new:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for name in (*DATA_NAMES, MANIFEST_NAME):
        (folder / name).unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _told(error: OSError, folder: Path) -> VikingError:
    facts = {"path": str(folder), "error": str(error)}
    if error.errno in NO_ROOM:
        return ResourceExhaustedError("DISK_FULL", f"no room for an export in {folder}; free space, then retry", facts)
    return FailedPreconditionError("EXPORT_NOT_WRITABLE", f"no export can be written to {folder} ({error})", facts)
