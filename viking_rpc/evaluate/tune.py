"""Fit the parameters of a profile to judged queries, and say what of the gain is left on queries that were held out.

The search is by coordinates: from the defaults, one parameter after the other is tried at every value of its grid with
the others as they are, and what gains most is taken, until a pass changes nothing. A change that gains less than
`MIN_GAIN` is not taken: it would be noise, and costs the next reader a question.

Queries are dealt into folds; for each fold the search runs on all others, and what it chose is measured on the fold.
So every query is held out once, and the mean of these gains is what other queries of the same kind may expect. All
searches share what was scored before, for a setting is run on all queries at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from viking_rpc.errors import InvalidArgumentError, Violation
from viking_rpc.evaluate.bootstrap import Estimate, estimate, resampled_means

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from viking_rpc.evaluate.trials import Choice, Trials

#: What a change must gain, as a share of the value so far.
MIN_GAIN: Final = 0.001
#: With fewer queries an interval says too little, however it looks.
MIN_QUERIES: Final = 30
_MAX_PASSES: Final = 3


@dataclass(frozen=True, slots=True)
class Fold:
    """What one fold's search chose without it, and what that brought on both sides, as a difference of nDCG@10."""

    choice: Choice
    train_gain: float
    held_out_gain: float


@dataclass(frozen=True, slots=True)
class SetGain:
    """nDCG@10 of one set with the defaults, and what changes by the choice (all queries) and held out."""

    name: str
    n_queries: int
    default: float
    tuned: float
    held_out: Estimate


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was fitted.

    Args:
        choice: fitted on all queries.
        default, tuned: mean nDCG@10 over sets with the defaults and with the choice, on the queries it was fitted to.
        rows_default, rows_tuned: rows scored for a query, mean over sets.
        train, held_out: the gain on queries that were fitted to, and on those that were not, by the default's nDCG@10.
        folds: one by one.
        sets: one by one.
        n_tried: how many settings were run.
        is_cut: whether the budget ended a search.
    """

    choice: Choice
    default: float
    tuned: float
    rows_default: float
    rows_tuned: float
    train: Estimate
    held_out: Estimate
    folds: tuple[Fold, ...]
    sets: tuple[SetGain, ...]
    n_tried: int
    is_cut: bool

    @property
    def n_queries(self) -> int:
        """Return the number of queries of all sets."""
        return sum(one.n_queries for one in self.sets)

    @property
    def is_within_noise(self) -> bool:
        """Return whether the gain on held-out queries may be none, or they are too few to tell."""
        return not self.choice or self.held_out.low <= 0 or self.n_queries < MIN_QUERIES

    def warnings(self) -> list[str]:
        """Return what a reader must know before using the choice."""
        found = []
        if not self.choice:
            found.append("nothing is better than the defaults")
        elif self.n_queries < MIN_QUERIES:
            found.append(f"{self.n_queries} queries are too few to tell a gain from noise (at least {MIN_QUERIES})")
        elif self.held_out.low <= 0:
            low, high = 100 * self.held_out.low, 100 * self.held_out.high
            found.append(f"the gain on held-out queries is within noise: {low:+.1f} to {high:+.1f} %")
        if self.is_cut:
            found.append(f"the budget of {self.n_tried} settings ended the search: what follows was not tried")
        found += [
            f"{one.name} loses {-100 * one.held_out.value:.1f} % on held-out queries"
            for one in self.sets
            if one.held_out.high < 0
        ]
        return found


def tune(trials: Trials, grid: Mapping[str, Sequence[float]], *, n_folds: int = 5, seed: int = 0) -> Tuning:
    """Fit on all queries, and again without each fold.

    Args:
        trials: of the sets.
        grid: values by parameter.
        n_folds: at least 2.
        seed: of folds and resamples.

    Raises:
        InvalidArgumentError: a set has fewer queries than folds.
    """
    small = [one for one in trials.sets if len(one.queries) < n_folds]
    if small:
        text = f"has fewer judged queries than the {n_folds} folds"
        raise InvalidArgumentError.of(Violation("DIR", f"{one.name} {text} ({len(one.queries)})") for one in small)
    rng = np.random.default_rng(seed)
    fold_of = [rng.permutation(np.arange(len(one.queries)) % n_folds) for one in trials.sets]
    everything = [np.ones(len(one.queries), bool) for one in trials.sets]
    choice = search(trials, grid, everything)
    held_out = [np.zeros(len(one.queries)) for one in trials.sets]
    folds = []
    for k in range(n_folds):
        train = [fold != k for fold in fold_of]
        chosen = search(trials, grid, train)
        gains = _gains(trials, chosen)
        for target, gain, mask in zip(held_out, gains, train, strict=True):
            target[~mask] = gain[~mask]
        left_out = [~mask for mask in train]
        folds.append(Fold(chosen, _mean_over(gains, train), _mean_over(gains, left_out)))
    default, tuned = trials.of(()), trials.of(choice)
    return Tuning(
        choice=choice,
        default=_mean_over(default, everything),
        tuned=_mean_over(tuned, everything),
        rows_default=trials.rows(()),
        rows_tuned=trials.rows(choice),
        train=_relative(default, _gains(trials, choice), seed),
        held_out=_relative(default, held_out, seed),
        folds=tuple(folds),
        sets=tuple(
            SetGain(one.name, len(one.queries), float(was.mean()), float(now.mean()), _relative([was], [gain], seed))
            for one, was, now, gain in zip(trials.sets, default, tuned, held_out, strict=True)
        ),
        n_tried=trials.n_tried,
        is_cut=trials.is_cut,
    )


def search(trials: Trials, grid: Mapping[str, Sequence[float]], train: Sequence[NDArray[np.bool_]]) -> Choice:
    """Return the best choice that coordinates lead to, on some of the queries.

    Args:
        trials: of the sets.
        grid: values by parameter.
        train: by set, bool[n_queries]: the queries that count.
    """

    def value(choice: Choice) -> float:
        return _mean_over(trials.of(choice), train)

    best: Choice = ()
    value(best)  # first of all, whatever the budget: everything is compared with it
    for _ in range(_MAX_PASSES):
        before = best
        for name, values in grid.items():
            rest = tuple(pair for pair in best if pair[0] != name)
            if not trials.can_afford(rest):
                continue
            tried = [tuple(sorted((*rest, (name, float(one))))) for one in values]
            winner = max(filter(trials.can_afford, tried), key=value, default=rest)
            best = winner if value(winner) > value(rest) * (1 + MIN_GAIN) else rest
        if best == before:
            break
    return best


def _gains(trials: Trials, choice: Choice) -> list[NDArray[np.float64]]:
    return [now - was for now, was in zip(trials.of(choice), trials.of(()), strict=True)]


def _mean_over(values: Sequence[NDArray[np.float64]], masks: Sequence[NDArray[np.bool_]]) -> float:
    """Return the mean over sets of the mean over the queries that a mask names; each set counts alike."""
    return float(np.mean([one[mask].mean() for one, mask in zip(values, masks, strict=True)]))


def _relative(default: Sequence[NDArray[np.float64]], gains: Sequence[NDArray[np.float64]], seed: int) -> Estimate:
    """Return the mean gain over sets as a share of the default's value, with its interval; 0 where that is 0."""
    pairs = [np.stack(pair, axis=1) for pair in zip(default, gains, strict=True)]
    was, gain = np.mean([pair.mean(axis=0) for pair in pairs], axis=0)
    samples = np.mean([resampled_means(pair, seed=(seed, i)) for i, pair in enumerate(pairs)], axis=0)
    ratios = np.divide(samples[:, 1], samples[:, 0], out=np.zeros(len(samples)), where=samples[:, 0] > 0)
    return estimate(gain / was if was else 0.0, ratios)
