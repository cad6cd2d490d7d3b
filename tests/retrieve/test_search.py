"""Plans become requests, and their answers one: against a plain sum over ranks, whatever the answers are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viking_rpc.domain.context import Context, ContextType, Kind, Level
from viking_rpc.domain.plan import QueryPlan, TypedQuery
from viking_rpc.domain.query import Mode, RerankMode, RetrieveOptions, Scope, View
from viking_rpc.domain.rerank import SKIPPED
from viking_rpc.domain.search import MergeOptions, SearchRequest
from viking_rpc.domain.trace import AnswerWarning, EmptyReason, Match, RetrieveResult, RetrieveStats, ScoreParts
from viking_rpc.retrieve.profiles import PRESETS
from viking_rpc.retrieve.search import failed_result, merge_results, requests_of, tell_unranked

NAMES = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=8)
WEIGHTS = st.lists(st.floats(0, 4, width=16), min_size=5, max_size=5).filter(any)


def answer(names: list[str], why: EmptyReason = EmptyReason.NO_CONTEXTS) -> RetrieveResult:
    """Return an answer with matches of these names."""
    matches = tuple(
        Match(
            context=Context(f"viking://resources/{name}", Kind.FILE, ContextType(1 + ord(name) % 3)),
            display_uri=f"viking://resources/{name}",
            level=Level.DETAIL,
            score=1.0 - i / 10,
            parts=ScoreParts(own=1.0 - i / 10, relevance=1.0 - i / 10),
        )
        for i, name in enumerate(names)
    )
    reason = EmptyReason.NONE if matches else why
    return RetrieveResult(matches, 7, Mode.THINKING, ("viking://resources",), RetrieveStats(), empty_reason=reason)


def plan_of(*priorities: int) -> QueryPlan:
    """Return a plan with one query for each priority."""
    return QueryPlan(tuple(TypedQuery(f"q{i}", priority=priority) for i, priority in enumerate(priorities)))


@given(
    st.lists(st.tuples(NAMES, st.integers(0, 5)), min_size=1, max_size=5),
    st.integers(0, 60),
    WEIGHTS,
    st.integers(1, 9),
)
def test_merged_scores_are_sums_over_ranks(
    queries: list[tuple[list[str], int]], rrf_k: int, weights: list[float], limit: int
) -> None:
    """users.md 14 (issue 216) and 16 (issue 204): one entry for each context, ties by URI."""
    request = SearchRequest(limit=limit, merge=MergeOptions(rrf_k, tuple(weights)))
    plan = plan_of(*(priority for _, priority in queries))
    merged = merge_results(request, plan, [answer(names) for names, _ in queries], 7)
    score_of: dict[str, float] = {}
    for names, priority in queries:
        for rank, name in enumerate(names, 1):
            score_of[name] = score_of.get(name, 0.0) + weights[(priority or 3) - 1] / (rrf_k + rank)
    expected = sorted(score_of, key=lambda name: (-score_of[name], name))[:limit]
    assert [one.match.context.uri[-1] for one in merged.matches] == expected
    assert [one.match.score for one in merged.matches] == pytest.approx([score_of[name] for name in expected])
    for one in merged.matches:
        found = [i for i, (names, _) in enumerate(queries) if one.match.context.uri[-1] in names]
        assert list(one.query_indexes) == found
    assert merged.total_matched == len(score_of)
    groups = [*merged.memories, *merged.resources, *merged.skills]
    assert sorted(groups) == list(range(len(expected)))
    assert all(merged.matches[i].match.context.type is ContextType.SKILL for i in merged.skills)


def test_the_match_of_the_best_rank_is_kept() -> None:
    first, second = answer(["a", "b"]), answer(["b", "a"])
    merged = merge_results(SearchRequest(), plan_of(5, 1), [first, second], 7)
    assert {one.match.context.uri[-1]: one.match.parts.own for one in merged.matches} == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ((EmptyReason.NO_CONTEXTS, EmptyReason.NO_CONTEXTS), EmptyReason.NO_CONTEXTS),
        ((EmptyReason.NO_CONTEXTS, EmptyReason.FILTERED_OUT), EmptyReason.FILTERED_OUT),
        ((EmptyReason.BELOW_THRESHOLD, EmptyReason.FILTERED_OUT), EmptyReason.BELOW_THRESHOLD),
    ],
)
def test_an_empty_answer_has_the_reason_that_came_furthest(
    reasons: tuple[EmptyReason, ...], expected: EmptyReason
) -> None:
    merged = merge_results(SearchRequest(), plan_of(1, 2), [answer([], why) for why in reasons], 7)
    assert merged.empty_reason is expected


def test_a_type_narrows_the_types_and_targets_stand_in_place() -> None:
    scope = Scope(("viking://resources",), frozenset({ContextType.SKILL, ContextType.MEMORY}))
    plan = QueryPlan(
        (
            TypedQuery("a", ContextType.SKILL),
            TypedQuery("b", ContextType.RESOURCE),
            TypedQuery("c", target_uris=("viking://~/memories",)),
        )
    )
    requests = requests_of(SearchRequest(scope=scope, view=View.FULL, min_revision=3), plan, PRESETS)
    assert [one.query.text for one in requests] == ["a", "b", "c"]
    assert [one.scope.types for one in requests] == [frozenset({ContextType.SKILL}), scope.types, scope.types]
    assert [one.scope.target_uris for one in requests] == [scope.target_uris] * 2 + [("viking://~/memories",)]
    assert {one.view for one in requests} == {View.ABSTRACT}


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 5))
def test_budgets_are_divided(rows: int, texts: int, n: int) -> None:
    """0 rows would mean "no budget", so no share becomes that; texts are never more than were allowed."""
    options = RetrieveOptions(max_scored_rows=rows, max_rerank_documents=texts)
    shares = [one.options for one in requests_of(SearchRequest(options=options), plan_of(*([1] * n)), PRESETS)]
    of_rows, of_texts = [one.max_scored_rows for one in shares], [one.max_rerank_documents for one in shares]
    assert sum(of_rows) == (max(rows, n) if rows else 0)
    assert all(of_rows) == bool(rows)
    assert sum(of_texts) == texts
    for parts in (of_rows, of_texts):
        assert max(parts) - min(parts) <= 1
        assert parts == sorted(parts, reverse=True)


@pytest.mark.parametrize("mode", RerankMode)
def test_a_query_without_a_share_of_texts_says_so(mode: RerankMode) -> None:
    request = SearchRequest(options=RetrieveOptions(rerank_mode=mode, max_rerank_documents=2))
    requests = requests_of(request, plan_of(1, 2, 3), PRESETS)
    assert [one.options.rerank_mode for one in requests] == [mode, mode, RerankMode.OFF]
    answers = tell_unranked(request, [failed_result(one, 1, AnswerWarning("X", "x")) for one in requests])
    assert [[warning.reason for warning in one.warnings] for one in answers] == [["X"], ["X"], ["X", SKIPPED]]
    none = replace(request, options=replace(request.options, max_rerank_documents=0))
    assert {one.options.rerank_mode for one in requests_of(none, plan_of(1, 2), PRESETS)} == {mode}
    assert [len(one.warnings) for one in tell_unranked(none, answers)] == [1, 1, 2]


def test_the_operators_budgets_are_divided_too() -> None:
    presets = {profile: replace(preset, max_scored_rows=100) for profile, preset in PRESETS.items()}
    requests = requests_of(SearchRequest(), plan_of(1, 2, 3), presets)
    assert [one.options.max_scored_rows for one in requests] == [34, 33, 33]
