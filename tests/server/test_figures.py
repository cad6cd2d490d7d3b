"""What processes count in files: added up, gone on with after a restart, never twice, exact under threads."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from viking_rpc.domain.context import ContextType
from viking_rpc.domain.query import Query, RetrieveRequest, Scope
from viking_rpc.domain.trace import LevelStats, RetrieveStats, StopReason
from viking_rpc.server import figure_layout as at
from viking_rpc.server.figures import RUN_FOLDER, Figures, clear_figures, figures_path
from viking_rpc.server.readings import Readings
from viking_rpc.server.recording import Recorder
from viking_rpc.server.statistics import retrieval_stats

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.domain.statistics import RetrievalStats

ALL = RetrieveRequest(Query(text="x"))
METHOD = "RetrievalService/Retrieve"


def answer(*scores: float, depth: int = 0, level_us: float = 100.0) -> Any:
    """Return what is read of an answer."""
    level = LevelStats(depth, n_expanded=3, n_rows=9, n_kept=1, duration_us=level_us)
    stats = RetrieveStats(StopReason.CONVERGED, rows_scored=9, seed_us=50.0, total_us=400.0, levels=(level,))
    return SimpleNamespace(stats=stats, matches=[SimpleNamespace(score=score) for score in scores])


def stats_of(readings: Readings, account: str | None = "acme") -> RetrievalStats:
    return retrieval_stats(readings.account(account))


def calls_of(readings: Readings) -> int:
    place = at.METHOD + at.METHODS.index(METHOD) * at.METHOD_WORDS + at.HISTOGRAM_WORDS
    return int(readings.header()[place : place + len(at.CODES)].sum())


def test_threads_lose_nothing() -> None:
    figures = Figures()
    recorder, readings = Recorder(figures), Readings(figures)
    n_threads, n_times = 8, 400

    def work(k: int) -> None:
        for i in range(n_times):
            recorder.query(f"account {k % 2}", ALL, answer(0.5, k / 10, -0.25) if i % 2 else answer(), 10.0)
            recorder.call_ends(METHOD, "OK", "-", 0.001, 0)
            recorder.rerank("account 0", is_used=True, has_failed=i % 4 == 0)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    n = n_threads * n_times
    total = stats_of(readings, None)
    assert (total.n_queries, total.n_results, total.n_zero_results) == (n, 3 * n // 2, n // 2)
    assert (total.zero_result_rate, total.avg_results) == (0.5, 1.5)
    assert (total.max_score, total.min_score) == (0.7, -0.25)
    assert total.avg_score == pytest.approx((0.25 + sum(k / 10 for k in range(n_threads)) / n_threads) / 3)
    assert (total.n_rerank_attempted, total.n_rerank_used, total.n_rerank_partial) == (n, n, n // 4)
    assert [stats_of(readings, f"account {k}").n_queries for k in (0, 1)] == [n // 2, n // 2]
    assert total.levels[0].n_expanded == 3 * n
    assert calls_of(readings) == n
    assert readings.header()[at.ROWS_SCORED] == 9 * n


def test_processes_are_added_up_and_a_restarted_one_goes_on(tmp_path: Path) -> None:
    first, second = (Recorder(Figures(figures_path(tmp_path, name))) for name in ("1", "2"))
    readings = Readings(None, tmp_path)
    for recorder, score in ((first, 0.5), (second, 0.9), (second, 0.1)):
        recorder.query("acme", ALL, answer(score), 1.0)
        recorder.call_begins(7)
        recorder.call_ends(METHOD, "OK", "-", 0.001, 2)
    first.query("other", ALL, answer(3.0), 1.0)
    assert readings.header()[at.IN_FLIGHT] == 4
    del first
    again = Recorder(Figures(figures_path(tmp_path, "1")))  # in its place, after it was killed
    assert readings.header()[at.IN_FLIGHT] == 2
    assert stats_of(readings).n_queries == 3
    again.query("acme", ALL, answer(-1.0), 1.0)
    seen = [stats_of(Readings(one.figures, tmp_path)) for one in (again, second)]
    assert seen[0] == seen[1] == stats_of(readings)
    assert (seen[0].n_queries, seen[0].max_score, seen[0].min_score) == (4, 0.9, -1.0)
    assert stats_of(readings, None).n_queries == 5
    assert calls_of(readings) == 3
    again.notice(revision_lag=3, n_loaded=1, n_cache_misses=2, n_dropped_lines=0)
    second.notice(revision_lag=1, n_loaded=1, n_cache_misses=1, n_dropped_lines=4)
    words = (at.REVISION_LAG, at.LOADED_ACCOUNTS, at.KERNEL_CACHE_MISSES, at.DROPPED_LOG_LINES)
    assert [int(readings.header()[word]) for word in words] == [3, 2, 3, 4]
    clear_figures(tmp_path)
    assert not (tmp_path / RUN_FOLDER).exists()
    assert stats_of(readings).n_queries == 0


def test_more_accounts_than_a_segment_holds(tmp_path: Path) -> None:
    path = figures_path(tmp_path, "1")
    names = [f"account {i}" for i in range(2 * at.BLOCKS_PER_SEGMENT + 1)]
    recorder = Recorder(Figures(path))
    for i, name in enumerate(names):
        for _ in range(i % 3 + 1):
            recorder.query(name, ALL, answer(), 1.0)
    again = Recorder(Figures(path))
    again.query(names[0], ALL, answer(), 1.0)
    again.query("new", ALL, answer(), 1.0)
    readings = Readings(None, tmp_path)
    assert [stats_of(readings, name).n_queries for name in names[1:]] == [i % 3 + 1 for i in range(1, len(names))]
    assert (stats_of(readings, names[0]).n_queries, stats_of(readings, "new").n_queries) == (2, 1)
    assert stats_of(readings, "unknown").n_queries == 0
    assert not any(name.encode() in path.read_bytes() for name in names)


def test_a_full_disk_costs_the_others_the_sight_of_new_accounts_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(Figures(figures_path(tmp_path, "1")))
    recorder.query("old", ALL, answer(), 1.0)
    monkeypatch.setattr(os, "pwrite", lambda _file, data, _offset: len(data) // 2)
    for i in range(at.BLOCKS_PER_SEGMENT):
        recorder.query(f"account {i}", ALL, answer(), 1.0)
    own, others = Readings(recorder.figures, tmp_path), Readings(None, tmp_path)
    assert stats_of(own, None).n_queries == at.BLOCKS_PER_SEGMENT + 1
    assert stats_of(others, None).n_queries == at.BLOCKS_PER_SEGMENT
    assert stats_of(own, "old").n_queries == 1


def test_types_and_depths() -> None:
    figures = Figures()
    recorder, readings = Recorder(figures), Readings(figures)
    for types in ((), (ContextType.MEMORY,), (ContextType.SKILL, ContextType.MEMORY)):
        request = RetrieveRequest(Query(text="x"), scope=Scope(types=frozenset(types)))
        recorder.query("acme", request, answer(depth=2 + 15 * len(types), level_us=1000.0), 1.0)
    stats = stats_of(readings)
    assert stats.queries_by_type == {"UNSPECIFIED": 1, "MEMORY": 2, "SKILL": 1}
    assert [(level.depth, level.n_expanded) for level in stats.levels] == [(2, 3), (15, 6)]
    assert stats.levels[0].p50_us == pytest.approx(1000.0, rel=0.091)
    assert (stats.max_score, stats.min_score) == (None, None)
    assert (stats.avg_latency_us, stats.max_latency_us) == (400.0, 400.0)


def test_refusals_are_counted_by_reason() -> None:
    figures = Figures()
    recorder, readings = Recorder(figures), Readings(figures)
    for code, reason in (
        ("RESOURCE_EXHAUSTED", "TOO_MANY_CALLS"),
        ("UNAVAILABLE", "NOT_READY"),
        ("UNAVAILABLE", "DATABASE_BUSY"),
        ("RESOURCE_EXHAUSTED", "RATE_LIMITED"),
        ("NOT_FOUND", "CONTEXT_NOT_FOUND"),
    ):
        recorder.call_ends(METHOD, code, reason, 0.001, 0)
    refused = readings.header()[at.REFUSED : at.REFUSED + len(at.REFUSALS)]
    assert dict(zip(at.REFUSALS, refused.tolist(), strict=True)) == {
        "TOO_MANY_CALLS": 1,
        "NOT_READY": 1,
        "SHUTTING_DOWN": 0,
        "OTHER": 1,
    }
