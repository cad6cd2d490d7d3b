"""The terms of one account: their numbers, and how rare each is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.index.layered import Layered

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Term hashes to term ids, with the number of files' base rows that hold each term.

    Args:
        hashes: uint64[n_base_terms], ascending; a base term's id is its position.
        n_rows_of_term: int32[n_base_terms].
        n_rows: number of files' base rows that hold terms at all; without any, directories' rows count in both.
        mean_length: float32[3], mean number of term occurrences in a base row, by level, a subtree's terms included.
        extra: ids of the terms that only fresh rows hold; they count as held by no base row.
    """

    hashes: NDArray[np.uint64]
    n_rows_of_term: NDArray[np.int32]
    n_rows: int
    mean_length: NDArray[np.float32]
    extra: Layered[int, int] = field(default_factory=Layered)

    def __len__(self) -> int:
        """Return the number of terms, fresh ones included."""
        return len(self.hashes) + len(self.extra)

    def ids_of(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return int32[n] term ids; -1 where the account does not know the term."""
        ids = np.full(len(hashes), -1, np.int32)
        if len(self.hashes):
            position = np.searchsorted(self.hashes, hashes)
            position[position == len(self.hashes)] = 0
            is_known = self.hashes[position] == hashes
            ids[is_known] = position[is_known]
        if self.extra:
            unknown = np.flatnonzero(ids < 0)
            get = self.extra.get
            ids[unknown] = [get(value, -1) for value in hashes[unknown].tolist()]
        return ids

    def idf(self, ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return float32[n] inverse row frequencies, > 0; a term that no base row holds is the rarest.

        ln(1 + (N - n + 0.5) / (n + 0.5)). Source: BM25 as in Robertson and Zaragoza, 2009, with Lucene's 1 +.
        """
        held = np.zeros(len(ids), np.float64)
        is_base = (ids >= 0) & (ids < len(self.hashes))
        held[is_base] = self.n_rows_of_term[ids[is_base]]
        return np.log1p((self.n_rows - held + 0.5) / (held + 0.5)).astype(np.float32)

    @property
    def rarest(self) -> float:
        """Return the rarity of a term that one file holds, > 0; it grows with the logarithm of the account."""
        return math.log1p((max(self.n_rows, 1) - 0.5) / 1.5)

    def learn(self, hashes: NDArray[np.uint64]) -> tuple[Vocabulary, NDArray[np.int32]]:
        """Return a vocabulary that knows all the given terms, and int32[n], their ids in it."""
        ids = self.ids_of(hashes)
        unknown = np.flatnonzero(ids < 0)
        if not len(unknown):
            return self, ids
        first = len(self)
        values = hashes[unknown].tolist()
        learned = {value: first + i for i, value in enumerate(sorted(set(values)))}
        ids[unknown] = [learned[value] for value in values]
        return replace(self, extra=self.extra.updated(learned)), ids
