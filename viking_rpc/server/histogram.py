"""Durations in buckets that grow by a fixed ratio: counts of many processes add up, percentiles have a bounded error.

Bucket 0 holds what took at most `LEAST_US`, bucket i what took more than the one before and at most
`LEAST_US * 2 ** (i / 4)`, the last one what took longer than 16 s. A percentile is told as the geometric middle of the
bucket in which it lies, so it is off by 9.1 % at most (2 ** (1 / 8)); below 1 us by half a microsecond.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bounds of every fourth bucket are then 1 ms, doubled or halved.
LEAST_US: Final = 1000 / 1024
PER_DOUBLING: Final = 4
N_DOUBLINGS: Final = 24
#: Of the last bucket, which has no upper bound.
LAST: Final = N_DOUBLINGS * PER_DOUBLING + 1
N_BUCKETS: Final = LAST + 1
#: A percentile and the true one differ by this factor at most.
MAX_RATIO: Final = 2 ** (1 / (2 * PER_DOUBLING))


def bucket_of(duration_us: float) -> int:
    """Return the bucket of a duration in microseconds."""
    if not duration_us > LEAST_US:
        return 0
    bucket = math.ceil(PER_DOUBLING * math.log2(duration_us / LEAST_US))
    return bucket if bucket < LAST else LAST  # noqa: FURB136 - `min` takes four times as long


def upper_us(bucket: int) -> float:
    """Return the longest duration of a bucket, in microseconds; infinity for the last one."""
    return math.inf if bucket >= LAST else LEAST_US * 2 ** (bucket / PER_DOUBLING)


def percentile_us(counts: NDArray[np.int64], share: float) -> float:
    """Return the shortest duration that so large a share of all does not exceed, within `MAX_RATIO`.

    Args:
        counts: int64[N_BUCKETS], durations in each bucket.
        share: in (0, 1], e.g. 0.95.

    Returns:
        Microseconds; 0 without any, and the upper bound of the last but one for what lies in the last bucket.
    """
    below = np.cumsum(counts)
    n = int(below[-1])
    if not n:
        return 0.0
    rank = max(1, math.ceil(share * n))
    bucket = int(np.searchsorted(below, rank))
    if bucket == 0:
        return LEAST_US / 2
    if bucket == LAST:
        return upper_us(LAST - 1)
    return LEAST_US * 2 ** ((bucket - 0.5) / PER_DOUBLING)


def cumulated(counts: NDArray[np.int64]) -> list[tuple[float, int]]:
    """Return (upper bound in seconds, durations of at most that), one for each doubling, the last one unbounded."""
    below = np.cumsum(counts)
    told = [(upper_us(i) / 1e6, int(below[i])) for i in range(2 * PER_DOUBLING, LAST, PER_DOUBLING)]
    return [*told, (math.inf, int(below[-1]))]
