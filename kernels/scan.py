"""Flat searches: the exact scan of a scope, the rescoring of candidates, and the lexical search over postings."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import F32_1D, I32_1D, I64, I64_1D, RO_I32_1D, RO_I64_1D, device, inlined, kernel
from viking_kernels.arrays import CONDITIONS, POOL, POSTINGS, QUESTION, ROWS, SKETCHES, TREE
from viking_kernels.heap import pool_add, pool_admits, pool_find, pool_raise
from viking_kernels.mask import is_expired_above, is_in_scope, is_visible, is_wanted
from viking_kernels.score import lexical_score, score_node, score_row
from viking_kernels.sketch import dense_bound, lexical_ceiling, norm_of, own_bound

#: Indexes into the counts that a scan returns.
SCAN_ROWS, SCAN_MATCHED, SCAN_FILTERED = range(3)
N_SCAN_COUNTS = 3


@device
def _offer(pool, tree, node, row, own, dense, lexical, may_repeat):
    """Put a node into a pool by its own score, when it ranks among the best and, if it may repeat, is not there yet."""
    order = tree.tie[node]
    if pool_admits(pool, own, order) and not (may_repeat and pool_find(pool, node) >= 0):
        pool_add(pool, own, order, node, row, -1, dense, lexical, own, np.float32(np.nan), own, np.float32(np.nan))


@inlined
def _admits_row(pool, rows, row, question, limits, dense, order):
    """Return whether a pool could take a row, given a bound of its dense part: first by any lexical part, then by its.

    Args:
        limits: the norm of the question's vector and the greatest lexical score that any row may have.
    """
    _, ceiling = limits
    if not pool_admits(pool, own_bound(rows, row, question, dense, ceiling), order):
        return False
    if ceiling == 0.0:
        return True
    return pool_admits(pool, own_bound(rows, row, question, dense, lexical_score(rows, row, question)), order)


@inlined
def _admits_node(tree, rows, sketches, node, question, limits, conditions, is_match, matches, directories):
    """Return whether a node could get a place in a pool; False only when the bounds of all its rows say so."""
    lo = tree.row_lo[node]
    if lo < sketches.first:
        return True
    order = tree.tie[node]
    for row in range(lo, tree.row_hi[node]):
        dense = dense_bound(sketches, row, question.vector, limits[0])
        if tree.is_directory[node] and _admits_row(directories, rows, row, question, limits, dense, order):
            return True
        is_seen = is_match and (conditions.level_mask >> rows.level[row]) & 1
        if is_seen and _admits_row(matches, rows, row, question, limits, dense, order):
            return True
    return False


@inlined
def _consider(tree, rows, sketches, node, question, limits, conditions, matches, directories, counts, may_repeat):
    """Score a node that is in scope; offer it as a match if it is wanted, and as a starting point if a directory."""
    n_rows = tree.row_hi[node] - tree.row_lo[node]
    if n_rows == 0 or not is_visible(tree, node, conditions.now_us):
        return
    counts[SCAN_ROWS] += n_rows
    levels = 0
    for row in range(tree.row_lo[node], tree.row_hi[node]):
        levels |= 1 << rows.level[row]
    is_match = (levels & conditions.level_mask) != 0 and is_wanted(tree, node, conditions)
    if is_match:
        counts[SCAN_MATCHED] += 1
    else:
        counts[SCAN_FILTERED] += 1
    if not _admits_node(tree, rows, sketches, node, question, limits, conditions, is_match, matches, directories):
        return
    best, row, own, dense, lexical = score_node(tree, rows, node, question, conditions.level_mask)
    if tree.is_directory[node]:
        _offer(directories, tree, node, tree.row_lo[node], best, dense, lexical, may_repeat)
    if is_match:
        _offer(matches, tree, node, row, own, dense, lexical, may_repeat)


@inlined
def _consider_rows(tree, rows, sketches, node, question, limits, conditions, best, counts):
    """Score the rows of a node that is in scope, those of the wanted levels; offer each by itself."""
    if not is_visible(tree, node, conditions.now_us) or not is_wanted(tree, node, conditions):
        return
    for row in range(tree.row_lo[node], tree.row_hi[node]):
        if not (conditions.level_mask >> rows.level[row]) & 1:
            continue
        counts[SCAN_ROWS] += 1
        counts[SCAN_MATCHED] += 1
        order = tree.tie[node] * 4 + rows.level[row]
        if row >= sketches.first:
            dense = dense_bound(sketches, row, question.vector, limits[0])
            if not _admits_row(best, rows, row, question, limits, dense, order):
                continue
        own, dense, lexical = score_row(rows, row, question)
        if pool_admits(best, own, order):
            nan = np.float32(np.nan)
            pool_add(best, own, order, node, row, -1, dense, lexical, own, nan, own, nan)


@kernel(I64(TREE, ROWS, SKETCHES, QUESTION, CONDITIONS, I64, I64, RO_I32_1D, I64, I64, POOL, POOL, I64_1D))
def scan_nodes(
    tree,
    rows,
    sketches,
    question,
    conditions,
    is_by_row,
    is_whole,
    candidates,
    first_fresh,
    has_expiry,
    matches,
    directories,
    counts,
):
    """Score nodes in scope exactly: all of them, or the candidates that an approximate search proposed.

    Breadth-first numbering makes the base nodes of a subtree one range at each depth. Rows that have a sketch are
    bounded by it first; where a bound cannot enter a pool the row is not read. The pools are the same as without
    sketches, and so are the counts: a row counts as scored when its bound has decided.

    Args:
        sketches: of the rows from `sketches.first` on; without any, `first` is the number of rows.
        is_by_row: 1: every row is a match of its own, as CLASSIC cuts rows before it joins them; no directories then.
        is_whole: 1: every node in scope, `candidates` is not read.
        candidates: int32[n], node ids; those out of scope and the fresh ones are passed over, repeats keep one place
            (by row there must be none).
        first_fresh: score the fresh nodes from this id on too; the number of nodes: none of them.
        has_expiry: 1 when some directory may be expired, so that ancestors must be asked.
        matches: pool of nodes that fulfil all conditions, by their best row among the wanted levels.
        directories: pool of directories in scope, by their best row of any level; capacity 0 to go without.
        counts: int64[N_SCAN_COUNTS], added to.

    Returns:
        The number of rows scored.
    """
    n_base = tree.child_lo.shape[0] - 1
    limits = norm_of(question.vector), lexical_ceiling(question)
    n_ranges = conditions.scope_lo.shape[0] if is_whole else 1
    for i in range(n_ranges + 1):
        # the ranges of the scope, or the candidates as one range; then the fresh nodes
        lo = 0
        hi = candidates.shape[0]
        if i == n_ranges:
            lo = max(first_fresh, n_base)
            hi = tree.parent.shape[0]
        elif is_whole:
            lo = conditions.scope_lo[i]
            hi = conditions.scope_hi[i]
        may_repeat = i < n_ranges and not is_whole
        for position in range(lo, hi):
            node = position
            if i < n_ranges and not is_whole:
                node = candidates[position]
                if node >= n_base:
                    continue
            if (i == n_ranges or not is_whole) and not is_in_scope(tree, node, conditions):
                continue
            if has_expiry and is_expired_above(tree, node, conditions.now_us):
                continue
            if is_by_row:
                _consider_rows(tree, rows, sketches, node, question, limits, conditions, matches, counts)
            else:
                _consider(
                    tree, rows, sketches, node, question, limits, conditions, matches, directories, counts, may_repeat
                )
    return counts[SCAN_ROWS]


@device
def _term_weight(rows, row, term):
    """Return the weight of a term in a row, 0 when the row lacks it."""
    lo = rows.term_lo[row]
    hi = rows.term_hi[row]
    end = hi
    while lo < hi:
        middle = (lo + hi) >> 1
        if rows.term_id[middle] < term:
            lo = middle + 1
        else:
            hi = middle
    if lo < end and rows.term_id[lo] == term:
        return rows.term_weight[lo]
    return np.float32(0.0)


@device
def _may_match(tree, rows, row, conditions):
    """Return whether a base row is still its node's and fulfils all conditions."""
    node = rows.node[row]
    return (
        tree.row_lo[node] <= row < tree.row_hi[node]  # else a fresh row took its place
        and (conditions.level_mask >> rows.level[row]) & 1 == 1
        and is_visible(tree, node, conditions.now_us)
        and is_in_scope(tree, node, conditions)
        and is_wanted(tree, node, conditions)
        and not is_expired_above(tree, node, conditions.now_us)
    )


@device
def _offer_lexical(tree, best, node, row, score):
    """Put a node into a pool by its lexical score, or raise it there when this row is better."""
    order = tree.tie[node]
    if not pool_admits(best, score, order):
        return
    found = pool_find(best, node)
    nan = np.float32(np.nan)
    if found < 0:
        pool_add(best, score, order, node, row, -1, nan, score, score, nan, score, nan)
    elif score > best.score[best.heap[found]]:
        pool_raise(best, found, score, row, -1, nan, score, score, nan)


@kernel(I64(TREE, ROWS, POSTINGS, QUESTION, CONDITIONS, RO_I64_1D, F32_1D, I32_1D, POOL))
def add_up_postings(tree, rows, postings, question, conditions, term_order, total, touched, best):
    """Find the base nodes with the best lexical scores, exactly, by reading all postings of the question's terms.

    The same answer as `search_postings`; faster while the postings are few, for it never looks into a row.

    Args:
        term_order: int64[n_terms], indexes into the question's terms, by falling `weight * greatest posting weight`.
        total: float32[n_base_rows], all zero, and all zero again at the end.
        touched: int32[at least as many as the terms have postings], scratch.
        best: pool of nodes by lexical score; `own` and `relevance` hold it too.

    Returns:
        The number of postings read.
    """
    n_touched = 0
    n_read = 0
    for i in range(term_order.shape[0]):
        term = question.term[term_order[i]]
        weight = question.weight[term_order[i]]
        for position in range(postings.lo[term], postings.lo[term + 1]):
            row = postings.row[position]
            if total[row] == 0.0:
                touched[n_touched] = row
                n_touched += 1
            total[row] += weight * postings.weight[position]
            n_read += 1
    for i in range(n_touched):
        row = np.int64(touched[i])
        score = total[row]
        total[row] = 0.0
        node = rows.node[row]
        if pool_admits(best, score, tree.tie[node]) and _may_match(tree, rows, row, conditions):
            _offer_lexical(tree, best, node, row, score)
    return n_read


@kernel(I64(TREE, ROWS, POSTINGS, QUESTION, CONDITIONS, RO_I64_1D, POOL, I64_1D))
def search_postings(tree, rows, postings, question, conditions, term_order, best, counts):
    """Find the base nodes with the best lexical scores, exactly, reading as few postings as the bounds allow.

    Terms are taken by falling greatest contribution; a row is scored when its first term in that order comes up. The
    postings of a term lie by falling weight, so once the weight of this term and the greatest contributions of all
    later ones together cannot reach the worst kept score, the rest of this term's postings cannot either.
    Source: the bounds of MaxScore (Turtle and Flood, 1995) over impact-ordered postings.

    Args:
        term_order: int64[n_terms], indexes into the question's terms, by falling `weight * greatest posting weight`.
        best: pool of nodes by lexical score; `own` and `relevance` hold it too.
        counts: int64[N_SCAN_COUNTS]; SCAN_ROWS grows by the rows scored.

    Returns:
        The number of postings read.
    """
    n_read = 0
    n_terms = term_order.shape[0]
    bound_after = 0.0  # float64: what is taken off again must leave no float32 rounding behind
    for i in range(n_terms):
        term = question.term[term_order[i]]
        if postings.lo[term] < postings.lo[term + 1]:
            bound_after += float(question.weight[term_order[i]]) * float(postings.weight[postings.lo[term]])
    for i in range(n_terms):
        at = term_order[i]
        term = question.term[at]
        lo = postings.lo[term]
        hi = postings.lo[term + 1]
        if lo == hi:
            continue
        bound_after -= float(question.weight[at]) * float(postings.weight[lo])
        for position in range(lo, hi):
            # the slack makes up for the rounding of float32 scores
            bound = float(question.weight[at]) * float(postings.weight[position]) + bound_after
            if best.size[0] == best.score.shape[0] and bound * 1.00001 < float(best.score[best.heap[0]]):
                break
            n_read += 1
            row = postings.row[position]
            node = rows.node[row]
            if not _may_match(tree, rows, row, conditions):
                continue
            score = np.float32(0.0)
            is_new = True
            for j in range(n_terms):
                weight = _term_weight(rows, row, question.term[term_order[j]])
                if weight > 0.0 and j < i:
                    is_new = False
                    break
                score += question.weight[term_order[j]] * weight
            if not is_new:
                continue
            counts[SCAN_ROWS] += 1
            _offer_lexical(tree, best, node, row, score)
    return n_read
