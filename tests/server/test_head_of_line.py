"""A model that does not answer delays nobody but its own callers, and those until their deadline."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.adapters.stub import hang
from tests.adapters.stub import serving as stubbing
from tests.server.conftest import Stubs, serving
from tests.server.fakes import TableEmbedder
from tests.server.test_contexts_rpc import R, packed, put
from viking_rpc.config import Settings
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

N_CALLERS = 16
DEADLINE_S = 0.3
#: Far below what the stub would take; how close to the deadline it is on a quiet machine, a benchmark tells.
FAR_TOO_LONG_S = 5.0


@pytest.mark.parametrize("stuck", ["reranker", "embedder", "planner"])
async def test_a_stuck_model_delays_nobody_else(
    tmp_path: Path, stuck: str, record_property: Callable[[str, object], None]
) -> None:
    """Users: issues/3045, issues/464. Sixteen callers wait for a stub that hangs; health checks go on meanwhile."""
    with stubbing(hang) as stub:
        kinds: dict[str, dict[str, Any]] = {
            "reranker": {"reranker": {"name": "http", "model": "tiny", "base_url": stub.base_url}},
            "embedder": {"embedder": {"name": "openai", "model": "tiny", "base_url": stub.base_url, "dimensions": 2}},
            "planner": {"planner": {"name": "openai", "model": "tiny", "base_url": stub.base_url}},
        }
        settings = Settings(data=tmp_path, server={"listen": "127.0.0.1:0"}, **kinds[stuck])
        embedder = None if stuck == "embedder" else TableEmbedder({"one": 1.0})
        async with (
            serving(settings, embedder=embedder) as server,
            grpc.aio.insecure_channel(server.address) as channel,
            grpc.aio.insecure_channel(server.address) as other_channel,
        ):
            stubs = Stubs(channel)
            await put(
                stubs, *(Context(uri=f"{R}/a/{i}.md", content=f"text {i}", vectors=[packed(0.5)]) for i in range(9))
            )
            callers = [asyncio.create_task(_call(stubs, stuck, f"query {i}")) for i in range(N_CALLERS)]
            health_s = await _check_health_until_done(other_channel, callers)
            outcomes = [caller.result() for caller in callers]
            slowest_s = max(took_s for took_s, _ in outcomes)
            record_property("slowest_caller_s", round(slowest_s, 3))
            record_property("slowest_health_check_s", round(max(health_s), 3))
            assert slowest_s < FAR_TOO_LONG_S
            assert max(health_s) < FAR_TOO_LONG_S
            assert {code for _, code in outcomes} <= {grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED}
            # a call of somebody else goes through
            vector = pb.RetrieveRequest(query=pb.Query(vector={"values": [1, 0]}))
            assert (await Stubs(other_channel).retrieval.Retrieve(vector, timeout=10)).matches
        # one request a caller at most: none was tried again, and none began, after its caller had left
        assert len(stub.requests) == len({str(request) for request in stub.requests}) <= N_CALLERS


async def _call(stubs: Stubs, stuck: str, text: str) -> tuple[float, grpc.StatusCode]:
    """Make one call with a short deadline; return how long it took and how it ended."""
    if stuck == "planner":
        planning = pb.PlanRequest(task=f"find all about {text}")
        call = stubs.retrieval.Search(pb.SearchRequest(planning=planning), timeout=DEADLINE_S)
    else:
        call = stubs.retrieval.Retrieve(pb.RetrieveRequest(query=pb.Query(text=text)), timeout=DEADLINE_S)
    started_s = time.monotonic()
    code = await call.code()
    return time.monotonic() - started_s, code


async def _check_health_until_done(channel: grpc.aio.Channel, tasks: list[asyncio.Task[Any]]) -> list[float]:
    """Check health again and again; return how long each check took."""
    stub = health_pb2_grpc.HealthStub(channel)
    durations = []
    pending: set[asyncio.Task[Any]] = set(tasks)
    while pending:
        started_s = time.monotonic()
        await stub.Check(health_pb2.HealthCheckRequest(), timeout=30)
        durations.append(time.monotonic() - started_s)
        _, pending = await asyncio.wait(pending, timeout=0.01)
    return durations
