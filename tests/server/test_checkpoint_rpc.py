"""CreateCheckpoint: what it leaves, who may ask for it, and what several callers share."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import grpc

from tests.server.conftest import calling, make_settings, serving
from tests.server.details import reason_of
from tests.server.fakes import FakeClock, TableEmbedder
from tests.server.test_contexts_rpc import R, packed, put, refused
from viking_rpc.client import AsyncClient
from viking_rpc.domain.context import ContextWrite, Kind
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.engine import open_store
from viking_rpc.pb.v1 import admin_service_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.pb.v1.context_service_pb2 import DeleteContextsRequest, UpsertContextsRequest
from viking_rpc.store.operations import Upsert

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

    from tests.server.conftest import Stubs
    from viking_rpc.server.app import Server

REQUEST = admin_service_pb2.CreateCheckpointRequest()
INFO = admin_service_pb2.GetStoreInfoRequest()


async def write(stubs: Stubs, *names: str) -> int:
    contexts = (Context(uri=f"{R}/{name}.md", content=name, vectors=[packed(0.5)]) for name in names)
    return (await put(stubs, *contexts)).revision


def layouts(caplog: pytest.LogCaptureFixture) -> int:
    """Return how often a checkpoint was made because somebody asked."""
    return sum(record.getMessage().startswith("checkpoint revision=") for record in caplog.records)


async def test_it_has_what_was_written_and_the_next_start_takes_it(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        assert (await stubs.admin.CreateCheckpoint(REQUEST)).revision == 0
        await write(stubs, "a", "b")
        revision = await write(stubs, "c")
        assert (await stubs.admin.GetStoreInfo(INFO)).checkpoint_revision == 0  # so small that none is made unasked
        assert (await stubs.admin.CreateCheckpoint(REQUEST)).revision == revision
        info = await stubs.admin.GetStoreInfo(INFO)
        assert (info.checkpoint_revision, info.pending_row_count) == (revision, 0)
        answer = await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=pb.Query(text="x")))
        assert {match.display_uri for match in answer.matches} == {f"{R}/{name}.md" for name in "abc"}
        newest = await write(stubs, "d")
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        info = await stubs.admin.GetStoreInfo(INFO)
        assert (info.checkpoint_revision, info.revision, list(info.warnings)) == (revision, newest, [])
        assert info.file_count == 4
        async with grpc.aio.insecure_channel(server.address) as channel:
            assert await AsyncClient(channel).checkpoint() == newest


async def test_where_nothing_was_written_nothing_is_done(
    stubs: Stubs, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "viking_rpc")
    revision = await write(stubs, "a")
    for _ in range(3):
        assert (await stubs.admin.CreateCheckpoint(REQUEST)).revision == revision
    assert layouts(caplog) == 1
    removed = await stubs.contexts.DeleteContexts(DeleteContextsRequest(uris=[R], recursive=True))
    assert (await stubs.admin.CreateCheckpoint(REQUEST)).revision == removed.revision
    assert layouts(caplog) == 2
    assert server.runner.store.layouts.revision("default") == removed.revision


async def test_calls_at_the_same_time_share_a_run(stubs: Stubs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "viking_rpc")
    revision = await write(stubs, "a", "b")
    made = await asyncio.gather(*(stubs.admin.CreateCheckpoint(REQUEST) for _ in range(12)))
    assert {one.revision for one in made} == {revision}
    assert layouts(caplog) == 1


async def test_each_caller_gets_at_least_what_it_wrote(stubs: Stubs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "viking_rpc")

    async def write_and_save(name: str) -> None:
        revision = await write(stubs, name)
        assert (await stubs.admin.CreateCheckpoint(REQUEST)).revision >= revision

    await asyncio.gather(*(write_and_save(f"f{i}") for i in range(10)))
    assert 1 <= layouts(caplog) <= 10


async def test_accounts_do_not_answer_for_each_other(tmp_path: Path) -> None:
    def resolve(metadata: Mapping[str, str]) -> Identity:
        return Identity(metadata["account"], "me", Role(metadata.get("role", "admin")))

    async with serving(make_settings(tmp_path), resolve=resolve) as server, calling(server) as stubs:
        for account, n in (("a", 1), ("b", 2)):
            for i in range(n):
                context = Context(uri=f"{R}/{i}.md", content="x", vectors=[packed(0.5)])
                written = UpsertContextsRequest(contexts=[context])
                await stubs.contexts.UpsertContexts(written, metadata=(("account", account),))
        made = await asyncio.gather(
            *(stubs.admin.CreateCheckpoint(REQUEST, metadata=(("account", account),)) for account in "abcab")
        )
        assert [one.revision for one in made] == [1, 2, 0, 1, 2]
        error = await refused(
            stubs.admin.CreateCheckpoint(REQUEST, metadata=(("account", "a"), ("role", "user"))),
        )
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")


async def test_what_cannot_be_written_is_told_and_serves_on(
    tmp_path: Path, stubs: Stubs, caplog: pytest.LogCaptureFixture
) -> None:
    await write(stubs, "a")
    (tmp_path / "checkpoints").write_text("in the way")
    error = await refused(stubs.admin.CreateCheckpoint(REQUEST))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.FAILED_PRECONDITION, "DATA_DIRECTORY_READ_ONLY")
    assert "checkpoint_failed" in caplog.text
    (tmp_path / "checkpoints").unlink()
    assert (await stubs.admin.CreateCheckpoint(REQUEST)).revision == 1


def test_two_processes_do_it_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As two workers: the second one finds what the first one saved."""
    caplog.set_level(logging.INFO, "viking_rpc")
    settings, embedder = make_settings(tmp_path), TableEmbedder()
    with (
        open_store(settings, embedder, clock=FakeClock(), is_shared=True) as first,
        open_store(settings, embedder, clock=FakeClock(), is_shared=True) as second,
    ):
        write_ = Upsert(ContextWrite(f"{R}/a.md", Kind.FILE, content="x"))
        revision = first.apply("default", [write_]).revision
        second.snapshot("default")
        assert [store.checkpoint("default", revision) for store in (first, second, first)] == [revision] * 3
        assert second.info("default").checkpoint_revision == revision
    assert layouts(caplog) == 1
