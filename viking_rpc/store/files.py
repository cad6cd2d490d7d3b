"""Files with holes: written in order with checksums, read and copied without what is not there."""

from __future__ import annotations

import os
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

#: A cache line, and what vector instructions like best.
ALIGNMENT = 64
#: Each block of a file has a checksum of its own.
BLOCK_BYTES = 1 << 26
_READ_BYTES = 1 << 20


class SummedFile:
    """A file that is written in order, with the checksums of its blocks so far."""

    def __init__(self, file: BinaryIO) -> None:
        """Begin with an empty file, open for writing."""
        self._file = file
        self.size = 0
        self.crc32: list[int] = []
        self.holes: list[tuple[int, int]] = []

    def skip(self, n_bytes: int) -> None:
        """Leave a hole, which does not count for any checksum."""
        self._file.seek(n_bytes, os.SEEK_CUR)
        self.holes.append((self.size, self.size + n_bytes))
        self.size += n_bytes

    def write(self, part: bytes | memoryview) -> None:
        """Append bytes."""
        self._file.write(part)
        rest = memoryview(part)
        while rest:
            i = self.size // BLOCK_BYTES
            self.crc32 += [0] * (i + 1 - len(self.crc32))
            piece = rest[: BLOCK_BYTES - self.size % BLOCK_BYTES]
            self.crc32[i] = zlib.crc32(piece, self.crc32[i])
            self.size += len(piece)
            rest = rest[len(piece) :]

    def align(self) -> int:
        """Fill up to the next multiple of `ALIGNMENT`; returns where that is."""
        self.write(bytes(-self.size % ALIGNMENT))
        return self.size


def flush(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sums(path: Path, holes: Sequence[Sequence[int]] = ()) -> dict[str, Any]:
    """Return the size of a file and the checksums of its blocks, holes aside; large files are read by all cores."""
    size = path.stat().st_size
    starts = range(0, size, BLOCK_BYTES)

    def sum_up(lo: int) -> int:
        crc32 = 0
        for _, piece in _pieces(path, holes, lo, min(lo + BLOCK_BYTES, size)):
            crc32 = zlib.crc32(piece, crc32)
        return crc32

    if size <= BLOCK_BYTES:
        return {"size": size, "crc32": [sum_up(lo) for lo in starts]}
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="checksum") as threads:
        return {"size": size, "crc32": list(threads.map(sum_up, starts))}


def holes_of(entry: Mapping[str, Any]) -> Sequence[Sequence[int]]:
    """Return the half-open ranges of a file that hold nothing."""
    holes: Sequence[Sequence[int]] = entry.get("holes", ())
    return holes


def _pieces(path: Path, holes: Sequence[Sequence[int]], first: int, last: int) -> Iterator[tuple[int, memoryview]]:
    """Yield offset and bytes of what is in a part of a file; reading beats mapping, and both fill the page cache."""
    buffer = memoryview(bytearray(min(_READ_BYTES, max(last - first, 1))))
    starts, ends = [0, *(hi for _, hi in holes)], [*(lo for lo, _ in holes), last]
    with path.open("rb", buffering=0) as file:
        for lo, hi in zip(starts, ends, strict=True):
            at, end = max(lo, first), min(hi, last)
            file.seek(at)
            while at < end and (n_read := file.readinto(buffer[: end - at])):
                yield at, buffer[:n_read]
                at += n_read


def copy(source: Path, target: Path, entry: Mapping[str, Any]) -> None:
    """Copy a file; its holes stay holes."""
    if not holes_of(entry):
        shutil.copyfile(source, target)
        return
    with target.open("wb") as file:
        for at, piece in _pieces(source, holes_of(entry), 0, entry["size"]):
            file.seek(at)
            file.write(piece)
        file.truncate(entry["size"])
