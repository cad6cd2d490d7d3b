"""How far a mean over queries can be trusted: the paired bootstrap, seeded, so that a run can be repeated.

Queries are drawn with replacement, as many as there are, over and over; each draw takes one query's values in all
columns, so that a difference of two columns is paired. What the middle 95 % of the draws span is the interval. It says
what other queries of the same kind could have given, and nothing of other corpora.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

N_RESAMPLES: Final = 2000
LEVEL: Final = 0.95
_BLOCK: Final = 64


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the interval that it lies in with a probability of `LEVEL`."""

    value: float
    low: float
    high: float

    @property
    def is_noise(self) -> bool:
        """Return whether the interval holds 0: a difference that may be none."""
        return self.low <= 0 <= self.high


def resampled_means(
    values: NDArray[np.float64], *, n_resamples: int = N_RESAMPLES, seed: int | Sequence[int] = 0
) -> NDArray[np.float64]:
    """Return the means of the columns in each draw of rows.

    Args:
        values: float64[n_queries, n_columns], at least one query.
        n_resamples: at least 1.
        seed: of the draws, which depend on nothing else but the number of queries: sets that are put together need
            seeds of their own.

    Returns:
        float64[n_resamples, n_columns].
    """
    rng = np.random.default_rng(seed)
    n_queries = len(values)
    means = np.empty((n_resamples, values.shape[1]))
    for lo in range(0, n_resamples, _BLOCK):
        n_draws = min(_BLOCK, n_resamples - lo)
        drawn = rng.integers(0, n_queries, (n_draws, n_queries))
        # How often each query was drawn, times its values: the same sums as values[drawn], without that much memory.
        drawn += np.arange(n_draws)[:, None] * n_queries
        counts = np.bincount(drawn.ravel(), minlength=n_draws * n_queries).reshape(n_draws, n_queries)
        means[lo : lo + n_draws] = counts @ values / n_queries
    return means


def estimate(value: float, samples: NDArray[np.float64]) -> Estimate:
    """Return a value with the interval that its resamples span.

    Args:
        value: of all queries.
        samples: float64[n_resamples].
    """
    low, high = np.quantile(samples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))
