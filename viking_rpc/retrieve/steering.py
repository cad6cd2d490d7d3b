"""Between two rounds of a descent: what a reranker may see of the last one, and the queue in the order it prefers.

A directory's relevance stays what vectors and words make of it. Only the order of opening changes: the directories of
one call share their places in the queue out anew, the best place to the one that the reranker likes best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from viking_kernels.arrays import COUNT_EXPANDED, COUNT_HEAP, COUNT_ROUND_SIZE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from viking_kernels.arrays import Frontier, Pool, Tree


def rows_to_rerank(tree: Tree, pool: Pool, frontier: Frontier, *, is_start: bool) -> list[int]:
    """Return the rows of what a round, or the start, has brought, best first: candidates, and queued directories.

    A candidate is seen by the row that scored best, another directory by its first row; one without rows, or without a
    score, has nothing to be seen by.

    Args:
        tree: the snapshot's.
        pool: the candidates so far.
        frontier: between two rounds.
        is_start: no round has been: all candidates and all that is queued.
    """
    slots = pool.heap[: pool.size[0]]
    row_of = dict(zip(pool.node[slots].tolist(), pool.row[slots].tolist(), strict=True))
    first_step = int(frontier.counters[COUNT_EXPANDED] - frontier.counters[COUNT_ROUND_SIZE])
    is_new = pool.step[slots] >= (-1 if is_start else first_step)
    score_of = dict(zip(pool.row[slots[is_new]].tolist(), pool.score[slots[is_new]].tolist(), strict=True))
    at = _queued(tree, frontier, is_start=is_start)
    for node, score in zip(frontier.heap_node[at].tolist(), frontier.heap_score[at].tolist(), strict=True):
        score_of.setdefault(row_of.get(node, int(tree.row_lo[node])), score)
    return sorted(score_of, key=lambda row: (-score_of[row], row))


def reorder_queue(
    tree: Tree, pool: Pool, frontier: Frontier, score_of_row: Mapping[int, float], *, is_start: bool
) -> None:
    """Share out the places in the queue among the directories of the last call, by the reranker's scores.

    Args:
        tree: the snapshot's.
        pool: the candidates so far.
        frontier: between two rounds; its queue is written, and is a heap again.
        score_of_row: what the reranker has answered; a directory without a score keeps its place.
        is_start: as for `rows_to_rerank`.
    """
    slots = pool.heap[: pool.size[0]]
    row_of = dict(zip(pool.node[slots].tolist(), pool.row[slots].tolist(), strict=True))
    liked: list[tuple[float, int, int]] = []
    for i in _queued(tree, frontier, is_start=is_start).tolist():
        node = int(frontier.heap_node[i])
        score = score_of_row.get(row_of.get(node, int(tree.row_lo[node])))
        if score is not None:
            liked.append((-score, int(tree.tie[node]), i))
    if len(liked) < 2:  # noqa: PLR2004 - one alone has its place
        return
    at = [i for _, _, i in sorted(liked)]
    frontier.heap_score[at] = np.sort(frontier.heap_score[at])[::-1]
    n = int(frontier.counters[COUNT_HEAP])
    scores, nodes = frontier.heap_score[:n], frontier.heap_node[:n]
    order = np.lexsort((tree.tie[nodes], np.where(np.isnan(scores), 0, -scores), ~np.isnan(scores)))
    scores[:], nodes[:] = scores[order], nodes[order]  # a sorted array is a heap


def _queued(tree: Tree, frontier: Frontier, *, is_start: bool) -> NDArray[np.int64]:
    """Return the places in the queue of directories with rows that the last round, or the start, has queued."""
    n = int(frontier.counters[COUNT_HEAP])
    node, score = frontier.heap_node[:n], frontier.heap_score[:n]
    is_wanted = ~np.isnan(score) & (tree.row_hi[node] > tree.row_lo[node])
    if not is_start:
        opened = frontier.round_node[: int(frontier.counters[COUNT_ROUND_SIZE])]
        is_wanted &= np.isin(tree.parent[node], opened) & ~np.isin(node, frontier.seen_node)
    return np.flatnonzero(is_wanted)
