"""Moves over the wire: a subtree under another name, found there at once, with all that it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import reason_of, violations_of
from tests.server.fakes import TableEmbedder, cosine
from tests.server.test_contexts_rpc import R, get, packed, put, refused
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.pb.v1 import context_pb2, context_service_pb2, retrieval_service_pb2
from viking_rpc.pb.v1.context_pb2 import Context, Relation
from viking_rpc.pb.v1.context_service_pb2 import MoveContextRequest, TouchContextsRequest

if TYPE_CHECKING:
    from pathlib import Path


async def move(stubs: Stubs, source: str, destination: str) -> context_service_pb2.MoveContextResponse:
    """Rename."""
    request = MoveContextRequest(source_uri=source, destination_uri=destination)
    return await stubs.contexts.MoveContext(request)


async def found(stubs: Stubs, mode: int = 0, target: str = "", **options: float) -> dict[str, float]:
    """Return the score of every match, by URI."""
    query = retrieval_service_pb2.Query(vector=context_pb2.Vector(packed=cosine(1.0).astype("<f4").tobytes()))
    scope = context_pb2.Scope(target_uris=[target] if target else [])
    request = retrieval_service_pb2.RetrieveRequest(query=query, limit=100, mode=mode, scope=scope, options=options)
    return {match.context.uri: round(match.score, 4) for match in (await stubs.retrieval.Retrieve(request)).matches}


async def tree(stubs: Stubs) -> None:
    """Write a small tree."""
    await put(
        stubs,
        Context(uri=f"{R}/a", kind=1, abstract="about a", vectors=[packed(0.6, context_pb2.LEVEL_ABSTRACT)]),
        Context(uri=f"{R}/a/b/one.md", content="one", tags={"k": "v"}, vectors=[packed(0.8)]),
        Context(uri=f"{R}/a/b/two.md", content="two", vectors=[packed(0.3)]),
        Context(uri=f"{R}/z.md", content="z", vectors=[packed(0.5)], relations=[Relation(uri=f"{R}/a/b/one.md")]),
    )


async def test_a_subtree_moves_without_being_embedded_again(stubs: Stubs, embedder: TableEmbedder) -> None:
    await tree(stubs)
    before = {mode: await found(stubs, mode) for mode in (1, 2)}
    embedder.texts.clear()
    moved = await move(stubs, f"{R}/a", f"{R}/new/place")
    assert (moved.moved_count, moved.revision) == (4, 2)
    assert embedder.texts == []
    for mode in (1, 2):
        renamed = {uri.replace(f"{R}/a", f"{R}/new/place"): score for uri, score in before[mode].items()}
        assert await found(stubs, mode) == renamed
    file = await get(stubs, f"{R}/new/place/b/one.md")
    assert (file.content, dict(file.tags), file.parent_uri) == ("one", {"k": "v"}, f"{R}/new/place/b")
    assert (await get(stubs, f"{R}/new/place")).abstract == "about a"
    for gone in (f"{R}/a", f"{R}/a/b", f"{R}/a/b/one.md"):
        assert (await refused(get(stubs, gone))).code() == grpc.StatusCode.NOT_FOUND
    assert set(await found(stubs, target=f"{R}/new/place/b")) == {
        f"{R}/new/place/b/one.md",
        f"{R}/new/place/b/two.md",
    }


async def test_relations_follow_and_change_the_etag(stubs: Stubs) -> None:
    await tree(stubs)
    before = await get(stubs, f"{R}/z.md")
    await move(stubs, f"{R}/a/b", f"{R}/c")
    after = await get(stubs, f"{R}/z.md")
    assert [relation.uri for relation in after.relations] == [f"{R}/c/one.md"]
    assert after.etag != before.etag


async def test_what_moved_can_be_changed_moved_back_and_deleted(stubs: Stubs) -> None:
    await tree(stubs)
    await move(stubs, f"{R}/a/b", f"{R}/c")
    await put(stubs, Context(uri=f"{R}/c/one.md", content="new", vectors=[packed(0.9)]), Context(uri=f"{R}/a/b/x.md"))
    await stubs.contexts.TouchContexts(TouchContextsRequest(uris=[f"{R}/c/two.md"]))
    error = await refused(move(stubs, f"{R}/c", f"{R}/a/b"))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.ALREADY_EXISTS, "CONTEXT_EXISTS")
    assert violations_of(error) == {"destination_uri": "CONTEXT_EXISTS"}
    await stubs.contexts.DeleteContexts(context_service_pb2.DeleteContextsRequest(uris=[f"{R}/a/b"], recursive=True))
    assert (await move(stubs, f"{R}/c", f"{R}/a/b")).moved_count == 3
    assert (await found(stubs))[f"{R}/a/b/one.md"] == pytest.approx(0.9, abs=0.15)
    assert (await get(stubs, f"{R}/a/b/two.md")).active_count == 1


@pytest.mark.parametrize(
    ("source", "destination", "problems"),
    [
        ("", "", {"source_uri": "REQUIRED", "destination_uri": "REQUIRED"}),
        ("x", f"{R}/a/.abstract.md", {"source_uri": "INVALID_URI", "destination_uri": "INVALID_URI"}),
        (f"{R}/a", f"{R}/a/b/c", {"destination_uri": "MOVE_INTO_ITSELF"}),
        (f"{R}/a", f"{R}/a", {"destination_uri": "MOVE_INTO_ITSELF"}),
        (R, "viking://agent", {"source_uri": "SCOPE_ROOT", "destination_uri": "SCOPE_ROOT"}),
        (f"{R}/a", f"{R}/{'x' * 215}/" + "/".join(["y" * 200] * 9), {"destination_uri": "INVALID_URI"}),
    ],
)
async def test_a_move_that_cannot_be_is_an_argument(
    stubs: Stubs, source: str, destination: str, problems: dict[str, str]
) -> None:
    await tree(stubs)
    error = await refused(move(stubs, source, destination))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert violations_of(error) == problems
    assert (await get(stubs, f"{R}/a")).child_count == 1


async def test_what_is_missing_or_below_a_file_is_refused(stubs: Stubs) -> None:
    await tree(stubs)
    error = await refused(move(stubs, f"{R}/nothing", f"{R}/new"))
    assert (error.code(), violations_of(error)) == (grpc.StatusCode.NOT_FOUND, {"source_uri": "CONTEXT_NOT_FOUND"})
    error = await refused(move(stubs, f"{R}/a", f"{R}/z.md/a"))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.FAILED_PRECONDITION, "PARENT_IS_FILE")


async def test_both_ends_must_be_the_callers(tmp_path: Path) -> None:
    identity = Identity("acme", "alice", Role.USER)
    async with serving(make_settings(tmp_path), resolve=lambda _: identity) as server, calling(server) as stubs:
        await put(stubs, Context(uri="viking://~/memories/x.md", content="x"))
        for source, destination, fields in (
            ("viking://~/memories/x.md", f"{R}/x.md", {"destination_uri"}),
            ("viking://user/bob/memories", "viking://~/memories/y", {"source_uri"}),
            (f"{R}/a", "viking://user/bob/a", {"source_uri", "destination_uri"}),
        ):
            error = await refused(move(stubs, source, destination))
            assert error.code() == grpc.StatusCode.PERMISSION_DENIED
            assert set(violations_of(error)) == fields
        moved = await move(stubs, "viking://~/memories/x.md", "viking://~/resources/x.md")
        assert moved.moved_count == 1
        file = await get(stubs, "viking://user/alice/resources/x.md")
        assert file.type == context_pb2.CONTEXT_TYPE_RESOURCE  # the type follows the place


async def test_a_move_is_found_after_a_restart(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await tree(stubs)
        await move(stubs, f"{R}/a", f"{R}/c")
        before = await found(stubs)
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        assert await found(stubs) == before
