"""What is expired is nowhere: not read, listed, found, counted, nor below; in the end it is removed."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import grpc
import pytest
from google.protobuf import timestamp_pb2

from tests.server.conftest import calling, make_settings, serving
from tests.server.fakes import START_US
from tests.server.test_contexts_rpc import R, get, packed, put, refused
from tests.server.test_listing import pages
from tests.server.test_move import found
from tests.store.trees import file
from viking_rpc.pb.v1 import admin_service_pb2
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.pb.v1.context_service_pb2 import GetContextRequest, MoveContextRequest, TouchContextsRequest
from viking_rpc.store import schema
from viking_rpc.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Stubs
    from tests.server.fakes import FakeClock


def at(time_us: int) -> timestamp_pb2.Timestamp:
    """Return a time."""
    stamp = timestamp_pb2.Timestamp()
    stamp.FromMicroseconds(time_us)
    return stamp


async def tree(stubs: Stubs) -> None:
    """Write a directory that expires in a millisecond, with files that do not, and a file that does."""
    soon = at(START_US + 1000)
    await put(
        stubs,
        Context(uri=f"{R}/gone", kind=1, abstract="about", expire_time=soon),
        Context(uri=f"{R}/gone/below/deep.md", content="x", vectors=[packed(0.9)]),
        Context(uri=f"{R}/stays/file.md", content="x", vectors=[packed(0.5)]),
        Context(uri=f"{R}/stays/soon.md", content="x", vectors=[packed(0.7)], expire_time=soon),
    )


async def info(stubs: Stubs) -> admin_service_pb2.GetStoreInfoResponse:
    """Return the facts."""
    return await stubs.admin.GetStoreInfo(admin_service_pb2.GetStoreInfoRequest())


@pytest.mark.parametrize("is_laid_out", [True, False])
async def test_what_is_expired_is_nowhere(stubs: Stubs, clock: FakeClock, is_laid_out: bool) -> None:
    if not is_laid_out:
        await put(stubs, Context(uri=f"{R}/first.md", content="x"))  # the rest is fresh
    await tree(stubs)
    assert f"{R}/gone/below/deep.md" in await found(stubs)
    clock.us += 1000
    n_first = 0 if is_laid_out else 1
    hidden = [f"{R}/gone", f"{R}/gone/below", f"{R}/gone/below/deep.md", f"{R}/stays/soon.md"]
    for uri in hidden:
        assert (await refused(get(stubs, uri))).code() == grpc.StatusCode.NOT_FOUND
        touched = await stubs.contexts.TouchContexts(TouchContextsRequest(uris=[uri]))
        assert touched.revision >= 1
        move = MoveContextRequest(source_uri=uri, destination_uri=f"{R}/elsewhere")
        assert (await refused(stubs.contexts.MoveContext(move))).code() == grpc.StatusCode.NOT_FOUND
    assert (await pages(stubs, parent_uri=R))[0] == ["first.md", "stays"][1 - n_first :]
    assert await pages(stubs, parent_uri=f"{R}/stays") == [["file.md"]]
    assert (await refused(pages(stubs, parent_uri=f"{R}/gone/below"))).code() == grpc.StatusCode.NOT_FOUND
    for mode in (1, 2):
        assert set(await found(stubs, mode)) - {f"{R}/first.md"} == {f"{R}/stays/file.md"}
        assert (await refused(found(stubs, mode, f"{R}/gone/below"))).code() == grpc.StatusCode.NOT_FOUND
    assert (await get(stubs, R)).child_count == 1 + n_first
    assert (await get(stubs, f"{R}/stays")).child_count == 1
    facts = await info(stubs)
    assert (facts.directory_count, facts.file_count, facts.row_count) == (2, 1 + n_first, 1 + n_first)


async def test_an_expired_place_is_free_again_and_brings_nothing_back(stubs: Stubs, clock: FakeClock) -> None:
    await tree(stubs)
    clock.us += 1000
    await put(stubs, Context(uri=f"{R}/gone/below/new.md", content="y"))
    assert await pages(stubs, parent_uri=f"{R}/gone/below") == [["new.md"]]
    assert (await get(stubs, f"{R}/gone")).abstract == ""


async def test_the_server_removes_what_is_expired(tmp_path: Path, clock: FakeClock) -> None:
    settings = make_settings(tmp_path, purge_interval_s=0.01)
    async with serving(settings, clock=clock) as server, calling(server) as stubs:
        await tree(stubs)
        clock.us += 1000
        read = GetContextRequest(uri=f"{R}/stays/file.md", min_revision=2)
        assert (await stubs.contexts.GetContext(read)).context.content == "x"
        store = server.runner.store
        with store.database.scan("default") as scan:
            assert sorted(record.name for record in scan.records) == ["file.md", "resources", "stays"]
        assert store.snapshot("default").n_contexts == 3


def test_a_purge_is_bounded_and_loads_no_account(tmp_path: Path, clock: FakeClock) -> None:
    with Store.open(tmp_path, model="m", dimensions=2, clock=clock) as store:
        for account in ("x", "y", "z"):
            expires = [file(f"{R}/{i}", expire_us=START_US + 1 + i) for i in range(5) if account != "z"]
            store.apply(account, [file(f"{R}/stays"), *expires])
    clock.us += 1000
    with Store.open(tmp_path, model="m", dimensions=2, clock=clock) as store:
        assert store.snapshot("x").n_contexts == 7
        assert [store.purge_expired(2) for _ in range(4)] == [4, 4, 2, 0]
        assert list(store._trees) == ["x"]
        assert [store.snapshot(account).n_contexts for account in ("x", "y", "z")] == [2, 2, 2]
        assert store.database.revision("x") == store.snapshot("x").revision == 4


async def test_a_failed_purge_is_tried_again(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "BUSY_TIMEOUT_S", 0.001)
    async with serving(make_settings(tmp_path), clock=clock) as server, calling(server) as stubs:
        await tree(stubs)
        other = sqlite3.connect(tmp_path / "viking.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        clock.us += 1000
        await server.runner.purge()
        assert "purge_failed code=UNAVAILABLE reason=DATABASE_BUSY" in caplog.text
        other.close()
        await server.runner.purge()
        assert server.runner.store.snapshot("default").revision == 2
