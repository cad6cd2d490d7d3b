"""In-process THINKING against flat search of the same rows, interleaved in one run.

    python -m benchmarks.retrieve --nodes 100000 --json

Measures: one Retrieve with a ready 384-d vector and limit 10, from the request to the answer with its ancestors, as the
server runs it. Arms take turns, all queries each, round by round, so that each has the caches as it leaves them itself
(the exact scan reads 160 MB, and whoever came next would pay for that): `thinking` (BALANCED), `quick` (our own flat
search), `flat_usearch` (one usearch graph over all rows, its default effort, top 10), `flat_exact` (numpy, all rows).
Data: benchmarks.data, imported into a store and opened again. recall10 is the share of the exact top ten that an arm
finds: of the exhaustive descent for `thinking`, of the exact flat search for the others. Times are medians over queries
of the best of `--rounds`, and the 99th percentile of all calls.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from usearch.index import Index

from benchmarks.data import DIMENSIONS, SyntheticTree, make_tree
from benchmarks.rpc import fill_store
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.query import Mode, Profile, Query, RetrieveOptions, RetrieveRequest, TraceLevel
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.index.snapshot import Snapshot

LIMIT = 10
NOW_US = 1_790_000_000_000_000


def retrieve(
    snapshot: Snapshot, vector: NDArray[np.float32], mode: Mode = Mode.THINKING, profile: Profile = Profile.BALANCED
) -> RetrieveResult:
    """Answer one query as the server does."""
    request = RetrieveRequest(
        Query(vector=vector),
        limit=LIMIT,
        mode=mode,
        options=RetrieveOptions(profile=profile),
        trace_level=TraceLevel.NONE,
    )
    retrieval = Retrieval(snapshot, request, LOCAL, vector=vector, now_us=NOW_US)
    while not retrieval.advance():
        pass
    return retrieval.result()


def found_by(result: RetrieveResult) -> set[str]:
    """Return the URIs of an answer."""
    return {match.context.uri for match in result.matches}


def measure(n_nodes: int, n_queries: int, rounds: int) -> dict[str, object]:
    """Import the tree into a store, reopen it, and run the arms."""
    tree = make_tree(n_nodes, n_queries=n_queries)
    with tempfile.TemporaryDirectory() as name:
        fill_store(Path(name), tree)  # and open it again, as a server finds it
        with Store.open(Path(name), model="ready", dimensions=DIMENSIONS) as store:
            return compare(store.snapshot("default"), tree, n_queries, rounds)


def compare(snapshot: Snapshot, tree: SyntheticTree, n_queries: int, rounds: int) -> dict[str, object]:
    """Run the arms on one snapshot."""
    vectors = np.array(snapshot.rows.vectors)
    graph = Index(ndim=DIMENSIONS, metric="ip", dtype="f16")
    graph.add(np.arange(len(vectors), dtype=np.uint64), vectors, threads=os.cpu_count() or 1)

    def flat_exact(query: NDArray[np.float32]) -> NDArray[np.int64]:
        scores = vectors @ query
        best = np.argpartition(-scores, LIMIT)[:LIMIT]
        return best[np.argsort(-scores[best])]

    arms: dict[str, Callable[[NDArray[np.float32]], object]] = {
        "thinking": lambda query: retrieve(snapshot, query),
        "quick": lambda query: retrieve(snapshot, query, Mode.QUICK),
        "flat_usearch": lambda query: graph.search(query, LIMIT, threads=1).keys,
        "flat_exact": flat_exact,
    }
    times = {arm: np.empty((rounds, n_queries)) for arm in arms}
    for arm in arms.values():
        for query in tree.queries[:20]:
            arm(query)
    for i in range(rounds):
        for name, arm in arms.items():
            for j, query in enumerate(tree.queries):
                started = time.perf_counter_ns()
                arm(query)
                times[name][i, j] = (time.perf_counter_ns() - started) / 1000

    judged = tree.queries[:100]
    recall: dict[str, list[float]] = {name: [] for name in arms}
    rows: dict[str, float | None] = {
        "thinking": 0.0,
        "quick": 0.0,
        "flat_exact": float(len(vectors)),
        "flat_usearch": None,
    }
    for query in judged:
        exact_rows = set(flat_exact(query).tolist())
        exhaustive = found_by(retrieve(snapshot, query, profile=Profile.EXHAUSTIVE))
        exact_nodes = found_by(retrieve(snapshot, query, Mode.QUICK, Profile.EXHAUSTIVE))
        for name, mode, truth in (("thinking", Mode.THINKING, exhaustive), ("quick", Mode.QUICK, exact_nodes)):
            result = retrieve(snapshot, query, mode)
            recall[name].append(len(found_by(result) & truth) / LIMIT)
            rows[name] = (rows[name] or 0.0) + result.stats.rows_scored / len(judged)
        recall["flat_usearch"].append(
            len(exact_rows & set(graph.search(query, LIMIT, threads=1).keys.tolist())) / LIMIT
        )
        recall["flat_exact"].append(1.0)

    answer: dict[str, object] = {"nodes": snapshot.n_contexts, "rows": snapshot.n_rows, "dimensions": DIMENSIONS}
    for name in arms:
        n_rows = rows[name]
        answer[name] = {
            "p50_us": round(float(np.median(times[name].min(axis=0))), 1),
            "p99_us": round(float(np.percentile(times[name], 99)), 1),
            "rows_scored": None if n_rows is None else round(n_rows, 1),
            "recall10": round(float(np.mean(recall[name])), 4),
        }
    ratio = np.median(times["thinking"].min(axis=0)) / np.median(times["flat_usearch"].min(axis=0))
    return answer | {
        "thinking_to_flat_usearch": round(float(ratio), 2),
        "queries": n_queries,
        "rounds": rounds,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one line of JSON; else indented")
    arguments = parser.parse_args()
    answer = measure(arguments.nodes, arguments.queries, arguments.rounds)
    print(json.dumps(answer, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
