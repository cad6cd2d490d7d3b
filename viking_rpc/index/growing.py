"""Arrays that grow at their end without a copy while older states of them stay readable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viking_kernels.arrays import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A buffer that is full grows by this share, and by at least this many entries.
_GROWTH = 1.25
_MIN_ROOM = 1024


@dataclass(slots=True)
class Growing:
    """One array and its room; only the one writer of an account appends, readers keep the views that they got."""

    buffer: NDArray  # type: ignore[type-arg]
    n_used: int

    @classmethod
    def of(cls, array: NDArray) -> Growing:  # type: ignore[type-arg]
        """Start with a full buffer."""
        return cls(array, len(array))

    def view(self) -> NDArray:  # type: ignore[type-arg]
        """Return what has been appended so far, read-only."""
        return frozen(self.buffer[: self.n_used])

    def append(self, entries: NDArray, first: int) -> NDArray:  # type: ignore[type-arg]
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


@dataclass(slots=True)
class RowBuffers:
    """The large arrays behind a snapshot's rows; the writer hands them from each snapshot to the next."""

    vectors: Growing
    term_id: Growing
    term_weight: Growing
