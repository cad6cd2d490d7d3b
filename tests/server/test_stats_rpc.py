"""GetRetrievalStats: what it counts, of whom, and who may ask."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import reason_of
from tests.server.test_contexts_rpc import R, packed, put, refused
from viking_rpc.client import AsyncClient
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.pb.v1 import admin_service_pb2, context_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.pb.v1.context_service_pb2 import UpsertContextsRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from viking_rpc.server.app import Server

REQUEST = admin_service_pb2.GetRetrievalStatsRequest()
OF_ALL = admin_service_pb2.GetRetrievalStatsRequest(all_accounts=True)
QUERY = pb.Query(vector=context_pb2.Vector(values=[1.0, 0.0]))


async def fill(stubs: Stubs) -> None:
    await put(
        stubs,
        Context(uri=f"{R}/d", kind=1, abstract="d", vectors=[packed(0.9, 1)]),
        *(Context(uri=f"{R}/d/{i}.md", content="x", vectors=[packed(0.8 - i / 10)]) for i in range(3)),
        Context(uri=f"{R}/d/e/f.md", content="x", vectors=[packed(0.7)]),
    )


async def test_before_the_first_query(stubs: Stubs) -> None:
    stats = await stubs.admin.GetRetrievalStats(REQUEST)
    assert stats == admin_service_pb2.GetRetrievalStatsResponse()
    assert not stats.HasField("max_score")
    assert not stats.HasField("min_score")


async def test_what_answers_told_is_what_is_counted(stubs: Stubs, server: Server) -> None:
    await fill(stubs)
    answers = [
        await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY, limit=2)),
        await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY, mode=pb.RETRIEVE_MODE_QUICK)),
        await stubs.retrieval.Retrieve(
            pb.RetrieveRequest(query=QUERY, scope={"types": [context_pb2.CONTEXT_TYPE_MEMORY]})
        ),
    ]
    watched = [one async for one in stubs.retrieval.WatchRetrieve(pb.WatchRetrieveRequest(request={"query": QUERY}))]
    answers.append(watched[-1].result)
    await refused(stubs.retrieval.Retrieve(pb.RetrieveRequest()))  # not answered
    await stubs.retrieval.Explain(pb.ExplainRequest(request={"query": QUERY}, uri=f"{R}/d"))  # not asked for matches
    stats = await stubs.admin.GetRetrievalStats(REQUEST)
    scores = [match.score for answer in answers for match in answer.matches]
    assert (stats.total_queries, stats.total_results, stats.zero_result_queries) == (4, len(scores), 1)
    assert (stats.zero_result_rate, stats.avg_results_per_query) == (0.25, len(scores) / 4)
    assert stats.avg_score == pytest.approx(sum(scores) / len(scores), rel=1e-6)
    assert (stats.max_score, stats.min_score) == (pytest.approx(max(scores)), pytest.approx(min(scores)))
    assert dict(stats.queries_by_type) == {"CONTEXT_TYPE_UNSPECIFIED": 3, "CONTEXT_TYPE_MEMORY": 1}
    times_us = [answer.stats.total_duration.ToMicroseconds() for answer in answers]
    assert stats.max_latency.ToMicroseconds() == pytest.approx(max(times_us), abs=1)
    assert stats.avg_latency.ToMicroseconds() == pytest.approx(sum(times_us) / 4, abs=1)
    expanded: dict[int, int] = {}
    for answer in answers:
        for level in answer.stats.levels:
            expanded[level.depth] = expanded.get(level.depth, 0) + level.directories_expanded
    assert {level.depth: level.directories_expanded for level in stats.levels} == expanded
    assert [level.depth for level in stats.levels] == sorted(expanded)
    for level in stats.levels:
        assert 0 < level.p50.ToNanoseconds() <= level.p95.ToNanoseconds() <= level.p99.ToNanoseconds()
    async with grpc.aio.insecure_channel(server.address) as channel:
        read = await AsyncClient(channel).stats()
    assert (read.n_queries, read.n_results, read.max_score, len(read.levels)) == (
        stats.total_queries,
        stats.total_results,
        stats.max_score,
        len(stats.levels),
    )


@pytest.mark.parametrize("trace_level", [pb.TRACE_LEVEL_NONE, pb.TRACE_LEVEL_STATS])
async def test_every_query_of_a_search_counts(stubs: Stubs, trace_level: pb.TraceLevel) -> None:
    await fill(stubs)
    plan = pb.QueryPlan(queries=[pb.TypedQuery(query="a"), pb.TypedQuery(query="b", type=2), pb.TypedQuery(query="c")])
    await stubs.retrieval.Search(pb.SearchRequest(plan=plan, trace_level=trace_level))
    stats = await stubs.admin.GetRetrievalStats(REQUEST)
    assert stats.total_queries == 3
    assert dict(stats.queries_by_type) == {"CONTEXT_TYPE_UNSPECIFIED": 2, "CONTEXT_TYPE_MEMORY": 1}
    assert stats.levels[0].directories_expanded >= 2
    source = {"query": QUERY}
    await stubs.retrieval.AssembleContext(pb.AssembleContextRequest(retrieve=source, max_tokens=100))
    assert (await stubs.admin.GetRetrievalStats(REQUEST)).total_queries == 4


async def test_concurrent_calls_add_up_exactly(server: Server) -> None:
    n_callers, n_calls = 8, 15
    async with calling(server) as stubs:
        await fill(stubs)

    async def ask(k: int) -> int:
        async with calling(server) as stubs:
            n_matches = 0
            for i in range(n_calls):
                request = pb.RetrieveRequest(query=QUERY, limit=1 + (i + k) % 4)
                n_matches += len((await stubs.retrieval.Retrieve(request)).matches)
            return n_matches

    found = await asyncio.gather(*(ask(k) for k in range(n_callers)))
    async with calling(server) as stubs:
        stats = await stubs.admin.GetRetrievalStats(REQUEST)
    assert (stats.total_queries, stats.total_results) == (n_callers * n_calls, sum(found))


async def test_an_account_has_its_own_and_root_all(tmp_path: Path) -> None:
    def resolve(metadata: Mapping[str, str]) -> Identity:
        role = Role(metadata["role"])
        return Identity(metadata["account"], "" if role is Role.ROOT else "me", role)

    def who(account: str, role: str) -> tuple[tuple[str, str], ...]:
        return (("account", account), ("role", role))

    async with serving(make_settings(tmp_path), resolve=resolve) as server, calling(server) as stubs:
        context = Context(uri="viking://~/memories/x.md", content="x", vectors=[packed(0.5)])
        await stubs.contexts.UpsertContexts(UpsertContextsRequest(contexts=[context]), metadata=who("acme", "user"))
        for account, n in (("acme", 3), ("other", 2)):
            for _ in range(n):
                await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY), metadata=who(account, "user"))
        for account, role, request, n in (
            ("acme", "admin", REQUEST, 3),
            ("other", "admin", REQUEST, 2),
            ("third", "admin", REQUEST, 0),
            ("other", "root", REQUEST, 2),
            ("third", "root", OF_ALL, 5),
        ):
            stats = await stubs.admin.GetRetrievalStats(request, metadata=who(account, role))
            assert stats.total_queries == n
            assert stats.HasField("max_score") == (stats.total_results > 0)
        for role, request in (("user", REQUEST), ("user", OF_ALL), ("admin", OF_ALL)):
            error = await refused(stubs.admin.GetRetrievalStats(request, metadata=who("acme", role)))
            assert (error.code(), reason_of(error)) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")
