"""The comparisons in benchmarks/: their data hide what they must, their walks read what they say, and arms may fail."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.levels import DIMENSIONS, measure
from benchmarks.peers.__main__ import judge, ratios
from benchmarks.peers.data import LIMIT, VISIBLE, Data
from benchmarks.peers.environments import interpreter
from benchmarks.peers.process import ArmError, ArmProcess
from benchmarks.peers.tree import exact_answers, write


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write(tmp_path_factory.mktemp("peers") / "data", 600, 40)


def test_files_hold_the_tree_for_readers_without_numpy(data: Data) -> None:
    rows, vectors = data.rows(), data.vectors()
    assert len(rows) == len(vectors) == data.n_rows
    assert all(len(vector) == data.dimensions for vector in vectors)
    assert np.allclose(np.linalg.norm(np.array(vectors), axis=1), 1, atol=1e-5)
    assert Data.read(data.folder) == data


def test_exact_answers_are_ten_contexts_that_the_caller_may_see(data: Data) -> None:
    hidden = {row["uri"] for row in data.rows() if row["owner"] not in VISIBLE}
    assert len(hidden) >= 25
    answers = exact_answers(data)
    assert len(answers) == 40
    assert all(len(answer) == LIMIT and not answer & hidden for answer in answers)


def test_an_arm_that_shows_what_belongs_to_another_is_an_error() -> None:
    answer = {"times_ms": [1.0], "found": [["viking://user/other/memories/a"]], "rss_mb": 1.0}
    assert "error" in judge("classic", [answer], [{"viking://resources/a"}], None, None)


def test_ratios_are_of_medians_and_none_without_both() -> None:
    figures = {"classic": {"p50_ms": 0.5}, "openviking_0_4_22": {"p50_ms": 25.0}, "openviking_0_5_2": {"error": "no"}}
    found = ratios(figures)
    assert found["classic_to_openviking_0_4_22"] == 50.0
    assert found["balanced_to_openviking_0_5_2"] is None


def test_an_arm_that_cannot_start_says_why(data: Data, tmp_path: Path) -> None:
    with pytest.raises(ArmError, match="Error: "):
        ArmProcess(Path(sys.executable), "usearch", data, tmp_path / "nothing", "serve", 60)


def test_this_project_needs_no_environment_of_its_own(tmp_path: Path) -> None:
    assert interpreter("classic", tmp_path, 1) == Path(sys.executable)


@pytest.mark.parametrize(("fanout", "depth"), [(2, 4), (4, 2), (20, 3)])
def test_a_walk_of_levels_reads_every_row_of_the_way(fanout: int, depth: int) -> None:
    case = measure(fanout, depth, 1, np.random.default_rng(1))
    assert case["rows"] == fanout + min(fanout, 4) * fanout * (depth - 1)
    assert case["bytes"] == case["rows"] * DIMENSIONS * 4
