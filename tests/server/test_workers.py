"""Several processes on one port: they answer alike, die and come back, and go together."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from viking_rpc.config import Settings
from viking_rpc.errors import FailedPreconditionError
from viking_rpc.pb.v1 import admin_service_pb2 as pb_admin
from viking_rpc.pb.v1 import admin_service_pb2_grpc, context_pb2, context_service_pb2_grpc, retrieval_service_pb2_grpc
from viking_rpc.pb.v1 import context_service_pb2 as pb
from viking_rpc.pb.v1 import retrieval_service_pb2 as retrieval_pb
from viking_rpc.server.port import SharedPort
from viking_rpc.server.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator

N_WORKERS = 2
DIMENSIONS = 4
START_S = 120.0
CODE = """
import pathlib, sys
from functools import partial
from viking_rpc.config import Settings
from viking_rpc.server.app import serve
from viking_rpc.server.logs import set_up_logging
server = {"listen": "127.0.0.1:0", "workers": int(sys.argv[2])}
embedder = {"name": "none", "dimensions": int(sys.argv[3])}
settings = Settings(data=pathlib.Path(sys.argv[1]), server=server, embedder=embedder, metrics={"port": 0})
set_up_logging(settings.log)
serve(settings, lambda address: print(address, flush=True), partial(set_up_logging, settings.log))
"""


@dataclass
class Running:
    """A server of several processes: `ready` says by name which pids were ever ready, the last one lives."""

    process: subprocess.Popen[str]
    folder: Path
    address: str = ""
    log: list[str] = field(default_factory=list)
    has_news: threading.Condition = field(default_factory=threading.Condition)

    def read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self.has_news:
                self.log.append(line)
                self.has_news.notify_all()

    def events(self, event: str) -> list[dict[str, Any]]:
        """Return what the log tells of an event."""
        found = [json.loads(line) for line in list(self.log) if line.startswith("{")]
        return [one for one in found if one["event"] == event]

    def pids(self, name: str) -> list[int]:
        return [one["pid"] for one in self.events("process_ready") if one["name"] == name]

    def await_pids(self, name: str, n: int) -> list[int]:
        with self.has_news:
            assert self.has_news.wait_for(lambda: len(self.pids(name)) >= n, START_S), "".join(self.log)
        return self.pids(name)


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    """Run a server of two workers."""
    command = [sys.executable, "-c", CODE, str(folder), str(N_WORKERS), str(DIMENSIONS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        server = Running(process, folder)
        reader = threading.Thread(target=server.read_log, daemon=True)
        reader.start()
        try:
            assert process.stdout is not None
            server.address = process.stdout.readline().strip()
            assert server.address, "".join(server.log)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(30)
            finally:
                process.kill()
                reader.join(10)


@contextmanager
def connected(address: str, n: int = 1) -> Iterator[list[grpc.Channel]]:
    """Open connections of their own; the kernel decides which process gets each."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(address, options) for _ in range(n)]
    try:
        yield channels
    finally:
        for channel in channels:
            channel.close()


def put(channel: grpc.Channel, uri: str, *, timeout_s: float = 30.0) -> int:
    """Write a file; returns the revision."""
    values = [1.0 + len(uri) % 3, 1.0, 1.0 + len(uri) % 7, 1.0]
    context = context_pb2.Context(uri=uri, content=uri, vectors=[{"level": 3, "vector": {"values": values}}])
    stub = context_service_pb2_grpc.ContextServiceStub(channel)
    return stub.UpsertContexts(pb.UpsertContextsRequest(contexts=[context]), timeout=timeout_s).revision


def find(channel: grpc.Channel, revision: int, *, timeout_s: float = 30.0) -> retrieval_pb.RetrieveResponse:
    """Ask for everything, in a state that is at least so new."""
    request = retrieval_pb.RetrieveRequest(
        query={"vector": {"values": [1.0, 1.0, 1.0, 1.0]}}, limit=100, min_revision=revision
    )
    return retrieval_service_pb2_grpc.RetrievalServiceStub(channel).Retrieve(request, timeout=timeout_s)


class Writers:
    """Threads that write until they are stopped and remember what was acknowledged and what was not."""

    def __init__(self, address: str, n: int) -> None:
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self._address = address
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(k,)) for k in range(n)]
        for thread in self._threads:
            thread.start()

    def _write(self, k: int) -> None:
        with connected(self._address) as (channel,):
            for i in itertools.count():
                if self._is_over.is_set():
                    return
                uri = f"viking://resources/w{k}/f{i}.md"
                try:
                    put(channel, uri)
                except grpc.RpcError as error:
                    self.refused.append(f"{uri} {error.code()}")
                    self._is_over.wait(0.02)
                else:
                    self.acknowledged.append(uri)

    def await_more(self, n: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.acknowledged) + n
        until_s = time.monotonic() + START_S
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < until_s, self.refused[-3:]
            self._is_over.wait(0.01)

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run a server of two workers for several tests."""
    with running(tmp_path_factory.mktemp("data")) as opened:
        yield opened


def test_every_worker_answers_in_the_state_that_is_asked_for(server: Running) -> None:
    with connected(server.address, 8) as channels:
        for i, channel in enumerate(channels):
            uri = f"viking://resources/first/f{i}.md"
            revision = put(channel, uri)
            for other in channels:  # also those that another process answers
                answer = find(other, revision)
                assert answer.revision >= revision
                assert uri in {match.display_uri for match in answer.matches}
        with pytest.raises(grpc.RpcError) as caught:
            find(channels[0], revision + 1_000_000, timeout_s=0.3)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def stats_of(channel: grpc.Channel) -> pb_admin.GetRetrievalStatsResponse:
    """Return what one worker says that all have answered."""
    return admin_service_pb2_grpc.AdminServiceStub(channel).GetRetrievalStats(pb_admin.GetRetrievalStatsRequest())


def metrics_of(server: Running) -> dict[str, float]:
    """Return what the one port tells, by name and labels."""
    [told] = server.events("metrics")
    with urllib.request.urlopen(f"http://{told['address']}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_figures_are_of_all_workers_and_outlive_them(server: Running) -> None:
    with connected(server.address, 8) as channels:
        revision = put(channels[0], "viking://resources/figures.md")
        before = stats_of(channels[0])
        answers = [find(channel, revision) for channel in channels for _ in range(5)]
        seen = [stats_of(channel) for channel in channels]
    assert all(one == seen[0] for one in seen)
    assert seen[0].total_queries == before.total_queries + len(answers)
    assert seen[0].total_results == before.total_results + sum(len(one.matches) for one in answers)
    metrics = metrics_of(server)
    assert metrics["viking_queries_total"] == seen[0].total_queries
    method = "RetrievalService/Retrieve"
    assert metrics[f'viking_rpc_calls_total{{code="OK",method="{method}"}}'] == seen[0].total_queries
    for name in ("1", "2"):
        pids = server.await_pids(name, 1)
        os.kill(pids[-1], signal.SIGKILL)
        server.await_pids(name, len(pids) + 1)
    with connected(server.address, 4) as channels:
        assert [stats_of(channel) for channel in channels] == [seen[0]] * 4
        find(channels[0], revision)
        assert [stats_of(channel).total_queries for channel in channels] == [seen[0].total_queries + 1] * 4
        saved = admin_service_pb2_grpc.AdminServiceStub(channels[1]).CreateCheckpoint(
            pb_admin.CreateCheckpointRequest()
        )
        assert saved.revision >= revision
    assert metrics_of(server)["viking_queries_total"] == seen[0].total_queries + 1
    assert metrics_of(server)["viking_rpc_in_flight"] == 0


def test_a_killed_worker_comes_back_and_loses_nothing(server: Running) -> None:
    writers = Writers(server.address, 4)
    try:
        for name in ("1", "2", "1"):
            writers.await_more(30)
            pids = server.await_pids(name, 1)
            os.kill(pids[-1], signal.SIGKILL)
            server.await_pids(name, len(pids) + 1)
    finally:
        writers.stop()
    codes = {line.split()[1] for line in writers.refused}
    assert codes <= {"StatusCode.UNAVAILABLE", "StatusCode.CANCELLED"}
    with connected(server.address, 4) as channels:
        revision = put(channels[0], "viking://resources/last.md")
        n_files = []
        for channel in channels:
            find(channel, revision)
            info = admin_service_pb2_grpc.AdminServiceStub(channel).GetStoreInfo(pb_admin.GetStoreInfoRequest())
            n_files.append(info.file_count)
        assert min(n_files) == max(n_files) >= len(writers.acknowledged) + 1
        for i, uri in enumerate(writers.acknowledged):
            stub = context_service_pb2_grpc.ContextServiceStub(channels[i % 4])
            assert stub.GetContext(pb.GetContextRequest(uri=uri, view=4), timeout=30.0).context.content == uri


def test_a_second_server_is_refused(server: Running) -> None:
    with pytest.raises(FailedPreconditionError) as taken:
        SharedPort(server.address)
    assert taken.value.reason == "CANNOT_LISTEN"
    other = Supervisor(Settings(data=server.folder, server={"listen": "127.0.0.1:0", "workers": 2}))
    with pytest.raises(FailedPreconditionError) as locked:
        other.run()
    assert (locked.value.reason, locked.value.metadata["address"]) == ("DATA_DIRECTORY_LOCKED", server.address)


def test_all_end_with_their_supervisor_and_the_log_names_the_worker(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        with connected(server.address) as (channel,):
            put(channel, "viking://resources/a.md")
        pids = [server.await_pids(name, 1)[-1] for name in ("keeper", "1", "2")]
        server.process.terminate()
        assert server.process.wait(30) == 0
        assert not any(_is_alive(pid) for pid in pids)
        log = "".join(server.log)
        [told] = server.events("rpc")
        assert (told["method"], told["code"]) == ("ContextService/UpsertContexts", "OK")
        assert told["worker"] in {"1", "2"}
        assert "Traceback" not in log
    assert not (tmp_path / "run").exists()


def test_workers_go_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        pids = [server.await_pids(name, 1)[-1] for name in ("keeper", "1", "2")]
        server.process.kill()
        server.process.wait(10)
        until_s = time.monotonic() + 30
        alive = set(pids)
        while alive and time.monotonic() < until_s:
            alive = {pid for pid in alive if _is_alive(pid)}
            threading.Event().wait(0.05)
        assert not alive


def _is_alive(pid: int) -> bool:
    """Return whether a process runs; one that ended and that nobody has waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return stat.rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_path_cannot_be_shared(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, server={"listen": f"unix:{tmp_path}/socket", "workers": 2})
    with pytest.raises(FailedPreconditionError) as caught:
        Supervisor(settings).run()
    assert caught.value.reason == "WORKERS_NEED_A_PORT"


def test_another_model_is_told_before_anything_serves(tmp_path: Path) -> None:
    from viking_rpc.store.store import Store

    Store.open(tmp_path, model="other", dimensions=8).close()
    settings = Settings(
        data=tmp_path,
        server={"listen": "127.0.0.1:0", "workers": 2},
        embedder={"name": "none", "dimensions": DIMENSIONS},
    )
    with pytest.raises(FailedPreconditionError) as caught:
        Supervisor(settings).run()
    assert (caught.value.reason, caught.value.metadata["stored_dimensions"]) == ("MODEL_MISMATCH", "8")


def test_a_held_port_is_refused_and_free_again_when_it_is_let_go() -> None:
    with SharedPort("127.0.0.1:0") as port:
        assert not port.address.endswith(":0")
        with pytest.raises(FailedPreconditionError):
            SharedPort(port.address)
    SharedPort(port.address).close()
