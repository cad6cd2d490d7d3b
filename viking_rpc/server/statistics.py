"""Turn what was counted into statistics, and these into a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viking_rpc.domain.statistics import LevelLatency, RetrievalStats
from viking_rpc.pb.v1 import admin_service_pb2 as pb
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.server import figure_layout as at
from viking_rpc.server.convert_answer import fill_duration
from viking_rpc.server.histogram import percentile_us

if TYPE_CHECKING:
    from collections.abc import Iterator

    from viking_rpc.server.readings import AccountReading


def retrieval_stats(reading: AccountReading) -> RetrievalStats:
    """Return the statistics of an account, or of all."""
    words = reading.words.tolist()
    n_queries, n_results = words[at.QUERIES], words[at.RESULTS]
    by_type = zip(at.TYPES, words[at.BY_TYPE :], strict=False)
    names = {0: "UNSPECIFIED"} | {number: _type_name(number) for number in at.TYPES if number}
    return RetrievalStats(
        n_queries=n_queries,
        n_results=n_results,
        n_zero_results=words[at.ZERO_RESULTS],
        queries_by_type={names[number]: n for number, n in by_type if n},
        avg_score=reading.score_sum / n_results if n_results else 0.0,
        max_score=reading.score_max if n_results else None,
        min_score=reading.score_min if n_results else None,
        n_rerank_attempted=words[at.RERANK_ATTEMPTED],
        n_rerank_used=words[at.RERANK_USED],
        n_rerank_fallback=words[at.RERANK_FALLBACK],
        n_rerank_partial=words[at.RERANK_PARTIAL],
        avg_latency_us=words[at.LATENCY] / n_queries / 1000 if n_queries else 0.0,
        max_latency_us=reading.latency_max_ns / 1000,
        levels=tuple(_levels(reading)),
    )


def _levels(reading: AccountReading) -> Iterator[LevelLatency]:
    """Yield what each depth took that was reached; the last one stands for all that are deeper, too."""
    for depth in range(at.N_DEPTHS):
        place = at.DEPTH + depth * at.DEPTH_WORDS
        counts = reading.histogram(place + 1)
        if counts.any():
            shares = (percentile_us(counts, share) for share in (0.5, 0.95, 0.99))
            yield LevelLatency(depth, int(reading.words[place]), *shares)


def stats_response(stats: RetrievalStats) -> pb.GetRetrievalStatsResponse:
    """Write statistics."""
    response = pb.GetRetrievalStatsResponse(
        total_queries=stats.n_queries,
        total_results=stats.n_results,
        zero_result_queries=stats.n_zero_results,
        zero_result_rate=stats.zero_result_rate,
        avg_results_per_query=stats.avg_results,
        avg_score=stats.avg_score,
        max_score=stats.max_score,
        min_score=stats.min_score,
        queries_by_type={f"CONTEXT_TYPE_{name}": n for name, n in stats.queries_by_type.items()},
        rerank_attempted=stats.n_rerank_attempted,
        rerank_used=stats.n_rerank_used,
        rerank_fallback=stats.n_rerank_fallback,
        rerank_partial=stats.n_rerank_partial,
    )
    fill_duration(response.avg_latency, stats.avg_latency_us)
    fill_duration(response.max_latency, stats.max_latency_us)
    for level in stats.levels:
        entry = response.levels.add(depth=level.depth, directories_expanded=level.n_expanded)
        fill_duration(entry.p50, level.p50_us)
        fill_duration(entry.p95, level.p95_us)
        fill_duration(entry.p99, level.p99_us)
    return response


def _type_name(number: int) -> str:
    return context_pb2.ContextType.Name(number).removeprefix("CONTEXT_TYPE_")
