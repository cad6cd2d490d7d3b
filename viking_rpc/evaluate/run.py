"""Run every judged query of a set through each arm, and average what comes out.

The arms of one query run one after the other before the next query, so that whatever slows the machine slows all of
them. Latency is that of one whole in-process retrieval: resolve, global search, descent, answer. The query is embedded
before, once for all arms, since they differ in nothing there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.context import Level
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.query import Filter, Mode, Profile, Query, RetrieveOptions, RetrieveRequest, Scope
from viking_rpc.evaluate.metrics import ndcg_at, recall_at, reciprocal_rank_at
from viking_rpc.retrieve.retriever import Retrieval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.domain.ports import Embedder
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.retriever import SearchSettings

    Progress = Callable[[int, int], None]

#: Whoever measures a set sees all of it, wherever in the tree it lies.
EVALUATOR: Final = Identity(user="", role=Role.ROOT)
LIMIT: Final = 10


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to search that is measured."""

    mode: Mode
    options: RetrieveOptions = field(default_factory=RetrieveOptions)


ARMS: Final[Mapping[str, Arm]] = {
    "flat_dense": Arm(Mode.QUICK, RetrieveOptions(lexical_weight=0.0)),
    "flat_lexical": Arm(Mode.QUICK, RetrieveOptions(lexical_weight=1.0)),
    "flat_hybrid": Arm(Mode.QUICK),
    "thinking": Arm(Mode.THINKING),
    "exhaustive": Arm(Mode.THINKING, RetrieveOptions(profile=Profile.EXHAUSTIVE)),
}


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


def run_arms(
    snapshot: Snapshot,
    queries: Sequence[JudgedQuery],
    embedder: Embedder,
    *,
    settings: SearchSettings,
    now_us: int,
    arms: Mapping[str, Arm] = ARMS,
    on_progress: Progress | None = None,
) -> dict[str, ArmReport]:
    """Run all arms over all queries.

    Args:
        snapshot: holds the set.
        queries: at least one; each one's target is respected.
        embedder: of the snapshot's model.
        settings: the operator's.
        now_us: the time of every query.
        arms: by name, in the order of the report.
        on_progress: called with (queries done, queries in all).

    Returns:
        The report of each arm, by name.
    """
    tallies = {name: _Tally() for name in arms}
    if queries:  # what is loaded lazily is not the first query's cost
        for arm in arms.values():
            _run(snapshot, queries[0], _embed(queries[0].text, embedder), arm, settings, now_us, _Tally())
    for i, query in enumerate(queries, 1):
        vector = _embed(query.text, embedder)
        for name, arm in arms.items():
            _run(snapshot, query, vector, arm, settings, now_us, tallies[name])
        if on_progress:
            on_progress(i, len(queries))
    return {name: tally.report() for name, tally in tallies.items()}


def _embed(text: str, embedder: Embedder) -> NDArray[np.float32] | None:
    """Embed as the server does: float32[dimensions], None when there is nothing to compare."""
    vector = embedder.embed_query(text)
    return vector if vector.any() else None


def _run(
    snapshot: Snapshot,
    query: JudgedQuery,
    vector: NDArray[np.float32] | None,
    arm: Arm,
    settings: SearchSettings,
    now_us: int,
    tally: _Tally,
) -> None:
    request = RetrieveRequest(
        query=Query(text=query.text),
        scope=Scope((query.target_uri,) if query.target_uri else ()),
        filter=Filter(levels=frozenset({Level.DETAIL})),
        limit=LIMIT,
        mode=arm.mode,
        options=arm.options,
    )
    started = time.perf_counter_ns()
    retrieval = Retrieval(snapshot, request, EVALUATOR, vector=vector, now_us=now_us, settings=settings)
    while not retrieval.advance():
        pass
    result = retrieval.result()
    tally.us.append((time.perf_counter_ns() - started) / 1000)
    tally.rows.append(result.stats.rows_scored)
    tally.add([match.context.uri for match in result.matches], query.grades)
