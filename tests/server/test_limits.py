"""Limits that hold: slots come back, refusals come at once, a stop has its time, and answers have their size."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import reason_of, violations_of
from tests.server.fakes import FakeClock, StuckEmbedder
from tests.server.test_contexts_rpc import R, packed, put, refused
from viking_rpc.adapters.reranking import BatchReranker
from viking_rpc.config import Settings
from viking_rpc.domain.assembly import AssembledContext, AssembleStats
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.server.app import Server
from viking_rpc.server.assembling import assemble_response
from viking_rpc.server.convert_answer import MAX_RESPONSE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.domain.plan import PlanRequest, PlanResult

#: What is promised: seconds until the slots of calls are free that were cancelled or are late; of a refusal; of a stop.
FREE_S, REFUSAL_S, STOP_S = 1.0, 0.02, 3.0
N_CALLS = 32
QUERY = pb.RetrieveRequest(query=pb.Query(text="q"))
EXHAUSTIVE = pb.RetrieveOptions(profile=pb.PROFILE_EXHAUSTIVE, parallelism=1)


class StuckScorer:
    """Never gives a score."""

    name = "stuck"

    async def score(self, query: str, texts: Sequence[str], out: NDArray[np.float32], allowed_s: float) -> None:
        """Wait for ever."""
        del query, texts, out, allowed_s
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Hold nothing."""


class StuckPlanner:
    """Never gives a plan."""

    name = "stuck"

    async def plan(self, request: PlanRequest, timeout_s: float | None = None) -> PlanResult:
        """Wait for ever."""
        del request, timeout_s
        await asyncio.Event().wait()
        raise AssertionError

    def close(self) -> None:
        """Hold nothing."""


async def in_flight(server: Server, n: int) -> float:
    """Wait until so many calls are in work; return how long that took."""
    started_s = time.monotonic()
    async with asyncio.timeout(20):
        while server.runner.admission.n_in_flight != n:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0)
    return time.monotonic() - started_s


def parts_of(stuck: str) -> dict[str, Any]:
    """Return a server's parts, one of which never answers."""
    return {
        "embedder": {"embedder": StuckEmbedder()},
        "planner": {"planner": StuckPlanner()},
        "reranker": {"reranker": BatchReranker(StuckScorer())},
    }[stuck]


def ask(stubs: Stubs, stuck: str, timeout_s: float) -> Any:
    """Make a call that needs the stuck part."""
    if stuck == "planner":
        request = pb.SearchRequest(planning=pb.PlanRequest(task="find all about it"))
        return stubs.retrieval.Search(request, timeout=timeout_s)
    options = pb.RetrieveOptions(rerank_scope=pb.RERANK_SCOPE_EACH_LEVEL)
    return stubs.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY.query, options=options), timeout=timeout_s)


@pytest.mark.parametrize("stuck", ["embedder", "planner", "reranker"])
@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_calls_that_end_early_free_their_slots(tmp_path: Path, stuck: str, is_cancelled: bool) -> None:
    async with serving(make_settings(tmp_path), **parts_of(stuck)) as server, calling(server) as stubs:
        await put(stubs, Context(uri=f"{R}/d/a.md", content="x", vectors=[packed(0.5)]))
        calls = [ask(stubs, stuck, 30 if is_cancelled else 0.5) for _ in range(N_CALLS)]
        asking = [asyncio.ensure_future(one.code()) for one in calls]
        if is_cancelled:
            await in_flight(server, N_CALLS)
            for one in calls:
                one.cancel()
        codes = set(await asyncio.gather(*asking))
        assert await in_flight(server, 0) < FREE_S
        late = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.OK}  # a fallback may just make it
        assert codes <= ({grpc.StatusCode.CANCELLED} if is_cancelled else late)


@pytest.fixture(scope="module")
def large() -> list[Context]:
    """Return a tree of many directories, so that a walk of all has many slices."""
    return [
        Context(uri=f"{R}/{i:04}/{j}/f.md", content="x", vectors=[packed(0.5)]) for i in range(1500) for j in range(2)
    ]


async def test_walks_that_end_early_free_their_slots(tmp_path: Path, large: list[Context]) -> None:
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        for lo in range(0, len(large), 256):
            await put(stubs, *large[lo : lo + 256])
        request = pb.RetrieveRequest(query=QUERY.query, options=EXHAUSTIVE, limit=1000)
        whole = await stubs.retrieval.Retrieve(request)
        assert whole.stats.stop_reason == pb.STOP_REASON_EXHAUSTED
        assert whole.stats.rounds > 3000
        took_s = []
        for timeout_s in (0.005, 0.02, 0.08):
            codes = await asyncio.gather(
                *(stubs.retrieval.Retrieve(request, timeout=timeout_s).code() for _ in range(N_CALLS))
            )
            assert set(codes) <= {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.OK}
            took_s.append(await in_flight(server, 0))
        assert min(took_s) < FREE_S  # on a busy machine one of them may wait for a processor
        explain = pb.ExplainRequest(request=request, uri=large[-1].uri)
        calls = [stubs.retrieval.Explain(explain) for _ in range(4)]
        asking = [asyncio.ensure_future(one.code()) for one in calls]
        await in_flight(server, 4)
        for one in calls:
            one.cancel()
        await asyncio.gather(*asking)
        took_s = [await in_flight(server, 0)]
        watch = pb.WatchRetrieveRequest(request=request)
        for _ in range(3):
            stream = stubs.retrieval.WatchRetrieve(watch)
            assert (await stream.read()).step.uri
            stream.cancel()  # what it has sent is not read
            took_s.append(await in_flight(server, 0))
        assert min(took_s) < FREE_S
        assert (await stubs.retrieval.Retrieve(request)).matches == whole.matches


def test_deadlines_have_a_default_and_a_cap(tmp_path: Path) -> None:
    server = Settings(data=tmp_path).server
    assert (server.default_deadline_s, server.max_deadline_s) == (10.0, 60.0)


async def test_a_refusal_comes_at_once(tmp_path: Path) -> None:
    embedder = StuckEmbedder()
    settings = make_settings(tmp_path, max_in_flight=N_CALLS)
    async with serving(settings, embedder=embedder) as server, calling(server) as stubs:
        calls = [stubs.retrieval.Retrieve(QUERY, timeout=60) for _ in range(N_CALLS)]
        asking = [asyncio.ensure_future(one.code()) for one in calls]
        await in_flight(server, N_CALLS)
        durations = []
        for _ in range(50):
            started_s = time.monotonic()
            error = await refused(stubs.retrieval.Retrieve(QUERY))
            durations.append(time.monotonic() - started_s)
            assert reason_of(error) == "TOO_MANY_CALLS"
        assert statistics.median(durations) < REFUSAL_S
        for one in calls:
            one.cancel()
        await asyncio.gather(*asking)


async def test_a_stop_turns_health_first_and_has_its_time(tmp_path: Path) -> None:
    server = Server(make_settings(tmp_path), embedder=StuckEmbedder(), clock=FakeClock())
    await server.start()
    await server.load()
    async with grpc.aio.insecure_channel(server.address) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        asking = asyncio.ensure_future(Stubs(channel).retrieval.Retrieve(QUERY, timeout=60).code())
        await in_flight(server, 1)
        started_s = time.monotonic()
        stopping = asyncio.create_task(server.stop())
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert server.runner.admission.n_in_flight == 1
        await stopping
        assert time.monotonic() - started_s < STOP_S
        assert await asking != grpc.StatusCode.OK
        with suppress(grpc.RpcError, asyncio.CancelledError):
            await watch.read()
    assert server.runner.admission.n_in_flight == 0


# --- sizes


def encoded_size(message: Any) -> int:
    """Return the size of an answer, which gRPC clients take up to a limit."""
    size: int = message.ByteSize()
    assert size <= MAX_RESPONSE_BYTES
    return size


async def test_what_a_plan_tells_people_has_a_limit(stubs: Stubs) -> None:
    """It comes back with the answer, which would be too large for any client."""
    query = pb.TypedQuery(query="q", intent="i" * 40_000)
    plan = pb.QueryPlan(queries=[query], reasoning="r" * 5_000_000, session_context="\u4e2d" * 20_000)
    error = await refused(stubs.retrieval.Search(pb.SearchRequest(plan=plan)))
    fields = ("plan.queries[0].intent", "plan.reasoning", "plan.session_context")
    assert violations_of(error) == dict.fromkeys(fields, "TOO_LONG")


def test_the_uris_of_what_a_prompt_leaves_out_are_cut_openly() -> None:
    """The text of the greatest budget in characters of four bytes, and as many URIs as there are, of the longest."""
    text = "\U0001f680" * 800_000
    uris = tuple(f"{R}/{i:04}{'x' * 2000}" for i in range(1000))
    stats = AssembleStats(200_000, 200_000, 1000, 0, 0, 1000, (0, 0, 0))
    response = assemble_response(AssembledContext(text, (), uris, stats))
    assert encoded_size(response) > MAX_RESPONSE_BYTES - 4096
    assert response.text == text
    assert list(response.more_uris) == list(uris[: len(response.more_uris)])
    (warning,) = response.warnings
    assert warning.reason == "RESPONSE_TRUNCATED"
    assert f"the last {1000 - len(response.more_uris)} of" in warning.message
    whole = assemble_response(AssembledContext(text, (), uris[:300], stats))
    assert (len(whole.more_uris), len(whole.warnings)) == (300, 0)


async def test_the_largest_batch_is_answered(tmp_path: Path) -> None:
    """256 contexts with all tags, the longest titles and URIs: their answer must fit, for they are written by then."""
    tags = {f"{i:02}{'k' * 62}": "v" * 256 for i in range(32)}
    deep = "/".join(["d" * 250] * 7)
    contexts = [
        Context(uri=f"{R}/{deep}/{i:03}{'x' * 240}", title="t" * 1024, tags=tags, vectors=[packed(0.5)])
        for i in range(256)
    ]
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        written = await put(stubs, *contexts)
        assert encoded_size(written) > MAX_RESPONSE_BYTES * 0.7
        assert len(written.contexts) == 256
