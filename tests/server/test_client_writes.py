"""The clients' writes beyond upsert and delete: an import in one stream, moves, touches; both clients alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.test_client import Caller, R, caller, connected, file, kind
from viking_rpc.client import Imported, connect_async
from viking_rpc.errors import AbortedError, AlreadyExistsError, InvalidArgumentError, PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from viking_rpc.domain.context import ContextWrite
    from viking_rpc.server.app import Server

__all__ = ["caller", "connected", "kind"]  # fixtures


async def test_an_import_yields_what_became_of_each_batch(caller: Caller) -> None:
    batches = [
        [file(f"{R}/a/{i}.md", 0.5) for i in range(3)],
        [file(f"{R}/b.md", 0.5), file(f"{R}/b.md", 0.5)],
        [file(f"{R}/a/0.md", 0.5, etag="0-0"), file(f"{R}/c.md", 0.5)],
        [file("viking://user/bob/memories/x.md", 0.5)],
        [file(f"{R}/d.md", 0.5)],
    ]
    found = await caller.all("import_batches", batches)
    assert [(one.sequence, one.n_upserted, one.revision) for one in found] == [
        (1, 3, 1),
        (2, 0, 0),
        (3, 0, 0),
        (4, 0, 0),
        (5, 1, 2),
    ]
    errors = [one.error for one in found]
    assert [type(error) for error in errors] == [
        type(None),
        InvalidArgumentError,
        AbortedError,
        PermissionDeniedError,
        type(None),
    ]
    assert [(v.field, v.reason) for v in errors[1].violations] == [("contexts[1].uri", "DUPLICATE_URI")]
    assert errors[2].reason == "ETAG_MISMATCH"
    assert errors[2].metadata["uri"] == f"{R}/a/0.md"
    names = [context.uri for context in await caller.all("list", R)]
    assert names == [f"{R}/a", f"{R}/d.md"]


async def test_what_making_the_batches_raises_is_raised_when_the_rest_is_answered(caller: Caller) -> None:
    def broken() -> Iterator[list[ContextWrite]]:
        yield [file(f"{R}/a.md", 0.5)]
        text = "no more"
        raise LookupError(text)

    with pytest.raises(LookupError, match="no more"):
        await caller.all("import_batches", broken())
    assert [context.uri for context in await caller.all("list", R)] == [f"{R}/a.md"]


async def test_batches_of_an_event_loop_are_taken_one_by_one(server: Server) -> None:
    async def batches() -> AsyncIterator[list[ContextWrite]]:
        for name in "abc":
            yield [file(f"{R}/{name}.md", 0.5)]

    async with connect_async(server.address) as client:
        found = [one async for one in client.import_batches(batches())]
    assert found == [Imported(i, 1, i) for i in (1, 2, 3)]


async def test_who_stops_reading_stops_the_import(server: Server) -> None:
    n_taken = 0

    def endless() -> Iterator[list[ContextWrite]]:
        nonlocal n_taken
        while True:
            n_taken += 1
            yield [file(f"{R}/{n_taken}.md", 0.5)]

    async with connect_async(server.address) as client:
        stream = client.import_batches(endless())
        assert (await anext(stream)).sequence == 1
        await stream.aclose()
        assert (await client.get(f"{R}/1.md")).etag


async def test_moving_and_touching(caller: Caller) -> None:
    await caller.call("upsert", [file(f"{R}/a/{i}.md", 0.5) for i in range(3)])
    moved = await caller.call("move", f"{R}/a", f"{R}/b/c")
    assert (moved.n_moved, moved.revision) == (4, 2)
    assert await caller.call("touch", [f"{R}/b/c/1.md", f"{R}/b/c/1.md", f"{R}/nothing"]) == 3
    found = await caller.call("get", f"{R}/b/c/1.md", min_revision=3)
    assert found.active_count == 2
    with pytest.raises(AlreadyExistsError) as caught:
        await caller.call("move", f"{R}/b/c/1.md", f"{R}/b/c/2.md")
    assert caught.value.reason == "CONTEXT_EXISTS"
