"""Run every judged query of a set through each arm, and average what comes out.

The arms of one query run one after the other before the next query, so that whatever slows the machine slows all of
them. Latency is that of one whole in-process retrieval: resolve, global search, descent, answer. The query is embedded
before, once for all arms, since they differ in nothing there. A planned arm plans, embeds and merges within its time.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.domain.context import Level
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.plan import PlanRequest, PlanStatus
from viking_rpc.domain.query import Filter, Mode, Profile, Query, RetrieveOptions, RetrieveRequest, Scope
from viking_rpc.domain.search import MergeOptions, SearchRequest
from viking_rpc.evaluate.metrics import ndcg_at, recall_at, reciprocal_rank_at
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.retrieve.search import merge_results, requests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.domain.ports import Embedder, Planner
    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.retriever import SearchSettings

    Progress = Callable[[int, int], None]

#: Whoever measures a set sees all of it, wherever in the tree it lies.
EVALUATOR: Final = Identity(user="", role=Role.ROOT)
LIMIT: Final = 10


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to search that is measured; `is_planned`: a plan is made of each query, and its answers are merged."""

    mode: Mode
    options: RetrieveOptions = field(default_factory=RetrieveOptions)
    is_planned: bool = False
    merge: MergeOptions = field(default_factory=MergeOptions)


ARMS: Final[Mapping[str, Arm]] = {
    "flat_dense": Arm(Mode.QUICK, RetrieveOptions(lexical_weight=0.0)),
    "flat_lexical": Arm(Mode.QUICK, RetrieveOptions(lexical_weight=1.0)),
    "flat_hybrid": Arm(Mode.QUICK),
    "thinking": Arm(Mode.THINKING),
    "exhaustive": Arm(Mode.THINKING, RetrieveOptions(profile=Profile.EXHAUSTIVE)),
}


#: Arms that are run when they are asked for.
EXTRA_ARMS: Final[Mapping[str, Arm]] = {"search": Arm(Mode.THINKING, is_planned=True)}


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query and its judgments: grade by URI, of which at least one is above 0."""

    id: str
    text: str
    target_uri: str
    grades: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ArmReport:
    """The averages of one arm over all queries; latency is the median, in microseconds."""

    recall_5: float
    recall_10: float
    ndcg_10: float
    mrr_10: float
    p50_us: float
    rows_scored: float


@dataclass(slots=True)
class _Tally:
    """What is gathered of one arm, one number for each query."""

    recall_5: list[float] = field(default_factory=list)
    recall_10: list[float] = field(default_factory=list)
    ndcg_10: list[float] = field(default_factory=list)
    mrr_10: list[float] = field(default_factory=list)
    us: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def add(self, ranking: Sequence[str], grades: Mapping[str, int]) -> None:
        self.recall_5.append(recall_at(5, ranking, grades))
        self.recall_10.append(recall_at(10, ranking, grades))
        self.ndcg_10.append(ndcg_at(10, ranking, grades))
        self.mrr_10.append(reciprocal_rank_at(10, ranking, grades))

    def report(self) -> ArmReport:
        return ArmReport(
            fmean(self.recall_5),
            fmean(self.recall_10),
            fmean(self.ndcg_10),
            fmean(self.mrr_10),
            median(self.us),
            fmean(self.rows),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """What all arms search, and how.

    Args:
        snapshot: holds the set.
        embedder: of the snapshot's model.
        settings: the operator's.
        now_us: the time of every query.
        planner: of planned arms.
    """

    snapshot: Snapshot
    embedder: Embedder
    settings: SearchSettings
    now_us: int
    planner: Planner | None = None

    def embed(self, text: str) -> NDArray[np.float32] | None:
        """Embed as the server does: float32[dimensions], None when there is nothing to compare."""
        vector = self.embedder.embed_query(text)
        return vector if vector.any() else None

    def retrieve(self, request: RetrieveRequest, vector: NDArray[np.float32] | None) -> RetrieveResult:
        """Run one retrieval to its end."""
        retrieval = Retrieval(
            self.snapshot, request, EVALUATOR, vector=vector, now_us=self.now_us, settings=self.settings
        )
        while not retrieval.advance():
            pass
        return retrieval.result()

    def search(self, request: SearchRequest) -> tuple[list[str], int]:
        """Plan, run the plan and merge; return the URIs, best first, and how many rows were scored."""
        if self.planner is None or request.planning is None:
            text = "a planned arm needs a planner and a task"
            raise ValueError(text)
        planned = asyncio.run(self.planner.plan(request.planning))
        if planned.status is PlanStatus.SKIPPED:
            return [], 0
        wanted = requests_of(request, planned.plan, self.settings.presets)
        results = [self.retrieve(one, self.embed(one.query.text)) for one in wanted]
        merged = merge_results(request, planned.plan, results, self.snapshot.revision)
        n_rows = sum(result.stats.rows_scored for result in results)
        return [one.match.context.uri for one in merged.matches], n_rows


def run_arms(
    bench: Bench,
    queries: Sequence[JudgedQuery],
    *,
    arms: Mapping[str, Arm] = ARMS,
    on_progress: Progress | None = None,
) -> dict[str, ArmReport]:
    """Run all arms over all queries.

    Args:
        bench: what all arms search.
        queries: at least one; each one's target is respected.
        arms: by name, in the order of the report.
        on_progress: called with (queries done, queries in all).

    Returns:
        The report of each arm, by name.
    """
    tallies = {name: _Tally() for name in arms}
    if queries:  # what is loaded lazily is not the first query's cost
        for arm in arms.values():
            _run(bench, queries[0], bench.embed(queries[0].text), arm, _Tally())
    for i, query in enumerate(queries, 1):
        vector = bench.embed(query.text)
        for name, arm in arms.items():
            _run(bench, query, vector, arm, tallies[name])
        if on_progress:
            on_progress(i, len(queries))
    return {name: tally.report() for name, tally in tallies.items()}


def _run(bench: Bench, query: JudgedQuery, vector: NDArray[np.float32] | None, arm: Arm, tally: _Tally) -> None:
    scope = Scope((query.target_uri,) if query.target_uri else ())
    how: dict[str, Any] = {
        "filter": Filter(levels=frozenset({Level.DETAIL})),
        "limit": LIMIT,
        "mode": arm.mode,
        "options": arm.options,
    }
    started = time.perf_counter_ns()
    if arm.is_planned:
        task = PlanRequest(query.text, scope=scope)
        ranking, n_rows = bench.search(SearchRequest(planning=task, merge=arm.merge, **how))
    else:
        result = bench.retrieve(RetrieveRequest(query=Query(text=query.text), scope=scope, **how), vector)
        ranking, n_rows = [match.context.uri for match in result.matches], result.stats.rows_scored
    tally.us.append((time.perf_counter_ns() - started) / 1000)
    tally.rows.append(n_rows)
    tally.add(ranking, query.grades)
