"""Get, Upsert and Delete over the wire."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest
from google.protobuf import timestamp_pb2

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import detail, reason_of, status_of, violations_of
from tests.server.fakes import START_US, FakeClock, TableEmbedder, cosine
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.pb.v1 import context_pb2, context_service_pb2
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.pb.v1.context_service_pb2 import DeleteContextsRequest, GetContextRequest, UpsertContextsRequest

if TYPE_CHECKING:
    from pathlib import Path

R = "viking://resources"


async def put(stubs: Stubs, *contexts: Context, **request: Any) -> context_service_pb2.UpsertContextsResponse:
    """Write contexts."""
    return await stubs.contexts.UpsertContexts(UpsertContextsRequest(contexts=contexts, **request))


async def get(stubs: Stubs, uri: str, view: int = 0) -> Context:
    """Read a context."""
    return (await stubs.contexts.GetContext(GetContextRequest(uri=uri, view=view))).context


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """Return the error of a call."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


def packed(value: float, level: int = context_pb2.LEVEL_DETAIL) -> context_pb2.LevelVector:
    """Return a vector by its cosine to [1, 0], not of unit length."""
    vector = context_pb2.Vector(packed=(cosine(value) * 3).astype("<f4").tobytes())
    return context_pb2.LevelVector(level=level, vector=vector)


async def test_what_was_written_can_be_read(stubs: Stubs) -> None:
    written = await put(
        stubs,
        Context(uri=f"{R}/hb", kind=1, abstract="short", overview="long", title="Handbook"),
        Context(
            uri=f"{R}/hb/auth.md",
            content="text",
            tags={"team": "platform"},
            expire_time=timestamp_pb2.Timestamp(seconds=4_000_000_000),
            relations=[context_pb2.Relation(uri=f"{R}/hb", reason="is in it")],
        ),
    )
    assert written.revision == 1
    assert [(c.uri, c.kind, c.content, bool(c.etag)) for c in written.contexts] == [
        (f"{R}/hb", 1, "", True),
        (f"{R}/hb/auth.md", 2, "", True),
    ]
    directory, file = await get(stubs, f"{R}/hb"), await get(stubs, f"{R}/hb/auth.md")
    assert (directory.title, directory.abstract, directory.overview, directory.child_count) == (
        "Handbook",
        "short",
        "long",
        1,
    )
    assert (file.content, dict(file.tags), file.parent_uri) == ("text", {"team": "platform"}, f"{R}/hb")
    assert file.type == context_pb2.CONTEXT_TYPE_RESOURCE
    assert file.create_time.ToMicroseconds() == START_US
    assert file.expire_time.seconds == 4_000_000_000
    assert [(r.uri, r.reason) for r in file.relations] == [(f"{R}/hb", "is in it")]
    assert file.etag == written.contexts[1].etag


@pytest.mark.parametrize(
    ("view", "texts"),
    [(1, ("", "", "")), (2, ("a", "", "")), (3, ("a", "o", "")), (4, ("a", "o", "")), (0, ("a", "o", ""))],
)
async def test_a_view_shows_its_texts(stubs: Stubs, view: int, texts: tuple[str, str, str]) -> None:
    await put(stubs, Context(uri=f"{R}/d", kind=1, abstract="a", overview="o"))
    found = await get(stubs, f"{R}/d", view)
    assert (found.abstract, found.overview, found.content) == texts


@pytest.mark.parametrize(("suffix", "texts"), [("/.abstract.md", ("a", "")), ("/.overview.md", ("", "o"))])
async def test_a_display_uri_fills_its_level_whatever_the_view(
    stubs: Stubs, suffix: str, texts: tuple[str, str]
) -> None:
    await put(stubs, Context(uri=f"{R}/d", kind=1, abstract="a", overview="o"))
    found = await get(stubs, f"{R}/d{suffix}", context_pb2.CONTEXT_VIEW_BASIC)
    assert (found.uri, found.abstract, found.overview) == (f"{R}/d", *texts)


async def test_aliases_are_answered_canonically(stubs: Stubs) -> None:
    written = await put(stubs, Context(uri="viking://~/memories/{calendar:today}/x.md", content="x"))
    assert written.contexts[0].uri == "viking://user/default/memories/2026/01/01/x.md"
    assert written.contexts[0].type == context_pb2.CONTEXT_TYPE_MEMORY


async def test_what_does_not_exist_is_not_found(stubs: Stubs) -> None:
    error = await refused(get(stubs, f"{R}/a"))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.NOT_FOUND, "CONTEXT_NOT_FOUND")


async def test_another_users_context_is_refused_whether_or_not_it_exists(stubs: Stubs) -> None:
    for call in (
        get(stubs, "viking://user/bob/memories/x.md"),
        put(stubs, Context(uri="viking://user/bob/memories/x.md")),
        stubs.contexts.DeleteContexts(DeleteContextsRequest(uris=["viking://user/bob"], allow_missing=True)),
    ):
        error = await refused(call)
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")


@pytest.mark.parametrize("uri", ["", "viking://", "resources/a", "viking://temp/x", "viking://resources/../x"])
async def test_a_bad_uri_is_told_for_every_field(stubs: Stubs, uri: str) -> None:
    for call, field in (
        (get(stubs, uri), "uri"),
        (put(stubs, Context(uri=uri)), "contexts[0].uri"),
        (stubs.contexts.DeleteContexts(DeleteContextsRequest(uris=[uri])), "uris[0]"),
    ):
        error = await refused(call)
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert list(violations_of(error)) == [field]


async def test_everything_wrong_with_a_batch_is_told_at_once(stubs: Stubs) -> None:
    zero = context_pb2.Vector(packed=b"\0" * 8)
    error = await refused(
        put(
            stubs,
            Context(uri=f"{R}/a", kind=9, type=9, title="t" * 1025, abstract="a" * 16_385, etag="e" * 257),
            Context(uri=f"{R}/b.md", kind=2, overview="o", content="c" * (1024 * 1024 + 1)),
            Context(uri=f"{R}/c", kind=1, content="c", overview="o" * (128 * 1024 + 1), vectors=[packed(0.5)]),
            Context(
                uri=f"{R}/a/",
                tags={"k" * 65: "v"},
                relations=[context_pb2.Relation(uri="x", reason="r" * 1025)],
                expire_time=timestamp_pb2.Timestamp(seconds=0),
                vectors=[
                    context_pb2.LevelVector(vector=zero),
                    context_pb2.LevelVector(level=3),
                    context_pb2.LevelVector(level=3, vector=context_pb2.Vector(values=[1, float("nan")])),
                    context_pb2.LevelVector(level=3, vector=zero),
                ],
            ),
            Context(uri=f"{R}/d/.abstract.md"),
            request_id="nonsense",
        )
    )
    assert violations_of(error) == {
        "request_id": "INVALID_REQUEST_ID",
        "contexts[0].kind": "UNKNOWN_VALUE",
        "contexts[0].type": "UNKNOWN_VALUE",
        "contexts[0].title": "TOO_LONG",
        "contexts[0].abstract": "TOO_LONG",
        "contexts[0].etag": "TOO_LONG",
        "contexts[1].overview": "WRONG_KIND",
        "contexts[1].content": "TOO_LONG",
        "contexts[2].content": "WRONG_KIND",
        "contexts[2].overview": "TOO_LONG",
        "contexts[2].vectors": "WRONG_KIND",
        f"contexts[3].tags['{'k' * 64}']": "TOO_LONG",
        "contexts[3].relations[0].reason": "TOO_LONG",
        "contexts[3].relations[0].uri": "INVALID_URI",
        "contexts[3].expire_time": "INVALID_TIME",
        "contexts[3].vectors[0].level": "UNKNOWN_VALUE",
        "contexts[3].vectors[1].vector": "EMPTY_VECTOR",
        "contexts[3].vectors[2].vector": "NOT_FINITE",
        "contexts[3].vectors[3].level": "DUPLICATE_LEVEL",
        "contexts[3].uri": "DUPLICATE_URI",
        "contexts[4].uri": "INVALID_URI",
    }


@pytest.mark.parametrize("n", [0, 257])
async def test_a_batch_has_a_size(stubs: Stubs, n: int) -> None:
    contexts = [Context(uri=f"{R}/{i}", content="x") for i in range(n)]
    assert "contexts" in violations_of(await refused(put(stubs, *contexts)))
    uris = [context.uri for context in contexts]
    assert "uris" in violations_of(await refused(stubs.contexts.DeleteContexts(DeleteContextsRequest(uris=uris))))


async def test_a_batch_is_all_or_nothing(stubs: Stubs) -> None:
    first = await put(stubs, Context(uri=f"{R}/a", content="one"))
    etag = first.contexts[0].etag
    await put(stubs, Context(uri=f"{R}/a", content="two", etag=etag))
    error = await refused(put(stubs, Context(uri=f"{R}/b", content="x"), Context(uri=f"{R}/a", content="3", etag=etag)))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.ABORTED, "ETAG_MISMATCH")
    assert (await get(stubs, f"{R}/a")).content == "two"
    assert (await refused(get(stubs, f"{R}/b"))).code() == grpc.StatusCode.NOT_FOUND


async def test_a_repeated_request_id_gets_the_first_answer(stubs: Stubs) -> None:
    request_id = str(uuid.uuid4())
    first = await put(stubs, Context(uri=f"{R}/a", content="one"), request_id=request_id)
    etag = first.contexts[0].etag
    second = await put(stubs, Context(uri=f"{R}/a", content="one", etag="0-0"), request_id=request_id)
    assert (second.revision, second.contexts[0].etag) == (first.revision, etag)


async def test_an_unset_kind_leaves_a_directory_one(stubs: Stubs) -> None:
    await put(stubs, Context(uri=f"{R}/d/x.md", content="x"))
    written = await put(stubs, Context(uri=f"{R}/d", abstract="now with text"), Context(uri=f"{R}/e"))
    assert [c.kind for c in written.contexts] == [context_pb2.NODE_KIND_DIRECTORY, context_pb2.NODE_KIND_FILE]
    error = await refused(put(stubs, Context(uri=f"{R}/d", content="text of a file")))
    assert violations_of(error) == {"contexts[0].content": "WRONG_KIND"}


async def test_only_levels_without_a_vector_are_embedded(stubs: Stubs, embedder: TableEmbedder) -> None:
    embedder.texts.clear()
    await put(
        stubs,
        Context(uri=f"{R}/a.md", title="A", content="one", vectors=[packed(0.5)]),
        Context(uri=f"{R}/b.md", title="B", content="two"),
        Context(
            uri=f"{R}/d", kind=1, abstract="three", overview="four", vectors=[packed(0.5, context_pb2.LEVEL_ABSTRACT)]
        ),
    )
    assert embedder.texts == ["two", "four"]


async def test_vectors_of_another_model_name_both_lengths(stubs: Stubs) -> None:
    vector = context_pb2.LevelVector(level=3, vector=context_pb2.Vector(values=[1, 2, 3]))
    error = await refused(put(stubs, Context(uri=f"{R}/a", content="x", vectors=[vector])))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.FAILED_PRECONDITION, "DIMENSION_MISMATCH")
    assert "3" in error.details()
    assert "2" in error.details()


@pytest.mark.parametrize(("role", "is_taken"), [(Role.ADMIN, True), (Role.USER, False)])
async def test_times_are_taken_from_those_who_import(tmp_path: Path, role: Role, is_taken: bool) -> None:
    old = timestamp_pb2.Timestamp(seconds=1_000_000_000)
    identity = Identity("default", "default", role)
    async with serving(make_settings(tmp_path), resolve=lambda _: identity) as server, calling(server) as stubs:
        await put(stubs, Context(uri="viking://~/resources/a", content="x", create_time=old, update_time=old))
        found = await get(stubs, "viking://~/resources/a")
    assert (found.update_time.seconds == 1_000_000_000) is is_taken
    assert (found.create_time.seconds == 1_000_000_000) is is_taken


async def test_a_deleted_subtree_is_gone_everywhere(stubs: Stubs) -> None:
    await put(stubs, *(Context(uri=f"{R}/d/e/{i}.md", content="x") for i in range(3)))
    error = await refused(stubs.contexts.DeleteContexts(DeleteContextsRequest(uris=[f"{R}/d"])))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.FAILED_PRECONDITION, "DIRECTORY_NOT_EMPTY")
    request = DeleteContextsRequest(uris=[f"{R}/d"], recursive=True)
    deleted = await stubs.contexts.DeleteContexts(request)
    assert (deleted.deleted_count, deleted.revision) == (5, 2)
    assert (await refused(get(stubs, f"{R}/d/e/1.md"))).code() == grpc.StatusCode.NOT_FOUND
    error = await refused(stubs.contexts.DeleteContexts(request))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.NOT_FOUND, "CONTEXT_NOT_FOUND")
    request.allow_missing = True
    again = await stubs.contexts.DeleteContexts(request)
    assert (again.deleted_count, again.revision) == (0, 2)


async def test_an_expired_context_is_invisible(stubs: Stubs, clock: FakeClock) -> None:
    expire = timestamp_pb2.Timestamp()
    expire.FromMicroseconds(START_US + 1000)
    await put(stubs, Context(uri=f"{R}/a", content="x", expire_time=expire))
    assert (await get(stubs, f"{R}/a")).content == "x"
    clock.us += 1001
    assert (await refused(get(stubs, f"{R}/a"))).code() == grpc.StatusCode.NOT_FOUND


async def test_min_revision_waits_for_the_state(stubs: Stubs) -> None:
    request = GetContextRequest(uri=f"{R}/a", min_revision=1)
    waiting = stubs.contexts.GetContext(request)
    await put(stubs, Context(uri=f"{R}/a", content="x"))
    assert (await waiting).context.content == "x"
    error = await refused(stubs.contexts.GetContext(GetContextRequest(uri=f"{R}/a", min_revision=-1)))
    assert violations_of(error) == {"min_revision": "OUT_OF_RANGE"}


async def test_details_of_a_refused_write_name_the_uri(stubs: Stubs) -> None:
    await put(stubs, Context(uri=f"{R}/a", content="x"))
    error = await refused(put(stubs, Context(uri=f"{R}/a/b", content="x")))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.FAILED_PRECONDITION, "PARENT_IS_FILE")
    assert detail(status_of(error), type(status_of(error))) is None
    assert f"{R}/a" in error.details()


def test_the_vectors_of_these_tests_are_not_of_unit_length() -> None:
    sent = np.frombuffer(packed(0.6).vector.packed, "<f4")
    assert np.linalg.norm(sent) == pytest.approx(3.0)
