"""BM25 as arrays: the weights of each row's terms, and the postings of each term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from viking_kernels.arrays import Postings, frozen

from viking_rpc.index.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from viking_rpc.domain.context import Row

#: Saturation of repeated terms, and how much a long row is discounted. See docs/algorithm.md for how they were fitted.
K1 = 1.2
B = 0.75
#: Mean length of rows at L0, L1 and L2 while an account has none: the middle of several real corpora.
_USUAL_LENGTH = (32.0, 128.0, 128.0)


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


def build_vocabulary(rows: Sequence[Row]) -> Vocabulary:
    """Count the terms of the base rows."""
    counts = [row.terms for row in rows]
    hashes, n_rows_of_term = np.unique(
        np.concatenate(counts) if counts else np.empty(0, np.uint64), return_counts=True
    )
    mean_length = np.array(_USUAL_LENGTH, np.float32)
    for level in range(3):
        lengths = [float(row.term_counts.sum()) for row in rows if row.level == level and len(row.terms)]
        if lengths:
            mean_length[level] = np.mean(lengths)
    n_rows = sum(1 for row in rows if len(row.terms))
    return Vocabulary(frozen(hashes), frozen(n_rows_of_term.astype(np.int32)), n_rows, frozen(mean_length))


def weigh(rows: Sequence[Row], vocabulary: Vocabulary) -> TermLists:
    """Weigh the terms of rows: tf / (tf + k1 * (1 - b + b * length / mean length)), BM25 without its constant k1 + 1.

    Args:
        rows: their terms are known to the vocabulary.
        vocabulary: gives ids and mean lengths.
    """
    offset = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row.terms) for row in rows], out=offset[1:])
    if not offset[-1]:
        return TermLists(offset, np.empty(0, np.int32), np.empty(0, np.float32))
    n_terms = np.diff(offset)
    ids = vocabulary.ids_of(np.concatenate([row.terms for row in rows]))
    counts = np.concatenate([row.term_counts for row in rows]).astype(np.float32)
    length = np.array([row.term_counts.sum() for row in rows], np.float32)
    mean = vocabulary.mean_length[np.array([row.level for row in rows], np.int64)]
    norm = (K1 * (1 - B + B * length / mean)).astype(np.float32)
    weight = counts / (counts + np.repeat(norm, n_terms))
    # ids ascend with hashes for base terms only, so rows with fresh terms need a sort; one sort for all is simplest
    order = np.lexsort((ids, np.repeat(np.arange(len(rows)), n_terms)))
    return TermLists(offset, ids[order], weight[order].astype(np.float32))


def build_postings(lists: TermLists, n_terms: int) -> Postings:
    """Invert term lists: per term its rows, greatest weight first, then by row."""
    row = np.repeat(np.arange(len(lists.offset) - 1, dtype=np.int32), np.diff(lists.offset))
    order = np.lexsort((row, -lists.weight, lists.term_id))
    lo = np.zeros(n_terms + 1, np.int64)
    np.cumsum(np.bincount(lists.term_id, minlength=n_terms), out=lo[1:])
    return Postings(frozen(lo), frozen(row[order]), frozen(lists.weight[order]))
