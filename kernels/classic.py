"""What CLASSIC does otherwise than the other profiles: rows instead of nodes, cuts, and first come, first ranked.

The rules R1-R18 of the published algorithm, as its recorded answers show them, are told in docs/algorithm.md.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import I64, NONE, RO_F32_1D, RO_I32_1D, device, kernel
from viking_kernels.arrays import (
    CONDITIONS,
    COUNT_CHANGED,
    COUNT_CUT,
    COUNT_FILTERED,
    COUNT_MATCHED,
    COUNT_ORDER,
    FRONTIER,
    N_MEMO,
    POOL,
    ROWS,
    RULES,
    TREE,
)
from viking_kernels.frontier import is_seen, mix, passes, record_child, reset
from viking_kernels.heap import heap_push, pool_add, pool_admits, pool_find, pool_raise
from viking_kernels.mask import is_in_scope, is_listed, is_wanted


@device
def _is_behind(block, a, b):
    """Return whether block row a comes after b: lower own score, or an equal one and later in the block."""
    if block.own[a] != block.own[b]:
        return block.own[a] < block.own[b]
    return a > b


@device
def _sift_down(block, i, size):
    """Restore the heap with the last-ranked row on top, below position i of `block.order`."""
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and _is_behind(block, block.order[child + 1], block.order[child]):
            child += 1
        if not _is_behind(block, block.order[child], block.order[i]):
            return
        block.order[child], block.order[i] = block.order[i], block.order[child]
        i = child


@device
def cut_block(block, n, limit):
    """Write the best `limit` of n rows into `block.order`, best first; return how many (R8).

    Naive form: sort by own score, cut. Here: a heap of the best so far, then taken apart.
    """
    size = min(n, limit)
    for i in range(size):
        block.order[i] = i
    for i in range(size // 2 - 1, -1, -1):
        _sift_down(block, i, size)
    for i in range(size, n):
        if size > 0 and _is_behind(block, block.order[0], i):
            block.order[0] = i
            _sift_down(block, 0, size)
    for last in range(size - 1, 0, -1):
        block.order[0], block.order[last] = block.order[last], block.order[0]
        _sift_down(block, 0, last)
    return size


@device
def _start_order(frontier, node):
    """Return the place among equals that a node has had since the start, -1 if it was no candidate then."""
    for i in range(N_MEMO):
        if frontier.memo_node[i] < 0:
            return -1
        if frontier.memo_node[i] == node:
            return i
    return -1


@device
def _collect(pool, frontier, node, row, dense, lexical, own, parent, relevance, step, order):
    """Put a row's node into the pool, or raise it if this row is better; its place among equals stays (R11)."""
    position = pool_find(pool, node)
    if position >= 0:
        if relevance > pool.score[pool.heap[position]]:
            pool_raise(pool, position, relevance, row, step, dense, lexical, own, parent)
        return
    at_start = _start_order(frontier, node)
    if at_start >= 0:
        order = at_start  # it has lost its slot since, not its place
    if pool_admits(pool, relevance, order):
        frontier.counters[COUNT_CHANGED] = 1
        nan = np.float32(np.nan)
        pool_add(pool, relevance, order, node, row, step, dense, lexical, own, parent, relevance, nan)


@device
def _first_of(tree, rows, conditions, rules, block, i, node, parent):
    """Return which row of the block, i at the latest, was the first to offer this node to the pool."""
    if tree.row_hi[node] - tree.row_lo[node] < 2:
        return i
    alpha = rules.alpha[tree.type[node]]
    for j in range(i):
        row = block.row[block.order[j]]
        if (
            rows.node[row] == node
            and (conditions.level_mask >> rows.level[row]) & 1
            and passes(mix(block.own[block.order[j]], parent, alpha), rules)
        ):
            return j
    return i


@device
def absorb_classic(tree, rows, conditions, rules, seeds, pool, frontier, block, n, parent, step):
    """Mix, keep and queue the seen rows of a block, row by row; return (kept, queued)."""
    n_kept = 0
    n_queued = 0
    if parent == np.float32(0.0):
        parent = np.float32(np.nan)  # R9: zero counts as no parent score
    for i in range(n):
        at = block.order[i]
        row = block.row[at]
        node = rows.node[row]
        if not is_in_scope(tree, node, conditions):
            continue
        own = block.own[at]
        relevance = mix(own, parent, rules.alpha[tree.type[node]])
        is_wanted_row = (conditions.level_mask >> rows.level[row]) & 1 and is_wanted(tree, node, conditions)
        is_kept = passes(relevance, rules)
        record_child(frontier, rules, step, row, own, relevance, is_kept and is_wanted_row)
        if not is_kept:
            if is_wanted_row:
                frontier.counters[COUNT_CUT] += 1
                frontier.best_cut[0] = max(frontier.best_cut[0], relevance)
            continue
        if is_wanted_row:
            n_kept += 1
            first = _first_of(tree, rows, conditions, rules, block, i, node, parent)
            if first == i and not is_listed(seeds, node):
                frontier.counters[COUNT_MATCHED] += 1
            _collect(
                pool,
                frontier,
                node,
                row,
                block.dense[at],
                block.lexical[at],
                own,
                parent,
                relevance,
                step,
                frontier.counters[COUNT_ORDER] + first,
            )
        else:
            frontier.counters[COUNT_FILTERED] += 1
        if tree.is_directory[node] and not is_seen(frontier, node):
            heap_push(tree.tie, frontier, relevance, node)
            n_queued += 1
    frontier.counters[COUNT_ORDER] += n
    return n_kept, n_queued


@device
def _is_candidate(tree, rows, conditions, rules, row, own):
    """Return whether a row of the global search may be a match."""
    return (
        (conditions.level_mask >> rows.level[row]) & 1 == 1
        and passes(own, rules)
        and is_wanted(tree, rows.node[row], conditions)
    )


@kernel(NONE(TREE, ROWS, CONDITIONS, RULES, RO_I32_1D, RO_I32_1D, RO_F32_1D, RO_F32_1D, I64, POOL, FRONTIER))
def start_classic(tree, rows, conditions, rules, roots, start_row, start_own, start_dense, has_levels, pool, frontier):
    """Queue the roots and the directories of the global search (R5); with a level filter its rows are candidates (R6).

    Args:
        roots: int32[n_roots], the searched roots; their place in the heap is that of score 0, which is no parent score.
        start_row: int32[n], rows of the global search, best own score first.
        start_own: float32[n], their scores (a reranker's, when one steers).
        start_dense: float32[n], their cosines.
        has_levels: 1 when the request names levels.
        pool, frontier: emptied first; the heap has room for n + n_roots entries.
    """
    reset(pool, frontier)
    nan = np.float32(np.nan)
    for i in range(roots.shape[0]):
        heap_push(tree.tie, frontier, np.float32(0.0), roots[i])
    for i in range(start_row.shape[0]):
        node = rows.node[start_row[i]]
        is_first = True
        for j in range(i):
            is_first = is_first and rows.node[start_row[j]] != node
        if is_first:
            heap_push(tree.tie, frontier, start_own[i], node)
    if has_levels == 0:
        return
    for i in range(start_row.shape[0]):
        row = start_row[i]
        node = rows.node[row]
        if not _is_candidate(tree, rows, conditions, rules, row, start_own[i]):
            continue
        is_first = True
        for j in range(i):
            if rows.node[start_row[j]] == node and _is_candidate(
                tree, rows, conditions, rules, start_row[j], start_own[j]
            ):
                is_first = False
        if not is_first:
            continue
        last = i  # the last row of a node decides, which is the worse one
        for j in range(i + 1, start_row.shape[0]):
            if rows.node[start_row[j]] == node and _is_candidate(
                tree, rows, conditions, rules, start_row[j], start_own[j]
            ):
                last = j
        score = start_own[last]
        frontier.counters[COUNT_MATCHED] += 1
        order = frontier.counters[COUNT_ORDER]
        frontier.counters[COUNT_ORDER] = order + 1
        if order < N_MEMO:
            frontier.memo_node[order] = node
        if pool_admits(pool, score, order):
            pool_add(
                pool,
                score,
                order,
                node,
                start_row[last],
                -1,
                start_dense[last],
                np.float32(0.0),
                score,
                nan,
                score,
                nan,
            )
