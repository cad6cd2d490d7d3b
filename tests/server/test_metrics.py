"""Metrics over HTTP: the figures that GetRetrievalStats tells, and those of calls and processes."""

from __future__ import annotations

import asyncio
import math
import re
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.conftest import calling, make_settings, serving
from tests.server.fakes import StuckEmbedder, TableEmbedder
from tests.server.test_contexts_rpc import R, packed, put, refused
from viking_rpc.config import MetricsSettings
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.errors import FailedPreconditionError
from viking_rpc.pb.v1 import admin_service_pb2, context_pb2, context_service_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.server.app import Server
from viking_rpc.server.figure_layout import METHODS, STAGES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from viking_rpc.config import Settings

QUERY = pb.Query(vector=context_pb2.Vector(values=[1.0, 0.0]))
RETRIEVE = pb.RetrieveRequest(query=QUERY)


class Scrape:
    """The samples of one answer: name and labels to value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float | None:
        return self._samples.get((name, frozenset(labels.items())))

    def labels(self, name: str, label: str) -> set[str]:
        found = (sample for family in self.families.values() for sample in family.samples if sample.name == name)
        return {sample.labels[label] for sample in found}


async def scrape(server: Server) -> Scrape:
    """Read the metrics as Prometheus does."""

    def read() -> str:
        with urllib.request.urlopen(f"http://{server.metrics_address}/metrics", timeout=10) as response:
            assert response.headers["Content-Type"].startswith("text/plain")
            return str(response.read().decode())

    return Scrape(await asyncio.to_thread(read))


def settings_of(folder: Path, **server: object) -> Settings:
    return make_settings(folder, **server).model_copy(update={"metrics": MetricsSettings(port=0)})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(settings_of(tmp_path, max_in_flight=2), embedder=TableEmbedder({"x": 0.5})) as running:
        yield running


async def test_they_are_what_the_statistics_tell(server: Server) -> None:
    async with calling(server) as stubs:
        await put(
            stubs,
            *(Context(uri=f"{R}/d/{i}.md", content="x", vectors=[packed(0.8 - i / 10)]) for i in range(3)),
        )
        answers = [await stubs.retrieval.Retrieve(RETRIEVE) for _ in range(3)]
        await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=pb.Query(text="x"), mode=pb.RETRIEVE_MODE_QUICK))
        nothing = pb.RetrieveRequest(query=QUERY, scope={"types": [context_pb2.CONTEXT_TYPE_SKILL]})
        await stubs.retrieval.Retrieve(nothing)
        await refused(stubs.contexts.GetContext(context_service_pb2.GetContextRequest(uri=f"{R}/none")))
        stats = await stubs.admin.GetRetrievalStats(admin_service_pb2.GetRetrievalStatsRequest())
    told = await scrape(server)
    assert told("viking_queries_total") == stats.total_queries == 5
    assert told("viking_query_results_total") == stats.total_results
    assert told("viking_queries_without_result_total") == stats.zero_result_queries == 1
    assert told("viking_queries_by_type_total", type="SKILL") == 1
    assert told("viking_queries_by_type_total", type="UNSPECIFIED") == 4
    assert told("viking_match_score_max") == pytest.approx(stats.max_score)
    assert told("viking_match_score_min") == pytest.approx(stats.min_score)
    assert told("viking_match_score_sum") == pytest.approx(stats.avg_score * stats.total_results)
    assert told("viking_query_duration_seconds_count") == 5
    assert told("viking_query_duration_seconds_sum") == pytest.approx(stats.avg_latency.ToNanoseconds() * 5e-9, 1e-6)
    for level in stats.levels:
        depth = str(level.depth)
        assert told("viking_directories_expanded_total", depth=depth) == level.directories_expanded
        assert told("viking_descent_level_duration_seconds_count", depth=depth)
    assert told("viking_rows_scored_total") >= 3 * answers[0].stats.rows_scored
    assert told("viking_stage_duration_seconds_count", stage="seed") == 5
    assert told("viking_stage_duration_seconds_count", stage="hydrate") == 5
    assert told("viking_stage_duration_seconds_count", stage="embed") == 1
    assert told("viking_stage_duration_seconds_count", stage="descent") == 4
    assert told("viking_stage_duration_seconds_count", stage="rerank") == 0
    stops = {reason: told("viking_descent_stops_total", reason=reason) for reason in ("EXHAUSTED", "CONVERGED")}
    assert sum(n or 0 for n in stops.values()) == 4
    assert told("viking_rpc_calls_total", method="RetrievalService/Retrieve", code="OK") == 5
    assert told("viking_rpc_calls_total", method="ContextService/GetContext", code="NOT_FOUND") == 1
    assert told("viking_rpc_duration_seconds_count", method="RetrievalService/Retrieve") == 5
    assert told("viking_rpc_in_flight") == 0
    assert (told("viking_revision_lag"), told("viking_log_lines_dropped_total")) == (0, 0)
    assert told("viking_accounts_loaded") == 1
    assert told("viking_kernel_cache_misses_total") is not None


async def test_histograms_are_whole(server: Server) -> None:
    async with calling(server) as stubs:
        for _ in range(7):
            await stubs.retrieval.Retrieve(RETRIEVE)
    told = await scrape(server)
    for name, family in told.families.items():
        if family.type != "histogram":
            continue
        by_labels: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                rest = frozenset((k, v) for k, v in sample.labels.items() if k != "le")
                by_labels.setdefault(rest, []).append((float(sample.labels["le"]), sample.value))
        for labels, buckets in by_labels.items():
            assert buckets == sorted(buckets)
            assert [n for _, n in buckets] == sorted(n for _, n in buckets)
            assert math.isinf(buckets[-1][0])
            assert buckets[-1][1] == told(f"{name}_count", **dict(labels))


async def test_labels_are_few_and_name_nobody(tmp_path: Path) -> None:
    def resolve(metadata: Mapping[str, str]) -> Identity:
        return Identity(metadata["account"], "zanzibar", Role.USER)

    async with serving(settings_of(tmp_path), resolve=resolve) as server, calling(server) as stubs:
        for i in range(40):
            await stubs.retrieval.Retrieve(RETRIEVE, metadata=(("account", f"zanzibar{i}"),))
        told = await scrape(server)
    assert told("viking_queries_total") == 40
    assert "zanzibar" not in told.text
    assert len(told.text.splitlines()) < 1000
    assert told.labels("viking_rpc_calls_total", "method") <= set(METHODS)
    assert told.labels("viking_stage_duration_seconds_count", "stage") == set(STAGES)


async def test_calls_in_work_and_those_that_are_refused(tmp_path: Path) -> None:
    embedder = StuckEmbedder()
    async with serving(settings_of(tmp_path, max_in_flight=1), embedder=embedder) as server, calling(server) as stubs:
        asking = asyncio.ensure_future(stubs.retrieval.Retrieve(pb.RetrieveRequest(query=pb.Query(text="x"))))
        await asyncio.wait_for(embedder.is_asked.wait(), 5)
        error = await refused(stubs.retrieval.Retrieve(RETRIEVE))
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        told = await scrape(server)
        assert told("viking_rpc_in_flight") == 1
        assert told("viking_rpc_refused_total", reason="TOO_MANY_CALLS") == 1
        asking.cancel()
        await asyncio.wait_for(embedder.is_given_up.wait(), 5)
        told = await scrape(server)
        while told("viking_rpc_in_flight"):
            told = await scrape(server)
    assert told("viking_rpc_calls_total", method="RetrievalService/Retrieve", code="CANCELLED") == 1


async def test_a_port_that_is_taken_is_told_and_leaves_the_data_free(tmp_path: Path, server: Server) -> None:
    port = int(server.metrics_address.rpartition(":")[2])
    taken = make_settings(tmp_path / "b").model_copy(update={"metrics": MetricsSettings(port=port)})
    second = Server(taken, embedder=TableEmbedder())
    with pytest.raises(FailedPreconditionError) as caught:
        await second.start()
    assert (caught.value.reason, caught.value.metadata) == ("METRICS_CANNOT_LISTEN", {"address": f"127.0.0.1:{port}"})
    await second.stop()
    async with serving(make_settings(tmp_path / "b")) as third:
        assert third.metrics_address == ""


async def test_it_ends_with_the_server(tmp_path: Path) -> None:
    async with serving(settings_of(tmp_path)) as server:
        host, _, port = server.metrics_address.rpartition(":")
        await scrape(server)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, int(port))


async def test_every_metric_is_in_the_table_and_nothing_else(server: Server) -> None:
    async with calling(server) as stubs:
        await put(stubs, Context(uri=f"{R}/a.md", content="x", vectors=[packed(0.5)]))
        await stubs.retrieval.Retrieve(RETRIEVE)
    told = await scrape(server)
    names = {name + "_total" * (family.type == "counter") for name, family in told.families.items()}
    text = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `viking_")]
    assert set(re.findall(r"`(viking_\w+)", "".join(cells))) == names
