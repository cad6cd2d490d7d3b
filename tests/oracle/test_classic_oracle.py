"""The oracle of the published algorithm answers every recorded case, and small cases that isolate one rule each."""

from collections import Counter
from typing import Any

import pytest

from tests.oracle.classic import Case, load_cases, retrieve

CASES = list(load_cases())
TARGET = "viking://resources/p"


def make_case(rows: dict[tuple[str, int], float], **params: Any) -> Case:
    """Build a case from own scores by (path below the target, level)."""
    defaults = {
        "mode": "thinking",
        "limit": 10,
        "score_threshold": None,
        "score_gte": False,
        "score_propagation_alpha": 1.0,
        "hotness_alpha": 0.0,
        "level": None,
    }
    records = [{"uri": f"{TARGET}/{path}", "level": level, "s": s} for (path, level), s in rows.items()]
    return {"target": TARGET, "params": defaults | params, "rerank": None, "records": records}


def found(case: Case) -> list[tuple[str, float]]:
    """List a case's matches with paths below the target and rounded scores."""
    return [(uri.removeprefix(f"{TARGET}/"), round(score, 4)) for uri, score in retrieve(case).matches]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
def test_reproduces_recorded_case(case: Case) -> None:
    result = retrieve(case)
    assert [[uri, round(score, 4)] for uri, score in result.matches] == case["expected"]["matches"]
    assert result.expanded == case["expected"]["expanded"]
    assert (result.rerank_calls, result.rerank_documents) == (case["rerank_calls"], case["rerank_documents"])


def test_recorded_cases_cover_every_way_to_stop() -> None:
    reasons = Counter(retrieve(case).stop_reason for case in CASES)
    assert reasons == {"QUICK": 53, "EXHAUSTED": 210, "CONVERGED": 36, "STAGNANT": 1}


def test_target_without_score_is_no_parent() -> None:
    assert found(make_case({("a.md", 2): 0.4}, score_propagation_alpha=0.5)) == [("a.md", 0.4)]


def test_negative_starting_score_is_a_parent() -> None:
    case = make_case({("d", 0): -0.2, ("d/a.md", 2): 0.6}, score_propagation_alpha=0.5)
    assert found(case) == [("d/a.md", 0.2)]


def test_unset_threshold_with_gte_keeps_zero() -> None:
    assert found(make_case({("a.md", 2): 0.0}, score_gte=True)) == [("a.md", 0.0)]
    assert found(make_case({("a.md", 2): 0.0})) == []


def test_starting_points_are_candidates_only_under_a_level_filter() -> None:
    rows = {("x/d", 0): 0.5, ("x/d", 1): 0.4}
    assert found(make_case(rows)) == []
    assert found(make_case(rows, level=[0, 1])) == [("x/d/.overview.md", 0.4)]
    assert found(make_case(rows, level=[0])) == [("x/d/.abstract.md", 0.5)]


def test_level_filter_hides_rows_but_not_the_way_down() -> None:
    rows = {("d", 0): 0.5, ("d/e", 0): 0.4, ("d/e/a.md", 2): 0.3}
    assert found(make_case(rows, level=[2])) == [("d/e/a.md", 0.3)]


def test_child_rows_outside_the_level_filter_use_up_the_cut() -> None:
    files = {(f"f{i:02}.md", 2): 0.9 - i / 100 for i in range(20)}
    seeds = {(f"x/d{i}", 0): -0.5 + i / 1000 for i in range(10)}
    rows = files | seeds | {("d", 0): -0.7}
    assert f"{TARGET}/d" not in retrieve(make_case(rows, level=[0], score_threshold=-1.0)).expanded
    del rows["f19.md", 2]
    assert retrieve(make_case(rows, level=[0], score_threshold=-1.0)).expanded[-1] == f"{TARGET}/d"


def test_threshold_stops_the_way_down() -> None:
    seeds = {(f"x/d{i}", 0): 0.9 + i / 1000 for i in range(10)}
    rows = seeds | {("low", 0): 0.2, ("low/a.md", 2): 0.8}
    assert found(make_case(rows, score_threshold=0.3)) == []
    assert ("low/a.md", 0.8) in found(make_case(rows, score_threshold=0.1))


def test_quick_cuts_rows_before_it_collapses_them() -> None:
    rows = {(f"d{i}", level): 0.9 - i / 10 - level / 100 for i in range(6) for level in (0, 1)}
    assert len(retrieve(make_case(rows, mode="quick")).matches) == 5
