"""What the log says: facts of every call by name, and nothing that a caller has written."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.conftest import calling, make_settings, serving
from tests.server.fakes import BrokenEmbedder
from tests.server.test_contexts_rpc import R, packed, put, refused
from viking_rpc.config import LogSettings
from viking_rpc.pb.v1 import context_pb2, context_service_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.server import log_pipeline
from viking_rpc.server.access_log import CallRecord
from viking_rpc.server.log_pipeline import LogPipeline, take_dropped
from viking_rpc.server.logs import LineFormatter, set_up_logging

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server.conftest import Stubs

FACTS = {"method": "RetrievalService/Retrieve", "code": "OK", "reason": "-", "total_ms": 0.5, "n_matches": 3}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Set up the log of a server, into a text; put back what was there."""
    root, ours = logging.getLogger(), logging.getLogger("viking_rpc")
    flags = (logging.logThreads, logging.logProcesses, logging.logMultiprocessing)
    before = (list(root.handlers), root.level, ours.level)
    stream = io.StringIO()
    pipeline = set_up_logging(LogSettings(), stream)
    try:
        yield stream
    finally:
        pipeline.close()
        root.handlers[:], root.level, ours.level = before
        logging.logThreads, logging.logProcesses, logging.logMultiprocessing = flags


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    """Return what was logged, when the thread has written it."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogPipeline):
            handler.close()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_a_call_is_one_line_with_its_facts_by_name(tmp_path: Path, log: io.StringIO) -> None:
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await put(stubs, Context(uri=f"{R}/a.md", content="x", vectors=[packed(0.5)]))
        await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=pb.Query(text="x")))
        await refused(stubs.contexts.GetContext(context_service_pb2.GetContextRequest(uri=f"{R}/none.md")))
    lines = lines_of(log)
    calls = [line for line in lines if line["event"] == "rpc"]
    assert [(call["method"], call["code"], call.get("reason")) for call in calls] == [
        ("ContextService/UpsertContexts", "OK", None),
        ("RetrievalService/Retrieve", "OK", None),
        ("ContextService/GetContext", "NOT_FOUND", "CONTEXT_NOT_FOUND"),
    ]
    found = calls[1]
    assert set(found) == {
        *("timestamp", "level", "event", "method", "code", "total_ms", "identity", "request_id", "n_matches"),
        *("embed_ms", "seed_ms", "descent_ms", "n_expansions", "snapshot"),
    }
    assert (found["level"], found["n_matches"], found["snapshot"]) == ("info", 1, 1)
    assert found["total_ms"] >= found["seed_ms"] + found["descent_ms"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", found["timestamp"])
    [serving_line] = [line for line in lines if line["event"] == "serving"]
    assert (serving_line["address"], serving_line["logger"]) == (server.address, "viking_rpc.server.app")


async def test_a_search_tells_what_its_queries_cost_together(tmp_path: Path, log: io.StringIO) -> None:
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await put(stubs, Context(uri=f"{R}/a.md", content="x", vectors=[packed(0.5)]))
        plan = pb.QueryPlan(queries=[pb.TypedQuery(query="x"), pb.TypedQuery(query="y")])
        answer = await stubs.retrieval.Search(pb.SearchRequest(plan=plan))
    told = lines_of(log)[-1]
    stats = [one.stats for one in answer.query_results]
    assert (told["method"], told["n_queries"], told["n_matches"]) == ("RetrievalService/Search", 2, 1)
    assert told["n_expansions"] == sum(one.directories_expanded for one in stats)
    assert told["seed_ms"] == pytest.approx(sum(one.seed_duration.ToMicroseconds() for one in stats) / 1000, abs=0.01)


async def _ask_everything(stubs: Stubs, mark: str) -> None:
    """Say a word in every text, URI and metadata that a caller can write."""
    text, uri = f"tell {mark} now", f"{R}/{mark}"
    metadata = (("authorization", f"Bearer {mark}"), ("x-anything", mark), ("x-request-id", f"{mark} spaced"))
    context = Context(
        uri=f"{uri}/a.md",
        title=text,
        abstract=text,
        content=text,
        tags={mark: mark},
        relations=[context_pb2.Relation(uri=uri, reason=text)],
    )
    written = context_service_pb2.UpsertContextsRequest(contexts=[context])
    await stubs.contexts.UpsertContexts(written, metadata=metadata)
    retrieve = pb.RetrieveRequest(
        query=pb.Query(text=text), scope={"target_uris": [uri]}, filter={"tags": {mark: mark}}, trace_level=4, view=4
    )
    plan = pb.QueryPlan(queries=[pb.TypedQuery(query=text, intent=text, target_uris=[uri])], reasoning=text)
    planning = pb.PlanRequest(task=text, summary=text, turns=[pb.Turn(role="user", text=text)])
    calls = [
        stubs.retrieval.Retrieve(retrieve, metadata=metadata),
        stubs.retrieval.Search(pb.SearchRequest(plan=plan), metadata=metadata),
        stubs.retrieval.Search(pb.SearchRequest(planning=planning), metadata=metadata),
        stubs.retrieval.Plan(planning, metadata=metadata),
        stubs.retrieval.Explain(pb.ExplainRequest(request=retrieve, uri=f"{uri}/a.md"), metadata=metadata),
        stubs.retrieval.AssembleContext(pb.AssembleContextRequest(retrieve=retrieve), metadata=metadata),
        stubs.contexts.GetContext(context_service_pb2.GetContextRequest(uri=f"{uri}/a.md"), metadata=metadata),
        stubs.contexts.ListContexts(context_service_pb2.ListContextsRequest(parent_uri=uri), metadata=metadata),
    ]
    for call in calls:
        await call
    wrong = [
        stubs.contexts.GetContext(context_service_pb2.GetContextRequest(uri=f"{uri}/none")),
        stubs.contexts.GetContext(context_service_pb2.GetContextRequest(uri=f"viking://user/{mark}/x")),
        stubs.contexts.GetContext(context_service_pb2.GetContextRequest(uri=f"nonsense {mark}")),
        stubs.retrieval.Retrieve(pb.RetrieveRequest(query=pb.Query(like_uri=f"{uri}/none"))),
        stubs.retrieval.Retrieve(retrieve, metadata=(("viking-user", mark),)),
        stubs.retrieval.Retrieve(retrieve, metadata=(("viking-account", mark),)),
        stubs.retrieval.Retrieve(retrieve, metadata=(("viking-peer", f"{mark} spaced"),)),
        stubs.retrieval.Retrieve(retrieve, timeout=0.000001),
    ]
    for call in wrong:
        await refused(call)


async def test_nothing_that_a_caller_writes_is_logged(
    tmp_path: Path, log: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    mark = "zanzibar4711"
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await _ask_everything(stubs, mark)
    told = [json.dumps(line) for line in lines_of(log)]
    told += [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    assert sum("UpsertContexts" in line for line in told) == 2  # once in the log, once as a record
    assert len(told) >= 2 * 17
    assert [line for line in told if mark in line] == []


async def test_an_error_is_told_with_its_traceback_and_without_what_variables_held(
    tmp_path: Path, log: io.StringIO
) -> None:
    query = pb.RetrieveRequest(query=pb.Query(text="zanzibar4711"))
    async with serving(make_settings(tmp_path), embedder=BrokenEmbedder()) as server, calling(server) as stubs:
        await refused(stubs.retrieval.Retrieve(query))
    lines = lines_of(log)
    [told] = [line for line in lines if line["event"] == "rpc_failed"]
    assert (told["level"], told["method"]) == ("error", "RetrievalService/Retrieve")
    assert "Traceback" in told["exception"]
    assert "zanzibar" not in log.getvalue()


def record_of(message: str, *args: object, **parts: Any) -> logging.LogRecord:
    return logging.LogRecord("viking_rpc.x", logging.WARNING, "", 0, message, args, parts.get("exc_info"))


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (record_of("ready name=%s pid=%d", "1", 7), {"event": "ready", "name": "1", "pid": 7}),
        (record_of("took seconds=%.2f", 0.123), {"event": "took", "seconds": 0.123}),
        (record_of("odd event=%s level=%s", 1, None), {"event": "odd", "event_": 1, "level_": None}),
        (record_of("keys_readable"), {"event": "keys_readable"}),
        (record_of("failed reason=%s %s", "X", "more"), {"event": "failed reason=X more"}),
        (record_of("100 %% of %s", "it"), {"event": "100 % of it"}),
        (record_of('said "%s"\n', "\x1b[1m"), {"event": 'said "\x1b[1m"\n'}),
    ],
)
def test_names_and_values_are_told_apart(record: logging.LogRecord, told: dict[str, object]) -> None:
    line = LineFormatter(is_text=False).format(record)
    assert "\n" not in line
    assert "\x1b" not in line
    read = json.loads(line)
    assert (read.pop("logger"), read.pop("level")) == ("viking_rpc.x", "warning")
    del read["timestamp"]
    assert read == told


def test_a_line_for_people() -> None:
    line = LineFormatter(is_text=True).format(CallRecord(FACTS))
    assert line.endswith("[info] rpc method=RetrievalService/Retrieve code=OK total_ms=0.5 n_matches=3")
    assert "\x1b[" in LineFormatter(is_text=True, has_colors=True).format(CallRecord(FACTS))
    assert CallRecord(FACTS).getMessage() == (
        "rpc method=RetrievalService/Retrieve code=OK reason=- total_ms=0.5 n_matches=3"
    )


def test_a_pipe_that_nobody_reads_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_pipeline, "MAX_WAITING", 2000)
    monkeypatch.setattr(log_pipeline, "_CLOSE_S", 0.01)
    reading, writing = os.pipe()
    take_dropped()
    with os.fdopen(writing, "w") as stream:
        pipeline = LogPipeline(stream, LineFormatter(is_text=False))
        n = 5000
        for _ in range(n):  # far more than the pipe and the queue hold
            pipeline.handle(CallRecord(FACTS))
        n_dropped = take_dropped()
        assert 0 < n_dropped <= n - 2000
        assert take_dropped() == 0
        read: list[bytes] = []
        reader = threading.Thread(target=lambda: read.extend(iter(lambda: os.read(reading, 1 << 16), b"")))
        reader.start()
        monkeypatch.setattr(log_pipeline, "_CLOSE_S", 30)
        pipeline.close()
    reader.join(30)
    os.close(reading)
    assert b"".join(read).count(b"\n") == n - n_dropped


def test_a_stream_that_is_gone_ends_nothing() -> None:
    stream = io.StringIO()
    pipeline = LogPipeline(stream, LineFormatter(is_text=False))
    stream.close()
    pipeline.handle(CallRecord(FACTS))
    pipeline.close()
    pipeline.close()  # a second call does nothing


def test_what_cannot_be_formatted_is_told_without_its_text() -> None:
    stream = io.StringIO()
    pipeline = LogPipeline(stream, LineFormatter(is_text=False))
    pipeline.handle(record_of("%d secrets", "zanzibar"))
    pipeline.close()
    assert stream.getvalue() == "log_failed logger=viking_rpc.x error=TypeError\n"
