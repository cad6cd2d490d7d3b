"""Reranked answers over the wire, with a reranking endpoint on loopback that answers as it is told."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.adapters.rerank_answers import tidy
from tests.adapters.stub import hang, raw, status
from tests.adapters.stub import serving as stubbing
from tests.server.conftest import Stubs, calling, serving
from tests.server.details import reason_of, violations_of
from tests.server.fakes import TableEmbedder
from tests.server.test_contexts_rpc import R, packed, put, refused
from viking_rpc.client.aio import AsyncClient
from viking_rpc.config import Settings
from viking_rpc.domain.query import Mode, RerankMode, RerankScope, RetrieveOptions
from viking_rpc.domain.trace import ThresholdSpace
from viking_rpc.pb.v1 import admin_service_pb2, context_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context, Vector
from viking_rpc.server.statistics import retrieval_stats

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.adapters.stub import Stub
    from viking_rpc.domain.statistics import RetrievalStats
    from viking_rpc.server.app import Server

QUERY = pb.Query(text="one")
OWN = {"score_propagation_alpha": 1.0, "lexical_weight": 0.0}


@asynccontextmanager
async def reranking(folder: Path, stub: Stub, **reranker: Any) -> AsyncIterator[tuple[Server, Stubs]]:
    """Run a server whose reranker is the stub, with a small tree in it."""
    reranker = {"name": "http", "model": "tiny", "base_url": stub.base_url} | reranker
    settings = Settings(data=folder, server={"listen": "127.0.0.1:0"}, reranker=reranker)
    async with serving(settings, embedder=TableEmbedder({"one": 1.0})) as server, calling(server) as stubs:
        await fill(stubs)
        yield server, stubs


async def fill(stubs: Stubs) -> None:
    """Write a directory with both levels and three files; a text ends with its reranker's score."""
    levels = [packed(0.2, context_pb2.LEVEL_ABSTRACT), packed(0.6, context_pb2.LEVEL_OVERVIEW)]
    await put(
        stubs,
        Context(uri=f"{R}/a", kind=1, abstract="abstract 50", overview="overview 3", vectors=levels),
        Context(uri=f"{R}/b", kind=1, abstract="abstract -9", vectors=[packed(0.1, context_pb2.LEVEL_ABSTRACT)]),
        Context(uri=f"{R}/a/1.md", content="text -0.25", abstract="short 99", vectors=[packed(0.9)]),
        Context(uri=f"{R}/a/2.md", content="text 7", vectors=[packed(0.8)]),
        Context(uri=f"{R}/a/3.md", content="text -4", vectors=[packed(0.7)]),
    )


async def retrieve(stubs: Stubs, mode: int = 0, timeout_s: float = 10, **options: Any) -> pb.RetrieveResponse:
    """Retrieve with own scores."""
    request = pb.RetrieveRequest(query=QUERY, mode=mode, options=pb.RetrieveOptions(**OWN, **options))
    return await stubs.retrieval.Retrieve(request, timeout=timeout_s)


def names(response: pb.RetrieveResponse) -> list[str]:
    """Return the names of the matches."""
    return [match.display_uri.removeprefix(f"{R}/") for match in response.matches]


def reasons(response: pb.RetrieveResponse) -> list[str]:
    """Return the reasons of the warnings."""
    return [warning.reason for warning in response.warnings]


def stats_of(server: Server) -> RetrievalStats:
    """Return what the server has counted."""
    return retrieval_stats(server.runner.readings.account("default"))


BY_VECTORS = ["a/1.md", "a/2.md", "a/3.md", "a/.overview.md", "b/.abstract.md"]
BY_RERANKER = ["a/2.md", "a/.overview.md", "a/1.md", "a/3.md", "b/.abstract.md"]


async def test_the_mode_decides_whether_a_reranker_is_asked(tmp_path: Path) -> None:
    """Users: issues/4463. A configured reranker turns no cheap look-up into a deep one."""
    with stubbing(tidy) as stub:
        async with reranking(tmp_path, stub) as (server, stubs):
            quick = await retrieve(stubs, mode=pb.RETRIEVE_MODE_QUICK)
            assert (names(quick), quick.mode, stub.requests) == (BY_VECTORS, pb.RETRIEVE_MODE_QUICK, [])
            off = await retrieve(stubs, rerank_mode=pb.RERANK_MODE_OFF)
            assert (names(off), stub.requests, reasons(off)) == (BY_VECTORS, [], [])
            unset = await retrieve(stubs)
            assert (names(unset), unset.mode) == (BY_RERANKER, pb.RETRIEVE_MODE_THINKING)
            assert len(stub.requests) == 1
            wished = await retrieve(stubs, mode=pb.RETRIEVE_MODE_QUICK, rerank_mode=pb.RERANK_MODE_PREFER)
            assert (names(wished), reasons(wished)) == (BY_VECTORS, ["RERANK_SKIPPED"])
            counts = stats_of(server)
            assert (
                counts.n_rerank_attempted,
                counts.n_rerank_used,
                counts.n_rerank_fallback,
                counts.n_rerank_partial,
            ) == (1, 1, 0, 0)


async def test_search_reranks(tmp_path: Path) -> None:
    """Users: issues/4463. The deep call asks the reranker at least once."""
    with stubbing(tidy) as stub:
        async with reranking(tmp_path, stub) as (_, stubs):
            plan = pb.QueryPlan(queries=[pb.TypedQuery(query="one")])
            response = await stubs.retrieval.Search(pb.SearchRequest(plan=plan, options=pb.RetrieveOptions(**OWN)))
    assert [match.match.display_uri.removeprefix(f"{R}/") for match in response.matches] == BY_RERANKER
    assert response.query_results[0].stats.rerank_calls == 1


async def test_every_row_is_sent_by_the_text_of_its_level(tmp_path: Path) -> None:
    """Users: pull/3714. L1 by the overview, L0 by the abstract, L2 by the content; parts tell the reranker's score."""
    with stubbing(tidy) as stub:
        async with reranking(tmp_path, stub) as (_, stubs):
            response = await retrieve(stubs)
    assert stub.requests[0]["documents"] == ["text -0.25", "text 7", "text -4", "overview 3", "abstract -9"]
    assert stub.requests[0]["query"] == "one"
    first = response.matches[0]
    assert (first.score, first.parts.rerank) == (7.0, 7.0)
    assert first.parts.relevance == pytest.approx(0.8, abs=1e-6)
    assert (response.stats.rerank_calls, response.stats.rerank_documents) == (1, 5)
    assert response.stats.HasField("rerank_duration")


async def test_a_row_without_a_text_of_its_level_is_sent_by_a_shorter_one_or_not_at_all(tmp_path: Path) -> None:
    with stubbing(tidy) as stub:
        async with reranking(tmp_path, stub) as (_, stubs):
            await put(
                stubs,
                Context(uri=f"{R}/c/4.md", abstract="short 8", vectors=[packed(0.5)]),
                Context(uri=f"{R}/c/5.md", vectors=[packed(0.4)]),
            )
            response = await retrieve(stubs)
    assert "short 8" in stub.requests[0]["documents"]
    assert "" not in stub.requests[0]["documents"]
    assert (names(response)[0], names(response)[-1]) == ("c/4.md", "c/5.md")
    assert (reasons(response), response.matches[-1].parts.HasField("rerank")) == ([], False)


async def test_logits_have_a_threshold_of_their_own(tmp_path: Path) -> None:
    """Users: pull/3000, issues/4224. A threshold of -1 is taken over the wire, and its scale is told."""
    with stubbing(tidy) as stub:
        async with reranking(tmp_path, stub) as (_, stubs):
            response = await retrieve(stubs, rerank_threshold=-1.0)
            assert names(response) == ["a/2.md", "a/.overview.md", "a/1.md"]
            assert response.threshold_space == pb.THRESHOLD_SPACE_RERANK
            assert (response.total_matched, response.best_below_threshold) == (3, -4.0)
            response = await retrieve(stubs, score_threshold=0.75)
            assert names(response) == ["a/2.md", "a/1.md"]
            assert response.threshold_space == pb.THRESHOLD_SPACE_RELEVANCE
            assert (await retrieve(stubs)).threshold_space == pb.THRESHOLD_SPACE_UNSPECIFIED


@pytest.mark.parametrize(
    ("answer", "reason"), [(status(400), "RERANK_ERROR"), (raw(b'{"output": []}'), "RERANK_ERROR")]
)
async def test_a_broken_reranker_is_told_and_costs_nothing_else(tmp_path: Path, answer: Any, reason: str) -> None:
    """Users: issues/4027, issues/3459. The order is that of the vectors, with a warning and a counter."""
    with stubbing(answer) as stub:
        async with reranking(tmp_path, stub) as (server, stubs):
            response = await retrieve(stubs)
            assert (names(response), reasons(response)) == (BY_VECTORS, [reason])
            counts = stats_of(server)
            assert (counts.n_rerank_attempted, counts.n_rerank_used, counts.n_rerank_fallback) == (1, 0, 1)
            error = await refused(retrieve(stubs, rerank_mode=pb.RERANK_MODE_REQUIRE))
            assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAVAILABLE, reason)


async def test_a_part_of_an_answer_is_used(tmp_path: Path) -> None:
    with stubbing(
        raw(b'{"results": [{"index": 2, "relevance_score": 1}, {"index": 0, "relevance_score": NaN}]}')
    ) as stub:
        async with reranking(tmp_path, stub) as (server, stubs):
            response = await retrieve(stubs, rerank_mode=pb.RERANK_MODE_REQUIRE)
            assert names(response) == ["a/3.md", "a/1.md", "a/2.md", "a/.overview.md", "b/.abstract.md"]
            assert reasons(response) == ["RERANK_PARTIAL"]
            counts = stats_of(server)
            assert (counts.n_rerank_used, counts.n_rerank_fallback, counts.n_rerank_partial) == (1, 0, 1)


async def test_a_reranker_that_hangs_costs_its_time_limit(tmp_path: Path) -> None:
    """Users: pull/1262. It is left after 0.2 s, well before the deadline, and its request is over."""
    with stubbing(hang) as stub:
        async with reranking(tmp_path, stub, timeout_s=0.2) as (_, stubs):
            response = await retrieve(stubs)
            assert (names(response), reasons(response)) == (BY_VECTORS, ["RERANK_TIMEOUT"])
            assert await asyncio.to_thread(stub.disconnected.wait, 10) or not stub.requests


async def test_a_caller_who_leaves_ends_the_request(tmp_path: Path) -> None:
    with stubbing(hang) as stub:
        async with reranking(tmp_path, stub, timeout_s=30) as (_, stubs):
            call = stubs.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY))
            assert await asyncio.to_thread(stub.arrived.wait, 10)
            call.cancel()
            assert await asyncio.to_thread(stub.disconnected.wait, 10)


async def test_what_cannot_be_required(tmp_path: Path) -> None:
    require = RerankMode.REQUIRE.value
    with stubbing(tidy) as stub:
        async with reranking(tmp_path, stub) as (_, stubs):
            vector = pb.Query(vector=Vector(values=[1, 0]))
            options = pb.RetrieveOptions(rerank_mode=require)
            for call in (
                retrieve(stubs, mode=pb.RETRIEVE_MODE_QUICK, rerank_mode=require),
                retrieve(stubs, rerank_mode=require, max_rerank_documents=0),
                stubs.retrieval.Retrieve(pb.RetrieveRequest(query=vector, options=options)),
            ):
                assert violations_of(await refused(call)) == {"options.rerank_mode": "CONTRADICTION"}
            # words beside a vector are what the reranker gets
            vector.lexical_text = "two"
            response = await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=vector, options=options))
            assert (names(response)[0], stub.requests[0]["query"]) == ("a/2.md", "two")
            assert reasons(await retrieve(stubs, rerank_mode=2, max_rerank_documents=0)) == ["RERANK_SKIPPED"]


async def test_without_a_reranker_a_wish_is_told_and_nothing_else(stubs: Stubs) -> None:
    """Users: pull/1770. What nobody asked for changes nothing: an equal vector scores 1."""
    await put(stubs, Context(uri=f"{R}/1.md", content="x", vectors=[packed(1.0)]))
    request = pb.RetrieveRequest(query=pb.Query(vector=Vector(values=[3, 0]), lexical_text="zzz"))
    request.options.lexical_weight = 0.0
    response = await stubs.retrieval.Retrieve(request)
    assert response.matches[0].score == pytest.approx(1.0, abs=1e-6)
    assert reasons(response) == []
    request.options.rerank_mode = pb.RERANK_MODE_PREFER
    assert reasons(await stubs.retrieval.Retrieve(request)) == ["RERANK_SKIPPED"]


async def test_at_each_level_within_the_budget(tmp_path: Path) -> None:
    """Users: issues/4948. Steps are told while a reranker steers; no more texts are sent than allowed."""
    with stubbing(tidy) as stub:
        async with (
            reranking(tmp_path, stub, cache_size=0) as (server, _),
            grpc.aio.insecure_channel(server.address) as channel,
        ):
            client = AsyncClient(channel)
            options = RetrieveOptions(
                **OWN, rerank_scope=RerankScope.EACH_LEVEL, max_rerank_documents=4, rerank_threshold=-100.0
            )
            result = await client.retrieve("one", options=options)
            events = [event async for event in client.watch("one", options=options)]
    sent = [len(request["documents"]) for request in stub.requests]
    assert sum(sent) == 2 * result.stats.n_reranked <= 8
    assert result.stats.n_rerank_calls == len(sent) // 2
    assert [m.display_uri for m in events[-1].matches] == [m.display_uri for m in result.matches]  # type: ignore[union-attr]
    assert len(events) - 1 == result.stats.n_expanded
    assert result.threshold_space is ThresholdSpace.RERANK
    assert result.mode is Mode.THINKING


async def test_a_budget_smaller_than_a_plan_is_told_and_kept(tmp_path: Path) -> None:
    """Two texts for three queries: two are sent, and the third query says that it was not reranked."""
    plan = pb.QueryPlan(queries=[pb.TypedQuery(query="one", priority=i) for i in (1, 2, 3)])
    request = pb.SearchRequest(plan=plan, options=pb.RetrieveOptions(**OWN, max_rerank_documents=2))
    with stubbing(tidy) as stub:
        async with reranking(tmp_path, stub, cache_size=0) as (_, stubs):
            response = await stubs.retrieval.Search(request)
            request.options.rerank_mode = pb.RERANK_MODE_OFF
            unwanted = await stubs.retrieval.Search(request)
    assert sum(len(sent["documents"]) for sent in stub.requests) == 2
    told = [[warning.reason for warning in one.warnings] for one in response.query_results]
    assert told == [[], [], ["RERANK_SKIPPED"]]
    assert [list(one.warnings) for one in unwanted.query_results] == [[], [], []]


async def test_the_reranker_is_among_the_facts(tmp_path: Path) -> None:
    with stubbing(tidy) as stub:
        async with reranking(tmp_path, stub) as (_, stubs):
            info = await stubs.admin.GetStoreInfo(admin_service_pb2.GetStoreInfoRequest())
    assert info.reranker == "http/tiny"
    assert info.settings["reranker.timeout_s"] == "3.0"
