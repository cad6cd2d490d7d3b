"""Own scores: cosine and BM25 of rows against one question, mixed in one pass."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import F32_1D, I64, NONE, device, kernel, widen
from viking_kernels.arrays import QUESTION, ROWS

#: The level of a file's row (L2); rows below it are a directory's.
FILE_LEVEL = 2


@device
def dot(vectors, row, query):
    """Return the dot product of a row and the query, float32; the cosine, as both have unit length (or are zero).

    Rows are float32 or bfloat16; the sum is float32 for both.
    """
    total = np.float32(0.0)
    for i in range(query.shape[0]):
        total += widen(vectors[row, i]) * query[i]
    return total


@device
def lexical_score(rows, row, question):
    """Return how well a row's terms answer the question's, float32; see `Question`.

    Both term lists ascend. Naive form: for each term of the question, look it up in the row. The lookup starts where
    the last one ended, so a long row costs a few binary searches, a short one a merge.
    """
    total = np.float32(0.0)
    lo = rows.term_lo[row]
    end = rows.term_hi[row]
    for i in range(question.term.shape[0]):
        term = question.term[i]
        hi = end
        while lo < hi:
            middle = (lo + hi) >> 1
            if rows.term_id[middle] < term:
                lo = middle + 1
            else:
                hi = middle
        if lo >= end:
            break
        if rows.term_id[lo] == term:
            total += question.weight[i] * rows.term_weight[lo]
            lo += 1
    if question.saturation > 0.0:
        return total / (total + np.float32(question.saturation))
    return total


@device
def score_row(rows, row, question):
    """Return (own, dense, lexical) of a row, float32 each; own = (1 - w) * dense + w * lexical."""
    dense = dot(rows.vectors, row, question.vector)
    is_file = rows.level[row] == FILE_LEVEL
    weight = np.float32(question.lexical_weight) if is_file else np.float32(question.directory_weight)
    if weight == 0.0:
        return dense, dense, np.float32(0.0)
    lexical = lexical_score(rows, row, question)
    return (np.float32(1.0) - weight) * dense + weight * lexical, dense, lexical


@device
def score_node(tree, rows, node, question, level_mask):
    """Score all rows of a node.

    Returns:
        (best, row, own, dense, lexical): `best` is the greatest own score of all rows, -inf without rows; `row` is the
        best row among the levels in `level_mask` (-1: none), the first of equals, and the rest are its scores.
    """
    best = np.float32(-np.inf)
    best_row = -1
    best_own = np.float32(-np.inf)
    best_dense = np.float32(0.0)
    best_lexical = np.float32(0.0)
    for row in range(tree.row_lo[node], tree.row_hi[node]):
        own, dense, lexical = score_row(rows, row, question)
        best = max(best, own)
        if (level_mask >> rows.level[row]) & 1 and (best_row < 0 or own > best_own):
            best_row = row
            best_own = own
            best_dense = dense
            best_lexical = lexical
    return best, best_row, best_own, best_dense, best_lexical


@kernel(NONE(ROWS, QUESTION, I64, I64, F32_1D))
def score_range(rows, question, lo, hi, out):
    """Score a range of rows against one question.

    Args:
        rows: the snapshot's rows.
        question: vector float32[dim] of unit length, terms, lexical weight.
        lo, hi: half-open row range, 0 <= lo <= hi <= n_rows (not checked).
        out: float32[hi - lo], written; own scores.
    """
    for row in range(lo, hi):
        own, _, _ = score_row(rows, row, question)
        out[row - lo] = own
