"""Small forms of the quality and speed measurements against a baseline: fails where a ratio has fallen.

    python -m benchmarks.guard            compare with benchmarks/baseline.json; exit with 1 when a ratio fell
    python -m benchmarks.guard --update   measure three times, write the least ratios as the baseline

Every figure is a ratio of two things that were measured in one run, and the greater the better, so that another machine
or a busy one moves both sides:

- quality, on the two small sets of tests/data/evaluate, mean nDCG@10: `thinking/hybrid`, `thinking/dense`,
  `hybrid/dense`, `thinking/exhaustive`. The same code gives the same figures, so 5 % are the most they may fall.
- retrieve: a flat usearch search to THINKING in process, 10,000 contexts (benchmarks.retrieve), and its recall.
- rpc: an echo to Retrieve over loopback, 10,000 contexts, call by call in turn (benchmarks.rpc).
- levels: the rate at which a walk reads its rows to that at which a plain sum reads memory (benchmarks.levels), the
  best of many walks and of many short sums, by the time of the processor.

Speed may fall by 20 %. Times are the best of several interleaved rounds for each query, then the median over queries:
whatever else the machine does only adds time. A part that fell is measured once more, and the better one counts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import levels
from benchmarks.data import DIMENSIONS, make_tree
from benchmarks.retrieve import compare
from benchmarks.rpc import fill_store, request_of, stub_of
from benchmarks.servers import running
from viking_kernels.arrays import frozen
from viking_rpc.adapters.wordllama import WordLlamaEmbedder
from viking_rpc.config import Settings
from viking_rpc.evaluate.arms import arms_named
from viking_rpc.evaluate.measure import Wanted, measure_set
from viking_rpc.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Ratios = dict[str, float]

BASELINE: Final = Path(__file__).parent / "baseline.json"
SETS: Final = Path(__file__).parent.parent / "tests" / "data" / "evaluate"
#: How much of its baseline a ratio of each part may lose.
TOLERANCE: Final[Mapping[str, float]] = {"quality": 0.05, "retrieve": 0.2, "rpc": 0.2, "levels": 0.2}
N_NODES: Final = 10_000
N_QUERIES: Final = 100
N_ROUNDS: Final = 7
_LEVELS: Final = ((20, 4), (200, 3))
_N_WALKS: Final = 60
_COPIES_BYTES: Final = 1 << 27
_PART_BYTES: Final = 1 << 22


def quality() -> Ratios:
    """Measure the small sets, imported anew."""
    wanted = Wanted(arms_named(["dense", "hybrid", "thinking", "exhaustive"]))
    embedder = {"wordllama": WordLlamaEmbedder()}
    with tempfile.TemporaryDirectory() as name:
        measured = [
            measure_set(SETS / one, Settings(), embedder, wanted, store=Path(name)) for one in ("docs", "skills")
        ]
    ndcg = {arm: float(np.mean([one.reports[arm].ndcg_10 for one in measured])) for arm in wanted.arms}
    return {
        "thinking/hybrid": ndcg["thinking"] / ndcg["flat_hybrid"],
        "thinking/dense": ndcg["thinking"] / ndcg["flat_dense"],
        "hybrid/dense": ndcg["flat_hybrid"] / ndcg["flat_dense"],
        "thinking/exhaustive": ndcg["thinking"] / ndcg["exhaustive"],
    }


def retrieve() -> Ratios:
    """Measure THINKING in process."""
    tree = make_tree(N_NODES, n_queries=N_QUERIES)
    with tempfile.TemporaryDirectory() as name:
        fill_store(Path(name), tree)
        with Store.open(Path(name), model="ready", dimensions=DIMENSIONS) as store:
            found = compare(store.snapshot("default"), tree, N_QUERIES, N_ROUNDS)
    thinking = found["thinking"]
    assert isinstance(thinking, dict)
    assert isinstance(found["thinking_to_flat_usearch"], float)
    return {"usearch/thinking": 1 / found["thinking_to_flat_usearch"], "recall@10": thinking["recall10"]}


def rpc() -> Ratios:
    """Measure Retrieve over loopback."""
    tree = make_tree(N_NODES, n_queries=N_QUERIES)
    requests = [request_of(query) for query in tree.queries]
    with tempfile.TemporaryDirectory() as name:
        data, canned = Path(name) / "data", Path(name) / "canned"
        data.mkdir()
        fill_store(data, tree)
        with running("viking", data) as address:
            viking = stub_of(address)
            answers = [viking.Retrieve(request) for request in requests]
            typical = sorted(answers, key=lambda answer: answer.ByteSize())[len(answers) // 2]
            canned.write_bytes(typical.SerializeToString())
            with running("echo", canned) as echo_address:
                stubs = (stub_of(echo_address), viking)
                times = np.empty((2, N_ROUNDS, N_QUERIES))
                for i in range(-1, N_ROUNDS):  # the first one warms up
                    for j, request in enumerate(requests):
                        for k, stub in enumerate(stubs):
                            started = time.perf_counter_ns()
                            stub.Retrieve(request)
                            times[k, max(i, 0), j] = time.perf_counter_ns() - started
    echo, ours = np.median(times.min(axis=1), axis=1)
    return {"echo/retrieve": float(echo / ours)}


def walks() -> Ratios:
    """Measure walks of two shapes, the rows out of the core's caches."""
    rng = np.random.default_rng(7)
    best: dict[str, float] = {}
    bandwidth = 0.0
    for fanout, depth in _LEVELS:
        bandwidth = max(bandwidth, _bandwidth())
        case = levels.make_case(fanout, depth, rng)
        walker = levels.Walker(case, depth)
        n_copies = max(1, _COPIES_BYTES // case.rows.vectors.nbytes)
        copies = [case.rows._replace(vectors=frozen(case.rows.vectors.copy())) for _ in range(n_copies)]
        walked = islice(cycle(copies), max(_N_WALKS, n_copies))
        ns = min(_time_ns(walker.run, rows) for rows in walked)
        best[f"bandwidth/walk {fanout}x{depth}"] = walker.n_rows * DIMENSIONS * 4 / ns
    return {name: rate / max(bandwidth, _bandwidth()) for name, rate in best.items()}


def _bandwidth() -> float:
    """Return the best rate of reading memory, in bytes a nanosecond: parts so short that some are not disturbed."""
    parts = np.ones((_COPIES_BYTES // _PART_BYTES, _PART_BYTES // 4), np.float32)
    add_up = levels._add_up  # noqa: SLF001 - the same loop
    add_up(parts[0])
    return _PART_BYTES / min(_time_ns(add_up, part) for part in parts)


def _time_ns(call: Callable[[Any], object], argument: object) -> int:
    """Return the time of the processor that a call takes."""
    started = time.thread_time_ns()
    call(argument)
    return time.thread_time_ns() - started


PARTS: Final[Mapping[str, Callable[[], Ratios]]] = {
    "quality": quality,
    "retrieve": retrieve,
    "rpc": rpc,
    "levels": walks,
}


def fallen(part: str, found: Ratios, baseline: Mapping[str, float]) -> list[str]:
    """Return the ratios of a part that lost more than they may, or are not measured any more."""
    least = {name: value * (1 - TOLERANCE[part]) for name, value in baseline.items()}
    return [name for name, value in least.items() if found.get(name, 0.0) < value]


def check(baseline: Mapping[str, Mapping[str, float]]) -> tuple[dict[str, Ratios], dict[str, list[str]]]:
    """Measure every part, one that fell twice.

    Args:
        baseline: ratios by part.

    Returns:
        The ratios by part, and the names of those that fell.
    """
    found, lost = {}, {}
    for part, measure in PARTS.items():
        expected = baseline.get(part, {})
        ratios = measure()
        if fallen(part, ratios, expected) and part != "quality":
            ratios = {name: max(value, ratios[name]) for name, value in measure().items()}
        found[part], lost[part] = ratios, fallen(part, ratios, expected)
    return found, lost


def update() -> dict[str, Ratios]:
    """Measure three times and write the least of each ratio: what any run should reach."""
    runs = [{part: measure() for part, measure in PARTS.items()} for _ in range(3)]
    found = {
        part: {name: round(min(run[part][name] for run in runs), 4) for name in ratios}
        for part, ratios in runs[0].items()
    }
    BASELINE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return found


def as_table(
    found: Mapping[str, Ratios], lost: Mapping[str, list[str]], baseline: Mapping[str, Mapping[str, float]]
) -> Table:
    """Return what was found beside what was expected."""
    table = Table(title=f"load average {os.getloadavg()[0]:.1f}", title_justify="left")
    for column in ("part", "ratio", "baseline", "now", "change", "may fall by"):
        table.add_column(column, justify="left" if column in ("part", "ratio") else "right", no_wrap=True)
    for part, ratios in found.items():
        for name, value in ratios.items():
            was = baseline.get(part, {}).get(name)
            change = "" if was is None else f"{100 * (value / was - 1):+.1f} %"
            style = "red" if name in lost[part] else None
            row = (part, name, "" if was is None else f"{was:.3f}", f"{value:.3f}", change)
            table.add_row(*row, f"{100 * TOLERANCE[part]:.0f} %", style=style)
    return table


def main() -> None:
    """Read the arguments, measure, print; exit with 1 when a ratio fell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the baseline instead of comparing with it")
    parser.add_argument("--json", action="store_true", help="one line of JSON; else a table")
    arguments = parser.parse_args()
    if arguments.update:
        print(json.dumps(update()))
        return
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    found, lost = check(baseline)
    if arguments.json:
        print(json.dumps({"found": found, "baseline": baseline, "fallen": lost, "load_average": os.getloadavg()[0]}))
    else:
        Console(highlight=False).print(as_table(found, lost, baseline))
    if any(lost.values()):
        names = ", ".join(f"{part} {name}" for part, all_ in lost.items() for name in all_)
        sys.exit(f"fell by more than they may: {names}; where that was meant: python -m benchmarks.guard --update")


if __name__ == "__main__":
    main()
