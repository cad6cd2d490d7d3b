"""The load benchmark in short: it counts what came back, and its figures are complete."""

from __future__ import annotations

from collections import Counter

from benchmarks.load import measure
from benchmarks.load_callers import Outcome

FIGURES = {"rps", "p50_ms", "p95_ms", "p99_ms", "errors"}


def test_every_figure_is_there() -> None:
    found = measure(300, seconds=0.2, rounds=1, overload=2.0, overload_seconds=0.5, with_ghz=False)
    for arm in ("callers", "echo"):
        assert set(found[arm]) == {"1", "8", "64"}
        for figures in found[arm].values():
            assert figures.keys() >= FIGURES
            assert figures["errors"] == 0
            assert figures["rps"] > 0
    assert found["share_of_echo"] > 0
    assert found["overload"].keys() >= {"goodput_share", "p99_ratio", "rss_growth", "recovery_s"}


def test_refused_calls_are_errors_and_count_for_no_rate() -> None:
    outcome = Outcome([1.0, 3.0], Counter(UNAVAILABLE=5), seconds=2.0)
    outcome.add(Outcome([2.0], Counter(UNAVAILABLE=1, CANCELLED=1), seconds=1.0))
    assert outcome.rps == 1.0
    figures = outcome.figures()
    assert figures["p50_ms"] == 2.0
    assert figures["errors"] == 7
    assert figures["codes"] == {"UNAVAILABLE": 6, "CANCELLED": 1}
