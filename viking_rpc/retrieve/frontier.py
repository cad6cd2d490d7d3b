"""Makes the arrays of a walk and lets them grow when a kernel asks."""

from __future__ import annotations

import numpy as np
from viking_kernels.arrays import (
    COUNT_BLOCK,
    COUNT_NEEDED,
    N_CHILD_INTS,
    N_COUNTERS,
    N_LEVEL_INTS,
    N_MEMO,
    N_STEP_INTS,
    Block,
    Frontier,
)
from viking_kernels.frontier import NEED_BLOCK, NEED_CHILDREN, NEED_HEAP, NEED_SEEN, NEED_STEPS

_FIRST_HEAP = 512
_FIRST_SEEN = 256
_FIRST_BLOCK = 512


def make_frontier(max_depth: int, parallelism: int, n_starts: int, *, has_steps: bool, has_children: bool) -> Frontier:
    """Return the arrays of a walk that has not started.

    Args:
        max_depth: of any node.
        parallelism: directories a round.
        n_starts: starting points that will be queued at once.
        has_steps, has_children: whether steps, and the scores of children, are recorded.
    """
    counters = np.zeros(N_COUNTERS, np.int64)
    counters[COUNT_BLOCK] = -1
    heap = _FIRST_HEAP + n_starts
    return Frontier(
        heap_score=np.empty(heap, np.float32),
        heap_node=np.empty(heap, np.int32),
        seen_node=np.full(_FIRST_SEEN, -1, np.int32),
        round_score=np.empty(parallelism, np.float32),
        round_node=np.empty(parallelism, np.int32),
        memo_score=np.empty(N_MEMO, np.float32),
        memo_node=np.full(N_MEMO, -1, np.int32),
        path=np.empty(max_depth + 2, np.int32),
        step_int=np.empty((64 if has_steps else 0, N_STEP_INTS), np.int64),
        step_score=np.empty(64 if has_steps else 0, np.float32),
        child_int=np.empty((_FIRST_BLOCK if has_children else 0, N_CHILD_INTS), np.int64),
        child_score=np.empty((_FIRST_BLOCK if has_children else 0, 2), np.float32),
        level_int=np.zeros((max_depth + 2, N_LEVEL_INTS), np.int64),
        counters=counters,
        best_cut=np.full(1, -np.inf, np.float32),
    )


def make_block(capacity: int = _FIRST_BLOCK) -> Block:
    """Return room for the scored rows of one directory's children."""
    return Block(
        row=np.empty(capacity, np.int32),
        own=np.empty(capacity, np.float32),
        dense=np.empty(capacity, np.float32),
        lexical=np.empty(capacity, np.float32),
        order=np.empty(capacity, np.int64),
    )


def give_room(status: int, frontier: Frontier, block: Block) -> tuple[Frontier, Block]:
    """Return the arrays with at least twice what the walk asked for; what they hold stays."""
    needed = 2 * int(frontier.counters[COUNT_NEEDED])
    if status == NEED_BLOCK:
        return frontier, make_block(needed)
    if status == NEED_SEEN:
        return frontier._replace(seen_node=_rehashed(frontier.seen_node, needed)), block
    names = {
        NEED_HEAP: ("heap_score", "heap_node"),
        NEED_STEPS: ("step_int", "step_score"),
        NEED_CHILDREN: ("child_int", "child_score"),
    }[status]
    return frontier._replace(**{name: _longer(getattr(frontier, name), needed) for name in names}), block


def _longer(array: np.ndarray, length: int) -> np.ndarray:
    longer = np.empty((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _rehashed(seen: np.ndarray, n_entries: int) -> np.ndarray:
    """Return the hash set with room for at least twice `n_entries`; same hash as viking_kernels.frontier."""
    size = len(seen)
    while size < 2 * n_entries:
        size *= 2
    fresh = np.full(size, -1, np.int32)
    for node in seen[seen >= 0].tolist():
        slot = (node * 0x9E3779B1) & (size - 1)
        while fresh[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        fresh[slot] = node
    return fresh
