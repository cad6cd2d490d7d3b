"""Files with holes: written in order with a checksum, read and copied without what is not there."""

from __future__ import annotations

import os
import shutil
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

#: A cache line, and what vector instructions like best.
ALIGNMENT = 64
_READ_BYTES = 1 << 20


class SummedFile:
    """A file that is written in order, with its checksum so far."""

    def __init__(self, file: BinaryIO) -> None:
        """Begin with an empty file, open for writing."""
        self._file = file
        self.size = 0
        self.crc32 = 0
        self.holes: list[tuple[int, int]] = []

    def skip(self, n_bytes: int) -> None:
        """Leave a hole, which does not count for the checksum."""
        self._file.seek(n_bytes, os.SEEK_CUR)
        self.holes.append((self.size, self.size + n_bytes))
        self.size += n_bytes

    def write(self, part: bytes | memoryview) -> None:
        """Append bytes."""
        self._file.write(part)
        self.crc32 = zlib.crc32(part, self.crc32)
        self.size += len(part)

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


def sums(path: Path, holes: Sequence[Sequence[int]] = ()) -> dict[str, int]:
    """Return size and checksum of a file, its holes aside."""
    crc32 = 0
    for _, piece in _pieces(path, holes):
        crc32 = zlib.crc32(piece, crc32)
    return {"size": path.stat().st_size, "crc32": crc32}


def holes_of(entry: Mapping[str, Any]) -> Sequence[Sequence[int]]:
    """Return the half-open ranges of a file that hold nothing."""
    holes: Sequence[Sequence[int]] = entry.get("holes", ())
    return holes


def _pieces(path: Path, holes: Sequence[Sequence[int]]) -> Iterator[tuple[int, memoryview]]:
    """Yield offset and bytes of all that is in a file; reading beats mapping here, and both fill the page cache."""
    buffer = memoryview(bytearray(_READ_BYTES))
    ends = [*(lo for lo, _ in holes), path.stat().st_size]
    with path.open("rb", buffering=0) as file:
        for lo, end in zip([0, *(hi for _, hi in holes)], ends, strict=True):
            at = file.seek(lo)
            while at < end and (n_read := file.readinto(buffer[: end - at])):
                yield at, buffer[:n_read]
                at += n_read


def copy(source: Path, target: Path, entry: Mapping[str, Any]) -> None:
    """Copy a file; its holes stay holes."""
    if not holes_of(entry):
        shutil.copyfile(source, target)
        return
    with target.open("wb") as file:
        for at, piece in _pieces(source, holes_of(entry)):
            file.seek(at)
            file.write(piece)
        file.truncate(entry["size"])
