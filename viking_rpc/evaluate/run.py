"""Run every judged query of a set through each arm, and keep what comes out, query by query.

The arms of one query run one after the other before the next query, so that whatever slows the machine slows all of
them. Latency is that of one whole in-process retrieval: resolve, global search, descent, answer. The query is embedded
before, once for all arms, since they differ in nothing there. A planned arm plans, embeds and merges within its time.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from viking_rpc.domain.context import Level
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.plan import PlanRequest, PlanStatus
from viking_rpc.domain.query import Filter, Query, RetrieveRequest, Scope
from viking_rpc.domain.search import SearchRequest
from viking_rpc.evaluate.arms import ARMS
from viking_rpc.evaluate.metrics import ndcg_at, recall_at, reciprocal_rank_at
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.retrieve.search import merge_results, requests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from viking_rpc.domain.ports import Embedder, Planner
    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.evaluate.arms import Arm
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.retriever import SearchSettings

    Progress = Callable[[int, int], None]

#: Whoever measures a set sees all of it, wherever in the tree it lies.
EVALUATOR: Final = Identity(user="", role=Role.ROOT)
LIMIT: Final = 10


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query and its judgments: grade by URI, of which at least one is above 0."""

    id: str
    text: str
    target_uri: str
    grades: Mapping[str, int]


#: The columns of a report, in order.
METRICS: Final = ("recall@5", "recall@10", "ndcg@10", "mrr@10")
NDCG: Final = METRICS.index("ndcg@10")


@dataclass(frozen=True, slots=True, eq=False)
class ArmReport:
    """What one arm did, query by query, with averages of it.

    Args:
        values: float64[n_queries, 4], the columns are METRICS.
        us: float64[n_queries], the latency of each query.
        rows: float64[n_queries], how many rows each query scored.
    """

    values: NDArray[np.float64]
    us: NDArray[np.float64]
    rows: NDArray[np.float64]

    @property
    def recall_5(self) -> float:
        """Return the mean Recall@5."""
        return float(self.values[:, 0].mean())

    @property
    def recall_10(self) -> float:
        """Return the mean Recall@10."""
        return float(self.values[:, 1].mean())

    @property
    def ndcg_10(self) -> float:
        """Return the mean nDCG@10."""
        return float(self.values[:, NDCG].mean())

    @property
    def mrr_10(self) -> float:
        """Return the mean MRR@10."""
        return float(self.values[:, 3].mean())

    @property
    def p50_us(self) -> float:
        """Return the median latency in microseconds."""
        return float(np.median(self.us))

    @property
    def rows_scored(self) -> float:
        """Return the mean number of rows scored."""
        return float(self.rows.mean())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one arm made of one query: its ranking, best first, the rows scored, and the time it took."""

    ranking: list[str]
    n_rows: int
    us: float

    def metrics(self, grades: Mapping[str, int]) -> tuple[float, float, float, float]:
        """Return METRICS."""
        return (
            recall_at(5, self.ranking, grades),
            recall_at(10, self.ranking, grades),
            ndcg_at(10, self.ranking, grades),
            reciprocal_rank_at(10, self.ranking, grades),
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
    shape = (len(arms), len(queries))
    values, us, rows = np.empty((*shape, len(METRICS))), np.empty(shape), np.empty(shape)
    if queries:  # what is loaded lazily is not the first query's cost
        for arm in arms.values():
            ask(bench, queries[0], bench.embed(queries[0].text), arm)
    for i, query in enumerate(queries):
        vector = bench.embed(query.text)
        for j, arm in enumerate(arms.values()):
            outcome = ask(bench, query, vector, arm)
            values[j, i] = outcome.metrics(query.grades)
            us[j, i], rows[j, i] = outcome.us, outcome.n_rows
        if on_progress:
            on_progress(i + 1, len(queries))
    return {name: ArmReport(values[j], us[j], rows[j]) for j, name in enumerate(arms)}


def ask(bench: Bench, query: JudgedQuery, vector: NDArray[np.float32] | None, arm: Arm) -> Outcome:
    """Run one query through one arm.

    Args:
        bench: what is searched.
        query: its target is respected.
        vector: float32[dimensions], of its text; a planned arm makes its own.
        arm: how.
    """
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
    return Outcome(ranking, n_rows, (time.perf_counter_ns() - started) / 1000)
