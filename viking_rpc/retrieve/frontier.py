"""The arrays that a retrieval works in: made, grown when a kernel asks, and used again by the next one."""

from __future__ import annotations

from collections import deque

import numpy as np

from viking_kernels.arrays import (
    COUNT_NEEDED,
    N_CHILD_INTS,
    N_COUNTERS,
    N_LEVEL_INTS,
    N_MEMO,
    N_STEP_INTS,
    Block,
    Frontier,
    Pool,
)
from viking_kernels.frontier import NEED_BLOCK, NEED_CHILDREN, NEED_HEAP, NEED_SEEN, NEED_STEPS, rehash_seen
from viking_rpc.index.pools import make_pool

_FIRST_HEAP = 512
_FIRST_SEEN = 256
_FIRST_BLOCK = 512
_FIRST_STEPS = 64
#: A scratch whose arrays grew beyond this many entries is not kept: emptying it would cost every later walk.
_MAX_KEPT = 8192
_MAX_FREE = 16


def make_frontier(max_depth: int, parallelism: int, n_starts: int) -> Frontier:
    """Return the arrays of a walk; a start kernel empties them.

    Args:
        max_depth: of any node.
        parallelism: directories a round.
        n_starts: starting points that will be queued at once.
    """
    heap = _FIRST_HEAP + n_starts
    return Frontier(
        heap_score=np.empty(heap, np.float32),
        heap_node=np.empty(heap, np.int32),
        seen_node=np.empty(_FIRST_SEEN, np.int32),
        round_score=np.empty(parallelism, np.float32),
        round_node=np.empty(parallelism, np.int32),
        memo_score=np.empty(N_MEMO, np.float32),
        memo_node=np.empty(N_MEMO, np.int32),
        path=np.empty(max_depth + 2, np.int32),
        step_int=np.empty((0, N_STEP_INTS), np.int64),
        step_score=np.empty(0, np.float32),
        child_int=np.empty((0, N_CHILD_INTS), np.int64),
        child_score=np.empty((0, 2), np.float32),
        level_int=np.empty((max_depth + 2, N_LEVEL_INTS), np.int64),
        counters=np.empty(N_COUNTERS, np.int64),
        best_cut=np.empty(1, np.float32),
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
    needed = max(2 * int(frontier.counters[COUNT_NEEDED]), _FIRST_STEPS)
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
    """Return the hash set with room for at least twice `n_entries`."""
    size = len(seen)
    while size < 2 * n_entries:
        size *= 2
    larger = np.full(size, -1, np.int32)
    rehash_seen(seen, larger)
    return larger


class Scratch:
    """The arrays of one running retrieval. Making them costs more than a walk, so some are kept for reuse.

    They belong to the process: a snapshot lives as long as nobody writes, and accounts are many.
    """

    def __init__(self) -> None:
        """Make nothing yet."""
        self._frontier: Frontier | None = None
        self._pools: dict[str, Pool] = {}
        self.block = make_block()

    @classmethod
    def take(cls) -> Scratch:
        """Return a scratch that nobody uses."""
        try:
            return _free.pop()
        except IndexError:
            return cls()

    def give_back(self, frontier: Frontier | None, block: Block) -> None:
        """Offer the arrays to the next retrieval; whoever gives them back reads them no more."""
        self._frontier = frontier if frontier is not None else self._frontier
        self.block = block
        arrays = (self._frontier.seen_node, self._frontier.heap_node, block.row) if self._frontier is not None else ()
        if len(_free) < _MAX_FREE and all(len(array) <= _MAX_KEPT for array in arrays):
            _free.append(self)

    def pool(self, name: str, capacity: int) -> Pool:
        """Return an empty pool for the best `capacity` nodes."""
        found = self._pools.get(name)
        if found is None or len(found.score) != capacity:
            found = self._pools[name] = make_pool(capacity)
        found.size[0] = 0
        return found

    def frontier(self, max_depth: int, parallelism: int, n_starts: int) -> Frontier:
        """Return the arrays of a walk with room for its start."""
        found = self._frontier
        if (
            found is None
            or len(found.round_node) < parallelism
            or len(found.path) < max_depth + 2
            or len(found.heap_node) < n_starts
        ):
            found = self._frontier = make_frontier(max_depth, parallelism, n_starts)
        return found


#: What is ready for the next retrieval of any account; `append` and `pop` are safe for threads.
_free: deque[Scratch] = deque()
