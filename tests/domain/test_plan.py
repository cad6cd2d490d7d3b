"""What holds for every plan, whoever proposed it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import (
    MAX_SUMMARY_CHARS,
    MAX_TURN_CHARS,
    PlanRequest,
    PlanStatus,
    QueryPlan,
    Turn,
    TypedQuery,
    bound_session,
    complete_plan,
    fall_back,
)
from viking_rpc.domain.query import Scope

TASK = "rotate the API keys"
SKILL, MEMORY, RESOURCE = ContextType.SKILL, ContextType.MEMORY, ContextType.RESOURCE


def plan_of(*queries: TypedQuery) -> QueryPlan:
    return QueryPlan(queries, "because", "of that")


def test_the_task_itself_is_among_the_queries() -> None:
    """Users' row 58: a planner that rewrites must not lose what was asked."""
    result = complete_plan(PlanRequest(TASK), plan_of(TypedQuery("rotate keys", SKILL, "act", 1)))
    assert [(q.query, q.type, q.priority) for q in result.plan.queries] == [(TASK, None, 1), ("rotate keys", SKILL, 1)]
    assert (result.status, result.plan.reasoning, result.plan.session_context) == (
        PlanStatus.PLANNED,
        "because",
        "of that",
    )


def test_no_query_is_skipped() -> None:
    result = complete_plan(PlanRequest(TASK), QueryPlan(reasoning="small talk"))
    assert (result.status, result.plan.queries, result.warnings) == (PlanStatus.SKIPPED, (), ())


def test_a_task_that_is_proposed_is_not_repeated() -> None:
    result = complete_plan(PlanRequest(TASK), plan_of(TypedQuery("Rotate  the API KEYS", None, "it all", 4)))
    assert [(q.query, q.intent, q.priority) for q in result.plan.queries] == [(TASK, "it all", 4)]


def test_blanks_repeats_and_what_is_too_long_are_dropped() -> None:
    proposed = [TypedQuery(" "), TypedQuery("a", SKILL), TypedQuery("A", SKILL), TypedQuery("a", MEMORY)]
    result = complete_plan(PlanRequest(TASK), plan_of(*proposed, TypedQuery("\u4e2d" * 3000)))
    assert [(q.query, q.type) for q in result.plan.queries] == [(TASK, None), ("a", SKILL), ("a", MEMORY)]


def test_the_most_important_are_kept_in_the_planners_order() -> None:
    proposed = [
        TypedQuery(name, SKILL, "", priority) for name, priority in zip("abcdef", (3, 2, 9, 2, 1, 3), strict=True)
    ]
    kept = complete_plan(PlanRequest(TASK), plan_of(*proposed)).plan.queries
    assert [(q.query, q.priority) for q in kept] == [(TASK, 1), ("e", 1), ("b", 2), ("d", 2), ("a", 3)]
    only = complete_plan(PlanRequest(TASK, max_queries=1), plan_of(*proposed)).plan.queries
    assert [q.query for q in only] == [TASK]


def test_a_restricting_type_is_put_in() -> None:
    for request in (PlanRequest(TASK, type=MEMORY), PlanRequest(TASK, scope=Scope(types=frozenset({MEMORY})))):
        result = complete_plan(request, plan_of(TypedQuery("a", SKILL), TypedQuery("a", RESOURCE)))
        assert [(q.query, q.type) for q in result.plan.queries] == [(TASK, MEMORY), ("a", MEMORY)]


def test_types_outside_the_scope_are_dropped() -> None:
    request = PlanRequest(TASK, scope=Scope(types=frozenset({MEMORY, SKILL})))
    result = complete_plan(request, plan_of(TypedQuery("a", SKILL), TypedQuery("b", RESOURCE)))
    assert [(q.query, q.type) for q in result.plan.queries] == [(TASK, None), ("a", SKILL)]


def test_a_fallback_is_the_task_and_says_why() -> None:
    result = fall_back(PlanRequest(f" {TASK}\n", type=SKILL), "it burns")
    assert [(q.query, q.type) for q in result.plan.queries] == [(TASK, SKILL)]
    assert result.status is PlanStatus.FALLBACK
    assert [w.reason for w in result.warnings] == ["PLAN_FALLBACK"]
    assert "it burns" in result.warnings[0].message


def test_a_long_session_is_cut_marked_and_told() -> None:
    turns = tuple(Turn("user", f"{i}" * (MAX_TURN_CHARS + i)) for i in range(7))
    request, warnings = bound_session(PlanRequest(TASK, turns=turns, summary="s" * (MAX_SUMMARY_CHARS + 12)))
    assert request.summary == "s" * MAX_SUMMARY_CHARS + " [... 12 more characters]"
    assert [turn.text[0] for turn in request.turns] == list("23456")
    assert request.turns[0].text.endswith("22 [... 2 more characters]")
    assert [w.reason for w in warnings] == ["SUMMARY_TRUNCATED", "TURNS_TRUNCATED"]


def test_a_session_that_fits_is_left_alone() -> None:
    request = PlanRequest(TASK, turns=(Turn("user", "hi"),), summary="s" * MAX_SUMMARY_CHARS)
    assert bound_session(request) == (request, ())


QUERIES = st.builds(
    TypedQuery,
    query=st.text("ab \u4e2d", max_size=4),
    type=st.sampled_from([None, *ContextType]),
    priority=st.integers(-2, 9),
)


@given(
    st.lists(QUERIES, max_size=9),
    st.integers(1, 5),
    st.sampled_from([None, *ContextType]),
    st.frozensets(st.sampled_from(ContextType)),
)
def test_the_rules_hold_for_any_proposal(
    proposed: list[TypedQuery], most: int, kind: ContextType | None, types: frozenset[ContextType]
) -> None:
    request = PlanRequest("ab a", type=kind, scope=Scope(types=types), max_queries=most)
    result = complete_plan(request, QueryPlan(tuple(proposed)))
    queries = result.plan.queries
    assert (result.status is PlanStatus.SKIPPED) == (not proposed) == (not queries)
    if queries:
        assert "ab a" in [query.query for query in queries]
        assert len(queries) <= most
        assert len({(query.query.casefold(), query.type) for query in queries}) == len(queries)
        assert [query.priority for query in queries] == sorted(query.priority for query in queries)
        assert all(1 <= query.priority <= 5 for query in queries)
        if request.only_type is not None:
            assert {query.type for query in queries} == {request.only_type}
        elif types:
            assert {query.type for query in queries} <= {None, *types}
