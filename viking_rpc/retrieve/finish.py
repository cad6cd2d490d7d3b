"""From the entries of a pool to matches in their order: thresholds, one entry for each node, hotness."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from viking_kernels.arrays import frozen
from viking_kernels.hotness import hotness
from viking_rpc.index.pools import best_first
from viking_rpc.retrieve.answer import Found

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from viking_kernels.arrays import Pool, Tree


_FEW = 32


class Ranked(NamedTuple):
    """Matches, best first; how many matched as far as is known; how many a threshold cut, and the best of those."""

    found: list[Found]
    n_matched: int
    n_cut: int
    best_cut: float


def read_pool(pool: Pool, slots: NDArray[np.int64] | None = None) -> list[Found]:
    """Return the entries in some slots of a pool, of all, best first, when none are given."""
    size = int(pool.size[0])
    if slots is None and size <= _FEW:  # Python sorts a few entries faster than numpy does
        score, order = pool.score[:size].tolist(), pool.order[:size].tolist()
        chosen = sorted(range(size), key=lambda slot: (-score[slot], order[slot]))
    else:
        chosen = (best_first(pool) if slots is None else slots).tolist()
    node, row, step, score = (column.tolist() for column in (pool.node, pool.row, pool.step, pool.score))
    parts = pool.parts.tolist()
    return [Found(node[slot], row[slot], step[slot], score[slot], *parts[slot]) for slot in chosen]


def nodes_of(pool: Pool) -> list[int]:
    """Return the nodes of a pool, in no order."""
    nodes: list[int] = pool.node[pool.heap[: pool.size[0]]].tolist()
    return nodes


def count_passing(pool: Pool, threshold: float | None, *, is_gte: bool) -> int:
    """Return how many entries of a flat search's pool pass the threshold."""
    score = pool.score[pool.heap[: pool.size[0]]]
    if threshold is None:
        return len(score)
    at = np.float32(threshold)
    return int(np.count_nonzero(score >= at if is_gte else score > at))


def rank_flat(pool: Pool, n_passing: int, limit: int, n_matched: int, *, is_classic: bool) -> Ranked:
    """Cut the pool of a flat search; CLASSIC's rows collapse to nodes, the best row of each first.

    Args:
        pool: best rows, or with CLASSIC best nodes.
        n_passing: how many pass the threshold.
        limit: matches wanted.
        n_matched: known to match; CLASSIC counts its own.
        is_classic: whether the pool has rows.
    """
    slots = best_first(pool)
    n_cut = len(slots) - n_passing
    best_cut = float(pool.score[slots[n_passing]]) if n_cut else float("-inf")
    if not is_classic:
        return Ranked(read_pool(pool, slots[: min(n_passing, limit)]), n_matched, n_cut, best_cut)
    best_row: dict[int, Found] = {}
    for one in read_pool(pool, slots[:n_passing]):
        best_row.setdefault(one.node, one)
    return Ranked(list(best_row.values())[:limit], len(best_row), n_cut, best_cut)


def with_hotness(found: list[Found], weight: float, tree: Tree, now_us: int) -> list[Found]:
    """Mix hotness into the scores of CLASSIC, after the cut (R15); the walks of the others have done so.

    Args:
        found: the matches.
        weight: of hotness, in [0, 1].
        tree: the snapshot's.
        now_us: the time of the request.
    """
    if weight == 0 or not found:
        return found
    nodes = [one.node for one in found]
    hot = np.empty(len(nodes), np.float32)
    hotness(frozen(tree.active_count[nodes]), frozen(tree.update_us[nodes]), now_us, hot)
    mixed = [
        one._replace(score=(1 - weight) * one.relevance + weight * h, hotness=h)
        for one, h in zip(found, hot.tolist(), strict=True)
    ]
    return sorted(mixed, key=lambda one: -one.score)
