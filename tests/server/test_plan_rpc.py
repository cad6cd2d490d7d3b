"""Plan over the wire: what is refused, what reaches the planner, and that a slow one delays nobody."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc

from tests.adapters import stub
from tests.adapters.stub import KEY
from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import reason_of, violations_of
from tests.server.test_contexts_rpc import R, put, refused
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.plan import PlanRequest, PlanResult, QueryPlan, TypedQuery, complete_plan
from viking_rpc.pb.v1 import admin_service_pb2, context_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context, Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest


class KeepingPlanner:
    """Plans one query and keeps what it was asked."""

    name = "keeping"

    def __init__(self) -> None:
        """Begin empty."""
        self.requests: list[PlanRequest] = []
        self.is_closed = False

    async def plan(self, request: PlanRequest, timeout_s: float | None = None) -> PlanResult:
        """Plan."""
        assert timeout_s is not None
        assert timeout_s > 0
        self.requests.append(request)
        return complete_plan(request, QueryPlan((TypedQuery("a"),)))

    def close(self) -> None:
        """Say so."""
        self.is_closed = True


@asynccontextmanager
async def keeping(folder: Path, **parts: Any) -> AsyncIterator[tuple[Stubs, KeepingPlanner]]:
    planner = KeepingPlanner()
    async with serving(make_settings(folder), planner=planner, **parts) as server, calling(server) as stubs:
        yield stubs, planner
    assert planner.is_closed


def plan_settings(folder: Path, **planner: Any) -> Any:
    return make_settings(folder).model_copy(
        update={"planner": make_settings(folder).planner.model_copy(update=planner)}
    )


async def test_a_task_becomes_typed_queries(stubs: Stubs) -> None:
    request = pb.PlanRequest(task="restart it", turns=[pb.Turn(role="user", text="what is the Kestrel gateway")])
    response = await stubs.retrieval.Plan(request)
    assert response.status == pb.PLAN_STATUS_PLANNED
    first = response.plan.queries[0]
    assert (first.query, first.type, first.priority) == ("restart Kestrel gateway", context_pb2.CONTEXT_TYPE_SKILL, 1)
    assert "restart it" in [query.query for query in response.plan.queries]
    assert (await stubs.admin.GetStoreInfo(admin_service_pb2.GetStoreInfoRequest())).planner == "rules"


async def test_small_talk_is_skipped(stubs: Stubs) -> None:
    response = await stubs.retrieval.Plan(pb.PlanRequest(task="thanks a lot"))
    assert response.status == pb.PLAN_STATUS_SKIPPED
    assert not response.plan.queries


async def test_everything_wrong_is_told_at_once(stubs: Stubs) -> None:
    request = pb.PlanRequest(
        task=" ",
        turns=[pb.Turn(role="user", text="x"), pb.Turn(role="robot", text="y")],
        type=9,
        max_queries=-1,
        scope=Scope(target_uris=["x:", f"{R}/a"], types=[7]),
    )
    error = await refused(stubs.retrieval.Plan(request))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert violations_of(error) == {
        "task": "EMPTY_TASK",
        "turns[1].role": "UNKNOWN_ROLE",
        "type": "UNKNOWN_VALUE",
        "max_queries": "OUT_OF_RANGE",
        "scope.target_uris[0]": "INVALID_URI",
        "scope.types[0]": "UNKNOWN_VALUE",
    }


async def test_a_long_task_and_a_contradiction_are_refused(stubs: Stubs) -> None:
    request = pb.PlanRequest(task="x" * 8193, type=context_pb2.CONTEXT_TYPE_SKILL, scope=Scope(types=[1]))
    assert violations_of(await refused(stubs.retrieval.Plan(request))) == {"task": "TOO_LONG", "type": "CONTRADICTION"}


async def test_a_target_must_exist_and_be_readable(stubs: Stubs) -> None:
    missing = await refused(stubs.retrieval.Plan(pb.PlanRequest(task="x", scope=Scope(target_uris=[f"{R}/no/where"]))))
    assert (missing.code(), reason_of(missing)) == (grpc.StatusCode.NOT_FOUND, "CONTEXT_NOT_FOUND")
    foreign = Scope(target_uris=["viking://user/bob/memories"])
    denied = await refused(stubs.retrieval.Plan(pb.PlanRequest(task="x", scope=foreign)))
    assert denied.code() == grpc.StatusCode.PERMISSION_DENIED


async def test_the_first_targets_abstract_and_a_cut_session_reach_the_planner(tmp_path: Path) -> None:
    """Users' row 60: what was given is what the planner sees."""
    async with keeping(tmp_path) as (stubs, planner):
        await put(
            stubs,
            Context(uri=f"{R}/hb", kind=1, abstract="All of the plant."),
            Context(uri=f"{R}/other", kind=1, abstract="Something else."),
        )
        response = await stubs.retrieval.Plan(
            pb.PlanRequest(
                task="open the valve",
                turns=[pb.Turn(role="tool", text=str(i)) for i in range(8)],
                summary="X-123" + "s" * 30_000,
                scope=Scope(target_uris=[f"{R}/hb", f"{R}/other"]),
                max_queries=99,
            )
        )
        request = planner.requests[0]
        assert request.target_abstract == "All of the plant."
        assert [turn.text for turn in request.turns] == list("34567")
        assert request.summary.startswith("X-123s")
        assert request.summary.endswith("[... 5 more characters]")
        assert request.max_queries == 5
        assert [warning.reason for warning in response.warnings] == ["SUMMARY_TRUNCATED"]


async def test_no_abstract_is_told_of_what_may_not_be_read(tmp_path: Path) -> None:
    root, alice = Identity("default", "root", Role.ROOT), Identity("default", "alice", Role.USER)
    who = [root]
    async with keeping(tmp_path, resolve=lambda _: who[0]) as (stubs, planner):
        await put(stubs, Context(uri="viking://user", kind=1, abstract="Of bob."))
        who[0] = alice
        for target in ("viking://user", "viking://"):
            await stubs.retrieval.Plan(pb.PlanRequest(task="x", scope=Scope(target_uris=[target])))
        assert [request.target_abstract for request in planner.requests] == ["", ""]


async def test_without_a_planner_the_task_is_the_query(tmp_path: Path) -> None:
    """Users' row 62: no model at all still gives an answer that says so."""
    async with serving(plan_settings(tmp_path, name="none")) as server, calling(server) as stubs:
        response = await stubs.retrieval.Plan(pb.PlanRequest(task="hello", type=context_pb2.CONTEXT_TYPE_MEMORY))
        assert response.status == pb.PLAN_STATUS_FALLBACK
        assert [(q.query, q.type) for q in response.plan.queries] == [("hello", context_pb2.CONTEXT_TYPE_MEMORY)]
        assert [warning.reason for warning in response.warnings] == ["PLAN_FALLBACK"]
        assert (await stubs.admin.GetStoreInfo(admin_service_pb2.GetStoreInfoRequest())).planner == ""


async def test_a_chat_planner_is_made_from_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_KEY", KEY)
    content = json.dumps({"queries": [{"query": "q", "type": "skill"}]})
    body = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
    with stub.serving(stub.raw(body)) as chat:
        chosen = {"name": "openai", "base_url": chat.base_url, "model": "tiny", "api_key_env": "PLAN_KEY"}
        async with serving(plan_settings(tmp_path, **chosen)) as server, calling(server) as stubs:
            response = await stubs.retrieval.Plan(pb.PlanRequest(task="t"))
            assert response.status == pb.PLAN_STATUS_PLANNED
            assert [query.query for query in response.plan.queries] == ["t", "q"]
            info = await stubs.admin.GetStoreInfo(admin_service_pb2.GetStoreInfoRequest())
            assert info.planner == "openai/tiny"
            assert KEY not in str(info)


async def test_a_stuck_planner_costs_its_callers_a_fallback_and_nobody_else_anything(tmp_path: Path) -> None:
    """Users' rows 9 and 52: sixteen callers of a planner that never answers, and others beside them."""
    with stub.serving(stub.hang) as chat:
        chosen = {"name": "openai", "base_url": chat.base_url, "model": "tiny"}
        async with serving(plan_settings(tmp_path, **chosen)) as server, calling(server) as stubs:
            loop = asyncio.get_running_loop()
            start_s = loop.time()
            stuck = [asyncio.create_task(_ended(stubs)) for _ in range(16)]
            assert await asyncio.to_thread(chat.arrived.wait, 10)
            await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=pb.Query(text="anything")))
            assert not all(task.done() for task in stuck) or loop.time() - start_s < 10
            ends = await asyncio.gather(*stuck)
            # The stub holds its answers back for 20 s; who waited for it would have taken as long.
            assert loop.time() - start_s < 10
            assert set(ends) <= {pb.PLAN_STATUS_FALLBACK, grpc.StatusCode.DEADLINE_EXCEEDED}
            n_asked = len(chat.requests)
            await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=pb.Query(text="anything")))
            assert len(chat.requests) == n_asked <= 16


async def _ended(stubs: Stubs) -> Any:
    """Return how a plan ended, its status or the code of its error."""
    try:
        return (await stubs.retrieval.Plan(pb.PlanRequest(task="t"), timeout=2)).status
    except grpc.aio.AioRpcError as error:
        return error.code()
