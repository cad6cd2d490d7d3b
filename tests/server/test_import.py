"""The import stream over the wire: acknowledged by sequence, resumed after a break, refused batch by batch."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import grpc
import pytest
from google.rpc import error_details_pb2

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import detail, reason_of, violations_of
from tests.server.test_contexts_rpc import R, get, packed, put, refused
from viking_rpc.domain.identity import LOCAL
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.pb.v1.context_service_pb2 import (
    GetContextRequest,
    ImportContextsRequest,
    ImportContextsResponse,
    ListContextsRequest,
)
from viking_rpc.server.call import Call
from viking_rpc.server.importing import import_contexts
from viking_rpc.store import schema

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.server.fakes import TableEmbedder
    from viking_rpc.server.app import Server


def batch(sequence: int, *names: str, **facts: object) -> ImportContextsRequest:
    """Return a message with one file for each name."""
    contexts = [Context(uri=f"{R}/d/{name}", content=f"text of {name}", **facts) for name in names]
    return ImportContextsRequest(sequence=sequence, contexts=contexts)


async def sent(stubs: Stubs, *messages: ImportContextsRequest) -> list[ImportContextsResponse]:
    """Send a whole stream and return all answers."""
    return [response async for response in stubs.contexts.ImportContexts(iter(messages))]


async def names(stubs: Stubs) -> list[str]:
    """Return what was imported."""
    page = await stubs.contexts.ListContexts(ListContextsRequest(parent_uri=f"{R}/d", page_size=1000))
    return [context.uri.rpartition("/")[2] for context in page.contexts]


def problems(response: ImportContextsResponse) -> dict[str, str]:
    """Return the reason of each violation of a refused batch by its field."""
    found = detail(response.error, error_details_pb2.BadRequest)
    assert found is not None
    return {violation.field: violation.reason for violation in found.field_violations}


async def test_batches_are_answered_in_their_order_and_can_be_read(stubs: Stubs) -> None:
    answers = await sent(stubs, batch(1, "a", "b"), batch(2, "c"), batch(3, "a"))
    assert [(a.sequence, a.upserted_count, a.revision, a.HasField("error")) for a in answers] == [
        (1, 2, 1, False),
        (2, 1, 2, False),
        (3, 1, 3, False),
    ]
    assert await names(stubs) == ["a", "b", "c"]
    request = GetContextRequest(uri=f"{R}/d/c", min_revision=answers[1].revision)
    assert (await stubs.contexts.GetContext(request)).context.content == "text of c"


async def test_vectors_that_were_sent_are_not_embedded(stubs: Stubs, embedder: TableEmbedder) -> None:
    embedder.texts.clear()
    await sent(stubs, batch(1, "a", vectors=[packed(0.5)]), batch(2, "b"))
    assert embedder.texts == ["text of b"]


async def test_a_bad_batch_is_refused_whole_with_all_that_is_wrong_and_the_stream_goes_on(stubs: Stubs) -> None:
    bad = batch(2, "b", "c", "b")
    bad.contexts[0].etag = "e" * 257
    bad.contexts[1].uri = "nonsense"
    answers = await sent(stubs, batch(1, "a"), bad, batch(3, "d"))
    assert [(a.sequence, a.upserted_count, a.error.code) for a in answers] == [
        (1, 1, 0),
        (2, 0, grpc.StatusCode.INVALID_ARGUMENT.value[0]),
        (3, 1, 0),
    ]
    assert answers[1].revision == 0
    assert problems(answers[1]) == {
        "contexts[0].etag": "TOO_LONG",
        "contexts[1].uri": "INVALID_URI",
        "contexts[2].uri": "DUPLICATE_URI",
    }
    assert await names(stubs) == ["a", "d"]


async def test_each_kind_of_refusal_has_its_code(stubs: Stubs) -> None:
    await put(stubs, Context(uri=f"{R}/file", content="x"))
    answers = await sent(
        stubs,
        ImportContextsRequest(sequence=1),
        ImportContextsRequest(sequence=2, contexts=[Context(uri="viking://user/bob/memories/x")]),
        ImportContextsRequest(sequence=3, contexts=[Context(uri=f"{R}/file/below", content="x")]),
        ImportContextsRequest(sequence=4, contexts=[Context(uri=f"{R}/file", content="x", etag="0-0")]),
        batch(5, *(f"{i:03}" for i in range(257))),
        ImportContextsRequest(
            sequence=6, contexts=[Context(uri=f"{R}/d/{i}", content="x" * 1024 * 1024) for i in range(5)]
        ),
    )
    codes = [grpc.StatusCode[name].value[0] for name in ("INVALID_ARGUMENT", "PERMISSION_DENIED")]
    codes += [grpc.StatusCode[name].value[0] for name in ("FAILED_PRECONDITION", "ABORTED")]
    assert [a.error.code for a in answers] == [*codes, codes[0], codes[0]]
    assert problems(answers[0]) == {"contexts": "REQUIRED"}
    assert problems(answers[3]) == {"contexts[0].etag": "ETAG_MISMATCH"}
    assert problems(answers[4]) == {"contexts": "TOO_MANY"}
    assert problems(answers[5]) == {"contexts": "TOO_LARGE"}


@pytest.mark.parametrize("sequences", [(0,), (2,), (-1,), (1, 3), (1, 2, 1)])
async def test_another_sequence_than_the_next_ends_the_stream(stubs: Stubs, sequences: tuple[int, ...]) -> None:
    call = stubs.contexts.ImportContexts(iter([batch(n, f"f{n}") for n in sequences]))
    for sequence in sequences[:-1]:
        assert (await call.read()).sequence == sequence
    assert violations_of(await refused(call.read())) == {"sequence": "WRONG_SEQUENCE"}


async def test_the_last_batch_again_is_answered_again_and_not_written(stubs: Stubs) -> None:
    answers = await sent(stubs, batch(1, "a"), batch(1, "a"), batch(2, "b"), batch(2, "b"), batch(2, "b"))
    assert [(a.sequence, a.revision) for a in answers] == [(1, 1), (1, 1), (2, 2), (2, 2), (2, 2)]
    assert (await get(stubs, f"{R}/d/b")).etag.endswith("-1")
    error = await refused(sent(stubs, batch(1, "a"), batch(1, "b")))
    assert violations_of(error) == {"sequence": "SEQUENCE_REUSED"}


async def test_a_refused_batch_may_come_again_repaired(stubs: Stubs) -> None:
    answers = await sent(stubs, batch(1, "a", "a"), batch(1, "a", "b"), batch(2, "c"))
    assert [(a.sequence, a.upserted_count) for a in answers] == [(1, 0), (1, 2), (2, 1)]


async def test_after_a_break_the_rest_is_sent_on_another_stream(stubs: Stubs) -> None:
    """A caller that dies in the middle: what was acknowledged stays, the others are sent again, nothing is torn."""
    all_names = [f"{i:02}{part}" for i in range(8) for part in "ab"]
    batches = [all_names[i : i + 2] for i in range(0, 16, 2)]
    call = stubs.contexts.ImportContexts()
    acknowledged = 0
    for i, part in enumerate(batches[:5], 1):
        await call.write(batch(i, *part))
        if i <= 3:
            response = await call.read()
            acknowledged = response.sequence
    call.cancel()
    assert acknowledged == 3
    assert set(await names(stubs)) >= set(all_names[:6])
    answers = await sent(stubs, *(batch(i, *part) for i, part in enumerate(batches[acknowledged:], 1)))
    assert [a.sequence for a in answers] == [1, 2, 3, 4, 5]
    assert await names(stubs) == all_names
    for name in all_names[:6]:
        assert (await get(stubs, f"{R}/d/{name}")).etag.endswith("-1"), "written once"


async def test_a_batch_is_read_when_the_one_before_is_answered(server: Server) -> None:
    """The transport holds a caller up that is ahead, so that the server's memory has one batch of it."""
    n_read = 0

    async def messages() -> AsyncIterator[ImportContextsRequest]:
        nonlocal n_read
        for i in range(1, 5):
            n_read = i
            yield batch(i, f"f{i}")

    responses = import_contexts(server.runner, messages(), Call(LOCAL, 0.0, 0.0, "test"))
    for i in range(1, 5):
        assert (await anext(responses)).sequence == i
        assert n_read == i


async def test_bytes_that_are_no_message_end_the_stream_as_an_argument(server: Server) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        call = channel.stream_stream("/viking.v1.ContextService/ImportContexts")(iter([b"\xff\xff"]))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert reason_of(caught.value) == "MALFORMED_MESSAGE"


async def test_a_stream_outlives_the_deadlines_of_other_calls(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, default_deadline_s=1e-6, max_deadline_s=1e-6)
    async with serving(settings) as server, calling(server) as stubs:
        answers = await sent(stubs, batch(1, "a"), batch(2, "b"))
    assert [a.HasField("error") for a in answers] == [False, False]


async def test_a_locked_database_refuses_the_batch_and_the_next_attempt_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "BUSY_TIMEOUT_S", 0.01)
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        other = sqlite3.connect(tmp_path / "viking.db", isolation_level=None)
        call = stubs.contexts.ImportContexts()
        await call.write(batch(1, "a"))
        assert not (await call.read()).HasField("error")
        other.execute("BEGIN IMMEDIATE")
        await call.write(batch(2, "b"))
        response = await call.read()
        info = detail(response.error, error_details_pb2.ErrorInfo)
        assert (response.error.code, info.reason) == (grpc.StatusCode.UNAVAILABLE.value[0], "DATABASE_BUSY")
        assert detail(response.error, error_details_pb2.RetryInfo) is not None
        other.close()
        await call.write(batch(2, "b"))
        assert (await call.read()).upserted_count == 1
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await names(stubs) == ["a", "b"]


async def test_directories_and_unset_kinds_are_imported_as_they_are_upserted(stubs: Stubs) -> None:
    directory = Context(uri=f"{R}/d", kind=1, abstract="short", overview="long")
    answers = await sent(stubs, batch(1, "a"), ImportContextsRequest(sequence=2, contexts=[directory]))
    assert [a.upserted_count for a in answers] == [1, 1]
    found = await get(stubs, f"{R}/d")
    assert (found.kind, found.overview, found.child_count) == (context_pb2.NODE_KIND_DIRECTORY, "long", 1)
