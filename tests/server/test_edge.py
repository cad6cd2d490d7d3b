"""What every RPC gets: identity, admission, deadline, errors as statuses, one line in the log."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING

import grpc
import pytest
from google.rpc import error_details_pb2

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import detail, reason_of, status_of, violations_of
from tests.server.fakes import BrokenEmbedder, StuckEmbedder
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.pb.v1 import admin_service_pb2, context_pb2, context_service_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from viking_rpc.server.app import Server

REQUEST = pb.RetrieveRequest(query=pb.Query(text="where is the secret"))
INFO = admin_service_pb2.GetStoreInfoRequest()


async def test_an_unforeseen_error_is_logged_and_its_text_not_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(make_settings(tmp_path), embedder=BrokenEmbedder()) as server, calling(server) as stubs:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stubs.retrieval.Retrieve(REQUEST, metadata=(("x-request-id", "my-id"),))
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert reason_of(caught.value) == "INTERNAL"
    assert b"secret" not in status_of(caught.value).SerializeToString()
    found = detail(status_of(caught.value), error_details_pb2.RequestInfo)
    assert found is not None
    assert found.request_id == "my-id"
    records = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert [r.getMessage() for r in records] == ["rpc_failed method=RetrievalService/Retrieve request_id=my-id"]
    assert records[0].exc_info is not None
    assert "the secret path" in str(records[0].exc_info[1])


async def test_every_call_leaves_one_line_without_texts(stubs: Stubs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "viking_rpc")
    await stubs.retrieval.Retrieve(REQUEST)
    with pytest.raises(grpc.aio.AioRpcError):
        await stubs.contexts.GetContext(context_service_pb2.GetContextRequest(uri="viking://resources/hidden"))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert re.fullmatch(
        r"rpc method=RetrievalService/Retrieve code=OK reason=- total_ms=\d+\.\d{1,3} embed_ms=\S+ seed_ms=\S+ "
        r"descent_ms=\S+ n_expansions=\d+ n_matches=0 snapshot=0 identity=[0-9a-f]{12} request_id=[0-9a-f]{16}",
        lines[0],
    )
    assert "method=ContextService/GetContext code=NOT_FOUND reason=CONTEXT_NOT_FOUND" in lines[1]
    assert not any("secret" in line or "hidden" in line or "viking://" in line for line in lines)


async def test_a_request_id_that_cannot_stand_in_a_line_is_replaced(
    stubs: Stubs, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "viking_rpc")
    for given, is_kept in (("a-1", True), ("a b", False), ("x" * 129, False)):
        caplog.clear()
        await stubs.admin.GetStoreInfo(INFO, metadata=(("x-request-id", given),))
        assert caplog.records[-1].getMessage().endswith(f"request_id={given}") is is_kept


# --- identity


@pytest.mark.parametrize(
    ("metadata", "code", "reason"),
    [
        ((("viking-user", "bob"),), grpc.StatusCode.PERMISSION_DENIED, "IDENTITY_NOT_ALLOWED"),
        ((("viking-account", "acme"),), grpc.StatusCode.PERMISSION_DENIED, "IDENTITY_NOT_ALLOWED"),
        ((("viking-peer", "a b"),), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PEER"),
        ((("viking-peer", ".."),), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_PEER"),
        ((("viking-peer", "p"), ("viking-peer", "q")), grpc.StatusCode.INVALID_ARGUMENT, "REPEATED_METADATA"),
    ],
)
async def test_without_keys_nobody_is_somebody_else(
    stubs: Stubs, metadata: tuple[tuple[str, str], ...], code: grpc.StatusCode, reason: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stubs.retrieval.Retrieve(REQUEST, metadata=metadata)
    assert (caught.value.code(), reason_of(caught.value)) == (code, reason)


async def test_any_caller_may_name_its_peer(stubs: Stubs) -> None:
    metadata = (("viking-user", "default"), ("viking-peer", "p"))
    answer = await stubs.retrieval.Retrieve(REQUEST, metadata=metadata)
    assert "viking://user/default/peers/p/memories" in answer.searched_roots
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stubs.contexts.GetContext(
            context_service_pb2.GetContextRequest(uri="viking://~/peers/q/memories"), metadata=metadata
        )
    assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED


async def test_a_resolver_decides_who_calls(tmp_path: Path) -> None:
    def resolve(metadata: Mapping[str, str]) -> Identity:
        return Identity("acme", metadata["authorization"].removeprefix("Bearer "), Role.USER)

    async with serving(make_settings(tmp_path), resolve=resolve) as server, calling(server) as stubs:
        answer = await stubs.retrieval.Retrieve(REQUEST, metadata=(("authorization", "Bearer alice"),))
        assert list(answer.searched_roots) == ["viking://user/alice", "viking://resources"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:  # not the admin of a shared scope
            await stubs.contexts.UpsertContexts(
                context_service_pb2.UpsertContextsRequest(contexts=[context_pb2.Context(uri="viking://resources/a")]),
                metadata=(("authorization", "Bearer alice"),),
            )
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert violations_of(caught.value) == {"contexts[0].uri": "PERMISSION_DENIED"}


# --- deadlines, cancellation, admission


async def test_a_deadline_stops_what_waits(tmp_path: Path) -> None:
    embedder = StuckEmbedder()
    async with serving(make_settings(tmp_path), embedder=embedder) as server, calling(server) as stubs:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stubs.retrieval.Retrieve(REQUEST, timeout=0.05)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await asyncio.wait_for(embedder.is_given_up.wait(), 5)
        await idle(server)


async def test_a_cancelled_call_stops(tmp_path: Path) -> None:
    embedder = StuckEmbedder()
    async with serving(make_settings(tmp_path), embedder=embedder) as server, calling(server) as stubs:
        call = stubs.retrieval.Retrieve(REQUEST)
        asking = asyncio.ensure_future(call)
        await asyncio.wait_for(embedder.is_asked.wait(), 5)
        assert server.runner.admission.n_in_flight == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(embedder.is_given_up.wait(), 5)
        await idle(server)


async def test_the_server_has_a_deadline_of_its_own(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, default_deadline_s=0.05, max_deadline_s=0.1)
    async with serving(settings) as server, calling(server) as stubs:
        for timeout in (None, 30):
            request = pb.RetrieveRequest(query=REQUEST.query, min_revision=99)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stubs.retrieval.Retrieve(request, timeout=timeout)
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            assert reason_of(caught.value) == "REVISION_NOT_REACHED"


async def test_the_call_that_is_too_many_is_refused_at_once(tmp_path: Path) -> None:
    embedder = StuckEmbedder()
    settings = make_settings(tmp_path, max_in_flight=1)
    async with serving(settings, embedder=embedder) as server, calling(server) as stubs:
        call = stubs.retrieval.Retrieve(REQUEST)
        asking = asyncio.ensure_future(call)
        await asyncio.wait_for(embedder.is_asked.wait(), 5)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stubs.retrieval.Retrieve(REQUEST)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert reason_of(caught.value) == "TOO_MANY_CALLS"
        assert detail(status_of(caught.value), error_details_pb2.RetryInfo) is not None
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await idle(server)
        await stubs.admin.GetStoreInfo(INFO)


async def idle(server: Server) -> None:
    """Wait until no call is in work."""
    async with asyncio.timeout(5):
        while server.runner.admission.n_in_flight:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0)
