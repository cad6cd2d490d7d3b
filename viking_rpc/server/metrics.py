"""What a server has counted as metrics of Prometheus; the table of them is in docs/operations.md."""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from viking_rpc.domain.trace import StopReason
from viking_rpc.server import figure_layout as at
from viking_rpc.server.histogram import cumulated
from viking_rpc.server.statistics import retrieval_stats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from prometheus_client.core import Metric

    from viking_rpc.server.readings import AccountReading, Readings

    Words = NDArray[np.int64]

_COUNTS = (
    ("viking_queries", "Queries answered; those of a search one by one.", at.QUERIES),
    ("viking_query_results", "Matches returned.", at.RESULTS),
    ("viking_queries_without_result", "Queries without a match.", at.ZERO_RESULTS),
    ("viking_rerank_attempted", "Queries that went to the reranker.", at.RERANK_ATTEMPTED),
    ("viking_rerank_used", "Queries that it ordered, wholly or in part.", at.RERANK_USED),
    ("viking_rerank_fallback", "Queries that fell back to the order of the vectors.", at.RERANK_FALLBACK),
    ("viking_rerank_partial", "Queries that it answered only in part.", at.RERANK_PARTIAL),
)


class FiguresCollector(Collector):
    """Reads the figures of all processes whenever somebody asks for the metrics; no account is named in them."""

    def __init__(self, readings: Readings, start_us: int) -> None:
        """Remember where the figures are, and since when they are counted, microseconds since the epoch."""
        self._readings = readings
        self._start_us = start_us

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield GaugeMetricFamily("viking_start_time_seconds", "When the server started.", self._start_us / 1e6)
        about = GaugeMetricFamily("viking_info", "The release that serves.", labels=("version",))
        about.add_metric((version("viking-rpc"),), 1)
        yield about
        header = self._readings.header()
        yield from _calls(header)
        yield from _process(header)
        yield from _queries(self._readings.account(None))


def _calls(header: Words) -> Iterator[Metric]:
    """Yield what is known of calls; methods that nobody called are left out."""
    durations = HistogramMetricFamily("viking_rpc_duration_seconds", "Time of a call.", labels=("method",))
    ended = CounterMetricFamily("viking_rpc_calls", "Calls by their status.", labels=("method", "code"))
    for i, method in enumerate(at.METHODS):
        place = at.METHOD + i * at.METHOD_WORDS
        codes = header[place + at.HISTOGRAM_WORDS : place + at.METHOD_WORDS].tolist()
        if any(codes):
            _add_histogram(durations, (method,), header, place)
        for code, n in zip(at.CODES, codes, strict=True):
            if n:
                ended.add_metric((method, code), n)
    yield durations
    yield ended
    yield GaugeMetricFamily("viking_rpc_in_flight", "Calls in work.", int(header[at.IN_FLIGHT]))
    refused = CounterMetricFamily("viking_rpc_refused", "Calls that were refused before any work.", labels=("reason",))
    _add_each(refused, at.REFUSALS, header[at.REFUSED :])
    yield refused


def _process(header: Words) -> Iterator[Metric]:
    """Yield what is known of the work, and of the processes."""
    stages = HistogramMetricFamily("viking_stage_duration_seconds", "Time of a stage of a query.", labels=("stage",))
    for i, stage in enumerate(at.STAGES):
        _add_histogram(stages, (stage,), header, at.STAGE + i * at.HISTOGRAM_WORDS)
    yield stages
    stops = CounterMetricFamily("viking_descent_stops", "Why descents ended.", labels=("reason",))
    _add_each(stops, (reason.name for reason in StopReason), header[at.STOPS + 1 :])
    yield stops
    yield CounterMetricFamily("viking_rows_scored", "Rows compared with queries.", int(header[at.ROWS_SCORED]))
    lag = "Revisions by which the newest state in memory is behind what is committed, the most of all accounts."
    yield GaugeMetricFamily("viking_revision_lag", lag, int(header[at.REVISION_LAG]))
    yield GaugeMetricFamily("viking_accounts_loaded", "Accounts in memory.", int(header[at.LOADED_ACCOUNTS]))
    misses = "Kernels that were compiled in memory because the cache could not be used."
    yield CounterMetricFamily("viking_kernel_cache_misses", misses, int(header[at.KERNEL_CACHE_MISSES]))
    dropped = "Records that nobody took in time."
    yield CounterMetricFamily("viking_log_lines_dropped", dropped, int(header[at.DROPPED_LOG_LINES]))


def _queries(reading: AccountReading) -> Iterator[Metric]:
    """Yield what GetRetrievalStats tells of all accounts."""
    stats = retrieval_stats(reading)
    for name, text, place in _COUNTS:
        yield CounterMetricFamily(name, text, int(reading.words[place]))
    by_type = CounterMetricFamily("viking_queries_by_type", "Queries by the type that they ask for.", labels=("type",))
    for kind, n in stats.queries_by_type.items():
        by_type.add_metric((kind,), n)
    yield by_type
    yield GaugeMetricFamily("viking_match_score_sum", "Sum of the final scores of all matches.", reading.score_sum)
    if stats.max_score is not None and stats.min_score is not None:
        yield GaugeMetricFamily("viking_match_score_max", "The greatest of them.", stats.max_score)
        yield GaugeMetricFamily("viking_match_score_min", "The least of them.", stats.min_score)
    durations = HistogramMetricFamily("viking_query_duration_seconds", "Time of a query.", labels=())
    _add_histogram(durations, (), reading.words, at.LATENCY)
    yield durations
    levels = HistogramMetricFamily(
        "viking_descent_level_duration_seconds", "Time of a query at a depth of the descent.", labels=("depth",)
    )
    opened = CounterMetricFamily("viking_directories_expanded", "Directories opened at a depth.", labels=("depth",))
    for level in stats.levels:
        place = at.DEPTH + level.depth * at.DEPTH_WORDS
        opened.add_metric((str(level.depth),), level.n_expanded)
        _add_histogram(levels, (str(level.depth),), reading.words, place + 1)
    yield levels
    yield opened


def _add_each(family: CounterMetricFamily, names: Iterable[str], counts: Words) -> None:
    for name, n in zip(names, counts.tolist(), strict=False):
        family.add_metric((name,), n)


def _add_histogram(family: HistogramMetricFamily, labels: Sequence[str], words: Words, place: int) -> None:
    counts = words[place + 1 : place + at.HISTOGRAM_WORDS]
    buckets = [("+Inf" if math.isinf(bound) else f"{bound:.9g}", n) for bound, n in cumulated(counts)]
    family.add_metric(labels, buckets, int(words[place]) / 1e9)
