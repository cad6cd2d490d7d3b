"""Listing: order, pages that stay true under writes, filters, size, and what a caller may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import timestamp_pb2

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import reason_of, violations_of
from tests.server.fakes import START_US, FakeClock
from tests.server.test_contexts_rpc import R, put, refused
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.pb.v1.context_pb2 import Context, Filter
from viking_rpc.pb.v1.context_service_pb2 import DeleteContextsRequest, ListContextsRequest, UpsertContextsRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


async def pages(stubs: Stubs, **request: Any) -> list[list[str]]:
    """Return the names on every page."""
    found, token = [], ""
    while True:
        page = await stubs.contexts.ListContexts(ListContextsRequest(page_token=token, **request))
        found.append([context.uri.rpartition("/")[2] for context in page.contexts])
        token = page.next_page_token
        if not token:
            return found


async def write(stubs: Stubs, *names: str) -> None:
    """Write files into one directory."""
    for lo in range(0, len(names), 256):
        await put(stubs, *(Context(uri=f"{R}/d/{name}", content="x") for name in names[lo : lo + 256]))


async def test_children_come_in_the_order_of_their_bytes(stubs: Stubs) -> None:
    await write(stubs, "b", "a", "B", "\u00e9", "z", "\uffee", "\U0001f600")
    assert await pages(stubs, parent_uri=f"{R}/d") == [["B", "a", "b", "z", "\u00e9", "\uffee", "\U0001f600"]]
    assert await pages(stubs, parent_uri=f"{R}/d", page_size=3) == [
        ["B", "a", "b"],
        ["z", "\u00e9", "\uffee"],
        ["\U0001f600"],
    ]


@pytest.mark.parametrize("uri", ["", "viking://", " viking:/// "])
async def test_the_root_has_the_scopes(stubs: Stubs, uri: str) -> None:
    assert await pages(stubs, parent_uri=uri) == [[]]
    await put(stubs, Context(uri="viking://~/memories/x", content="x"), Context(uri=f"{R}/a", content="x"))
    assert await pages(stubs, parent_uri=uri) == [["resources", "user"]]


async def test_a_token_stays_true_under_writes(stubs: Stubs) -> None:
    await write(stubs, "a", "b", "c", "d", "e")
    first = await stubs.contexts.ListContexts(ListContextsRequest(parent_uri=f"{R}/d", page_size=2))
    await write(stubs, "aa", "ca", "f")
    await stubs.contexts.DeleteContexts(DeleteContextsRequest(uris=[f"{R}/d/b", f"{R}/d/d"]))
    token = first.next_page_token
    second = await stubs.contexts.ListContexts(
        ListContextsRequest(parent_uri=f"{R}/d", page_size=10, page_token=token, min_revision=1)
    )
    assert [c.uri[-2:].strip("/") for c in (*first.contexts, *second.contexts)] == ["a", "b", "c", "ca", "e", "f"]


async def test_default_and_greatest_page_size(stubs: Stubs) -> None:
    await write(stubs, *(f"{i:04}" for i in range(1001)))
    assert [len(page) for page in await pages(stubs, parent_uri=f"{R}/d")] == [100] * 10 + [1]
    assert [len(page) for page in await pages(stubs, parent_uri=f"{R}/d", page_size=2000)] == [1000, 1]


async def test_a_token_of_another_request_is_refused(stubs: Stubs) -> None:
    await write(stubs, "a", "b", "e/x")
    first = await stubs.contexts.ListContexts(ListContextsRequest(parent_uri=f"{R}/d", page_size=1))
    token = first.next_page_token
    for other in (
        ListContextsRequest(parent_uri=R, page_token=token),
        ListContextsRequest(parent_uri=f"{R}/d", page_token=token, filter=Filter(tags={"a": "b"})),
        ListContextsRequest(parent_uri=f"{R}/d", page_token=token, view=context_pb2.CONTEXT_VIEW_FULL),
        ListContextsRequest(parent_uri=f"{R}/d", page_token="!" + token),
        ListContextsRequest(parent_uri=f"{R}/d", page_token="AAAA"),
    ):
        assert violations_of(await refused(stubs.contexts.ListContexts(other))) == {"page_token": "INVALID_PAGE_TOKEN"}


async def test_filters_pass_whole_contexts(stubs: Stubs, clock: FakeClock) -> None:
    await put(stubs, Context(uri=f"{R}/d/a", tags={"x": "1", "y": "2"}), Context(uri=f"{R}/d/ab", tags={"x": "1"}))
    clock.us += 1_000_000
    await put(stubs, Context(uri=f"{R}/d/c"))
    later = timestamp_pb2.Timestamp()
    later.FromMicroseconds(START_US + 1)

    async def names(**condition: Any) -> list[str]:
        return (await pages(stubs, parent_uri=f"{R}/d", filter=Filter(**condition)))[0]

    assert await names() == ["a", "ab", "c"]
    assert await names(tags={"x": "1", "y": "2"}) == ["a"]
    assert await names(tags={"x": ""}) == []
    assert await names(updated_since=later) == ["c"]
    assert await names(created_before=later) == ["a", "ab"]
    assert await names(exclude_uris=[f"{R}/d/a"]) == ["ab", "c"]
    error = await refused(names(levels=[context_pb2.LEVEL_DETAIL]))
    assert violations_of(error) == {"filter.levels": "NOT_ALLOWED"}


async def test_bad_requests_are_told_at_once(stubs: Stubs) -> None:
    request = ListContextsRequest(parent_uri="x", page_size=-1, view=9, min_revision=-1, page_token="AAAA")
    assert violations_of(await refused(stubs.contexts.ListContexts(request))) == {
        "parent_uri": "INVALID_URI",
        "page_size": "OUT_OF_RANGE",
        "view": "UNKNOWN_VALUE",
        "min_revision": "OUT_OF_RANGE",
        "page_token": "INVALID_PAGE_TOKEN",
    }


async def test_a_file_and_what_does_not_exist_have_no_children(stubs: Stubs) -> None:
    await write(stubs, "a")
    error = await refused(stubs.contexts.ListContexts(ListContextsRequest(parent_uri=f"{R}/d/a")))
    assert violations_of(error) == {"parent_uri": "NOT_A_DIRECTORY"}
    error = await refused(stubs.contexts.ListContexts(ListContextsRequest(parent_uri=f"{R}/e")))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.NOT_FOUND, "CONTEXT_NOT_FOUND")


async def test_a_page_is_never_larger_than_a_client_takes(stubs: Stubs) -> None:
    for i in range(6):
        await put(stubs, Context(uri=f"{R}/d/{i}", content=f"{i}" * (1024 * 1024)))
    found = await pages(stubs, parent_uri=f"{R}/d", view=context_pb2.CONTEXT_VIEW_FULL)
    assert [len(page) for page in found] == [3, 3]
    assert [name for page in found for name in page] == [str(i) for i in range(6)]


async def test_what_is_another_s_is_neither_listed_nor_counted(tmp_path: Path) -> None:
    def resolve(metadata: Mapping[str, str]) -> Identity:
        return Identity("acme", metadata["user"], Role.USER, metadata.get("peer", ""))

    async with serving(make_settings(tmp_path), resolve=resolve) as server, calling(server) as stubs:
        for user in ("alice", "bob"):
            for part in ("memories/x.md", "peers/p/memories/x.md", "peers/q/memories/x.md"):
                await stubs.contexts.UpsertContexts(
                    contexts_request(f"viking://user/{user}/{part}"), metadata=(("user", user),)
                )

        async def seen(uri: str, peer: str = "") -> list[tuple[str, int]]:
            metadata = (("user", "alice"), ("peer", peer))
            page = await stubs.contexts.ListContexts(ListContextsRequest(parent_uri=uri), metadata=metadata)
            return [(context.uri.removeprefix("viking://"), context.child_count) for context in page.contexts]

        assert await seen("viking://") == [("user", 0)]
        assert await seen("viking://user") == [("user/alice", 2)]
        assert await seen("viking://~/peers") == [("user/alice/peers/p", 1), ("user/alice/peers/q", 1)]
        assert await seen("viking://~/peers", "p") == [("user/alice/peers/p", 1)]
        assert await seen("viking://~", "p") == [("user/alice/memories", 1), ("user/alice/peers", 0)]
        for uri, peer in (("viking://user/bob", ""), ("viking://~/peers/q", "p")):
            assert (await refused(seen(uri, peer))).code() == grpc.StatusCode.PERMISSION_DENIED


def contexts_request(uri: str) -> UpsertContextsRequest:
    """Return a request that writes one file."""
    return UpsertContextsRequest(contexts=[Context(uri=uri, content="x")])
