"""Many small accounts against one account with the same rows: memory and time.

    python -m benchmarks.tenants --accounts 500 --rows 100 --json

Measures, each arm in a process of its own that has every account loaded: resident memory beyond that of a process
without accounts (trees laid out in that process, no mapped checkpoint), and the time of Retrieve in-process (THINKING,
BALANCED, ready 384-d vectors, limit 10) on accounts in random order against the one account. The arms answer in turn.
`load_ms` is what the first query of an account waits for its tree (median). Data: benchmarks.data, one tree for each
account. The goals are 2 for both ratios, at 5,000 accounts of 100 rows.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import multiprocessing
import os
import tempfile
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.data import DIMENSIONS, make_tree, upserts_of
from viking_rpc.config import Settings
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.query import Query, RetrieveRequest
from viking_rpc.engine import store_settings
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.store.store import Store

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from benchmarks.data import SyntheticTree

LIMIT: Final = 10
BATCH: Final = 5000
#: A directory has two rows and a file one, so a tree of 100 rows has about 95 contexts.
CONTEXTS_A_ROW: Final = 0.95


def open_store(folder: str) -> Store:
    """Open a data directory as a server does, without a limit on memory."""
    settings = replace(store_settings(Settings()), memory_budget_bytes=0)
    return Store.open(Path(folder), model="ready", dimensions=DIMENSIONS, settings=settings)


def name_of(i: int) -> str:
    """Return an account's name."""
    return f"tenant-{i:05d}"


def fill(folder: str, trees: list[tuple[str, SyntheticTree]]) -> None:
    """Write trees into accounts."""
    with open_store(folder) as store:
        for account, tree in trees:
            operations = upserts_of(tree)
            while batch := list(islice(operations, BATCH)):
                store.database.apply(account, batch, now_us=1_780_000_000_000_000)


def serve(folder: str, accounts: list[str], queries: np.ndarray, control: Connection) -> None:
    """Be one arm: load, say what that took, then answer a round of queries whenever asked."""
    rng = np.random.default_rng(5)
    with open_store(folder) as store:
        store.snapshot("nobody")  # what a store without accounts takes
        _ask(store, "nobody", queries[0])
        before = _resident_bytes()
        loads = []
        for account in accounts:
            started_s = time.perf_counter()
            store.snapshot(account)
            loads.append(time.perf_counter() - started_s)
        for account in accounts:
            _ask(store, account, queries[0])
        rows = sum(store.snapshot(account).n_rows for account in accounts)
        control.send((_resident_bytes() - before, rows, float(np.median(loads)) * 1000))
        while control.recv():
            took = []
            for query in queries:
                account = accounts[int(rng.integers(len(accounts)))]
                started_s = time.perf_counter()
                _ask(store, account, query)
                took.append(time.perf_counter() - started_s)
            control.send(took)


def _ask(store: Store, account: str, vector: np.ndarray) -> None:
    request = RetrieveRequest(Query(vector=vector), limit=LIMIT)
    now_us = time.time_ns() // 1000
    retrieval = Retrieval(store.snapshot(account), request, LOCAL, vector=vector, now_us=now_us)
    while not retrieval.advance():
        pass
    retrieval.result()


def _resident_bytes() -> int:
    """Return the process's resident memory after what is free was given back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(n_accounts: int, n_rows: int, n_queries: int, rounds: int) -> dict[str, object]:
    """Fill both stores, start both arms, let them answer in turn."""
    context = multiprocessing.get_context("spawn")
    small = [make_tree(int(n_rows * CONTEXTS_A_ROW), n_queries=1, seed=i) for i in range(n_accounts)]
    large = make_tree(int(n_accounts * n_rows * CONTEXTS_A_ROW), n_queries=n_queries)
    with tempfile.TemporaryDirectory() as name:
        arms = {"many": [name_of(i) for i in range(n_accounts)], "one": [LOCAL.account]}
        for arm, accounts in arms.items():
            (Path(name) / arm).mkdir()
            fill(f"{name}/{arm}", list(zip(accounts, small if arm == "many" else [large], strict=True)))
        queries = large.queries
        del small, large
        pipes, told = {}, {}
        took: dict[str, list[float]] = {"many": [], "one": []}
        processes = []
        for arm, accounts in arms.items():
            pipes[arm], theirs = context.Pipe()
            processes.append(context.Process(target=serve, args=(f"{name}/{arm}", accounts, queries, theirs)))
            processes[-1].start()
            told[arm] = pipes[arm].recv()
        for i in range(rounds + 1):
            for arm, pipe in pipes.items():
                pipe.send(True)  # noqa: FBT003 - go on
                answer = pipe.recv()
                if i:  # the first round warms up
                    took[arm] += answer
        load = os.getloadavg()[0]
        for pipe in pipes.values():
            pipe.send(False)  # noqa: FBT003 - the end
        for process in processes:
            process.join()
        files = sum(path.is_file() for path in (Path(name) / "many").rglob("*"))
    p50, p99 = ({arm: float(np.percentile(times, q)) * 1e6 for arm, times in took.items()} for q in (50, 99))
    return {
        "accounts": n_accounts,
        "rows": {arm: told[arm][1] for arm in arms},
        "bytes_per_row": {arm: round(told[arm][0] / told[arm][1]) for arm in arms},
        "memory_ratio": round(told["many"][0] / told["one"][0] * told["one"][1] / told["many"][1], 3),
        "p50_us": {arm: round(p50[arm], 1) for arm in arms},
        "p99_us": {arm: round(p99[arm], 1) for arm in arms},
        "p99_ratio": round(p99["many"] / p99["one"], 3),
        "load_ms": {arm: round(told[arm][2], 2) for arm in arms},
        "files": files,
        "queries": n_queries,
        "rounds": rounds,
        "load_average": load,
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=int, default=500)
    parser.add_argument("--rows", type=int, default=100, help="of each account")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one line of JSON; else indented")
    arguments = parser.parse_args()
    answer = measure(arguments.accounts, arguments.rows, arguments.queries, arguments.rounds)
    print(json.dumps(answer, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
