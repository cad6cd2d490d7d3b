"""The chat planner against a real endpoint on loopback that is untidy, refuses, hangs, dies and recovers."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.adapters import stub
from tests.adapters.stub import KEY, Answer, Reply, Stub, serving
from viking_rpc.adapters.llm_planner import LlmPlanner, LlmPlannerOptions
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import PlanRequest, PlanStatus, Turn
from viking_rpc.domain.ports import Planner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from viking_rpc.domain.plan import PlanResult

REQUEST = PlanRequest(
    "rotate it",
    turns=(Turn("user", "what is the broker key"), Turn("assistant", "A token.")),
    summary="They spoke of X-123.",
    target_abstract="Keys of the plant.",
)
QUERIES = {"queries": [{"query": "rotate the broker key", "type": "SKILL", "priority": 1}]}


def said(content: Any, **message: Any) -> Answer:
    """Answer as a chat endpoint does."""
    body = {"choices": [{"message": {"role": "assistant", "content": content, **message}}]}
    return lambda _stub, _body: Reply(body=json.dumps(body).encode())


TIDY = said(json.dumps(QUERIES))


@contextmanager
def planning(*script: Answer, model: str = "tiny", **options: Any) -> Iterator[tuple[Stub, LlmPlanner]]:
    with serving(*script) as server:
        planner = LlmPlanner(server.base_url, model, KEY, LlmPlannerOptions(**({"backoff_s": 0.001} | options)))
        try:
            yield server, planner
        finally:
            planner.close()


def plan(planner: LlmPlanner, request: PlanRequest = REQUEST, timeout_s: float | None = None) -> PlanResult:
    return asyncio.run(planner.plan(request, timeout_s))


def why(result: PlanResult) -> str:
    """Return why a plan fell back to the task."""
    assert result.status is PlanStatus.FALLBACK
    assert [query.query for query in result.plan.queries] == [REQUEST.task]
    assert [warning.reason for warning in result.warnings] == ["PLAN_FALLBACK"]
    assert KEY not in result.warnings[0].message
    return result.warnings[0].message


def test_plans_and_sends_what_surrounds_the_task() -> None:
    """Users' row 60: what was given reaches the model, the summary with it."""
    with planning(TIDY) as (server, planner):
        assert isinstance(planner, Planner)
        assert planner.name == "openai/tiny"
        result = plan(planner)
        assert result.status is PlanStatus.PLANNED
        assert [(q.query, q.type) for q in result.plan.queries] == [
            ("rotate it", None),
            ("rotate the broker key", ContextType.SKILL),
        ]
        request = server.requests[0]
        assert (request["path"], request["model"], request["temperature"]) == ("/v1/chat/completions", "tiny", 0)
        assert request["response_format"]["json_schema"]["schema"]["required"] == [
            "reasoning",
            "session_context",
            "queries",
        ]
        system, user = (message["content"] for message in request["messages"])
        assert "RESOURCE" in system
        assert "0 to 5 queries" in system
        for text in ("X-123", "[user]: what is the broker key", "[assistant]: A token.", "Keys of the plant."):
            assert text in user
        assert user.endswith("Task: rotate it")
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_a_restricting_type_and_a_number_are_told() -> None:
    with planning(TIDY) as (server, planner):
        result = plan(planner, PlanRequest("x", type=ContextType.MEMORY, max_queries=2))
        assert {query.type for query in result.plan.queries} == {ContextType.MEMORY}
        system, user = (message["content"] for message in server.requests[0]["messages"])
        assert "0 to 2 queries" in system
        assert "must have the type MEMORY" in user


def test_the_prompt_is_chosen_by_the_exact_name() -> None:
    systems = []
    for model in ("gemma3:270m", "gemma3:270m-other", "GEMMA3:270M"):
        with planning(TIDY, model=model) as (server, planner):
            plan(planner)
            systems.append(server.requests[0]["messages"][0]["content"])
    assert systems[0] != systems[1]
    assert systems[1] == systems[2]


def test_an_explicit_empty_list_is_skipped() -> None:
    with planning(said('{"queries": []}')) as (_, planner):
        result = plan(planner)
        assert (result.status, result.plan.queries, result.warnings) == (PlanStatus.SKIPPED, (), ())


def test_content_in_parts_is_read() -> None:
    text = json.dumps(QUERIES)
    with planning(said([{"type": "text", "text": text[:9]}, {"type": "text", "text": text[9:]}])) as (_, planner):
        assert plan(planner).status is PlanStatus.PLANNED


UNREADABLE: dict[str, Answer] = {
    "prose": said("I would look for keys."),
    "no content": said(None),
    "number": said(7),
    "blank queries": said('{"queries": [{"query": " "}]}'),
    "an endless thought": said('<think>{"queries": []}'),
    "no choices": stub.raw(b'{"choices": []}'),
    "choices of numbers": stub.raw(b'{"choices": [1]}'),
    "no message": stub.raw(b'{"choices": [{}]}'),
    "another object": stub.raw(b'{"error": "x"}'),
    "bare list": stub.raw(b"[]"),
    "garbage": stub.raw(b"<html>"),
    "empty": stub.raw(b""),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_answer_is_a_fallback(name: str) -> None:
    """Users' rows 56 and 86: nonsense costs the plan, never the answer."""
    with planning(UNREADABLE[name]) as (server, planner):
        assert server.base_url.removesuffix("/v1") in why(plan(planner))
        assert len(server.requests) == 1


@pytest.mark.parametrize("code", [400, 404, 415, 422, 501])
def test_a_server_that_refuses_the_schema_is_asked_without_it_from_then_on(code: int) -> None:
    def picky(server: Stub, body: dict[str, Any]) -> Reply:
        return (stub.status(code, "unknown field") if "response_format" in body else TIDY)(server, body)

    with planning(picky) as (server, planner):
        assert plan(planner).status is PlanStatus.PLANNED
        assert plan(planner).status is PlanStatus.PLANNED
        assert ["response_format" in request for request in server.requests] == [True, False, False]
        assert "JSON object only" in server.requests[1]["messages"][0]["content"]


def test_a_refusal_that_is_not_of_the_schema_does_not_turn_it_off() -> None:
    with planning(stub.status(404, "no such model"), stub.status(404, "no such model"), TIDY) as (server, planner):
        assert "no such model" in why(plan(planner))
        assert plan(planner).status is PlanStatus.PLANNED
        assert "response_format" in server.requests[2]


def test_a_wrong_key_is_not_asked_twice() -> None:
    with planning(stub.status(401, f"bad key {KEY}")) as (server, planner):
        assert "status 401: bad key ***" in why(plan(planner))
        assert len(server.requests) == 1


@pytest.mark.parametrize("first", [stub.status(503), stub.status(429, "", ("Retry-After", "0")), stub.cut])
def test_a_passing_failure_is_retried_once(first: Answer) -> None:
    with planning(first, TIDY) as (server, planner):
        assert plan(planner).status is PlanStatus.PLANNED
        assert len(server.requests) == 2


def test_nobody_listening_is_a_fallback() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        planner = LlmPlanner(f"http://127.0.0.1:{closed.getsockname()[1]}/v1", "tiny")
        assert "does not answer" in why(plan(planner))
        planner.close()


def test_a_hanging_planner_is_a_fallback_within_the_callers_time() -> None:
    with planning(stub.hang) as (server, planner):
        assert "within 0.05 s" in why(plan(planner, timeout_s=0.05))
        assert server.disconnected.wait(10)


def test_no_time_left_asks_nobody() -> None:
    with planning(TIDY) as (server, planner):
        assert "no time" in why(plan(planner, timeout_s=0.0))
        assert server.requests == []


def test_a_cancelled_plan_drops_its_connection() -> None:
    async def run(server: Stub, planner: LlmPlanner) -> None:
        task = asyncio.create_task(planner.plan(REQUEST))
        assert await asyncio.to_thread(server.arrived.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.disconnected.wait, 10)

    with planning(stub.hang) as (server, planner):
        asyncio.run(run(server, planner))


def test_failures_open_the_circuit_and_a_healed_endpoint_is_asked_again() -> None:
    """Users' row 53: a short outage costs a short time."""
    with planning(*[stub.status(500)] * 4, TIDY, breaker_failures=2, breaker_reset_s=1e6) as (server, planner):
        for _ in range(2):
            assert "status 500" in why(plan(planner))
        assert "is left alone" in why(plan(planner))
        assert len(server.requests) == 4
        planner._breaker._reset_s = 0.0
        assert plan(planner).status is PlanStatus.PLANNED


def test_callers_with_little_time_do_not_open_the_circuit() -> None:
    with planning(stub.hang, TIDY, breaker_failures=1, breaker_reset_s=1e6) as (_, planner):
        why(plan(planner, timeout_s=0.02))
        assert plan(planner).status is PlanStatus.PLANNED


def test_plans_share_the_planner_across_event_loops_and_tell_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with planning(TIDY) as (_, planner):
        for _ in range(2):
            assert plan(planner).status is PlanStatus.PLANNED
    logged = "".join(record.getMessage() for record in caplog.records if record.name.startswith("viking"))
    assert KEY not in logged
    assert REQUEST.task not in logged
