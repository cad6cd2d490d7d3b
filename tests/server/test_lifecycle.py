"""Start, readiness, restart and stop of a server."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import detail, reason_of, status_of
from tests.server.fakes import FakeClock, StuckEmbedder, TableEmbedder
from tests.server.test_contexts_rpc import R, get, packed, put, refused
from viking_kernels import _jit
from viking_rpc.config import EmbedderSettings, IndexSettings, PlannerSettings, RerankerSettings
from viking_rpc.errors import FailedPreconditionError
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.server.app import SERVICES, Server
from viking_rpc.server.exposure import check_exposure

if TYPE_CHECKING:
    from pathlib import Path

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
RETRIEVE = pb.RetrieveRequest(query=pb.Query(text="x"))


def is_empty(folder: Path) -> bool:
    """Return whether a folder has nothing in it."""
    return not any(folder.iterdir())


async def health(server: Server, service: str = "") -> Any:
    """Return the health of a service."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.8.8.8:1", "[::1]:7654", "localhost:0", "unix:/tmp/x"])
def test_loopback_is_allowed(tmp_path: Path, listen: str) -> None:
    assert check_exposure(make_settings(tmp_path, listen=listen)) == ""


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:7654", "[::]:7654", "10.0.0.1:1", "example.org:80", "localhost.evil.org:1"]
)
async def test_what_others_can_reach_is_refused(tmp_path: Path, listen: str) -> None:
    server = Server(make_settings(tmp_path, listen=listen), embedder=TableEmbedder())
    with pytest.raises(FailedPreconditionError) as caught:
        await server.start()
    assert caught.value.reason == "NOT_LOOPBACK"
    await server.stop()
    assert is_empty(tmp_path)


async def test_before_it_is_loaded_it_is_reachable_and_not_serving(tmp_path: Path) -> None:
    server = Server(make_settings(tmp_path), embedder=TableEmbedder())
    try:
        address = await server.start()
        assert address.startswith("127.0.0.1:")
        assert not address.endswith(":0")
        assert await health(server) == NOT_SERVING
        async with calling(server) as stubs:
            error = await refused(stubs.retrieval.Retrieve(RETRIEVE))
            assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAVAILABLE, "NOT_READY")
            assert detail(status_of(error), error_details_pb2.RetryInfo) is not None
            await server.load()
            await stubs.retrieval.Retrieve(RETRIEVE)
        for service in ("", *SERVICES):
            assert await health(server, service) == SERVING
    finally:
        await server.stop(grace_s=0)


async def test_health_turns_not_serving_while_calls_end(tmp_path: Path) -> None:
    embedder = StuckEmbedder()
    server = Server(make_settings(tmp_path), embedder=embedder, clock=FakeClock())
    await server.start()
    await server.load()
    async with grpc.aio.insecure_channel(server.address) as channel:
        stubs, stub = Stubs(channel), health_pb2_grpc.HealthStub(channel)
        watched = {name: stub.Watch(health_pb2.HealthCheckRequest(service=name)) for name in ("", *SERVICES)}
        assert {(await watch.read()).status for watch in watched.values()} == {SERVING}
        asking = asyncio.ensure_future(stubs.retrieval.Retrieve(RETRIEVE))
        await asyncio.wait_for(embedder.is_asked.wait(), 5)
        stopping = asyncio.create_task(server.stop(grace_s=0.5))
        for watch in watched.values():
            assert (await asyncio.wait_for(watch.read(), 5)).status == NOT_SERVING
        assert not asking.done()  # it is told while the call is still in work
        assert not stopping.done()
        await asyncio.wait_for(stopping, 5)
        await refused(asking)


async def test_health_depends_on_nothing_elsewhere(tmp_path: Path) -> None:
    with socket.socket() as dead:  # bound and not listening: whoever connects is refused
        dead.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{dead.getsockname()[1]}"
        settings = make_settings(tmp_path).model_copy(
            update={
                "embedder": EmbedderSettings(name="openai", base_url=url, model="m", dimensions=2, timeout_s=0.5),
                "reranker": RerankerSettings(name="tei", base_url=url, timeout_s=0.5),
                "planner": PlannerSettings(name="openai", base_url=url, model="m", timeout_s=0.5),
            }
        )
        server = Server(settings, clock=FakeClock())
        try:
            await server.start()
            await server.load()
            assert await health(server) == SERVING
            async with calling(server) as stubs:
                error = await refused(stubs.retrieval.Retrieve(RETRIEVE))
                assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAVAILABLE, "EMBEDDER_UNAVAILABLE")
                vector = pb.Query(vector={"values": [1.0, 0.0]}, lexical_text="x")
                await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=vector))
                await stubs.retrieval.Plan(pb.PlanRequest(task="find the manual of the pump"))
            for service in ("", *SERVICES):
                assert await health(server, service) == SERVING
        finally:
            await server.stop(grace_s=0)


def test_whoever_has_loaded_the_server_has_compiled_every_kernel() -> None:
    code = (
        "import sys, viking_rpc.server.app; from viking_rpc.cli.kernels import kernel_modules; "
        "print([name for name in kernel_modules() if f'viking_kernels.{name}' not in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("rows", ["float32", "bfloat16"])
async def test_nothing_is_compiled_once_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str) -> None:
    settings = make_settings(tmp_path).model_copy(update={"index": IndexSettings(rows=rows)})
    async with serving(settings) as server, calling(server) as stubs:
        assert await health(server) == SERVING

        def compile_late(function: Any, *_: object) -> None:
            raise AssertionError(function.__name__)

        monkeypatch.setattr(_jit, "_compiled", compile_late)
        await put(stubs, *(Context(uri=f"{R}/{i}.md", content="x", vectors=[packed(0.5)]) for i in range(3)))
        for profile in (pb.PROFILE_BALANCED, pb.PROFILE_CLASSIC, pb.PROFILE_EXHAUSTIVE):
            for mode in (pb.RETRIEVE_MODE_QUICK, pb.RETRIEVE_MODE_THINKING):
                options = pb.RetrieveOptions(profile=profile)
                request = pb.RetrieveRequest(query=pb.Query(text="x"), mode=mode, options=options)
                assert len((await stubs.retrieval.Retrieve(request)).matches) == 3
        explained = pb.ExplainRequest(request=RETRIEVE, uri=f"{R}/1.md")
        await stubs.retrieval.Explain(explained)


async def test_reflection_names_every_service(server: Server) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        answers = [answer async for answer in stub.ServerReflectionInfo(iter([request]))]
    names = {service.name for service in answers[0].list_services_response.service}
    assert {*SERVICES, "grpc.health.v1.Health"} <= names


async def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await put(stubs, Context(uri=f"{R}/a.md", content="x", vectors=[packed(0.5)]))
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        assert (await get(stubs, f"{R}/a.md")).content == "x"
        answer = await stubs.retrieval.Retrieve(RETRIEVE)
        assert [match.display_uri for match in answer.matches] == [f"{R}/a.md"]


async def test_a_data_directory_has_one_server_and_the_second_is_told_where(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path)) as server:
        second = Server(make_settings(tmp_path), embedder=TableEmbedder())
        with pytest.raises(FailedPreconditionError) as caught:
            await second.start()
        assert caught.value.reason == "DATA_DIRECTORY_LOCKED"
        assert caught.value.metadata["address"] == server.address
        await second.stop()


async def test_a_port_has_one_server(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path / "a")) as server:
        second = Server(make_settings(tmp_path / "b", listen=server.address), embedder=TableEmbedder())
        with pytest.raises(FailedPreconditionError) as caught:
            await second.start()
        assert caught.value.reason == "CANNOT_LISTEN"
        await second.stop()


async def test_another_model_is_refused_and_names_both(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await put(stubs, Context(uri=f"{R}/a.md", content="x"))
    embedder = TableEmbedder()
    embedder.model = "other"
    server = Server(make_settings(tmp_path), embedder=embedder)
    await server.start()
    with pytest.raises(FailedPreconditionError) as caught:
        await server.load()
    await server.stop(grace_s=0)
    assert caught.value.reason == "MODEL_MISMATCH"
    assert (caught.value.metadata["stored_model"], caught.value.metadata["model"]) == ("table", "other")


async def test_stopping_lets_calls_in_work_end_and_takes_no_new_ones(tmp_path: Path) -> None:
    embedder = StuckEmbedder()
    server = Server(make_settings(tmp_path), embedder=embedder, clock=FakeClock())
    await server.start()
    await server.load()
    async with grpc.aio.insecure_channel(server.address) as channel:
        stubs = Stubs(channel)
        asking = asyncio.ensure_future(stubs.retrieval.Retrieve(RETRIEVE))
        await asyncio.wait_for(embedder.is_asked.wait(), 5)
        stopping = asyncio.create_task(server.stop(grace_s=2.0))
        error = await refused(stubs.retrieval.Retrieve(RETRIEVE))
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert not asking.done()
        await asyncio.wait_for(stopping, 5)  # the stuck call is ended after the grace
        assert (await refused(asking)).code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    assert embedder.is_given_up.is_set()
    assert server.runner.admission.n_in_flight == 0
    await server.stop()  # a second call does nothing


async def test_a_process_says_where_it_listens_and_ends_on_sigterm(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from viking_rpc.config import Settings; from viking_rpc.server.app import serve; "
        "serve(Settings(data=pathlib.Path(sys.argv[1]), server={'listen': '127.0.0.1:0'}, "
        "embedder={'name': 'none', 'dimensions': 2}), lambda address: print(address, flush=True))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        address = (await asyncio.wait_for(process.stdout.readline(), 120)).decode().strip()
        async with grpc.aio.insecure_channel(address) as channel:
            stubs = Stubs(channel)
            written = await put_when_ready(stubs)
            error = await refused(stubs.retrieval.Retrieve(RETRIEVE))
            assert (error.code(), reason_of(error)) == (grpc.StatusCode.FAILED_PRECONDITION, "NO_EMBEDDER")
        assert written.revision == 1
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(process.communicate(), 10)
        assert (process.returncode, errors) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def put_when_ready(stubs: Stubs) -> Any:
    """Write a context, as often as the server says that it is still loading."""
    while True:
        try:
            return await put(stubs, Context(uri=f"{R}/a", kind=1, title="no text"))
        except grpc.aio.AioRpcError as error:
            if reason_of(error) != "NOT_READY":
                raise
