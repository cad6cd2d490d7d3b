"""Touches: every mention counts, on the disk when it is answered; many callers share a write; the server's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import violations_of
from tests.server.test_contexts_rpc import R, get, packed, put, refused
from tests.server.test_move import found
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.errors import UnavailableError, VikingError
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.pb.v1.context_service_pb2 import GetContextRequest, TouchContextsRequest
from viking_rpc.server.touching import Touches

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from viking_rpc.server.app import Server


async def touch(stubs: Stubs, *uris: str) -> int:
    """Touch, and return the revision."""
    return (await stubs.contexts.TouchContexts(TouchContextsRequest(uris=uris))).revision


async def test_every_mention_counts_and_what_is_missing_is_passed_over(stubs: Stubs) -> None:
    first = await put(stubs, Context(uri=f"{R}/d/a", content="x"), Context(uri=f"{R}/b", content="x"))
    revision = await touch(stubs, f"{R}/d/a", f"{R}/nothing", f"{R}/b", f"{R}/d/a", f"{R}/d/.overview.md")
    assert revision == 2
    response = await stubs.contexts.GetContext(GetContextRequest(uri=f"{R}/d/a", min_revision=revision))
    a = response.context
    assert (a.active_count, a.etag) == (2, first.contexts[0].etag)  # is no write of the context
    assert [(await get(stubs, uri)).active_count for uri in (f"{R}/b", f"{R}/d")] == [1, 1]
    assert await touch(stubs, f"{R}/nothing") == 2


async def test_a_touched_context_is_hotter_in_the_next_answer(stubs: Stubs) -> None:
    await put(stubs, *(Context(uri=f"{R}/{name}", content="x", vectors=[packed(0.5)]) for name in "ab"))
    before = await found(stubs, hotness_alpha=0.5)
    await touch(stubs, f"{R}/b", f"{R}/b")
    after = await found(stubs, hotness_alpha=0.5)
    assert after[f"{R}/a"] == before[f"{R}/a"]
    assert after[f"{R}/b"] > before[f"{R}/b"]


async def test_bad_uris_are_told_at_once(stubs: Stubs) -> None:
    error = await refused(touch(stubs, f"{R}/a", "x", "viking://"))
    assert violations_of(error) == {"uris[1]": "INVALID_URI", "uris[2]": "INVALID_URI"}
    for n in (0, 257):
        assert "uris" in violations_of(await refused(touch(stubs, *[f"{R}/a"] * n)))


async def test_who_may_read_may_touch(tmp_path: Path) -> None:
    identity = Identity("acme", "alice", Role.USER)
    async with serving(make_settings(tmp_path), resolve=lambda _: identity) as server, calling(server) as stubs:
        await touch(stubs, f"{R}/shared", "viking://~/memories/x")
        error = await refused(touch(stubs, f"{R}/shared", "viking://user/bob/memories/x"))
        assert error.code() == grpc.StatusCode.PERMISSION_DENIED
        assert list(violations_of(error)) == ["uris[1]"]


async def test_counts_of_many_callers_are_on_the_disk_when_they_are_answered(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await put(stubs, *(Context(uri=f"{R}/{i}", content="x") for i in range(4)))
        await asyncio.gather(*(touch(stubs, f"{R}/{i % 4}", f"{R}/0") for i in range(100)))
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        assert [(await get(stubs, f"{R}/{i}")).active_count for i in range(4)] == [125, 25, 25, 25]


async def test_a_server_counts_what_it_served_when_it_is_told_to(tmp_path: Path) -> None:
    for is_on in (False, True):
        folder = tmp_path / str(is_on)
        async with serving(make_settings(folder, touch_served_matches=is_on)) as server, calling(server) as stubs:
            await put(stubs, *(Context(uri=f"{R}/{name}", content="x", vectors=[packed(0.5)]) for name in "ab"))
            for _ in range(3):
                assert set(await found(stubs)) == {f"{R}/a", f"{R}/b"}
            await server.runner.touches.close()
            counts = [(await get(stubs, f"{R}/{name}")).active_count for name in "ab"]
            assert counts == ([3, 3] if is_on else [0, 0])


async def test_what_was_served_is_counted_before_the_server_stops(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path, touch_served_matches=True)) as server, calling(server) as stubs:
        await put(stubs, Context(uri=f"{R}/a", content="x", vectors=[packed(0.5)]))
        await found(stubs)
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        assert (await get(stubs, f"{R}/a")).active_count == 1


class Writes:
    """Takes what is written, when it is told to."""

    def __init__(self) -> None:
        """Begin with none, and held up."""
        self.taken: list[list[str]] = []
        self.go = asyncio.Event()
        self.is_asked = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, account: str, uris: Sequence[str]) -> int:
        """Take one write."""
        assert account == "x"
        self.taken.append(list(uris))
        self.is_asked.set()
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return len(self.taken)


async def test_while_one_group_is_written_the_next_one_gathers() -> None:
    writes = Writes()
    touches = Touches(writes)
    first = asyncio.create_task(touches.now("x", ["a"]))
    await writes.is_asked.wait()
    others = [asyncio.create_task(touches.now("x", ["b", "b", "c"])) for _ in range(3)]
    await asyncio.sleep(0)
    assert writes.taken == [["a"]]
    others[0].cancel()  # a caller that is gone takes nobody's count with it
    writes.go.set()
    assert await first == 1
    assert await asyncio.gather(*others[1:]) == [2, 2]
    assert writes.taken == [["a"], ["b"] * 6 + ["c"] * 3]


@pytest.mark.parametrize("error", [UnavailableError("DISK_ERROR", "the disk failed"), RuntimeError("secret")])
async def test_everybody_who_waits_hears_of_a_failure_and_the_next_write_goes_on(error: Exception) -> None:
    writes = Writes()
    writes.error = error
    writes.go.set()
    touches = Touches(writes)
    for found_error in await asyncio.gather(*(touches.now("x", ["a"]) for _ in range(2)), return_exceptions=True):
        assert isinstance(found_error, VikingError)
        assert "secret" not in str(found_error)
    writes.error = None
    assert await touches.now("x", ["a"]) == 2


async def test_what_is_served_waits_in_bounds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("viking_rpc.server.touching.MAX_LATER", 2)
    monkeypatch.setattr("viking_rpc.server.touching.MAX_AT_ONCE", 2)
    writes = Writes()
    writes.go.set()
    touches = Touches(writes, delay_s=1000)
    for uri in ("a", "a", "b", "c", "d"):
        touches.later("x", [uri])
    await touches.close()
    assert writes.taken == [["a", "a", "b"]]
    assert "touches_dropped answers=2" in caplog.text


def test_counting_is_off_by_default(server: Server) -> None:
    assert server.runner.settings.server.touch_served_matches is False
