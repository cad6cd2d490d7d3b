"""Makes the pools that kernels fill, and reads them, best first."""

from __future__ import annotations

import numpy as np

from viking_kernels.arrays import N_PARTS, Pool


def make_pool(capacity: int) -> Pool:
    """Return an empty pool for the best `capacity` nodes; 0 keeps nothing."""
    return Pool(
        heap=np.zeros(max(capacity, 1), np.int32),
        score=np.empty(capacity, np.float32),
        order=np.empty(capacity, np.int64),
        node=np.empty(capacity, np.int32),
        row=np.empty(capacity, np.int32),
        step=np.empty(capacity, np.int32),
        parts=np.empty((capacity, N_PARTS), np.float32),
        size=np.zeros(1, np.int64),
    )


def best_first(pool: Pool) -> np.ndarray:
    """Return int64[size], the pool's slots by falling score, equal scores by order."""
    slots = pool.heap[: pool.size[0]]
    return slots[np.lexsort((pool.order[slots], -pool.score[slots]))]
