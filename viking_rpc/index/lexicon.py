"""BM25 as arrays: the weights of each row's terms, and the postings of each term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viking_kernels.arrays import Postings, frozen
from viking_rpc.domain.context import Level
from viking_rpc.index.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from viking_rpc.domain.context import Row

#: Saturation of repeated terms, and how much a long row is discounted. See docs/scores.md for how they were fitted.
K1 = 2.0
B = 0.75
#: Mean length of rows at L0, L1 and L2 while an account has none: the middle of several real corpora.
_USUAL_LENGTH = (32.0, 128.0, 128.0)
#: Entries that are worked on together where all at once would take much memory, and in how many parts at most.
_ENTRIES_AT_ONCE = 1 << 18
_SORTED_PARTS = 24
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class TermRuns:
    """The terms of some rows as they are stored, one row's after another's.

    Args:
        offset: int64[n_rows + 1], where each row's terms begin.
        hashes: uint64[n].
        count: float32[n], how often each occurs.
    """

    offset: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    count: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class RowCounts:
    """How often the terms of some rows occur.

    Args:
        offset: int64[n_rows + 1], where each row's terms begin.
        term_id: int32[n].
        count: float32[n], > 0.
    """

    offset: NDArray[np.int64]
    term_id: NDArray[np.int32]
    count: NDArray[np.float32]

    def row(self) -> NDArray[np.int32]:
        """Return int32[n], the row of each entry."""
        return np.repeat(np.arange(len(self.offset) - 1, dtype=np.int32), np.diff(self.offset))

    def length(self) -> NDArray[np.float64]:
        """Return float64[n_rows], the sum of each row's counts."""
        return _sum_slices(self.count, self.offset, np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class TermLists:
    """The term lists of some rows.

    Args:
        offset: int64[n_rows + 1], where each row's terms begin.
        term_id: int32[n], ascending within a row.
        weight: float32[n], in [0, 1).
    """

    offset: NDArray[np.int64]
    term_id: NDArray[np.int32]
    weight: NDArray[np.float32]


def build_vocabulary(terms: TermRuns, level: NDArray[np.uint8]) -> tuple[Vocabulary, RowCounts]:
    """Number the terms of the base rows, and count in how many rows of files each occurs.

    Rarity is that of files: a directory's row repeats what files say, and with the terms of its subtree it would hold
    every word. Where an account has no row of a file with terms, all rows count.

    Returns:
        The vocabulary, its mean lengths those of the rows' own terms; and the counts of all rows by its ids.
    """
    hashes = np.unique(terms.hashes)
    term_id = np.empty(len(terms.hashes), np.int32)
    for lo in range(0, len(term_id), _ENTRIES_AT_ONCE):  # `return_inverse` would take three times what results
        term_id[lo : lo + _ENTRIES_AT_ONCE] = np.searchsorted(hashes, terms.hashes[lo : lo + _ENTRIES_AT_ONCE])
    counts = RowCounts(terms.offset, term_id, terms.count)
    has_terms = np.diff(terms.offset) > 0
    is_told = has_terms & (level == Level.DETAIL)
    if not is_told.any():
        is_told = has_terms
    held = np.bincount(counts.term_id[is_told[counts.row()]], minlength=len(hashes)).astype(np.int32)
    vocabulary = Vocabulary(frozen(hashes), frozen(held), int(is_told.sum()), mean_lengths(counts, level))
    return vocabulary, counts


def mean_lengths(counts: RowCounts, level: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return float32[3], by level the mean length of the rows that hold terms; a usual one where there are none."""
    mean = np.array(_USUAL_LENGTH, np.float32)
    length = counts.length()
    for i in range(len(mean)):
        lengths = length[(level == i) & (length > 0)]
        if len(lengths):
            mean[i] = lengths.mean()
    return frozen(mean)


def weigh(counts: RowCounts, level: NDArray[np.uint8], mean_length: NDArray[np.float32]) -> TermLists:
    """Weigh the terms of rows: tf / (tf + k1 * (1 - b + b * length / mean length)), BM25 without its constant k1 + 1.

    Args:
        counts: of the rows.
        level: uint8[n_rows].
        mean_length: float32[3], > 0, by level.
    """
    norm = (K1 * (1 - B + B * counts.length() / mean_length[level])).astype(np.float32)
    weight = np.repeat(norm, np.diff(counts.offset))
    weight += counts.count
    np.divide(counts.count, weight, out=weight)
    if _is_ascending(counts):
        return TermLists(counts.offset, counts.term_id, weight)
    # ids ascend with hashes for base terms only, so rows with fresh terms need a sort
    order = np.argsort(_row_major(counts.row(), counts.term_id), kind="stable")
    return TermLists(counts.offset, counts.term_id[order], weight[order])


def build_postings(lists: TermLists, n_terms: int) -> Postings:
    """Invert term lists: per term its rows, greatest weight first, then by row.

    Naive form: `np.lexsort((row, -weight, term_id))`, which takes twice the memory of what results. Here some terms at
    a time are sorted.
    """
    n = len(lists.term_id)
    lo = np.zeros(n_terms + 1, np.int64)
    for first in range(0, n, _ENTRIES_AT_ONCE):
        lo[1:] += np.bincount(lists.term_id[first : first + _ENTRIES_AT_ONCE], minlength=n_terms)
    np.cumsum(lo, out=lo)
    row_of_entry = np.repeat(np.arange(len(lists.offset) - 1, dtype=np.int32), np.diff(lists.offset))
    row, weight = np.empty(n, np.int32), np.empty(n, np.float32)
    term = 0
    while term < n_terms:
        share = max(n // _SORTED_PARTS, _ENTRIES_AT_ONCE)
        end = max(int(np.searchsorted(lo, lo[term] + share, "right")) - 1, term + 1)
        chosen = np.flatnonzero((lists.term_id >= term) & (lists.term_id < end))  # in the order of rows
        order = chosen[np.lexsort((-lists.weight[chosen], lists.term_id[chosen]))]  # it is stable
        row[lo[term] : lo[end]] = row_of_entry[order]
        weight[lo[term] : lo[end]] = lists.weight[order]
        term = end
    return Postings(frozen(lo), frozen(row), frozen(weight))


def digest_terms(terms: TermRuns) -> NDArray[np.uint64]:
    """Return uint64[n_rows], a number that changes when a row's own terms or their counts do."""
    odd = terms.count.view(np.uint32).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    return _sum_slices((terms.hashes ^ _MIX) * odd, terms.offset)


def join_terms(rows: Sequence[Row]) -> TermRuns:
    """Return the terms of rows, one after another."""
    offset = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row.terms) for row in rows], out=offset[1:])
    if not offset[-1]:
        return TermRuns(offset, np.empty(0, np.uint64), np.empty(0, np.float32))
    count = np.concatenate([row.term_counts for row in rows]).astype(np.float32)
    return TermRuns(offset, np.concatenate([row.terms for row in rows]), count)


def _row_major(row: NDArray[np.int32], term_id: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return int64[n], numbers that order entries by row, then term."""
    return (row.astype(np.int64) << 32) | term_id


def _is_ascending(counts: RowCounts) -> bool:
    """Return whether the term ids ascend in each row."""
    is_above = counts.term_id[1:] > counts.term_id[:-1]
    first = counts.offset[1:-1]
    is_above[first[(first > 0) & (first < len(counts.term_id))] - 1] = True
    return bool(is_above.all())


def _sum_slices(values: NDArray[Any], offset: NDArray[np.int64], dtype: Any = None) -> NDArray[Any]:
    """Return the sum of each slice `values[offset[i]:offset[i + 1]]`; 0 for an empty one."""
    sums = np.zeros(len(offset) - 1, dtype or values.dtype)
    is_filled = offset[1:] > offset[:-1]
    if is_filled.any():
        sums[is_filled] = np.add.reduceat(values, offset[:-1][is_filled], dtype=sums.dtype)
    return sums
