"""Gathers records one by one into columns, so that a tree is laid out without keeping an object for each context."""

from __future__ import annotations

from array import array
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from viking_rpc.domain.context import ContextType, Kind
from viking_rpc.index.bfloat16 import encode
from viking_rpc.index.growing import room_of
from viking_rpc.index.records import ROOT_KEY, NodeRecord, encode_relations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

#: A full buffer grows by this share.
_GROWTH = 1.25
_ROWS_AT_ONCE = 256
#: Entries that are reordered together: their indexes are a large part of what that takes.
_ENTRIES_AT_ONCE = 1 << 20

_ROOT_RECORD = NodeRecord(ROOT_KEY, -1, "", Kind.DIRECTORY, ContextType.RESOURCE)
_INTEGERS = {
    **dict.fromkeys(("key", "parent_key", "create_us", "update_us", "expire_us", "version"), "q"),
    "active_count": "i",
    **dict.fromkeys(("kind", "type"), "B"),
}
_TEXTS = ("names", "titles", "abstracts", "relations")


class Slices:
    """Many short runs of one kind of number, one after another."""

    def __init__(self, dtype: str) -> None:
        """Begin with none."""
        self._dtype = np.dtype(dtype)
        self._data = bytearray()
        self._ends = array("q", [0])

    def add(self, run: bytes) -> None:
        """Append a run, given as its bytes."""
        self._data += run
        self._ends.append(len(self._data))

    @property
    def data(self) -> NDArray[Any]:
        """Return all runs, one after another."""
        return np.frombuffer(self._data, self._dtype)

    @property
    def offset(self) -> NDArray[np.int64]:
        """Return int64[n_runs + 1], where each begins."""
        return np.frombuffer(self._ends, np.int64) // self._dtype.itemsize

    def get(self, i: int) -> bytes:
        """Return a run's bytes."""
        return bytes(self._data[self._ends[i] : self._ends[i + 1]])

    def take(self, order: NDArray[np.int32]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the runs in another order, and where each begins then."""
        return take_slices(self.data, self.offset, order)


class Gathered:
    """All records of an account as columns, in the order in which they came, the root first.

    Args:
        dimensions: length of the rows' vectors.
        n_rows: how many rows there will be, where that is known; a guess costs memory, never the answer.
        dtype: how vectors are kept, see `index.bfloat16`.
    """

    def __init__(self, dimensions: int, n_rows: int, dtype: np.dtype[Any]) -> None:
        """Begin with the root."""
        self.columns: dict[str, Any] = {name: array(code) for name, code in _INTEGERS.items()}
        self.texts = {name: Slices("u1") for name in _TEXTS}
        self.tags = Slices("i4")
        self.tag_ids: dict[tuple[str, str], int] = {}
        self.first_row = array("q", [0])
        self.level = bytearray()
        self.terms = Slices("u8")
        self.counts = Slices("f4")
        self._vectors: NDArray[Any] = np.empty((n_rows + room_of(n_rows), dimensions), dtype)
        self._waiting = np.empty((_ROWS_AT_ONCE, dimensions), np.float32)
        self._n_stored = 0
        self._append(_ROOT_RECORD)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.first_row) - 1

    def add(self, records: Iterable[NodeRecord]) -> None:
        """Append records; nothing of them is kept."""
        for record in records:
            self._append(record)

    def _append(self, record: NodeRecord) -> None:
        for name, column in self.columns.items():
            column.append(getattr(record, name))
        self.texts["names"].add(record.name.encode())
        self.texts["titles"].add(record.title.encode())
        self.texts["abstracts"].add(record.abstract.encode())
        self.texts["relations"].add(encode_relations(record.relations))
        ids = self.tag_ids
        tags = sorted(ids.setdefault(pair, len(ids)) for pair in record.tags.items()) if record.tags else ()
        self.tags.add(array("i", tags).tobytes())
        for row in sorted(record.rows, key=attrgetter("level")):
            self._waiting[len(self.level) - self._n_stored] = row.vector
            self.level.append(row.level)
            if len(self.level) - self._n_stored == len(self._waiting):
                self._store_waiting()
            self.terms.add(row.terms.astype(np.uint64, copy=False).tobytes())
            self.counts.add(row.term_counts.astype(np.float32, copy=False).tobytes())
        self.first_row.append(len(self.level))

    def _store_waiting(self) -> None:
        """Convert and keep the vectors that wait for that."""
        lo, hi = self._n_stored, len(self.level)
        if hi > len(self._vectors):
            self._vectors.resize((int(hi * _GROWTH), self._vectors.shape[1]), refcheck=False)
        self._vectors[lo:hi] = encode(self._waiting[: hi - lo], self._vectors.dtype)
        self._n_stored = hi

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of numbers."""
        return np.frombuffer(self.columns[name], _INTEGERS[name])

    def take_vectors(self, order: NDArray[np.int64]) -> NDArray[Any]:
        """Return the vectors in another order, in the same memory, and room behind them; they are given away.

        Naive form: `vectors[order]`, which for a moment takes twice the memory. Here a few columns at a time move.
        """
        self._store_waiting()
        vectors, self._vectors = self._vectors, self._vectors[:0]
        rows = vectors[: len(order)]
        width = max(rows.shape[1] // 16, 1)
        for lo in range(0, rows.shape[1], width):
            rows[:, lo : lo + width] = rows[order, lo : lo + width]
        return vectors


def take_slices(
    data: NDArray[Any], offset: NDArray[np.int64], order: NDArray[np.int32]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return runs `data[offset[i]:offset[i + 1]]` in another order, and where each begins then.

    Args:
        data: any[n], runs one after another.
        offset: int64[n_runs + 1].
        order: int32[m], runs.
    """
    sizes = np.diff(offset)[order]
    made = np.zeros(len(order) + 1, np.int64)
    np.cumsum(sizes, out=made[1:])
    taken = np.empty(made[-1], data.dtype)
    lo = 0
    while lo < len(order):
        hi = max(int(np.searchsorted(made, made[lo] + _ENTRIES_AT_ONCE, "right")) - 1, lo + 1)
        taken[made[lo] : made[hi]] = data[positions(offset[order[lo:hi]], sizes[lo:hi])]
        lo = hi
    return taken, made


def positions(first: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ranges `[first[i], first[i] + sizes[i])`, one after another."""
    ends = np.cumsum(sizes)
    found: NDArray[np.int64] = np.repeat(first - (ends - sizes), sizes)
    found += np.arange(len(found))
    return found
