"""Run settings of a profile on judged queries: each setting once, on all queries, whoever asks for it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from viking_rpc.domain.query import Mode, RetrieveOptions
from viking_rpc.errors import InvalidArgumentError, Violation
from viking_rpc.evaluate.arms import Arm, with_option
from viking_rpc.evaluate.run import NDCG, ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from viking_rpc.evaluate.run import Bench, JudgedQuery

#: The grid, in the order that the search goes by: what moves most comes first.
GRID: Final[Mapping[str, tuple[float, ...]]] = {
    "lexical_weight": (0.0, 0.15, 0.3, 0.45, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0),
    "score_propagation_alpha": (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "leaf_seeds": (0, 5, 10, 20, 40, 80),
    "global_top_k": (5, 10, 20, 40),
    "convergence_rounds": (2, 3, 4, 6, 8, 12),
    "parallelism": (2, 4, 8),
}

#: Values by parameter; what is not in it stays as the profile has it.
Choice = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class TuningSet:
    """One set that is fitted to: its queries, and what they are run on."""

    name: str
    bench: Bench
    queries: Sequence[JudgedQuery]


@dataclass(slots=True, eq=False)
class Trials:
    """nDCG@10 of every query under every setting that was tried; each is run once.

    Args:
        sets: at least one.
        budget: the greatest number of settings.
        on_progress: called with (settings tried, budget) after each.
    """

    sets: Sequence[TuningSet]
    budget: int
    on_progress: Callable[[int, int], None] | None = None
    is_cut: bool = False
    _values: dict[Choice, list[NDArray[np.float64]]] = field(default_factory=dict)
    _rows: dict[Choice, float] = field(default_factory=dict)
    _vectors: list[list[NDArray[np.float32] | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Embed all queries, once for all settings."""
        self._vectors = [[one.bench.embed(query.text) for query in one.queries] for one in self.sets]

    @property
    def n_tried(self) -> int:
        """Return how many settings were run."""
        return len(self._values)

    def can_afford(self, choice: Choice) -> bool:
        """Return whether a setting was run, or may be."""
        if choice in self._values or self.n_tried < self.budget:
            return True
        self.is_cut = True
        return False

    def of(self, choice: Choice) -> list[NDArray[np.float64]]:
        """Return nDCG@10 by set: float64[n_queries] each."""
        if choice not in self._values:
            self._run(choice)
        return self._values[choice]

    def rows(self, choice: Choice) -> float:
        """Return the rows scored for a query, the mean over sets."""
        self.of(choice)
        return self._rows[choice]

    def _run(self, choice: Choice) -> None:
        arm = Arm(Mode.THINKING, options_of(choice))
        values, rows = [], []
        for one, vectors in zip(self.sets, self._vectors, strict=True):
            found = [ask(one.bench, *query, arm) for query in zip(one.queries, vectors, strict=True)]
            judged = zip(found, one.queries, strict=True)
            values.append(np.array([outcome.metrics(query.grades)[NDCG] for outcome, query in judged]))
            rows.append(np.mean([outcome.n_rows for outcome in found]))
        self._values[choice], self._rows[choice] = values, float(np.mean(rows))
        if self.on_progress:
            self.on_progress(self.n_tried, self.budget)


def options_of(choice: Choice) -> RetrieveOptions:
    """Return the options of a request that is run with a choice."""
    options = RetrieveOptions()
    for name, value in choice:
        options = with_option(options, name, value)
    return options


def grid_of(names: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Return the grid of some parameters, of all for none.

    Raises:
        InvalidArgumentError: lists every name that is no tunable parameter.
    """
    wanted = list(names)
    if unknown := [name for name in wanted if name not in GRID]:
        listed = ", ".join(GRID)
        raise InvalidArgumentError.of(Violation("--parameter", f"{name!a} is none of {listed}") for name in unknown)
    return {name: values for name, values in GRID.items() if name in wanted or not wanted}
