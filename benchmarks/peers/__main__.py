"""This project beside others: the same tree, vectors and queries, in one run, in turn.

    python -m benchmarks.peers --nodes 10000,100000 --json
    python -m benchmarks.peers --quick --json

Arms: `classic` and `balanced` (this project, in process), `grpc` (BALANCED over loopback), `openviking_0_4_22` (the
last release that descends) and `openviking_0_5_2` with their local store and ready vectors, and flat filtered searches
by usearch, hnswlib, faiss, lancedb and qdrant-edge. Each runs in a process of its own, those of others in virtual
environments that are made and kept in `--folder`. Every arm answers ten contexts of those that the caller may see: a
twentieth of the tree is another user's. Data: benchmarks.data, 384-d, clustered by directory; it flatters every method.

First each arm is loaded by a process that ends (`load_s`), then each is opened by another (`state` says so), and all
take turns: one answers all queries, then the next, round by round; the first round is not counted. `p50_ms` is the
median over queries of the best of all rounds, `p95_ms` the 95th percentile of all calls. `rss_mb` is the process's
resident memory after the rounds. `searches` are those of its store that a query needs. `agreement10` is the share of
the exact flat answer (the ten contexts whose best row is nearest) that is in the answer: what descends and mixes
scores of parents in, as `balanced` does, is not meant to answer the same. `recall10` is against the arm's own exact
form: the exhaustive descent for `balanced` and `grpc`, the flat answer for the libraries. `like_classic10` compares
0.4.22 with `classic`, which is the same algorithm.

The answer is a dictionary by size, then by arm, beside `ratios` (medians divided, by size) and `run`. An arm that
cannot be installed, loaded or asked is {"error": ...}; the others go on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import DIMENSIONS
from benchmarks.peers.data import LIMIT, Data
from benchmarks.peers.environments import REQUIREMENTS, default_folder, interpreter
from benchmarks.peers.process import ArmError, ArmProcess
from benchmarks.peers.report import show
from benchmarks.peers.tree import exact_answers, write

OURS = ("classic", "balanced", "grpc")
ARMS = (*OURS, *REQUIREMENTS)
QUICK_ARMS = (*OURS, "usearch", "faiss")
#: Name of a ratio: (the slower, the faster).
RATIOS = {
    "classic_to_openviking_0_4_22": ("openviking_0_4_22", "classic"),
    "balanced_to_openviking_0_5_2": ("openviking_0_5_2", "balanced"),
    "grpc_to_openviking_0_5_2": ("openviking_0_5_2", "grpc"),
}
_EXACT = "exhaustive"


def measure(n_nodes: int, arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Load, open and ask all arms; return figures by arm."""
    data = write(scratch / f"data-{n_nodes}", n_nodes, arguments.queries)
    stores = (arguments.folder if arguments.keep else scratch) / f"stores-{n_nodes}-{arguments.queries}"
    figures: dict[str, dict[str, Any]] = {}
    running: dict[str, ArmProcess] = {}
    with ExitStack() as stack:
        for arm in (*arguments.arms, *([_EXACT] if {"balanced", "grpc"} & set(arguments.arms) else [])):
            try:
                python = interpreter(arm, arguments.folder, arguments.timeout)
                loaded = load(python, arm, data, stores, arguments.timeout)
                process = ArmProcess(python, arm, data, stores / arm, "serve", arguments.timeout)
                running[arm] = stack.enter_context(process)
                figures[arm] = {"state": "reopened", **loaded, **process.told}
            except (ArmError, RuntimeError) as error:
                figures[arm] = {"error": str(error)}
            _say(f"{n_nodes} {arm}: {figures[arm]}")
        exact = {arm: running.pop(arm).round()["found"] for arm in [_EXACT] if arm in running}
        rounds: dict[str, list[dict[str, Any]]] = {arm: [] for arm in running}
        for i in range(arguments.rounds + 1):
            for arm, process in list(running.items()):
                try:
                    answer = process.round()
                except ArmError as error:
                    figures[arm] = {"error": str(error)}
                    del running[arm], rounds[arm]
                    continue
                if i:
                    rounds[arm].append(answer)
            _say(f"{n_nodes}: round {i} of {arguments.rounds}")
    figures.pop(_EXACT, None)
    flat = exact_answers(data)
    for arm, answers in rounds.items():
        figures[arm] |= judge(arm, answers, flat, exact.get(_EXACT), rounds.get("classic"))
        _say(f"{n_nodes} {arm}: {figures[arm]}")
    return figures


def load(python: Path, arm: str, data: Data, stores: Path, timeout_s: float) -> dict[str, Any]:
    """Fill an arm's store, unless it is there; this project's arms take a copy of the first one's."""
    store, note = stores / arm, stores / f"{arm}.json"
    loaded: dict[str, Any]
    if note.exists():
        return {**json.loads(note.read_text()), "is_kept": True}
    shutil.rmtree(store, ignore_errors=True)
    first = next((other for other in (*OURS, _EXACT) if (stores / f"{other}.json").exists()), None)
    if arm in (*OURS, _EXACT) and first:
        shutil.copytree(stores / first, store, ignore=shutil.ignore_patterns("*.lock", "lock"))
        loaded = json.loads((stores / f"{first}.json").read_text())
    else:
        with ArmProcess(python, arm, data, store, "load", timeout_s) as process:
            loaded = process.told
    note.write_text(json.dumps(loaded))
    return loaded


def judge(
    arm: str,
    answers: list[dict[str, Any]],
    flat: list[set[str]],
    exact: list[list[str]] | None,
    classic: list[dict[str, Any]] | None,
) -> dict[str, Any]:
    """Return an arm's figures of all rounds."""
    times = np.array([answer["times_ms"] for answer in answers])
    found = [set(uris[:LIMIT]) for uris in answers[-1]["found"]]
    figures: dict[str, Any] = {
        "p50_ms": round(float(np.median(times.min(axis=0))), 3),
        "p95_ms": round(float(np.percentile(times, 95)), 3),
        "searches": answers[-1].get("searches"),
        "rows_scored": answers[-1].get("rows_scored"),
        "rss_mb": answers[-1]["rss_mb"],
        "agreement10": _shared(found, flat),
    }
    if arm in ("balanced", "grpc") and exact:
        figures["recall10"] = _shared(found, [set(uris) for uris in exact])
    elif arm in REQUIREMENTS and not arm.startswith("openviking"):
        figures["recall10"] = figures["agreement10"]
    elif arm == "openviking_0_4_22" and classic:
        figures["like_classic10"] = _shared(found, [set(uris) for uris in classic[-1]["found"]])
    others = sum(uri.startswith("viking://user/other") for uris in found for uri in uris)
    return figures | ({"error": f"{others} contexts of another user"} if others else {})


def _shared(found: list[set[str]], wanted: list[set[str]]) -> float:
    """Return the mean share of what was wanted that was found."""
    shares = [len(one & other) / max(1, len(other)) for one, other in zip(found, wanted, strict=True)]
    return round(float(np.mean(shares)), 4)


def ratios(figures: dict[str, dict[str, Any]]) -> dict[str, float | None]:
    """Return how many times faster this project is, by pairs of arms; None where one was not measured."""
    return {
        name: round(figures[slow]["p50_ms"] / figures[fast]["p50_ms"], 1)
        if "p50_ms" in figures.get(slow, {}) and "p50_ms" in figures.get(fast, {})
        else None
        for name, (slow, fast) in RATIOS.items()
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="", help="sizes, by commas; 10000,100000 (--quick: 2000)")
    parser.add_argument("--queries", type=int, default=0, help="100 (--quick: 40)")
    parser.add_argument("--rounds", type=int, default=3, help="that are counted; one goes before")
    parser.add_argument("--arms", default="", help=f"by commas; all: {','.join(ARMS)}")
    parser.add_argument("--quick", action="store_true", help=f"a small tree and {','.join(QUICK_ARMS)}")
    parser.add_argument("--folder", type=Path, default=default_folder(), help="for environments and kept stores")
    parser.add_argument("--keep", action="store_true", help="keep loaded stores in the folder and use what is there")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for an installation, a load or a round")
    parser.add_argument("--json", action="store_true", help="one line of JSON; else a table")
    arguments = parser.parse_args()
    arguments.queries = arguments.queries or (40 if arguments.quick else 100)
    arguments.folder = arguments.folder.resolve()
    arguments.arms = (arguments.arms or ",".join(QUICK_ARMS if arguments.quick else ARMS)).split(",")
    if unknown := set(arguments.arms) - set(ARMS):
        parser.error(f"no such arm: {', '.join(sorted(unknown))}")
    sizes = [int(n) for n in (arguments.nodes or ("2000" if arguments.quick else "10000,100000")).split(",")]
    with tempfile.TemporaryDirectory(prefix="viking-peers-") as scratch:
        answer: dict[str, Any] = {str(n_nodes): measure(n_nodes, arguments, Path(scratch)) for n_nodes in sizes}
    answer["ratios"] = {size: ratios(figures) for size, figures in answer.items()}
    answer["run"] = {
        "queries": arguments.queries,
        "rounds": arguments.rounds,
        "dimensions": DIMENSIONS,
        "load_average": os.getloadavg()[0],
    }
    if arguments.json:
        print(json.dumps(answer))
    else:
        show(answer)


if __name__ == "__main__":
    main()
