"""Hotness: how often and how lately a context was used, in [0, 1]."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import F32_1D, I64, NONE, RO_I32_1D, RO_I64_1D, device, kernel

HALF_LIFE_US = 7 * 86_400 * 1_000_000


@device
def hotness_of(active_count, update_us, now_us):
    """Return sigmoid(ln(1 + active_count)) * 0.5 ** (age / 7 days); 0 without an update time; a future time is age 0.

    sigmoid(ln(1 + n)) = (1 + n) / (2 + n), which needs no logarithm. Negative counts are 0.
    """
    if update_us == 0:
        return np.float32(0.0)
    count = float(max(active_count, 0))
    age_us = max(now_us - update_us, 0)
    return np.float32((1.0 + count) / (2.0 + count) * 2.0 ** (-float(age_us) / HALF_LIFE_US))


@kernel(NONE(RO_I32_1D, RO_I64_1D, I64, F32_1D))
def hotness(active_count, update_us, now_us, out):
    """Compute the hotness of many nodes.

    Args:
        active_count: int32[n].
        update_us: int64[n], microseconds; 0: unknown.
        now_us: int64.
        out: float32[n], written; in [0, 1].
    """
    for i in range(active_count.shape[0]):
        out[i] = hotness_of(active_count[i], update_us[i], now_us)
