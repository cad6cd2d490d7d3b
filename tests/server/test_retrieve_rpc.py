"""Retrieve and WatchRetrieve over the wire, on a small tree of ready vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import duration_pb2

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import reason_of, violations_of
from tests.server.fakes import TableEmbedder
from tests.server.test_contexts_rpc import R, packed, put, refused
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context, Scope, Vector
from viking_rpc.pb.v1.context_service_pb2 import GetContextRequest

if TYPE_CHECKING:
    from pathlib import Path

QUERY = pb.Query(vector=Vector(values=[2.0, 0.0]))
OWN = pb.RetrieveOptions(score_propagation_alpha=1.0, lexical_weight=0.0)


async def fill(stubs: Stubs) -> None:
    """Write two directories with two files each, and a memory."""
    await put(
        stubs,
        Context(uri=f"{R}/a", kind=1, abstract="about a", vectors=[packed(0.5, context_pb2.LEVEL_ABSTRACT)]),
        Context(uri=f"{R}/b", kind=1, abstract="about b", vectors=[packed(0.1, context_pb2.LEVEL_ABSTRACT)]),
        Context(uri=f"{R}/a/1.md", content="one", abstract="1", vectors=[packed(0.9)], tags={"x": "1"}),
        Context(uri=f"{R}/a/2.md", content="two", vectors=[packed(0.3)]),
        Context(uri=f"{R}/b/3.md", content="three", vectors=[packed(0.8)]),
        Context(uri=f"{R}/b/4.md", content="four", vectors=[packed(0.2)]),
        Context(uri="viking://~/memories/m.md", content="five", vectors=[packed(0.7)]),
    )


async def retrieve(stubs: Stubs, **request: Any) -> pb.RetrieveResponse:
    """Retrieve with own scores."""
    request.setdefault("query", QUERY)
    request.setdefault("options", OWN)
    return await stubs.retrieval.Retrieve(pb.RetrieveRequest(**request))


def names(response: pb.RetrieveResponse) -> list[str]:
    """Return the names of the matches."""
    return [match.display_uri.removeprefix("viking://") for match in response.matches]


async def test_the_best_come_first_with_their_parts_and_surroundings(stubs: Stubs) -> None:
    await fill(stubs)
    response = await retrieve(stubs, limit=4)
    assert names(response) == [
        "resources/a/1.md",
        "resources/b/3.md",
        "user/default/memories/m.md",
        "resources/a/.abstract.md",
    ]
    first = response.matches[0]
    assert first.score == pytest.approx(0.9, abs=1e-6)
    assert first.parts.dense == pytest.approx(0.9, abs=1e-6)
    assert (first.level, first.context.abstract, first.context.content) == (context_pb2.LEVEL_DETAIL, "1", "")
    assert [(c.uri, c.abstract) for c in first.ancestors] == [(R, ""), (f"{R}/a", "about a")]
    assert (response.mode, response.revision) == (pb.RETRIEVE_MODE_THINKING, 1)
    assert list(response.searched_roots) == ["viking://user/default", R]
    assert response.stats.rows_scored > 0
    assert response.stats.HasField("total_duration")
    assert response.empty_reason == pb.EMPTY_REASON_UNSPECIFIED


async def test_quick_finds_what_thinking_finds_without_a_descent(stubs: Stubs) -> None:
    await fill(stubs)
    quick = await retrieve(stubs, limit=3, mode=pb.RETRIEVE_MODE_QUICK, trace_level=pb.TRACE_LEVEL_STEPS)
    assert names(quick) == names(await retrieve(stubs, limit=3))
    assert (quick.mode, quick.stats.stop_reason, len(quick.steps)) == (pb.RETRIEVE_MODE_QUICK, 0, 0)


async def test_both_forms_of_a_vector_and_its_text_find_the_same(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path), embedder=TableEmbedder({"q": 1.0})) as server, calling(server) as stubs:
        await fill(stubs)
        queries = [
            QUERY,
            pb.Query(vector=Vector(packed=b"\0\0\0\x40\0\0\0\0")),
            pb.Query(text="q"),
            pb.Query(vector=QUERY.vector, lexical_text="q"),
        ]
        found = [names(await retrieve(stubs, query=query)) for query in queries]
    assert len(found[0]) == 7
    assert found == [found[0]] * 4


async def test_scope_filter_and_limit_narrow(stubs: Stubs) -> None:
    await fill(stubs)
    assert names(await retrieve(stubs, scope=Scope(target_uris=[f"{R}/b"]), limit=1)) == ["resources/b/3.md"]
    assert names(await retrieve(stubs, scope=Scope(types=[context_pb2.CONTEXT_TYPE_MEMORY]))) == [
        "user/default/memories/m.md"
    ]
    assert names(await retrieve(stubs, filter=context_pb2.Filter(tags={"x": "1"}))) == ["resources/a/1.md"]
    excluded = context_pb2.Filter(exclude_uris=[f"{R}/a", "viking://~"], levels=[context_pb2.LEVEL_DETAIL])
    assert names(await retrieve(stubs, filter=excluded)) == ["resources/b/3.md", "resources/b/4.md"]


@pytest.mark.parametrize(
    ("view", "texts"),
    [
        (context_pb2.CONTEXT_VIEW_BASIC, ("", "")),
        (context_pb2.CONTEXT_VIEW_ABSTRACT, ("1", "")),
        (context_pb2.CONTEXT_VIEW_OVERVIEW, ("1", "")),
        (context_pb2.CONTEXT_VIEW_FULL, ("1", "one")),
    ],
)
async def test_a_view_shows_its_texts(stubs: Stubs, view: int, texts: tuple[str, str]) -> None:
    await fill(stubs)
    context = (await retrieve(stubs, limit=1, view=view)).matches[0].context
    assert (context.abstract, context.content) == texts


async def test_full_texts_that_do_not_fit_are_cut_openly(stubs: Stubs) -> None:
    for i in range(6):
        text = str(i) * (1024 * 1024)
        await put(stubs, Context(uri=f"{R}/{i}.md", content=text, vectors=[packed(0.9 - i / 10)]))
    response = await retrieve(stubs, view=context_pb2.CONTEXT_VIEW_FULL)
    assert names(response) == ["resources/0.md", "resources/1.md", "resources/2.md"]
    assert [warning.reason for warning in response.warnings] == ["RESPONSE_TRUNCATED"]
    assert response.total_matched == 6


async def test_like_a_stored_context(stubs: Stubs) -> None:
    await fill(stubs)
    response = await retrieve(stubs, query=pb.Query(like_uri=f"{R}/a/1.md"), limit=2)
    assert len(response.matches) == 2
    assert "resources/a/1.md" not in names(response)
    error = await refused(retrieve(stubs, query=pb.Query(like_uri=f"{R}/nothing")))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.NOT_FOUND, "CONTEXT_NOT_FOUND")
    error = await refused(retrieve(stubs, query=pb.Query(like_uri="viking://user/bob/x")))
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED


async def test_an_empty_answer_says_why(stubs: Stubs) -> None:
    response = await retrieve(stubs)
    assert (len(response.matches), response.empty_reason) == (0, pb.EMPTY_REASON_NO_CONTEXTS)
    await fill(stubs)
    response = await retrieve(stubs, options=pb.RetrieveOptions(score_threshold=0.99, score_propagation_alpha=1.0))
    assert response.empty_reason == pb.EMPTY_REASON_BELOW_THRESHOLD
    assert response.best_below_threshold == pytest.approx(0.9, abs=1e-6)
    response = await retrieve(stubs, filter=context_pb2.Filter(tags={"nobody": "has this"}))
    assert response.empty_reason == pb.EMPTY_REASON_FILTERED_OUT


@pytest.mark.parametrize(
    ("request_", "code", "reason"),
    [
        ({"scope": Scope(target_uris=[f"{R}/nothing/here"])}, grpc.StatusCode.NOT_FOUND, "CONTEXT_NOT_FOUND"),
        ({"scope": Scope(target_uris=["viking://user/bob/x"])}, grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED"),
        (
            {"query": pb.Query(vector=Vector(values=[1, 2, 3]))},
            grpc.StatusCode.FAILED_PRECONDITION,
            "DIMENSION_MISMATCH",
        ),
        (
            {"query": pb.Query(text="x"), "options": pb.RetrieveOptions(rerank_mode=pb.RERANK_MODE_REQUIRE)},
            grpc.StatusCode.FAILED_PRECONDITION,
            "NO_RERANKER",
        ),
        ({"query": pb.Query()}, grpc.StatusCode.INVALID_ARGUMENT, "EMPTY_QUERY"),
        ({"query": pb.Query(text="")}, grpc.StatusCode.INVALID_ARGUMENT, "EMPTY_QUERY"),
        ({"query": pb.Query(text=" ")}, grpc.StatusCode.INVALID_ARGUMENT, "EMPTY_QUERY"),
    ],
)
async def test_what_cannot_be_answered_is_refused(
    stubs: Stubs, request_: dict[str, Any], code: grpc.StatusCode, reason: str
) -> None:
    await fill(stubs)
    error = await refused(retrieve(stubs, **request_))
    assert (error.code(), reason_of(error)) == (code, reason)


async def test_violations_have_the_paths_of_the_message_that_was_sent(stubs: Stubs) -> None:
    bad = pb.RetrieveRequest(limit=-1, options=pb.RetrieveOptions(hotness_alpha=3))
    expected = {"limit": "OUT_OF_RANGE", "query": "EMPTY_QUERY", "options.hotness_alpha": "OUT_OF_RANGE"}
    assert violations_of(await refused(stubs.retrieval.Retrieve(bad))) == expected
    watched = stubs.retrieval.WatchRetrieve(pb.WatchRetrieveRequest(request=bad))
    assert violations_of(await refused(watched.read())) == {f"request.{field}": why for field, why in expected.items()}
    empty = stubs.retrieval.WatchRetrieve(pb.WatchRetrieveRequest())
    assert violations_of(await refused(empty.read())) == {"request": "REQUIRED"}


async def test_a_time_budget_is_shorter_than_the_deadline(stubs: Stubs) -> None:
    options = pb.RetrieveOptions(time_budget=duration_pb2.Duration(seconds=5))
    await retrieve(stubs, options=options)
    error = await refused(stubs.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY, options=options), timeout=4))
    assert violations_of(error) == {"options.time_budget": "OUT_OF_RANGE"}


async def test_a_spent_time_budget_answers_with_the_best_so_far(stubs: Stubs) -> None:
    await put(
        stubs,
        *(Context(uri=f"{R}/{'/'.join('abcdefgh'[: i % 8 + 1])}/{i}.md", vectors=[packed(0.5)]) for i in range(80)),
    )
    options = pb.RetrieveOptions(time_budget=duration_pb2.Duration(nanos=1), profile=pb.PROFILE_EXHAUSTIVE)
    events = [
        event
        async for event in stubs.retrieval.WatchRetrieve(
            pb.WatchRetrieveRequest(request=pb.RetrieveRequest(query=QUERY, options=options))
        )
    ]
    result = events[-1].result
    assert result.stats.stop_reason == pb.STOP_REASON_TIME
    assert [warning.reason for warning in result.warnings] == ["TIME_BUDGET"]
    assert result.matches


async def test_watching_tells_every_step_and_then_the_same_answer(stubs: Stubs) -> None:
    await fill(stubs)
    request = pb.RetrieveRequest(query=QUERY, options=OWN, trace_level=pb.TRACE_LEVEL_STEPS)
    answer = await stubs.retrieval.Retrieve(request)
    events = [e async for e in stubs.retrieval.WatchRetrieve(pb.WatchRetrieveRequest(request=request))]
    *steps, last = events
    assert len(steps) > 2
    assert all(event.WhichOneof("event") == "step" for event in steps)
    assert [event.step.index for event in steps] == list(range(len(steps)))
    assert [event.step.uri for event in steps] == [step.uri for step in answer.steps]
    assert last.WhichOneof("event") == "result"
    assert not last.result.steps
    assert last.result.matches == answer.matches


async def test_watching_raises_the_trace_level(stubs: Stubs) -> None:
    await fill(stubs)
    request = pb.RetrieveRequest(query=QUERY, trace_level=pb.TRACE_LEVEL_NONE)
    events = [e async for e in stubs.retrieval.WatchRetrieve(pb.WatchRetrieveRequest(request=request))]
    assert events[0].WhichOneof("event") == "step"
    assert not events[0].step.child_scores
    request.trace_level = pb.TRACE_LEVEL_SCORES
    events = [e async for e in stubs.retrieval.WatchRetrieve(pb.WatchRetrieveRequest(request=request))]
    assert any(event.step.child_scores for event in events)


async def test_min_revision_reads_your_own_write(stubs: Stubs) -> None:
    written = await put(stubs, Context(uri=f"{R}/a.md", vectors=[packed(0.5)]))
    response = await retrieve(stubs, min_revision=written.revision)
    assert (response.revision, names(response)) == (1, ["resources/a.md"])


async def test_equal_requests_give_equal_answers(stubs: Stubs) -> None:
    await put(stubs, *(Context(uri=f"{R}/{i % 7}/{i}.md", vectors=[packed(0.5)]) for i in range(100)))
    first = names(await retrieve(stubs, limit=20))
    assert first == sorted(first)
    for _ in range(5):
        assert names(await retrieve(stubs, limit=20)) == first


async def test_every_uri_of_an_answer_can_be_read_and_searched(stubs: Stubs) -> None:
    await fill(stubs)
    for match in (await retrieve(stubs)).matches:
        found = await stubs.contexts.GetContext(GetContextRequest(uri=match.display_uri))
        assert found.context.uri == match.context.uri
        response = await retrieve(stubs, scope=Scope(target_uris=[match.display_uri]))
        assert match.context.uri in [m.context.uri for m in response.matches]
