"""The memory in which one process counts: anonymous where it serves alone, else a file that all of its kind read.

A file is mapped, so that what is counted is seen by the other processes at once, costs no call of the system, and
outlives the process: the next one in its place goes on counting where it ended. Each file has one writer, so nothing is
lost and nothing counted twice. An account is known by a digest of its name.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import mmap
import os
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from viking_rpc.server.figure_layout import (
    BLOCK_WORDS,
    BLOCKS_PER_SEGMENT,
    GAUGES,
    HEADER_WORDS,
    WORD_BYTES,
)

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

#: The folder of a data directory in which processes that serve it together leave what they count.
RUN_FOLDER: Final = "run"
SUFFIX: Final = ".figures"

_HEADER_BYTES: Final = HEADER_WORDS * WORD_BYTES
_SEGMENT_BYTES: Final = BLOCKS_PER_SEGMENT * BLOCK_WORDS * WORD_BYTES


class Words(NamedTuple):
    """The same memory seen as int64 and as float64."""

    ints: memoryview[int]
    floats: memoryview[float]


class Figures:
    """What one process counts. Take `lock` to change something; to read needs none, see `readings.Readings`."""

    def __init__(self, path: Path | None = None) -> None:
        """Map the memory.

        Args:
            path: the file, made when it is missing; None: memory of this process alone.

        Raises:
            OSError: the file cannot be made.
        """
        self.lock = threading.Lock()
        self.path = path
        #: The header, where no file has it.
        self.private_header: mmap.mmap | None = None
        #: Segments that no file has: all of them, or those for which the disk had no room.
        self.private: list[mmap.mmap] = []
        if path is None:
            self.private_header = mapped = mmap.mmap(-1, _HEADER_BYTES)
        else:
            mapped = _mapped(path, 0, _HEADER_BYTES)
        self.header = _words(mapped)
        self._segments: list[Words] = []
        self._block_of: dict[str, Words] = {}
        self._index_of: dict[bytes, int] = {}
        for gauge in GAUGES:
            self.header.ints[gauge] = 0
        if path is not None:
            self._read_index(path)

    def block(self, account: str) -> Words:
        """Return where an account is counted; the caller holds the lock."""
        return self._block_of.get(account) or self._find(account)

    def _find(self, account: str) -> Words:
        digest = account_digest(account)
        is_new = digest not in self._index_of
        block = self._at(self._index_of.setdefault(digest, len(self._index_of)))
        if is_new:
            block.ints[:2].cast("B")[:] = digest
        self._block_of[account] = block
        return block

    def _at(self, i: int) -> Words:
        segment, place = divmod(i, BLOCKS_PER_SEGMENT)
        while len(self._segments) <= segment:
            self._segments.append(_words(self._segment(len(self._segments))))
        lo, hi = place * BLOCK_WORDS, (place + 1) * BLOCK_WORDS
        ints, floats = self._segments[segment]
        return Words(ints[lo:hi], floats[lo:hi])

    def _segment(self, i: int) -> mmap.mmap:
        if self.path is not None and not self.private:
            try:
                return _mapped(self.path, _HEADER_BYTES + i * _SEGMENT_BYTES, _SEGMENT_BYTES)
            except OSError as error:
                logger.warning("figures_not_shared error=%s", error)
        self.private.append(mmap.mmap(-1, _SEGMENT_BYTES))
        return self.private[-1]

    def _read_index(self, path: Path) -> None:
        """Learn what the process before this one has counted."""
        for i in range((path.stat().st_size - _HEADER_BYTES) // _SEGMENT_BYTES * BLOCKS_PER_SEGMENT):
            digest = bytes(self._at(i).ints[:2].cast("B"))
            if not any(digest):
                return
            self._index_of[digest] = i


def account_digest(account: str) -> bytes:
    """Return by which 16 bytes an account is known."""
    return hashlib.blake2b(account.encode(), digest_size=2 * WORD_BYTES).digest()


def figures_path(data: Path, worker: str) -> Path:
    """Return the file of a worker."""
    return data / RUN_FOLDER / f"{worker}{SUFFIX}"


def clear_figures(data: Path) -> None:
    """Remove what an earlier server counted in a data directory; the caller holds its lock."""
    folder = data / RUN_FOLDER
    for path in folder.glob(f"*{SUFFIX}"):
        path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _words(mapped: mmap.mmap) -> Words:
    view = memoryview(mapped)
    return Words(view.cast("q"), view.cast("d"))


def _mapped(path: Path, offset: int, n_bytes: int) -> mmap.mmap:
    """Map a part of a file, which is made when it is missing. Raises OSError."""
    path.parent.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        is_short = os.fstat(descriptor).st_size < offset + n_bytes
        # Written, not only made longer: a page that a full disk cannot give would end the process later.
        if is_short and os.pwrite(descriptor, bytes(n_bytes), offset) < n_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return mmap.mmap(descriptor, n_bytes, offset=offset)
    finally:
        os.close(descriptor)
