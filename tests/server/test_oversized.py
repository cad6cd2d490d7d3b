"""Lists, maps and texts far over their limits are refused by their size: nobody waits while each entry is looked at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.server.details import violations_of
from tests.server.test_contexts_rpc import refused
from viking_rpc.pb.v1 import context_pb2, context_service_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.server.conftest import Stubs

N = 100_000
#: What an answer may count: with more, somebody has looked at entries that the limit had refused already.
MOST = 1_200
BAD = ["x"] * N
QUERY = pb.Query(text="q")
_TAGS = {str(i): "" for i in range(N)}
_ASKED: dict[str, tuple[str, Callable[[Stubs], Any]]] = {
    "targets": (
        "scope.target_uris",
        lambda to: to.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY, scope=context_pb2.Scope(target_uris=BAD))),
    ),
    "types": (
        "scope.types",
        lambda to: to.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY, scope=context_pb2.Scope(types=[77] * N))),
    ),
    "levels": (
        "filter.levels",
        lambda to: to.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY, filter=context_pb2.Filter(levels=[1] * N))),
    ),
    "excluded": (
        "filter.exclude_uris",
        lambda to: to.contexts.ListContexts(
            context_service_pb2.ListContextsRequest(filter=context_pb2.Filter(exclude_uris=BAD))
        ),
    ),
    "tags": (
        "filter.tags",
        lambda to: to.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY, filter=context_pb2.Filter(tags=_TAGS))),
    ),
    "turns": ("turns", lambda to: to.retrieval.Plan(pb.PlanRequest(task="t", turns=[pb.Turn()] * N))),
    "targets to plan for": (
        "scope.target_uris",
        lambda to: to.retrieval.Plan(pb.PlanRequest(task="t", scope=context_pb2.Scope(target_uris=BAD))),
    ),
    "targets of a plan": (
        "plan.queries[0].target_uris",
        lambda to: to.retrieval.Search(
            pb.SearchRequest(plan=pb.QueryPlan(queries=[pb.TypedQuery(query="q", target_uris=BAD)]))
        ),
    ),
    "queries": (
        "plan.queries",
        lambda to: to.retrieval.Search(pb.SearchRequest(plan=pb.QueryPlan(queries=[pb.TypedQuery()] * N))),
    ),
    "excluded of a prompt": (
        "exclude_uris",
        lambda to: to.retrieval.AssembleContext(
            pb.AssembleContextRequest(retrieve=pb.RetrieveRequest(query=QUERY), exclude_uris=BAD)
        ),
    ),
    "contexts": ("contexts", lambda to: _put(to, [Context()] * N)),
    "tags of a context": ("contexts[0].tags", lambda to: _put(to, [Context(uri="viking://resources/a", tags=_TAGS)])),
    "vectors": (
        "contexts[0].vectors",
        lambda to: _put(to, [Context(uri="viking://resources/a", vectors=[context_pb2.LevelVector()] * N)]),
    ),
    "relations": (
        "contexts[0].relations",
        lambda to: _put(to, [Context(uri="viking://resources/a", relations=[context_pb2.Relation()] * N)]),
    ),
    "removed": (
        "uris",
        lambda to: to.contexts.DeleteContexts(context_service_pb2.DeleteContextsRequest(uris=BAD)),
    ),
    "touched": ("uris", lambda to: to.contexts.TouchContexts(context_service_pb2.TouchContextsRequest(uris=BAD))),
}


def _put(to: Stubs, contexts: list[Context]) -> Awaitable[Any]:
    return to.contexts.UpsertContexts(context_service_pb2.UpsertContextsRequest(contexts=contexts))


@pytest.mark.parametrize("name", list(_ASKED))
async def test_a_list_that_is_far_too_long_is_refused_by_its_length(stubs: Stubs, name: str) -> None:
    field, ask = _ASKED[name]
    error = await refused(ask(stubs))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert violations_of(error)[field] == "TOO_MANY"
    counted = re.match(r"the request has (\d+) violation", error.details() or "")
    assert counted is not None
    assert int(counted[1]) <= MOST


@pytest.mark.parametrize("uri", ["viking://" + "a/" * 500_000, "viking://resources/" + "{calendar:today}" * 50_000])
async def test_a_uri_that_is_far_too_long_is_refused_by_its_length(stubs: Stubs, uri: str) -> None:
    error = await refused(stubs.contexts.GetContext(context_service_pb2.GetContextRequest(uri=uri)))
    assert violations_of(error) == {"uri": "INVALID_URI"}
    assert "longer than 2048 bytes" in (error.details() or "")


async def test_a_uri_may_be_written_longer_than_it_is(stubs: Stubs) -> None:
    request = context_service_pb2.ListContextsRequest(parent_uri=f"viking://{'/' * 4000}resources{'/' * 4000} ")
    error = await refused(stubs.contexts.ListContexts(request))
    assert error.code() == grpc.StatusCode.NOT_FOUND
