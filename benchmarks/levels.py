"""The descent by fan-out and depth, against the time that memory takes to deliver the rows that it must read.

    python -m benchmarks.levels --json

Timed: the two kernels of a THINKING walk (BALANCED, limit 10, ready vector, no terms), `start_walk` and `walk`, called
as `retrieve.descent` calls them, from the searched root to CONVERGED; nothing of the search for starting points, of the
request or the answer. Calls go round among copies of the vectors that take 128 MiB together, so that no row is in the
core's own caches (a shared last-level cache that is larger may still hold it); `warm_us` is one copy again and again.
`p50_us` and `warm_us` are processor time of the thread, as is the time of the bandwidth: on an idle machine that is the
time on the clock (`clock_us`), on a busy one it leaves out what others take.

The tree: a root with `fanout` children; of each level four directories, as many as a round opens, have `fanout`
children each, one of which leads on, down to the files at `depth`. A full tree of 20 children and depth 12 would have
4e15 nodes; of it a walk opens the same. All other children of inner levels are directories without content, which go
through the queue as any. A directory has one row here, 384 dimensions. What leads on is nearest to the query, and the
deeper the nearer, so a walk goes all the way down and reads every row: fanout + 4 * fanout * (depth - 1) of them.

`bytes` is what the vectors of those rows take, nothing else. `bandwidth_gb_s` is the best of many sums of 512 MiB by
one thread, in rounds between the cases of this very run; `ratio_to_bandwidth` is `p50_us` divided by what `bytes` take
at that rate. `worst_from_20` is the greatest ratio of directories of 20 children and more, which must be at most 3.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import DIMENSIONS
from viking_kernels.arrays import COUNT_ROWS, Conditions, Question, Rows, Rules, Tree, frozen
from viking_kernels.frontier import CONVERGED, EXHAUSTED, RUNNING
from viking_kernels.walk import start_walk, walk
from viking_rpc.index.pools import make_pool
from viking_rpc.retrieve.frontier import give_room, make_block, make_frontier
from viking_rpc.retrieve.profiles import BALANCED

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIMIT = 10
FANOUTS = (4, 20, 200, 5000)
DEPTHS = tuple(range(2, 13))
_NOW_US = 1_790_000_000_000_000
_COPIES_BYTES = 1 << 27  # 128 MiB
_STREAM_FLOATS = 1 << 27  # 512 MiB
_ALL_US = (0, 1 << 62)
_NO_NODES = frozen(np.empty(0, np.int32))


@numba.njit("float32(float32[::1])", nogil=True, fastmath=True)
def _add_up(values: Any) -> Any:
    """Read all values once, as fast as one thread can."""
    total = np.float32(0.0)
    for i in range(values.shape[0]):
        total += values[i]
    return total


class Case(NamedTuple):
    """A tree and a question."""

    tree: Tree
    rows: Rows
    question: Question
    conditions: Conditions


@dataclass(slots=True)
class Stream:
    """Memory to read: its best rate so far."""

    values: np.ndarray
    best_gb_s: float = 0.0

    def measure(self) -> None:
        """Read all of it three times."""
        for _ in range(3):
            started = time.thread_time_ns()
            _add_up(self.values)
            self.best_gb_s = max(self.best_gb_s, self.values.nbytes / (time.thread_time_ns() - started))


def make_case(fanout: int, depth: int, rng: np.random.Generator) -> Case:
    """Make the tree of the module's docstring, numbered breadth-first."""
    n_ways = min(fanout, BALANCED.parallelism)
    sizes = [1, fanout, *[n_ways * fanout] * (depth - 1)]
    first = np.concatenate([[0], np.cumsum(sizes)])
    n_nodes = int(first[-1])
    level = np.repeat(np.arange(depth + 1, dtype=np.int32), sizes)
    parent = np.full(n_nodes, -1, np.int32)
    n_children = np.zeros(n_nodes, np.int64)
    leads = np.zeros(n_nodes, bool)
    ways = np.zeros(1, np.int64)
    for d in range(1, depth + 1):
        parent[first[d] : first[d + 1]] = np.repeat(ways, fanout)
        n_children[ways] = fanout
        # of the root's children the first few lead on, of the others' one each, somewhere among its siblings
        ways = first[d] + (np.arange(n_ways) if d == 1 else np.arange(n_ways) * fanout + fanout // 2)
        leads[ways] = d < depth
    query = _unit(rng.standard_normal(DIMENSIONS, dtype=np.float32))
    nearness = (0.2 + 0.3 * leads + 0.04 * level + 0.02 * rng.random(n_nodes))[1:, None].astype(np.float32)
    vectors = rng.standard_normal((n_nodes - 1, DIMENSIONS), dtype=np.float32)
    vectors /= np.sqrt(np.float32(DIMENSIONS))
    vectors *= np.sqrt(1 - nearness**2)
    vectors += (nearness - (vectors @ query)[:, None]) * query
    none = np.zeros(n_nodes, np.int64)
    row_lo = np.maximum(np.arange(-1, n_nodes - 1), 0).astype(np.int32)
    is_file = level == depth
    tree = Tree(
        parent=parent,
        child_lo=(1 + np.concatenate([[0], np.cumsum(n_children)])).astype(np.int32),
        fresh_head=np.full(n_nodes, -1, np.int32),
        fresh_next=np.full(n_nodes, -1, np.int32),
        depth=level,
        row_lo=row_lo,
        row_hi=np.arange(n_nodes, dtype=np.int32),
        is_directory=(~is_file).astype(np.uint8),
        is_gone=np.zeros(n_nodes, np.uint8),
        type=np.zeros(n_nodes, np.uint8),
        create_us=none,
        update_us=none,
        expire_us=none,
        active_count=np.zeros(n_nodes, np.int32),
        tag_lo=np.zeros(n_nodes, np.int32),
        tag_hi=np.zeros(n_nodes, np.int32),
        tag_id=_NO_NODES,
        tie=np.arange(n_nodes, dtype=np.int64),
    )
    rows = Rows(
        vectors=vectors,
        level=np.where(is_file[1:], 2, 0).astype(np.uint8),
        node=np.arange(1, n_nodes, dtype=np.int32),
        term_lo=none[1:].copy(),
        term_hi=none[1:].copy(),
        term_id=_NO_NODES,
        term_weight=np.empty(0, np.float32),
    )
    conditions = Conditions(
        scope_ptr=frozen(np.arange(depth + 2, dtype=np.int32)),
        scope_lo=frozen(first[:-1].astype(np.int32)),
        scope_hi=frozen(first[1:].astype(np.int32)),
        fresh_included=_NO_NODES,
        fresh_excluded=_NO_NODES,
        tag_id=_NO_NODES,
        type_mask=0b1111,
        level_mask=0b111,
        updated_since_us=_ALL_US[0],
        updated_before_us=_ALL_US[1],
        created_since_us=_ALL_US[0],
        created_before_us=_ALL_US[1],
        now_us=_NOW_US,
        is_open=1,
    )
    question = Question(
        vector=frozen(query),
        term=_NO_NODES,
        weight=frozen(np.empty(0, np.float32)),
        lexical_weight=0.0,
        directory_weight=0.0,
        saturation=0.0,
    )
    return Case(Tree(*(frozen(one) for one in tree)), Rows(*(frozen(one) for one in rows)), question, conditions)


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return vector / np.float32(np.linalg.norm(vector))


class Walker:
    """Calls the kernels on a case, with arrays that are large enough after the first time."""

    def __init__(self, case: Case, depth: int) -> None:
        """Make the arrays and give them room."""
        self.case = case
        self.roots = frozen(np.zeros(1, np.int32))
        self.rules = Rules(
            alpha=frozen(np.full(4, 0.5, np.float32)),
            threshold=-np.inf,
            is_gte=0,
            hotness_alpha=0.0,
            parallelism=BALANCED.parallelism,
            convergence_rounds=BALANCED.convergence_rounds,
            max_rows=0,
            is_classic=0,
            child_rows=0,
            is_steered=0,
            record_steps=0,
            record_children=0,
        )
        self.pool = make_pool(LIMIT)
        self.block = make_block()
        self.frontier = make_frontier(depth, self.rules.parallelism, 1)
        self.run(case.rows)

    def run(self, rows: Rows) -> None:
        """Walk to the end."""
        tree, _, question, conditions = self.case
        shared = (tree, rows, question, conditions, self.rules, self.roots, _NO_NODES, self.pool)
        start_walk(*shared, self.frontier)
        while True:
            status = walk(*shared, self.frontier, self.block, 64)
            if status in (CONVERGED, EXHAUSTED):
                return
            if status != RUNNING:
                self.frontier, self.block = give_room(status, self.frontier, self.block)

    def medians_us(self, copies: list[Rows], repeats: int) -> tuple[float, float]:
        """Walk so many times, from one copy to the next; return what the processor and what the clock say."""
        times = np.empty((repeats + 1, 2))
        for i in range(repeats + 1):
            started, worked = time.perf_counter_ns(), time.thread_time_ns()
            self.run(copies[i % len(copies)])
            times[i] = time.thread_time_ns() - worked, time.perf_counter_ns() - started
        busy, all_of_it = np.median(times[1:], axis=0) / 1000
        return round(float(busy), 1), round(float(all_of_it), 1)

    @property
    def n_rows(self) -> int:
        """Return the rows that the last walk has scored."""
        return int(self.frontier.counters[COUNT_ROWS])


def measure(fanout: int, depth: int, repeats: int, rng: np.random.Generator) -> dict[str, Any]:
    """Time one case, with the rows out of the caches and with them in."""
    case = make_case(fanout, depth, rng)
    walker = Walker(case, depth)
    n_ways = min(fanout, BALANCED.parallelism)
    if walker.n_rows != fanout + n_ways * fanout * (depth - 1):
        message = f"the walk of {fanout} children, depth {depth}, went elsewhere: {walker.n_rows} rows"
        raise RuntimeError(message)
    n_copies = max(1, _COPIES_BYTES // case.rows.vectors.nbytes)
    copies = [case.rows._replace(vectors=frozen(case.rows.vectors.copy())) for _ in range(n_copies)]
    p50_us, clock_us = walker.medians_us(copies, max(repeats, min(n_copies, 10 * repeats)))
    return {
        "fanout": fanout,
        "depth": depth,
        "p50_us": p50_us,
        "clock_us": clock_us,
        "warm_us": walker.medians_us(copies[:1], repeats)[0],
        "rows": walker.n_rows,
        "bytes": walker.n_rows * DIMENSIONS * 4,
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fanouts", default=",".join(map(str, FANOUTS)))
    parser.add_argument("--depths", default=",".join(map(str, DEPTHS)))
    parser.add_argument("--repeats", type=int, default=30, help="walks a case, cold and warm each")
    parser.add_argument("--json", action="store_true", help="one line of JSON; else a table")
    arguments = parser.parse_args()
    rng = np.random.default_rng(7)
    stream = Stream(np.ones(_STREAM_FLOATS, np.float32))
    stream.measure()
    cases = []
    for fanout in map(int, arguments.fanouts.split(",")):
        for depth in map(int, arguments.depths.split(",")):
            cases.append(measure(fanout, depth, arguments.repeats, rng))
            stream.measure()
    for case in cases:
        case["ratio_to_bandwidth"] = round(case["p50_us"] / (case["bytes"] / stream.best_gb_s / 1000), 2)
    answer = {
        "cases": cases,
        "bandwidth_gb_s": round(stream.best_gb_s, 2),
        "worst_from_20": max((case["ratio_to_bandwidth"] for case in cases if case["fanout"] >= 20), default=None),
        "dimensions": DIMENSIONS,
        "repeats": arguments.repeats,
        "load_average": os.getloadavg()[0],
    }
    if arguments.json:
        print(json.dumps(answer))
        return
    table = Table(title=f"{answer['bandwidth_gb_s']} GB/s, load average {answer['load_average']:.1f}")
    columns = ("fanout", "depth", "rows", "bytes", "p50_us", "clock_us", "warm_us", "ratio")
    for column in columns:
        table.add_column(column, justify="right")
    for case in cases:
        shown = case | {"ratio": case["ratio_to_bandwidth"]}
        table.add_row(*(f"{shown[column]:,}" for column in columns))
    Console().print(table)


if __name__ == "__main__":
    main()
