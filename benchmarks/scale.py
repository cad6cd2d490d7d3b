"""What trees of several sizes cost, in one run: importing, starting, memory, and the time of a query.

    python -m benchmarks.scale --nodes 10000,100000,1000000 --json

Measures, for each size, with ready 384-d vectors from benchmarks.data:

- `import_s`: from the first batch to the checkpoint on disk, as an import into a data directory that nobody serves does
  it: batches into the database (`write_s`), one layout, its approximate indexes, one checkpoint; `checkpoint_s` is the
  last part. `import_cpu_s` is the time of the processor: on a machine that does other things too it tells more.
  The tree is made before, in a process of its own, whose memory at its peak above what it had before is
  `import_peak_bytes_per_node`.
- `start_s`: from the start of a server's process to SERVING, with the checkpoint.
- `inproc_p50_us`, `inproc_p99_us`: one Retrieve (THINKING, BALANCED, limit 10) as the server runs it, all sizes in turn
  query by query, each on its mapped checkpoint.
- `rpc_p50_us`, `echo_p50_us`: the same over loopback gRPC, and an echo of the same messages, call by call in turn.
- `rss_bytes_per_node`: resident memory of the server's process after these calls, pages of the mapped checkpoint
  included, by the number of contexts; `anon_bytes_per_node` is the part that no other process shares.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.data import DIMENSIONS, SyntheticTree, make_tree
from benchmarks.retrieve import retrieve
from benchmarks.rpc import request_of, stub_of
from benchmarks.servers import running, started
from viking_rpc.config import load_settings
from viking_rpc.domain.context import ContextWrite
from viking_rpc.engine import store_settings
from viking_rpc.index.layout import build_snapshot
from viking_rpc.store.operations import Upsert
from viking_rpc.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCOUNT = "default"
BATCH = 5000
QUERIES_NAME = "queries.npy"
NOW_US = 1_780_000_000_000_000
_CONFIG = '[embedder]\nname = "none"\ndimensions = {dimensions}\nmodel = "ready"\n\n[index]\nrows = "{rows}"\n'


def open_store(folder: Path) -> Store:
    """Open a data directory with the settings that a server would have."""
    settings = store_settings(load_settings({"data": str(folder)}))
    return Store.open(folder, model="ready", dimensions=DIMENSIONS, settings=settings)


def fill(store: Store, tree: SyntheticTree) -> None:
    """Write a tree into the database, batch by batch."""
    uris = {0: "viking:/"}
    batch: list[Upsert] = []
    for record in tree.records:
        uri = uris[record.key] = f"{uris[record.parent_key]}/{record.name}"
        if uri.count("/") > 2:
            write = ContextWrite(uri, record.kind, title=record.title, abstract=record.abstract, rows=record.rows)
            batch.append(Upsert(write))
        if len(batch) >= BATCH:
            store.database.apply(ACCOUNT, batch, now_us=NOW_US)
            batch.clear()
    if batch:
        store.database.apply(ACCOUNT, batch, now_us=NOW_US)


def import_tree(folder: Path, n_nodes: int, n_queries: int) -> dict[str, float]:
    """Make a tree and import it; runs in a process of its own, since memory that was used once tells on all later."""
    tree = make_tree(n_nodes, n_queries=n_queries)
    np.save(folder / QUERIES_NAME, tree.queries)
    n_contexts = len(tree.records)
    with open_store(folder) as store:
        begun, begun_cpu = time.monotonic(), time.process_time()
        fill(store, tree)
        written = time.monotonic()
        del tree
        with peak_memory() as peak:
            store.lay_out(ACCOUNT)
        ended, ended_cpu = time.monotonic(), time.process_time()
        begun_again = time.monotonic()
        store.layouts.save(ACCOUNT, store.snapshot(ACCOUNT))
        checkpoint_s = time.monotonic() - begun_again
        resident = store.snapshot(ACCOUNT).size_bytes
    return {
        "nodes": n_contexts,
        "import_s": round(ended - begun, 2),
        "import_cpu_s": round(ended_cpu - begun_cpu, 2),
        "write_s": round(written - begun, 2),
        "checkpoint_s": round(checkpoint_s, 2),
        "import_peak_bytes_per_node": round(peak[0] / n_contexts),
        "snapshot_bytes_per_node": round(resident / n_contexts),
    }


@contextlib.contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Yield a list that holds, after the block, by how much the resident memory grew at most, sampled."""
    before, is_over, peak = memory_of(os.getpid())["VmRSS"], threading.Event(), [0]

    def sample() -> None:
        while not is_over.wait(0.02):
            peak[0] = max(peak[0], memory_of(os.getpid())["VmRSS"] - before)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield peak
    finally:
        is_over.set()
        sampler.join()


def memory_of(pid: int) -> dict[str, int]:
    """Return what the system tells of a process's memory, in bytes."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {parts[0].rstrip(":"): int(parts[1]) * 1024 for parts in lines if len(parts) == 3 and parts[2] == "kB"}


def measure_server(folder: Path, n_contexts: int, rounds: int) -> dict[str, float]:
    """Start a server, call it and an echo in turn, look at its memory."""
    requests = [request_of(query) for query in np.load(folder / QUERIES_NAME)]
    begun = time.monotonic()
    with started("viking", folder) as (address, pid):
        start_s = time.monotonic() - begun
        viking = stub_of(address)
        answers = [viking.Retrieve(request) for request in requests]
        canned = sorted(answers, key=lambda answer: answer.ByteSize())[len(answers) // 2]
        (folder / "canned").write_bytes(canned.SerializeToString())
        with running("echo", folder / "canned") as echo_address:
            echo = stub_of(echo_address)
            times = np.empty((2, rounds, len(requests)))
            for request in requests[:50]:
                echo.Retrieve(request)
            for i in range(rounds):
                for j, request in enumerate(requests):
                    for k, stub in enumerate((echo, viking)):
                        at = time.perf_counter_ns()
                        stub.Retrieve(request)
                        times[k, i, j] = (time.perf_counter_ns() - at) / 1000
        memory = memory_of(pid)
    echo_p50, rpc_p50 = np.median(times, axis=(1, 2))
    return {
        "rpc_p50_us": round(float(rpc_p50), 1),
        "echo_p50_us": round(float(echo_p50), 1),
        "rss_bytes_per_node": round(memory["VmRSS"] / n_contexts),
        "anon_bytes_per_node": round(memory["RssAnon"] / n_contexts),
        "start_s": round(start_s, 2),
    }


def measure_in_process(folders: list[Path], rounds: int) -> list[dict[str, float]]:
    """Ask all sizes in turn, query by query."""
    with contextlib.ExitStack() as stack:
        snapshots = [stack.enter_context(open_store(folder)).snapshot(ACCOUNT) for folder in folders]
        queries = [np.load(folder / QUERIES_NAME) for folder in folders]
        times = np.empty((len(folders), rounds, len(queries[0])))
        for i in range(-1, rounds):  # the first one warms up
            for j in range(len(queries[0])):
                for k, snapshot in enumerate(snapshots):
                    at = time.perf_counter_ns()
                    retrieve(snapshot, queries[k][j])
                    times[k, max(i, 0), j] = (time.perf_counter_ns() - at) / 1000
    return [
        {
            "inproc_p50_us": round(float(np.median(one)), 1),
            "inproc_p99_us": round(float(np.percentile(one, 99)), 1),
        }
        for one in times
    ]


def compile_kernels(rows: str) -> None:
    """Have the kernels in the cache, so that no server that is measured compiles any."""
    tree = make_tree(100, n_queries=1)
    snapshot = build_snapshot(tree.records, revision=1, dimensions=DIMENSIONS, rows=rows)
    retrieve(snapshot, tree.queries[0])


def measure(sizes: list[int], n_queries: int, rounds: int, rows: str) -> dict[str, object]:
    """Measure all sizes; what is derived from a size stays until the last one has been measured."""
    compile_kernels(rows)
    with tempfile.TemporaryDirectory() as name:
        found, folders = [], []
        for n_nodes in sizes:
            folders.append(Path(name) / str(n_nodes))
            folders[-1].mkdir()
            (folders[-1] / "viking.toml").write_text(_CONFIG.format(dimensions=DIMENSIONS, rows=rows))
            command = [sys.executable, "-m", "benchmarks.scale", "--import-into", str(folders[-1])]
            command += ["--nodes", str(n_nodes), "--queries", str(n_queries)]
            imported = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            found.append(imported | measure_server(folders[-1], imported["nodes"], rounds))
        measured = zip(found, measure_in_process(folders, rounds), strict=True)
        return {
            "sizes": [one | times for one, times in measured],
            "rows": rows,
            "queries": n_queries,
            "rounds": rounds,
            "load_average": os.getloadavg()[0],
        }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="10000,100000,1000000", help="sizes, with commas")
    parser.add_argument("--rows", choices=("float32", "bfloat16"), default="float32", help="index.rows of the server")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one line of JSON; else indented")
    parser.add_argument("--import-into", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.nodes.split(",")]
    if arguments.import_into is not None:
        print(json.dumps(import_tree(arguments.import_into, sizes[0], arguments.queries)))
        return
    answer = measure(sizes, arguments.queries, arguments.rounds, arguments.rows)
    print(json.dumps(answer, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
