"""The metrics agree with cases computed by hand, and with what must hold of any ranking."""

from __future__ import annotations

from math import isclose, log2

from hypothesis import given
from hypothesis import strategies as st

from viking_rpc.evaluate.metrics import ndcg_at, recall_at, reciprocal_rank_at

RANKING = ["a", "b", "c", "d", "e"]


def test_recall_is_the_share_of_all_that_is_relevant() -> None:
    grades = {"b": 1, "e": 2, "x": 1, "a": 0}
    assert recall_at(1, RANKING, grades) == 0
    assert isclose(recall_at(2, RANKING, grades), 1 / 3)
    assert isclose(recall_at(5, RANKING, grades), 2 / 3)


def test_recall_counts_what_does_not_fit_into_k_as_missed() -> None:
    assert isclose(recall_at(2, RANKING, dict.fromkeys("abcd", 1)), 0.5)


def test_ndcg_discounts_grades_by_rank() -> None:
    # gains 0, 1, 0, 0, 2 at ranks 1 to 5; ideal 2, 1, 1
    grades = {"b": 1, "e": 2, "x": 1}
    found = 1 / log2(3) + 2 / log2(6)
    ideal = 2 / log2(2) + 1 / log2(3) + 1 / log2(4)
    assert isclose(ndcg_at(5, RANKING, grades), found / ideal)
    assert isclose(ndcg_at(5, RANKING, grades), 0.448632, abs_tol=1e-6)


def test_ndcg_takes_the_ideal_of_the_first_k_only() -> None:
    assert ndcg_at(1, ["a"], {"a": 1, "b": 1}) == 1


def test_ndcg_gives_nothing_for_grade_zero() -> None:
    assert ndcg_at(5, ["a"], {"a": 0, "b": 1}) == 0


def test_reciprocal_rank_is_of_the_first_relevant_entry() -> None:
    assert isclose(reciprocal_rank_at(10, RANKING, {"c": 1, "d": 3}), 1 / 3)


def test_reciprocal_rank_is_nothing_beyond_k() -> None:
    assert reciprocal_rank_at(2, RANKING, {"c": 1}) == 0


def test_an_empty_ranking_scores_nothing() -> None:
    assert [metric(10, [], {"a": 1}) for metric in (recall_at, ndcg_at, reciprocal_rank_at)] == [0, 0, 0]


@given(
    ranking=st.lists(st.sampled_from("abcdefghijklmnop"), unique=True),
    grades=st.dictionaries(st.sampled_from("abcdefghijklmnop"), st.integers(0, 3), min_size=1).filter(
        lambda drawn: any(drawn.values())
    ),
    k=st.integers(1, 12),
)
def test_metrics_lie_in_bounds_and_the_ideal_ranking_is_best(
    ranking: list[str], grades: dict[str, int], k: int
) -> None:
    ideal = sorted(grades, key=lambda uri: -grades[uri])
    for metric in (recall_at, ndcg_at, reciprocal_rank_at):
        assert 0 <= metric(k, ranking, grades) <= metric(k, ideal, grades) + 1e-12
    assert isclose(ndcg_at(k, ideal, grades), 1)
    assert reciprocal_rank_at(k, ideal, grades) == 1
