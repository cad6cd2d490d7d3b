"""Answers of a search as messages: never larger than clients take, and cut openly."""

from __future__ import annotations

from viking_rpc.domain.context import Context, ContextType, Kind, Level
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.plan import PlanStatus, QueryPlan, TypedQuery
from viking_rpc.domain.query import Mode, TraceLevel
from viking_rpc.domain.search import SearchRequest, SearchResult
from viking_rpc.domain.trace import Match, RetrieveResult, RetrieveStats, ScoreParts, TraceStep
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.retrieve.search import merge_results
from viking_rpc.server.convert_answer import MAX_RESPONSE_BYTES
from viking_rpc.server.convert_search import search_response
from viking_rpc.server.encoded import EncodedContexts

N_QUERIES = 5


def make_result(n: int, *, n_abstract: int, n_name: int = 10, n_steps: int = 0) -> tuple[SearchResult, SearchRequest]:
    """Return a merged answer of five queries that find the same, and its request."""
    matches = tuple(
        Match(
            context=Context(
                f"viking://resources/{i:0{n_name}}", Kind.FILE, ContextType.RESOURCE, abstract="x" * n_abstract
            ),
            display_uri=f"viking://resources/{i:0{n_name}}",
            level=Level.DETAIL,
            score=0.5,
            parts=ScoreParts(own=0.5, relevance=0.5),
        )
        for i in range(n)
    )
    steps = tuple(TraceStep(i, i, f"viking://resources/{'s' * 200}", 0.5, 1, 1, 1, 1, 1.0) for i in range(n_steps))
    one = RetrieveResult(matches, 1, Mode.THINKING, ("viking://resources",), RetrieveStats(), steps=steps)
    request = SearchRequest(limit=n, trace_level=TraceLevel.STEPS)
    plan = QueryPlan(tuple(TypedQuery(f"q{i}") for i in range(N_QUERIES)))
    return merge_results(request, plan, [one] * N_QUERIES, 1), request


def write(n: int, **sizes: int) -> pb.SearchResponse:
    """Write such an answer."""
    result, request = make_result(n, **sizes)
    return search_response(result, request, EncodedContexts().of(LOCAL))


def reasons(warnings: object) -> set[str]:
    """Return the reasons of warnings."""
    return {warning.reason for warning in warnings}  # type: ignore[attr-defined]


def test_a_small_answer_is_whole() -> None:
    response = write(20, n_abstract=100, n_steps=5)
    assert len(response.matches) == 20
    assert list(response.resources) == list(range(20))
    assert [len(result.uris) for result in response.query_results] == [20] * N_QUERIES
    assert [len(result.steps) for result in response.query_results] == [5] * N_QUERIES
    assert not response.warnings
    assert response.plan_status == pb.PLAN_STATUS_UNSPECIFIED


def test_matches_that_do_not_fit_are_cut_openly() -> None:
    """users.md 95 (grpc.io issue 1254): the server cuts below what clients take, and says so."""
    response = write(1000, n_abstract=8_000)
    assert response.ByteSize() <= MAX_RESPONSE_BYTES
    assert 0 < len(response.matches) < 1000
    assert list(response.resources) == list(range(len(response.matches)))
    assert reasons(response.warnings) == {"RESPONSE_TRUNCATED"}
    assert response.total_matched == 1000


def test_provenance_leaves_room_for_the_matches() -> None:
    """users.md 95 (grpc.io issue 1254): long URIs and many steps do not crowd the matches out."""
    response = write(1000, n_abstract=10, n_name=1_500, n_steps=5_000)
    assert response.ByteSize() <= MAX_RESPONSE_BYTES
    assert "TRACE_TRUNCATED" in reasons(response.warnings)
    assert all(reasons(result.warnings) == {"TRACE_TRUNCATED"} for result in response.query_results)
    assert len(response.matches) > 400


def test_the_status_of_the_plan_is_told() -> None:
    result, request = make_result(1, n_abstract=1)
    told = {
        status: search_response(
            SearchResult(result.matches, result.plan, status, (), 1), request, EncodedContexts().of(LOCAL)
        ).plan_status
        for status in PlanStatus
    }
    assert told == {
        PlanStatus.PLANNED: pb.PLAN_STATUS_PLANNED,
        PlanStatus.SKIPPED: pb.PLAN_STATUS_SKIPPED,
        PlanStatus.FALLBACK: pb.PLAN_STATUS_FALLBACK,
    }
