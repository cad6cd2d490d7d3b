"""The bookkeeping of a walk: rounds, the set of expanded directories, room, stop rules, and what a trace records."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import I32_1D, NONE, RO_I32_1D, device, kernel
from viking_kernels.arrays import (
    CHILD_KEPT,
    CHILD_ROW,
    CHILD_STEP,
    COUNT_BLOCK,
    COUNT_CHANGED,
    COUNT_CHILDREN,
    COUNT_EXPANDED,
    COUNT_HEAP,
    COUNT_LAST_MATCHED,
    COUNT_MATCHED,
    COUNT_NEEDED,
    COUNT_ROUND_NEXT,
    COUNT_ROUND_SIZE,
    COUNT_ROUNDS,
    COUNT_ROWS,
    COUNT_SEEN,
    COUNT_STABLE_ROUNDS,
    COUNT_STAGNANT_ROUNDS,
    LEVEL_CYCLES,
    LEVEL_EXPANDED,
    LEVEL_KEPT,
    LEVEL_ROWS,
    STEP_CYCLES,
    STEP_KEPT,
    STEP_NODE,
    STEP_QUEUED,
    STEP_ROUND,
    STEP_SCORED,
)
from viking_kernels.clock import cycles
from viking_kernels.heap import heap_pop
from viking_kernels.mask import is_listed
from viking_kernels.tree import first_child, next_child

#: What `walk` returns: go on, rerank the block, give room (counters[COUNT_NEEDED] says how much), or why it stopped.
RUNNING, RERANK, NEED_HEAP, NEED_BLOCK, NEED_SEEN, NEED_STEPS, NEED_CHILDREN = range(7)
EXHAUSTED, CONVERGED, STAGNANT, BUDGET = range(10, 14)

STAGNANT_ROUNDS = 3


@device
def reset(pool, frontier):
    """Empty a pool and a frontier that an earlier walk may have used."""
    pool.size[0] = 0
    for i in range(frontier.seen_node.shape[0]):
        frontier.seen_node[i] = -1
    for i in range(frontier.memo_node.shape[0]):
        frontier.memo_node[i] = -1
    for i in range(frontier.level_int.shape[0]):
        for j in range(frontier.level_int.shape[1]):
            frontier.level_int[i, j] = 0
    for i in range(frontier.counters.shape[0]):
        frontier.counters[i] = 0
    frontier.counters[COUNT_BLOCK] = -1
    frontier.best_cut[0] = -np.inf


@device
def passes(relevance, rules):
    """Return whether a relevance passes the threshold."""
    threshold = np.float32(rules.threshold)  # a float32 score never reaches most float64 thresholds of the same name
    return relevance > threshold or (rules.is_gte == 1 and relevance == threshold)


@device
def mix(own, parent, alpha):
    """Return the relevance of a node from its own score and its parent's; NaN as parent score means there is none."""
    if np.isnan(parent):
        return own
    return alpha * own + (np.float32(1.0) - alpha) * parent


@device
def is_seen(frontier, node):
    """Return whether a directory has been expanded."""
    mask = frontier.seen_node.shape[0] - 1
    slot = (np.int64(node) * 0x9E3779B1) & mask
    while frontier.seen_node[slot] >= 0:
        if frontier.seen_node[slot] == node:
            return True
        slot = (slot + 1) & mask
    return False


@device
def mark_seen(frontier, node):
    """Note that a directory has been expanded; the caller keeps the set at most half full."""
    mask = frontier.seen_node.shape[0] - 1
    slot = (np.int64(node) * 0x9E3779B1) & mask
    while frontier.seen_node[slot] >= 0:
        slot = (slot + 1) & mask
    frontier.seen_node[slot] = node
    frontier.counters[COUNT_SEEN] += 1


@kernel(NONE(RO_I32_1D, I32_1D))
def rehash_seen(seen, out):
    """Copy the set of expanded directories into a larger one.

    Args:
        seen: int32[power of two], `Frontier.seen_node`.
        out: int32[greater power of two], all -1; written.
    """
    mask = out.shape[0] - 1
    for i in range(seen.shape[0]):
        if seen[i] >= 0:
            slot = (np.int64(seen[i]) * 0x9E3779B1) & mask
            while out[slot] >= 0:
                slot = (slot + 1) & mask
            out[slot] = seen[i]


@device
def record_child(frontier, rules, step, row, own, relevance, is_kept):
    """Note one scored row of the step, when the trace wants scores."""
    if rules.record_children == 0:
        return
    i = frontier.counters[COUNT_CHILDREN]
    frontier.counters[COUNT_CHILDREN] = i + 1
    frontier.child_int[i, CHILD_STEP] = step
    frontier.child_int[i, CHILD_ROW] = row
    frontier.child_int[i, CHILD_KEPT] = is_kept
    frontier.child_score[i, 0] = own
    frontier.child_score[i, 1] = relevance


@device
def count_child_rows(tree, node):
    """Return (children, rows) of a directory, gone ones included: an upper bound for room and budget."""
    n_children = 0
    n_rows = 0
    child = first_child(tree, node)
    while child >= 0:
        n_children += 1
        n_rows += tree.row_hi[child] - tree.row_lo[child]
        child = next_child(tree, node, child)
    return n_children, n_rows


@device
def pop_round(tie, frontier, rules):
    """Take the next unexpanded directories from the heap as the current round; an expanded one uses no place."""
    size = 0
    while size < rules.parallelism and frontier.counters[COUNT_HEAP] > 0:
        score, node = heap_pop(tie, frontier)
        if is_seen(frontier, node):
            continue
        mark_seen(frontier, node)
        frontier.round_score[size] = score
        frontier.round_node[size] = node
        size += 1
    frontier.counters[COUNT_ROUND_SIZE] = size
    frontier.counters[COUNT_ROUND_NEXT] = 0
    frontier.counters[COUNT_CHANGED] = 0
    return size


@device
def end_round(rules, pool, frontier):
    """Count a finished round; return a stop reason or RUNNING."""
    counters = frontier.counters
    counters[COUNT_ROUNDS] += 1
    is_first_of_classic = rules.is_classic == 1 and counters[COUNT_ROUNDS] == 1
    is_full = pool.size[0] == pool.score.shape[0]
    is_stable = counters[COUNT_CHANGED] == 0 and is_full and not is_first_of_classic
    counters[COUNT_STABLE_ROUNDS] = counters[COUNT_STABLE_ROUNDS] + 1 if is_stable else 0
    if rules.convergence_rounds > 0 and counters[COUNT_STABLE_ROUNDS] >= rules.convergence_rounds:
        return CONVERGED
    if rules.is_classic == 1:
        is_stagnant = counters[COUNT_MATCHED] == counters[COUNT_LAST_MATCHED] and not is_first_of_classic
        counters[COUNT_STAGNANT_ROUNDS] = counters[COUNT_STAGNANT_ROUNDS] + 1 if is_stagnant else 0
        counters[COUNT_LAST_MATCHED] = counters[COUNT_MATCHED]
        if counters[COUNT_STAGNANT_ROUNDS] >= STAGNANT_ROUNDS:
            return STAGNANT
    return RUNNING


@device
def check_room(tree, rules, frontier, block, node):
    """Return RUNNING if there is room to expand a directory, BUDGET if there are no rows left, else what is needed."""
    n_children, n_rows = count_child_rows(tree, node)
    counters = frontier.counters
    if rules.max_rows > 0 and counters[COUNT_ROWS] + n_rows > rules.max_rows:
        return BUDGET
    counters[COUNT_NEEDED] = counters[COUNT_HEAP] + max(n_children, n_rows)
    if counters[COUNT_NEEDED] > frontier.heap_node.shape[0]:
        return NEED_HEAP
    counters[COUNT_NEEDED] = n_rows
    if n_rows > block.row.shape[0]:
        return NEED_BLOCK
    counters[COUNT_NEEDED] = counters[COUNT_EXPANDED] + 1
    if rules.record_steps == 1 and counters[COUNT_NEEDED] > frontier.step_int.shape[0]:
        return NEED_STEPS
    counters[COUNT_NEEDED] = counters[COUNT_CHILDREN] + n_rows
    if rules.record_children == 1 and counters[COUNT_NEEDED] > frontier.child_int.shape[0]:
        return NEED_CHILDREN
    return RUNNING


@device
def record_step(tree, roots, rules, frontier, node, score, n_scored, n_kept, n_queued, start):
    """Count an expanded directory, by depth below its searched root, and note it when the trace wants steps."""
    depth = 0
    above = node
    while not is_listed(roots, above) and tree.parent[above] >= 0:
        above = tree.parent[above]
        depth += 1
    counters = frontier.counters
    spent = cycles() - start
    frontier.level_int[depth, LEVEL_EXPANDED] += 1
    frontier.level_int[depth, LEVEL_ROWS] += n_scored
    frontier.level_int[depth, LEVEL_KEPT] += n_kept
    frontier.level_int[depth, LEVEL_CYCLES] += spent
    if rules.record_steps == 1:
        i = counters[COUNT_EXPANDED]
        frontier.step_int[i, STEP_NODE] = node
        frontier.step_int[i, STEP_ROUND] = counters[COUNT_ROUNDS]
        frontier.step_int[i, STEP_SCORED] = n_scored
        frontier.step_int[i, STEP_KEPT] = n_kept
        frontier.step_int[i, STEP_QUEUED] = n_queued
        frontier.step_int[i, STEP_CYCLES] = spent
        frontier.step_score[i] = score
    counters[COUNT_EXPANDED] += 1
