"""Put what arms did into figures: means with intervals, differences from flat hybrid, and all sets as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from viking_rpc.evaluate.arms import BASE
from viking_rpc.evaluate.bootstrap import Estimate, estimate, resampled_means
from viking_rpc.evaluate.run import METRICS, NDCG

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from viking_rpc.evaluate.run import ArmReport

    #: Makes one value of those of several sets, along the first axis.
    Across = Callable[[NDArray[np.float64]], NDArray[np.float64]]

#: Stands between the name of an arm and that of an embedder, where there are several.
AT: Final = "@"


@dataclass(frozen=True, slots=True)
class ArmFigures:
    """The figures of one arm.

    Args:
        metrics: by name, in the order of METRICS.
        differences: of the same metrics from flat hybrid with the same embedder; None for that arm itself, and where
            it was not run.
        relative: the difference of nDCG@10 as a share of flat hybrid's; None as above, and where that has 0.
        p50_us, rows_scored: latency and rows of a query.
    """

    metrics: Mapping[str, Estimate]
    differences: Mapping[str, Estimate] | None
    relative: Estimate | None
    p50_us: float
    rows_scored: float

    @property
    def ndcg(self) -> Estimate:
        """Return nDCG@10."""
        return self.metrics[METRICS[NDCG]]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """One set, or several as one.

    Args:
        name: of the set, or how several were made one.
        n_queries: that were run.
        n_dropped: that had no relevant judgment.
        arms: by name, in the order that they ran in.
    """

    name: str
    n_queries: int
    n_dropped: int
    arms: Mapping[str, ArmFigures]


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """The means of a set, and what they are in each resample.

    Args:
        name, n_queries, n_dropped: of the set.
        arms: the order of the arms below.
        means: float64[n_arms, 4].
        samples: float64[n_resamples, n_arms, 4].
        p50_us, rows: float64[n_arms].
    """

    name: str
    n_queries: int
    n_dropped: int
    arms: tuple[str, ...]
    means: NDArray[np.float64]
    samples: NDArray[np.float64]
    p50_us: NDArray[np.float64]
    rows: NDArray[np.float64]


def resample(
    name: str, reports: Mapping[str, ArmReport], *, n_dropped: int = 0, seed: int | Sequence[int] = 0
) -> Resampled:
    """Resample the queries of one set, the same ones for all arms.

    Args:
        name: of the set.
        reports: by arm, all of the same queries.
        n_dropped: queries that had no relevant judgment.
        seed: of the draws.
    """
    values = np.stack([report.values for report in reports.values()], axis=1)
    n_queries, n_arms, n_metrics = values.shape
    samples = resampled_means(values.reshape(n_queries, -1), seed=seed)
    return Resampled(
        name,
        n_queries,
        n_dropped,
        tuple(reports),
        values.mean(axis=0),
        samples.reshape(-1, n_arms, n_metrics),
        np.array([report.p50_us for report in reports.values()]),
        np.array([report.rows_scored for report in reports.values()]),
    )


def summarize(sets: Sequence[Resampled], name: str = "", across: Across | None = None) -> Summary:
    """Make figures of one set, or of several by their mean or median.

    A relative difference over sets is the mean, or median, of the sets' relative differences.

    Args:
        sets: at least one, all of the same arms.
        name: of the summary; empty: that of the set.
        across: makes one value of several; None is their mean.
    """
    over = across or _mean
    arms = sets[0].arms
    means = over(np.stack([one.means for one in sets]))
    samples = over(np.stack([one.samples for one in sets]))
    p50_us, rows = over(np.stack([one.p50_us for one in sets])), over(np.stack([one.rows for one in sets]))
    figures = {}
    for i, arm in enumerate(arms):
        differences, relative = None, None
        base = base_of(arm)
        if base != arm and base in arms:
            j = arms.index(base)
            value = over(np.stack([one.means[i] - one.means[j] for one in sets]))
            spread = over(np.stack([one.samples[:, i] - one.samples[:, j] for one in sets]))
            differences = {metric: estimate(value[k], spread[:, k]) for k, metric in enumerate(METRICS)}
            relative = _relative(sets, i, j, over)
        figures[arm] = ArmFigures(
            {metric: estimate(means[i, k], samples[:, i, k]) for k, metric in enumerate(METRICS)},
            differences,
            relative,
            float(p50_us[i]),
            float(rows[i]),
        )
    n_queries, n_dropped = sum(one.n_queries for one in sets), sum(one.n_dropped for one in sets)
    return Summary(name or sets[0].name, n_queries, n_dropped, figures)


def summarize_all(sets: Sequence[Resampled]) -> tuple[Summary, Summary]:
    """Return the mean and the median over sets, each set counting alike whatever the number of its queries."""
    return summarize(sets, "mean", _mean), summarize(sets, "median", _median)


def base_of(arm: str) -> str:
    """Return the name of the flat hybrid arm that an arm is compared with: that of the same embedder."""
    _, at, embedder = arm.partition(AT)
    return BASE + at + embedder


def _relative(sets: Sequence[Resampled], i: int, j: int, over: Across) -> Estimate | None:
    """Return how much more nDCG@10 arm i has than arm j, as a share."""
    bases = np.array([one.means[j, NDCG] for one in sets])
    if not bases.all():
        return None
    ratios = over(np.array([one.means[i, NDCG] / one.means[j, NDCG] for one in sets]))
    samples = np.stack([_ratio(one.samples[:, i, NDCG], one.samples[:, j, NDCG]) for one in sets])
    return estimate(float(ratios) - 1, over(samples) - 1)


def _ratio(over: NDArray[np.float64], under: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide; a resample in which nothing was found by either side says that they are alike."""
    return np.divide(over, under, out=np.ones_like(over), where=under > 0)


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.mean(values, axis=0))


def _median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.median(values, axis=0))
