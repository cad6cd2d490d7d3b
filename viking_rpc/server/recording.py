"""The one place where a server counts what it did; each function costs a few microseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from viking_rpc.server import figure_layout as at
from viking_rpc.server.histogram import bucket_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.server.figures import Figures

_CODE: Final[Mapping[str, int]] = {name: i for i, name in enumerate(at.CODES)}
_METHOD: Final[Mapping[str, int]] = {name: at.METHOD + i * at.METHOD_WORDS for i, name in enumerate(at.METHODS)}
_REFUSAL: Final[Mapping[str, int]] = {name: at.REFUSED + i for i, name in enumerate(at.REFUSALS)}
_OTHER_REFUSAL: Final = _REFUSAL["OTHER"]
_TYPE: Final[Mapping[int, int]] = {number: at.BY_TYPE + i for i, number in enumerate(at.TYPES)}
_EMBED, _SEED, _DESCENT, _RERANK, _HYDRATE = (at.STAGE + i * at.HISTOGRAM_WORDS for i in range(len(at.STAGES)))


class Recorder:
    """Counts into the figures of a process. Safe for threads."""

    def __init__(self, figures: Figures) -> None:
        """Remember where to count."""
        self.figures = figures

    def call_begins(self, n_in_flight: int) -> None:
        """Note how many calls are in work."""
        self.figures.header.ints[at.IN_FLIGHT] = n_in_flight

    def call_ends(self, method: str, code: str, reason: str, duration_s: float, n_in_flight: int) -> None:
        """Count a call.

        Args:
            method: `Service/Method`.
            code: name of its status.
            reason: of its error; where admission refused it, one of `figure_layout.REFUSALS`.
            duration_s: from its first byte to its status.
            n_in_flight: calls in work now.
        """
        ints, place = self.figures.header.ints, _METHOD[method]
        with self.figures.lock:
            ints[at.IN_FLIGHT] = n_in_flight
            _observe(ints, place, duration_s * 1e6)
            ints[place + at.HISTOGRAM_WORDS + _CODE[code]] += 1
            if reason in _REFUSAL:
                ints[_REFUSAL[reason]] += 1
            elif code == "RESOURCE_EXHAUSTED":
                ints[_OTHER_REFUSAL] += 1

    def query(self, account: str, request: RetrieveRequest, result: RetrieveResult, hydrate_us: float) -> None:
        """Count an answered query; the queries of a search are counted one by one.

        Args:
            account: of the caller.
            request: what was asked; a query for several types counts for each.
            result: its answer.
            hydrate_us: what it took to make the answer of what was found, texts included.
        """
        stats, types = result.stats, request.scope.types
        scores = [match.score for match in result.matches]
        ints = self.figures.header.ints
        with self.figures.lock:
            ints[at.ROWS_SCORED] += stats.rows_scored
            ints[at.STOPS + (stats.stop_reason or 0)] += 1
            _observe(ints, _SEED, stats.seed_us)
            _observe(ints, _HYDRATE, hydrate_us)
            if stats.embed_us:
                _observe(ints, _EMBED, stats.embed_us)
            if stats.n_rerank_calls:
                _observe(ints, _RERANK, stats.rerank_us)
            block = self.figures.block(account)
            _count_query(block.ints, [_TYPE[int(kind)] for kind in types] if types else (at.BY_TYPE,), len(scores))
            total_ns = _observe(block.ints, at.LATENCY, stats.total_us)
            block.ints[at.LATENCY_MAX] = max(block.ints[at.LATENCY_MAX], total_ns)
            if scores:
                _count_scores(block.ints, block.floats, scores)
            if stats.stop_reason is not None:
                _observe(ints, _DESCENT, stats.descent_us)
            for level in stats.levels:
                place = at.DEPTH + min(level.depth, at.N_DEPTHS - 1) * at.DEPTH_WORDS
                block.ints[place] += level.n_expanded
                _observe(block.ints, place + 1, level.duration_us)

    def rerank(self, account: str, *, is_used: bool, has_failed: bool) -> None:
        """Count what became of a query's rerank.

        Args:
            account: of the caller.
            is_used: some of its texts were scored.
            has_failed: some of them were not, or none.
        """
        if not (is_used or has_failed):
            return
        with self.figures.lock:
            ints = self.figures.block(account).ints
            ints[at.RERANK_ATTEMPTED] += 1
            ints[at.RERANK_USED] += is_used
            ints[at.RERANK_FALLBACK] += has_failed and not is_used
            ints[at.RERANK_PARTIAL] += has_failed and is_used

    def notice(self, *, revision_lag: int, n_loaded: int, n_cache_misses: int, n_dropped_lines: int) -> None:
        """Note what changes by itself; the last two are what came since the last time."""
        ints = self.figures.header.ints
        with self.figures.lock:
            ints[at.REVISION_LAG] = revision_lag
            ints[at.LOADED_ACCOUNTS] = n_loaded
            ints[at.KERNEL_CACHE_MISSES] += n_cache_misses
            ints[at.DROPPED_LOG_LINES] += n_dropped_lines


def _count_query(ints: memoryview[int], places: Iterable[int], n_results: int) -> None:
    ints[at.QUERIES] += 1
    for place in places:
        ints[place] += 1
    if n_results:
        ints[at.RESULTS] += n_results
    else:
        ints[at.ZERO_RESULTS] += 1


def _count_scores(ints: memoryview[int], floats: memoryview[float], scores: list[float]) -> None:
    is_first = ints[at.RESULTS] == len(scores)  # these are counted already
    floats[at.SCORE_SUM] += sum(scores)
    greatest, least = max(scores), min(scores)
    if is_first or greatest > floats[at.SCORE_MAX]:
        floats[at.SCORE_MAX] = greatest
    if is_first or least < floats[at.SCORE_MIN]:
        floats[at.SCORE_MIN] = least


def _observe(ints: memoryview[int], place: int, duration_us: float) -> int:
    """Count a duration in a histogram; returns it in nanoseconds."""
    duration_ns = int(duration_us * 1000)
    ints[place] += duration_ns
    ints[place + 1 + bucket_of(duration_us)] += 1
    return duration_ns
