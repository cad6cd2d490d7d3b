"""Writes beside reads: how many, how soon acknowledged, how soon seen by another process, and what reads pay for it.

    python -m benchmarks.writes --nodes 100000 --json

Measures, in one run: a process in which 8 threads upsert one new file each (ready 384-d vector, 20 terms) as fast as
they are acknowledged (SQLite, WAL, synchronous=FULL), a second process on the same data directory that follows and is
asked 100 times a second (Retrieve as the server does it, THINKING, BALANCED, limit 10), and the keeper, which lays out
anew what has changed. No gRPC: `Store.apply` and `Retrieval` are called as a worker calls them. Quiet and busy seconds
alternate; the read figures are of the second process. `visibility_lag` is from an acknowledgement in the first process
to the snapshot of the second that holds it. Data: benchmarks.data.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.data import DIMENSIONS, make_tree
from benchmarks.rpc import fill_store
from viking_rpc.domain.context import ContextWrite, Kind, Level, Row
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.query import Query, RetrieveRequest
from viking_rpc.errors import VikingError
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.server.worker import SWITCH_S
from viking_rpc.store.keeper import Keeper
from viking_rpc.store.layouts import StoreSettings
from viking_rpc.store.operations import Upsert
from viking_rpc.store.store import Store

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

WRITERS = 8
READS_PER_S = 100
N_TERMS = 20
LIMIT = 10
SETTINGS = StoreSettings(is_shared=True)
_NICENESS = 10


@dataclass(frozen=True, slots=True)
class Written:
    """What the writers did: revision and time of each acknowledgement, and how long each took."""

    acknowledged: list[tuple[int, float]]
    took_s: list[float]


@dataclass(frozen=True, slots=True)
class Read:
    """What the reader saw: how long each read took, and when each revision was in place."""

    took_s: list[float]
    seen: list[tuple[int, float]]


def open_store(folder: str) -> Store:
    """Open the data directory as one of several processes."""
    return Store.open(Path(folder), model="ready", dimensions=DIMENSIONS, settings=SETTINGS)


def write(folder: str, uris: list[str], control: Connection) -> None:
    """Be the process that writes: for each number of seconds that comes, write so long."""
    sys.setswitchinterval(SWITCH_S)
    with open_store(folder) as store:
        store.snapshot(LOCAL.account)
        control.send("ready")
        turn = 0
        while (seconds := control.recv()) is not None:
            turn += 1
            written = Written([], [])
            end_s = time.monotonic() + seconds
            arguments = [(store, uris, turn * WRITERS + k, end_s, written) for k in range(WRITERS)]
            threads = [threading.Thread(target=_write, args=one) for one in arguments]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            control.send(written)


def _write(store: Store, uris: list[str], seed: int, end_s: float, written: Written) -> None:
    rng = np.random.default_rng(seed)
    i = 0
    while time.monotonic() < end_s:
        vector = rng.standard_normal(DIMENSIONS).astype(np.float32)
        terms = np.sort(rng.integers(0, 50_000, N_TERMS).astype(np.uint64))
        row = Row(Level.DETAIL, vector / np.linalg.norm(vector), np.unique(terms), np.ones(len(np.unique(terms)), "f4"))
        uri = f"{uris[int(rng.integers(len(uris)))]}/new-{seed}-{i}.md"
        i += 1
        started_s = time.monotonic()
        committed = store.apply(
            LOCAL.account, [Upsert(ContextWrite(uri, Kind.FILE, title="New", abstract="Just written.", rows=(row,)))]
        )
        now_s = time.monotonic()
        written.acknowledged.append((committed.revision, now_s))
        written.took_s.append(now_s - started_s)


def read(folder: str, queries: np.ndarray, control: Connection) -> None:
    """Be the process that follows and reads: for each number of seconds that comes, read so long."""
    sys.setswitchinterval(SWITCH_S)
    with open_store(folder) as store:
        for query in queries[:50]:
            _ask(store, query)
        control.send("ready")
        while (seconds := control.recv()) is not None:
            end_s = time.monotonic() + seconds
            seen: list[tuple[int, float]] = []
            watcher = threading.Thread(target=_watch, args=(store, end_s + 1.0, seen))
            watcher.start()
            took = []
            n_asked = 0
            next_s = time.monotonic()
            while (now_s := time.monotonic()) < end_s:
                if now_s < next_s:
                    time.sleep(next_s - now_s)
                next_s += 1 / READS_PER_S
                started_s = time.monotonic()
                _ask(store, queries[n_asked % len(queries)])
                took.append(time.monotonic() - started_s)
                n_asked += 1
            watcher.join()
            control.send(Read(took, seen))


def _ask(store: Store, vector: np.ndarray) -> None:
    request = RetrieveRequest(Query(vector=vector), limit=LIMIT)
    now_us = time.time_ns() // 1000
    retrieval = Retrieval(store.snapshot(LOCAL.account), request, LOCAL, vector=vector, now_us=now_us)
    while not retrieval.advance():
        pass
    retrieval.result()


def _watch(store: Store, end_s: float, seen: list[tuple[int, float]]) -> None:
    revision = store.snapshot(LOCAL.account).revision
    while (left_s := end_s - time.monotonic()) > 0:
        try:
            revision = store.wait_for(LOCAL.account, revision + 1, left_s).revision
        except VikingError:
            return
        seen.append((revision, time.monotonic()))


def keep(folder: str, control: Connection) -> None:
    """Be the keeper."""
    with open_store(folder) as store:
        keeper = Keeper(store.folder, store.database, SETTINGS)
        keeper.keep()
        control.send("ready")
        os.nice(_NICENESS)
        while not control.poll(0.5):
            keeper.keep()


def lags(written: list[Written], reads: list[Read]) -> np.ndarray:
    """Return seconds from each acknowledgement to the state that held it; what was seen before it counts as 0."""
    seen = sorted(pair for one in reads for pair in one.seen)
    revisions = np.array([revision for revision, _ in seen])
    times = np.array([seen_s for _, seen_s in seen])
    found = []
    for revision, acknowledged_s in (pair for one in written for pair in one.acknowledged):
        i = int(np.searchsorted(revisions, revision))
        if i < len(times):
            found.append(max(times[i] - acknowledged_s, 0.0))
    return np.array(found)


def measure(n_nodes: int, rounds: int, seconds: float) -> dict[str, object]:
    """Fill a store, start the processes, let quiet and busy seconds alternate."""
    tree = make_tree(n_nodes)
    uris = {0: "viking:/"}
    for record in tree.records:
        uris[record.key] = f"{uris[record.parent_key]}/{record.name}"
    parents = {record.parent_key for record in tree.records if record.kind == Kind.FILE}
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        fill_store(Path(name), tree)
        leaves = [uris[key] for key in sorted(parents)]
        n_stored = len(tree.records)
        queries = tree.queries
        del tree
        pipes, processes = [], []
        for target, arguments in ((keep, ()), (write, (leaves,)), (read, (queries,))):
            ours, theirs = context.Pipe()
            processes.append(context.Process(target=target, args=(name, *arguments, theirs)))
            processes[-1].start()
            ours.recv()
            pipes.append(ours)
        keeper, writer, reader = pipes
        quiet: list[Read] = []
        busy: list[Read] = []
        written: list[Written] = []
        for _ in range(rounds):
            reader.send(seconds)
            quiet.append(reader.recv())
            reader.send(seconds)
            writer.send(seconds)
            busy.append(reader.recv())
            written.append(writer.recv())
        load = os.getloadavg()[0]
        for pipe in (writer, reader, keeper):
            pipe.send(None)
        for process in processes:
            process.join()
    took = np.array([one for part in written for one in part.took_s]) * 1000
    lag = lags(written, busy) * 1000
    p99 = [float(np.percentile([one for part in arm for one in part.took_s], 99)) * 1000 for arm in (quiet, busy)]
    p50 = [float(np.percentile([one for part in arm for one in part.took_s], 50)) * 1000 for arm in (quiet, busy)]
    return {
        "nodes": n_stored,
        "writers": WRITERS,
        "upserts_per_s": round(len(took) / (rounds * seconds), 1),
        "ack_p50_ms": round(float(np.percentile(took, 50)), 2),
        "ack_p99_ms": round(float(np.percentile(took, 99)), 2),
        "visibility_lag_p50_ms": round(float(np.percentile(lag, 50)), 1),
        "visibility_lag_p99_ms": round(float(np.percentile(lag, 99)), 1),
        "read_p50_ms": [round(one, 2) for one in p50],
        "read_p99_ms": [round(one, 2) for one in p99],
        "read_p99_ratio": round(p99[1] / p99[0], 2),
        "reads": [sum(len(part.took_s) for part in arm) for arm in (quiet, busy)],
        "rounds": rounds,
        "seconds": seconds,
        "load_average": load,
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3, help="of quiet and busy seconds in turn")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each part")
    parser.add_argument("--json", action="store_true", help="one line of JSON; else indented")
    arguments = parser.parse_args()
    answer = measure(arguments.nodes, arguments.rounds, arguments.seconds)
    print(json.dumps(answer, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
