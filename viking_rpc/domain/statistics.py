"""What a server has answered so far: counts, scores and times of its queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class LevelLatency:
    """Time spent at one depth of the descent, microseconds a query that reached it."""

    depth: int
    n_expanded: int
    p50_us: float
    p95_us: float
    p99_us: float


@dataclass(frozen=True, slots=True)
class RetrievalStats:
    """Counts since the server started; the queries of a search count one each.

    `queries_by_type` has the names of context types, and UNSPECIFIED for queries over all types. Scores are final ones;
    the greatest and the least are None before the first match.
    """

    n_queries: int = 0
    n_results: int = 0
    n_zero_results: int = 0
    queries_by_type: Mapping[str, int] = field(default_factory=dict)
    avg_score: float = 0.0
    max_score: float | None = None
    min_score: float | None = None
    n_rerank_attempted: int = 0
    n_rerank_used: int = 0
    n_rerank_fallback: int = 0
    n_rerank_partial: int = 0
    avg_latency_us: float = 0.0
    max_latency_us: float = 0.0
    levels: tuple[LevelLatency, ...] = ()

    @property
    def zero_result_rate(self) -> float:
        """Return the share of queries without a match; 0 before the first query."""
        return self.n_zero_results / self.n_queries if self.n_queries else 0.0

    @property
    def avg_results(self) -> float:
        """Return the matches of a query; 0 before the first query."""
        return self.n_results / self.n_queries if self.n_queries else 0.0
