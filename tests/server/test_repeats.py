"""Retries and readers beside writers: first answers over a restart, pages while somebody writes, min_revision."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import grpc
import pytest

from tests.server.conftest import calling, make_settings, serving
from tests.server.details import reason_of
from tests.server.fakes import TableEmbedder
from tests.server.test_contexts_rpc import R, get, packed, put, refused
from tests.server.test_listing import write
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.pb.v1 import context_pb2, retrieval_service_pb2
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.pb.v1.context_service_pb2 import (
    DeleteContextsRequest,
    GetContextRequest,
    ListContextsRequest,
    UpsertContextsRequest,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.server.conftest import Stubs


async def test_a_repeat_is_answered_from_the_first_over_a_restart_and_embeds_nothing(tmp_path: Path) -> None:
    request_id = str(uuid.uuid4())
    embedder = TableEmbedder()
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        first = await put(stubs, Context(uri=f"{R}/a", content="one"), request_id=request_id)
        etag = first.contexts[0].etag
        await put(stubs, Context(uri=f"{R}/a", content="two", etag=etag))
    async with serving(make_settings(tmp_path), embedder=embedder) as server, calling(server) as stubs:
        embedder.texts.clear()
        again = await put(stubs, Context(uri=f"{R}/a", content="one"), request_id=request_id)
        assert again == first
        assert embedder.texts == []
        assert (await get(stubs, f"{R}/a")).content == "two"


async def test_a_repeat_is_answered_though_its_batch_would_fail_by_now(stubs: Stubs) -> None:
    request_id = str(uuid.uuid4())
    contexts = [Context(uri=f"{R}/a", content="a file")]
    first = await put(stubs, *contexts, request_id=request_id)
    await stubs.contexts.DeleteContexts(DeleteContextsRequest(uris=[f"{R}/a"]))
    await put(stubs, Context(uri=f"{R}/a/below", content="x"))
    assert await put(stubs, *contexts, request_id=request_id) == first
    assert (await refused(put(stubs, *contexts))).code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_nobody_gets_anothers_answer(tmp_path: Path) -> None:
    def resolve(metadata: Mapping[str, str]) -> Identity:
        return Identity("acme", metadata["user"], Role.USER)

    request_id = str(uuid.uuid4())
    async with serving(make_settings(tmp_path), resolve=resolve) as server, calling(server) as stubs:
        for user in ("alice", "bob"):
            request = UpsertContextsRequest(
                contexts=[Context(uri="viking://~/memories/x", content=user)], request_id=request_id
            )
            written = await stubs.contexts.UpsertContexts(request, metadata=(("user", user),))
            assert written.contexts[0].uri == f"viking://user/{user}/memories/x"


@pytest.mark.parametrize("page_size", [1, 7, 50])
async def test_pages_are_whole_while_somebody_writes(stubs: Stubs, page_size: int) -> None:
    """What is there all the time is listed once; what comes and goes is listed at most once."""
    stays = [f"s{i:03}" for i in range(60)]
    await write(stubs, *stays)
    is_over = asyncio.Event()

    async def write_on() -> None:
        i = 0
        while not is_over.is_set():
            names = [f"s{(i * 7) % 60:03}{'x' * (1 + i % 3)}", f"a{i % 5}", stays[i % 60]]
            await write(stubs, *names)
            await stubs.contexts.DeleteContexts(
                DeleteContextsRequest(uris=[f"{R}/d/{name}" for name in names[:2]], allow_missing=True)
            )
            i += 1

    writer = asyncio.create_task(write_on())
    for _ in range(3):
        listed, token, revision = [], "", 0
        while True:
            page = await stubs.contexts.ListContexts(
                ListContextsRequest(parent_uri=f"{R}/d", page_size=page_size, page_token=token, min_revision=revision)
            )
            assert page.revision >= revision
            revision, token = page.revision, page.next_page_token
            listed += [context.uri.rpartition("/")[2] for context in page.contexts]
            if not token:
                break
        assert listed == sorted(set(listed))
        assert [name for name in listed if len(name) == 4] == stays
    is_over.set()
    await writer


async def test_every_read_waits_for_its_revision(stubs: Stubs) -> None:
    vector = context_pb2.Vector(packed=packed(1.0).vector.packed)
    query = retrieval_service_pb2.Query(vector=vector)
    reads = (
        lambda revision, timeout=None: stubs.contexts.GetContext(
            GetContextRequest(uri=f"{R}/a", min_revision=revision), timeout=timeout
        ),
        lambda revision, timeout=None: stubs.contexts.ListContexts(
            ListContextsRequest(parent_uri=R, min_revision=revision), timeout=timeout
        ),
        lambda revision, timeout=None: stubs.retrieval.Retrieve(
            retrieval_service_pb2.RetrieveRequest(query=query, min_revision=revision), timeout=timeout
        ),
    )
    for i, read in enumerate(reads, 1):
        waiting = read(i)
        written = await put(stubs, Context(uri=f"{R}/a", content="x", vectors=[packed(0.5)]))
        assert written.revision == i
        assert (await waiting).revision >= i
    for read in reads:
        error = await refused(read(100, 0.2))
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED


async def test_of_two_writers_with_one_etag_one_wins(stubs: Stubs) -> None:
    etag = (await put(stubs, Context(uri=f"{R}/a", content="x"))).contexts[0].etag
    writes = [put(stubs, Context(uri=f"{R}/a", content=str(i), etag=etag)) for i in range(8)]
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    errors = [outcome for outcome in outcomes if isinstance(outcome, grpc.aio.AioRpcError)]
    assert len(errors) == 7
    assert {(error.code(), reason_of(error)) for error in errors} == {(grpc.StatusCode.ABORTED, "ETAG_MISMATCH")}
