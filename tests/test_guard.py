"""The guard fails for what fell, measures what fell once more, and knows its baseline."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks import guard

if TYPE_CHECKING:
    from pathlib import Path


def test_a_ratio_may_lose_as_much_as_its_part_allows() -> None:
    baseline = {"a": 1.0, "b": 0.5}
    assert guard.fallen("rpc", {"a": 0.81, "b": 0.41}, baseline) == []
    assert guard.fallen("rpc", {"a": 0.79, "b": 2.0}, baseline) == ["a"]
    assert guard.fallen("quality", {"a": 0.94, "b": 0.5}, baseline) == ["a"]


def test_a_ratio_that_is_not_measured_any_more_fell() -> None:
    assert guard.fallen("rpc", {}, {"a": 1.0}) == ["a"]
    assert guard.fallen("rpc", {"new": 1.0}, {}) == []


def test_what_fell_once_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter(({"a": 0.5, "b": 0.9}, {"a": 0.95, "b": 0.4}))
    monkeypatch.setattr(guard, "PARTS", {"rpc": lambda: next(runs)})
    found, lost = guard.check({"rpc": {"a": 1.0, "b": 1.0}})
    assert (found, lost) == ({"rpc": {"a": 0.95, "b": 0.9}}, {"rpc": []})


def test_what_fell_twice_ends_with_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({"rpc": {"a": 1.0}}))
    monkeypatch.setattr(guard, "BASELINE", path)
    monkeypatch.setattr(guard, "PARTS", {"rpc": lambda: {"a": 0.5}})
    monkeypatch.setattr("sys.argv", ["guard", "--json"])
    with pytest.raises(SystemExit, match="rpc a"):
        guard.main()
    assert json.loads(capsys.readouterr().out)["fallen"] == {"rpc": ["a"]}


def test_the_baseline_is_of_these_parts() -> None:
    baseline = json.loads(guard.BASELINE.read_text())
    assert list(baseline) == list(guard.PARTS) == list(guard.TOLERANCE)
    assert all(ratios and all(value > 0 for value in ratios.values()) for ratios in baseline.values())
