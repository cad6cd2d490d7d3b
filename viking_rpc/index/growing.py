"""Arrays that grow at their end without a copy while older states of them stay readable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viking_kernels.arrays import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: A buffer that is full grows by this share, and by at least this many entries: small accounts stay small.
_GROWTH = 1.25
_MIN_ROOM = 8
#: A tree just laid out has this share of room behind its rows: a little more than what is fresh when it is laid out
#: anew. Memory that nobody has written to yet takes none.
_ROOM_SHARE = 0.125


def room_of(n: int) -> int:
    """Return how many entries of room n entries have behind them when they are laid out."""
    return int(n * _ROOM_SHARE) + _MIN_ROOM


@dataclass(slots=True, eq=False)
class Growing:
    """One array and its room; only the one writer of an account appends, readers keep the views that they got."""

    buffer: Array
    n_used: int

    @classmethod
    def of(cls, array: Array) -> Growing:
        """Start with a full buffer."""
        return cls(array, len(array))

    @classmethod
    def roomy(cls, array: Array) -> Growing:
        """Start with a copy that has room behind it."""
        buffer = np.empty((len(array) + room_of(len(array)), *array.shape[1:]), array.dtype)
        buffer[: len(array)] = array
        return cls(buffer, len(array))

    def view(self) -> Array:
        """Return what has been appended so far, read-only."""
        return frozen(self.buffer[: self.n_used])

    def append(self, entries: Array, first: int) -> Array:
        """Append entries to the first ones; return a read-only view of all.

        Args:
            entries: to append.
            first: entries that the followed state has. Where somebody else has gone on from there already, be it an
                update that failed, the entries go into a buffer of their own.
        """
        n = first + len(entries)
        if not len(entries):  # a loaded buffer is read-only
            return frozen(self.buffer[:n])
        if first != self.n_used or n > len(self.buffer):
            room = max(int(n * _GROWTH), n + _MIN_ROOM)
            larger = np.empty((room, *self.buffer.shape[1:]), self.buffer.dtype)
            larger[:first] = self.buffer[:first]
            self.buffer = larger
        self.buffer[first:n] = entries
        self.n_used = n
        return self.view()


class Column:
    """A column of the next snapshot: written like an array, copied only when an entry changes that readers may see.

    Args:
        old: the column of the followed snapshot.
        growing: the buffer that `old` is a view of; None makes one when it is needed.
        n_added: new entries at the end.
        fill: what they hold at first.
    """

    __slots__ = ("_changed", "_growing", "_n", "_old", "added")

    def __init__(self, old: Array, growing: Growing | None, n_added: int, fill: int = 0) -> None:
        """Begin with nothing changed."""
        self._old = old
        self._growing = growing
        self._n = len(old)
        self._changed: dict[int, int] = {}
        self.added = np.full(n_added, fill, old.dtype)

    def __getitem__(self, i: int) -> int:
        """Return an entry."""
        if i >= self._n:
            return int(self.added[i - self._n])
        found = self._changed.get(i)
        return int(self._old[i]) if found is None else found

    def __setitem__(self, i: int, value: int) -> None:
        """Set an entry."""
        if i >= self._n:
            self.added[i - self._n] = value
        elif i in self._changed or self._old[i] != value:
            self._changed[i] = value

    def set_added(self, nodes: list[int], values: Array) -> None:
        """Set new entries."""
        self.added[np.array(nodes) - self._n] = values

    def set_all(self, order: Array, values: Array) -> None:
        """Set the entries `order`, which are all, to `values`."""
        whole = np.empty(self._n + len(self.added), self._old.dtype)
        whole[order] = values
        self._old, self.added, self._growing = whole[: self._n], whole[self._n :], None
        self._changed.clear()

    def finish(self) -> tuple[Array, Growing]:
        """Return the column read-only, and the buffer that the next snapshot appends to."""
        if self._changed:
            whole = np.concatenate([self._old, self.added])
            whole[list(self._changed)] = list(self._changed.values())
            return frozen(whole), Growing.of(whole)
        growing = self._growing if self._growing is not None else Growing.of(self._old)
        return growing.append(self.added, self._n), growing


@dataclass(frozen=True, slots=True, eq=False)
class RowBuffers:
    """The buffers behind a snapshot's arrays; the writer hands them from each snapshot to the next.

    Args:
        vectors, term_id, term_weight: of the rows.
        columns: of the small columns that were appended to since the tree was laid out, by name.
    """

    vectors: Growing
    term_id: Growing
    term_weight: Growing
    columns: dict[str, Growing]

    @classmethod
    def of(cls, vectors: Growing, term_id: Array, term_weight: Array) -> RowBuffers:
        """Start with what was laid out; term lists get room."""
        return cls(vectors, Growing.roomy(term_id), Growing.roomy(term_weight), {})

    def room_bytes(self) -> int:
        """Return what the buffers hold beyond what is used."""
        every = (self.vectors, self.term_id, self.term_weight, *self.columns.values())
        return sum(one.buffer.nbytes - one.buffer[: one.n_used].nbytes for one in every)
