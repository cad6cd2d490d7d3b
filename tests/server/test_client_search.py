"""Both clients search, explain and assemble: domain types in and out, equal to what was asked and answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.conftest import calling
from tests.server.test_client import Caller, R, caller, kind
from tests.server.test_contexts_rpc import packed, put
from tests.server.test_retrieve_rpc import fill
from viking_rpc.client.searches import as_search, search_message
from viking_rpc.domain.assembly import AssembleRequest
from viking_rpc.domain.context import ContextType, Level
from viking_rpc.domain.explain import Verdict
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.plan import PlanRequest, PlanStatus, QueryPlan, Turn, TypedQuery
from viking_rpc.domain.query import Filter, Mode, Query, RetrieveOptions, RetrieveRequest, Scope, TraceLevel, View
from viking_rpc.domain.search import MergeOptions, SearchRequest
from viking_rpc.domain.trace import EmptyReason
from viking_rpc.errors import InvalidArgumentError, NotFoundError
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.server.convert_request import read_request
from viking_rpc.server.convert_search import read_search

if TYPE_CHECKING:
    from viking_rpc.server.app import Server

__all__ = ["caller", "kind"]  # fixtures

OWN = RetrieveOptions(score_propagation_alpha=1.0, lexical_weight=0.0)
PLAN = QueryPlan((TypedQuery("one", ContextType.RESOURCE, "why", 1, (R,)), TypedQuery("two", priority=4)), "because")


@pytest.fixture
async def filled(server: Server, caller: Caller) -> Caller:
    """Fill the server."""
    async with calling(server) as stubs:
        await fill(stubs)
        await put(stubs, Context(uri="viking://agent/skills/s.md", content="skill", vectors=[packed(0.1)]))
    return caller


async def test_search(filled: Caller) -> None:
    result = await filled.call("search", PLAN, options=OWN, trace_level=TraceLevel.STEPS)
    assert result.plan == PLAN
    assert result.plan_status is None
    assert len(result.query_results) == 2
    assert all(one.steps and one.stats.rows_scored for one in result.query_results)
    assert [one.match.score for one in result.matches] == sorted((m.match.score for m in result.matches), reverse=True)
    assert all(result.matches[i].match.context.type is ContextType.MEMORY for i in result.memories)
    assert (await filled.call("search", "thanks!")).empty_reason is EmptyReason.PLAN_SKIPPED
    planned = await filled.call("search", PlanRequest("rotate it", (Turn("user", "the access token"),)), limit=2)
    assert planned.plan_status is PlanStatus.PLANNED
    with pytest.raises(InvalidArgumentError):
        await filled.call("search", QueryPlan())


async def test_explain(filled: Caller) -> None:
    query = Query(lexical_text="", vector=None, like_uri=f"{R}/a/2.md")
    told = await filled.call("explain", query, f"{R}/a/1.md", options=OWN)
    assert told.verdict is Verdict.RETURNED
    assert told.path[-1].uri == f"{R}/a/1.md"
    assert told.path[-2].step_index is not None
    with pytest.raises(NotFoundError):
        await filled.call("explain", "x", f"{R}/nothing")


async def test_assemble(filled: Caller) -> None:
    made = await filled.call("assemble", "x", max_tokens=300)
    assert made.stats.used_tokens <= made.stats.max_tokens == 300
    assert made.entries[0].uri in made.text
    assert {entry.level for entry in made.entries} <= set(Level)
    fewer = await filled.call("assemble", SearchRequest(plan=PLAN, limit=2), exclude_uris=[made.entries[0].uri])
    assert made.entries[0].uri not in [entry.uri for entry in fewer.entries]
    assert fewer.stats.n_matched == 2


def test_a_search_is_written_as_it_is_read() -> None:
    request = SearchRequest(
        plan=PLAN,
        scope=Scope((R,), frozenset({ContextType.RESOURCE})),
        filter=Filter(tags={"a": "b"}, levels=frozenset({Level.DETAIL})),
        limit=7,
        view=View.OVERVIEW,
        mode=Mode.QUICK,
        options=RetrieveOptions(score_threshold=0.25, time_budget_s=0.5),
        trace_level=TraceLevel.SCORES,
        min_revision=3,
        merge=MergeOptions(3, (1.0, 0.5, 0.5, 0.25, 0.0)),
    )
    read = read_search(search_message(request), LOCAL, 0, lambda one: read_request(one, []))
    assert read == request


def test_a_whole_request_takes_nothing_beside_it() -> None:
    with pytest.raises(TypeError, match="limit"):
        as_search(SearchRequest(plan=PLAN), limit=3)
    assert AssembleRequest(RetrieveRequest(Query(text="x"))).max_tokens == 2_000
