"""The descent: a resumable best-first walk that opens directories, scores their children and stops when told to.

One loop serves all profiles. With `rules.is_classic` it reproduces the published algorithm: rows instead of nodes,
at most `child_rows` of a directory's children by own score, a parent score of exactly 0 is no parent score, the
threshold stops navigation too, three rounds without growth of the pool end the walk (rules R1-R18 are told in
docs/algorithm.md). Otherwise a node's relevance depends on the tree and the question alone, never on the way to it:

    relevance(root) = own, if it has rows
    relevance(node) = alpha * own + (1 - alpha) * relevance(parent), or own if the parent has none
    relevance(directory without rows) = relevance(parent)

so a walk that is not stopped equals the exhaustive search.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import I64, NONE, RO_I32_1D, device, kernel
from viking_kernels.arrays import (
    BLOCK,
    CONDITIONS,
    COUNT_BLOCK,
    COUNT_CHANGED,
    COUNT_CUT,
    COUNT_EXPANDED,
    COUNT_FILTERED,
    COUNT_MATCHED,
    COUNT_NEEDED,
    COUNT_ROUND_NEXT,
    COUNT_ROUND_SIZE,
    COUNT_ROWS,
    COUNT_SEEN,
    FRONTIER,
    N_MEMO,
    POOL,
    QUESTION,
    ROWS,
    RULES,
    TREE,
)
from viking_kernels.classic import absorb_classic, cut_block
from viking_kernels.clock import cycles
from viking_kernels.frontier import (
    EXHAUSTED,
    NEED_SEEN,
    RERANK,
    RUNNING,
    check_room,
    end_round,
    mix,
    passes,
    pop_round,
    record_child,
    record_step,
    reset,
)
from viking_kernels.heap import heap_push, pool_add, pool_admits
from viking_kernels.hotness import hotness_of
from viking_kernels.mask import is_in_scope, is_listed, is_visible, is_wanted
from viking_kernels.score import score_node, score_row
from viking_kernels.tree import first_child, next_child


@device
def _keep(tree, conditions, rules, seeds, pool, frontier, node, row, dense, lexical, own, parent, relevance, step):
    """Offer a node that fulfils all conditions to the pool; return whether its relevance passes the threshold."""
    is_again = step >= 0 and is_listed(seeds, node)
    if not passes(relevance, rules):
        if not is_again:
            frontier.counters[COUNT_CUT] += 1
            frontier.best_cut[0] = max(frontier.best_cut[0], relevance)
        return False
    if is_again:
        return True  # it has been in the pool, with this very score, since the start
    frontier.counters[COUNT_MATCHED] += 1
    hot = np.float32(np.nan)
    score = relevance
    weight = np.float32(rules.hotness_alpha)
    if weight > 0.0:
        hot = hotness_of(tree.active_count[node], tree.update_us[node], conditions.now_us)
        score = (np.float32(1.0) - weight) * relevance + weight * hot
    order = tree.tie[node]
    if pool_admits(pool, score, order):
        frontier.counters[COUNT_CHANGED] = 1
        pool_add(pool, score, order, node, row, step, dense, lexical, own, parent, relevance, hot)
    return True


@device
def _relevance_of(tree, rows, question, rules, roots, frontier, node):
    """Return the relevance of a directory, NaN when neither it nor an ancestor up to its searched root has rows.

    Climbs to a root or to a directory whose relevance is remembered, then mixes on the way down.
    """
    n_path = 0
    parent = np.float32(np.nan)
    while True:
        slot = node & (N_MEMO - 1)
        if frontier.memo_node[slot] == node:
            parent = frontier.memo_score[slot]
            break
        frontier.path[n_path] = node
        n_path += 1
        if is_listed(roots, node) or tree.parent[node] < 0:
            break
        node = tree.parent[node]
    while n_path > 0:
        n_path -= 1
        node = frontier.path[n_path]
        if tree.row_hi[node] > tree.row_lo[node]:
            own, _, _, _, _ = score_node(tree, rows, node, question, 0)
            frontier.counters[COUNT_ROWS] += tree.row_hi[node] - tree.row_lo[node]
            parent = mix(own, parent, rules.alpha[tree.type[node]])
        slot = node & (N_MEMO - 1)
        frontier.memo_node[slot] = node
        frontier.memo_score[slot] = parent
    return parent


@kernel(NONE(TREE, ROWS, QUESTION, CONDITIONS, RULES, RO_I32_1D, RO_I32_1D, POOL, FRONTIER))
def start_walk(tree, rows, question, conditions, rules, roots, seeds, pool, frontier):
    """Queue the searched roots and what the global search found; the seeds enter the pool at once.

    Args:
        roots: int32[n_roots], ascending, none below another.
        seeds: int32[n_seeds], ascending nodes in scope, none of them a root: directories become starting points, leaves
            make their directories starting points.
        pool, frontier: emptied first; the heap has room for n_roots + n_seeds entries.
    """
    reset(pool, frontier)
    n_roots = roots.shape[0]
    for i in range(n_roots + seeds.shape[0]):
        is_root = i < n_roots
        node = roots[i] if is_root else seeds[i - n_roots]
        parent = np.float32(np.nan)
        if not is_root:
            parent = _relevance_of(tree, rows, question, rules, roots, frontier, tree.parent[node])
        best, row, own, dense, lexical = score_node(tree, rows, node, question, conditions.level_mask)
        frontier.counters[COUNT_ROWS] += tree.row_hi[node] - tree.row_lo[node]
        alpha = rules.alpha[tree.type[node]]
        if row >= 0 and is_in_scope(tree, node, conditions) and is_wanted(tree, node, conditions):
            _keep(
                tree,
                conditions,
                rules,
                seeds,
                pool,
                frontier,
                node,
                row,
                dense,
                lexical,
                own,
                parent,
                mix(own, parent, alpha),
                -1,
            )
        if not tree.is_directory[node]:
            if not is_root:
                heap_push(tree.tie, frontier, parent, tree.parent[node])
        elif tree.row_hi[node] > tree.row_lo[node]:
            heap_push(tree.tie, frontier, mix(best, parent, alpha), node)
        else:
            heap_push(tree.tie, frontier, parent, node)


@device
def _score_block(tree, rows, question, conditions, node, block):
    """Score the rows of a directory's visible children into the block; return their number."""
    n = 0
    child = first_child(tree, node)
    while child >= 0:
        if is_visible(tree, child, conditions.now_us):
            for row in range(tree.row_lo[child], tree.row_hi[child]):
                own, dense, lexical = score_row(rows, row, question)
                block.row[n] = row
                block.own[n] = own
                block.dense[n] = dense
                block.lexical[n] = lexical
                n += 1
        child = next_child(tree, node, child)
    return n


@device
def _absorb_block(tree, rows, conditions, rules, seeds, pool, frontier, block, n, parent, step):
    """Mix, keep and queue the children of a block, node by node; return (kept, queued)."""
    n_kept = 0
    n_queued = 0
    i = 0
    while i < n:
        node = rows.node[block.row[i]]
        best = np.float32(-np.inf)
        chosen = -1
        first = i
        while i < n and rows.node[block.row[i]] == node:
            best = max(best, block.own[i])
            if (conditions.level_mask >> rows.level[block.row[i]]) & 1 and (
                chosen < 0 or block.own[i] > block.own[chosen]
            ):
                chosen = i
            i += 1
        if not is_in_scope(tree, node, conditions):
            continue  # an excluded subtree: neither a match nor a way
        alpha = rules.alpha[tree.type[node]]
        is_kept = False
        if chosen >= 0 and is_wanted(tree, node, conditions):
            own = block.own[chosen]
            is_kept = _keep(
                tree,
                conditions,
                rules,
                seeds,
                pool,
                frontier,
                node,
                block.row[chosen],
                block.dense[chosen],
                block.lexical[chosen],
                own,
                parent,
                mix(own, parent, alpha),
                step,
            )
            n_kept += is_kept
        else:
            frontier.counters[COUNT_FILTERED] += 1
        for j in range(first, i):
            record_child(
                frontier,
                rules,
                step,
                block.row[j],
                block.own[j],
                mix(block.own[j], parent, alpha),
                is_kept and j == chosen,
            )
        if tree.is_directory[node]:
            heap_push(tree.tie, frontier, mix(best, parent, alpha), node)
            n_queued += 1
    return n_kept, n_queued


@device
def _queue_rowless(tree, conditions, frontier, node, parent):
    """Queue a directory's visible sub-directories that have no rows, with its own score; return how many."""
    n_queued = 0
    child = first_child(tree, node)
    while child >= 0:
        if (
            tree.row_hi[child] == tree.row_lo[child]
            and tree.is_directory[child]
            and is_visible(tree, child, conditions.now_us)
            and is_in_scope(tree, child, conditions)
        ):
            heap_push(tree.tie, frontier, parent, child)
            n_queued += 1
        child = next_child(tree, node, child)
    return n_queued


@kernel(I64(TREE, ROWS, QUESTION, CONDITIONS, RULES, RO_I32_1D, RO_I32_1D, POOL, FRONTIER, BLOCK, I64))
def walk(tree, rows, question, conditions, rules, roots, seeds, pool, frontier, block, max_rounds):
    """Go on with a walk for at most `max_rounds` rounds.

    Returns:
        RUNNING after `max_rounds`; RERANK when a CLASSIC block waits for other own scores (`rules.is_steered`): its
        first counters[COUNT_BLOCK] rows in `block.order`; NEED_* when an array is too small, to be called again with a
        larger one (nothing is lost: the round goes on where it was); else why it ended. Between rounds of another walk
        that is steered, the caller may give the queue other scores, as long as it stays a heap.
    """
    counters = frontier.counters
    done = 0
    while True:
        if counters[COUNT_ROUND_NEXT] >= counters[COUNT_ROUND_SIZE]:
            if done >= max_rounds:
                return RUNNING
            if 2 * (counters[COUNT_SEEN] + rules.parallelism) > frontier.seen_node.shape[0]:
                counters[COUNT_NEEDED] = counters[COUNT_SEEN] + rules.parallelism
                return NEED_SEEN
            if pop_round(tree.tie, frontier, rules) == 0:
                return EXHAUSTED
        while counters[COUNT_ROUND_NEXT] < counters[COUNT_ROUND_SIZE]:
            start = cycles()
            node = frontier.round_node[counters[COUNT_ROUND_NEXT]]
            parent = frontier.round_score[counters[COUNT_ROUND_NEXT]]
            if rules.is_steered == 1 and rules.is_classic == 0:
                # the queue is in a reranker's order: what a directory was chosen by is not its relevance
                parent = _relevance_of(tree, rows, question, rules, roots, frontier, node)
            n = counters[COUNT_BLOCK]
            if n < 0:
                status = check_room(tree, rules, frontier, block, node)
                if status != RUNNING:
                    return status
                n = _score_block(tree, rows, question, conditions, node, block)
                counters[COUNT_ROWS] += n
                if rules.is_classic == 1:
                    n = cut_block(block, n, rules.child_rows)
                if rules.is_steered == 1 and rules.is_classic == 1 and n > 0:
                    counters[COUNT_BLOCK] = n
                    return RERANK
            counters[COUNT_BLOCK] = -1
            step = counters[COUNT_EXPANDED]
            if rules.is_classic == 1:
                n_kept, n_queued = absorb_classic(
                    tree, rows, conditions, rules, seeds, pool, frontier, block, n, parent, step
                )
            else:
                n_kept, n_queued = _absorb_block(
                    tree, rows, conditions, rules, seeds, pool, frontier, block, n, parent, step
                )
                n_queued += _queue_rowless(tree, conditions, frontier, node, parent)
            record_step(tree, roots, rules, frontier, node, parent, n, n_kept, n_queued, start)
            counters[COUNT_ROUND_NEXT] += 1
        done += 1
        status = end_round(rules, pool, frontier)
        if status != RUNNING:
            return status
