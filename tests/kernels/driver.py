"""Runs kernels as a caller does: makes scratch, gives room when asked, reranks when asked, reads the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.oracle.walk import Step
from viking_kernels import arrays as a
from viking_kernels import frontier as f
from viking_kernels.walk import start_walk, walk

from .trees import Snapshot, condition_arrays, float32, frozen, question_arrays

if TYPE_CHECKING:
    from tests.oracle.flat import Ranking
    from tests.oracle.model import Conditions, Path, Question, Rules

Steer = Callable[[a.Block, list[int]], None]
Reorder = Callable[[a.Frontier], None]


def make_pool(k: int) -> a.Pool:
    """Make an empty pool."""
    return a.Pool(
        heap=np.zeros(k, np.int32),
        score=np.zeros(k, np.float32),
        order=np.zeros(k, np.int64),
        node=np.zeros(k, np.int32),
        row=np.zeros(k, np.int32),
        step=np.zeros(k, np.int32),
        parts=np.zeros((k, a.N_PARTS), np.float32),
        size=np.zeros(1, np.int64),
    )


def slots_of(pool: a.Pool) -> list[int]:
    """List a pool's slots, best first."""
    slots = pool.heap[: pool.size[0]]
    assert sorted(slots) == list(range(pool.size[0]))
    return sorted((int(slot) for slot in slots), key=lambda slot: (-pool.score[slot], pool.order[slot]))


def ranking(pool: a.Pool, paths: list[Path]) -> Ranking:
    """List a pool's nodes, best first."""
    return [(float(pool.score[slot]), paths[pool.node[slot]]) for slot in slots_of(pool)]


def make_block(capacity: int) -> a.Block:
    """Make a block."""
    return a.Block(
        row=np.zeros(capacity, np.int32),
        own=np.zeros(capacity, np.float32),
        dense=np.zeros(capacity, np.float32),
        lexical=np.zeros(capacity, np.float32),
        order=np.zeros(capacity, np.int64),
    )


def make_frontier(
    parallelism: int, n_start: int, max_depth: int, *, capacity: int = 1, record: bool = True
) -> a.Frontier:
    """Make a frontier with room for the start only, or for more."""
    n_records = capacity if record else 0
    counters = np.zeros(a.N_COUNTERS, np.int64)
    counters[a.COUNT_BLOCK] = -1
    return a.Frontier(
        heap_score=np.zeros(max(n_start, capacity), np.float32),
        heap_node=np.zeros(max(n_start, capacity), np.int32),
        seen_node=np.full(capacity, -1, np.int32),
        round_score=np.zeros(parallelism, np.float32),
        round_node=np.zeros(parallelism, np.int32),
        memo_score=np.zeros(a.N_MEMO, np.float32),
        memo_node=np.full(a.N_MEMO, -1, np.int32),
        path=np.zeros(max_depth + 2, np.int32),
        step_int=np.zeros((n_records, a.N_STEP_INTS), np.int64),
        step_score=np.zeros(n_records, np.float32),
        child_int=np.zeros((n_records, a.N_CHILD_INTS), np.int64),
        child_score=np.zeros((n_records, 2), np.float32),
        level_int=np.zeros((max_depth + 2, a.N_LEVEL_INTS), np.int64),
        counters=counters,
        best_cut=np.full(1, -np.inf, np.float32),
    )


def longer(array: Any, size: int) -> Any:
    """Copy an array into a longer one."""
    grown = np.zeros((size, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def grow(status: int, frontier: a.Frontier, block: a.Block) -> tuple[a.Frontier, a.Block]:
    """Give exactly the room that a kernel has asked for."""
    needed = int(frontier.counters[a.COUNT_NEEDED])
    if status == f.NEED_BLOCK:
        assert needed > len(block.row)
        return frontier, make_block(needed)
    if status == f.NEED_SEEN:
        seen = np.full(1 << (2 * needed - 1).bit_length(), -1, np.int32)
        assert len(seen) > len(frontier.seen_node)
        f.rehash_seen(frontier.seen_node, seen)
        return frontier._replace(seen_node=seen), block
    names = {
        f.NEED_HEAP: ("heap_score", "heap_node"),
        f.NEED_STEPS: ("step_int", "step_score"),
        f.NEED_CHILDREN: ("child_int", "child_score"),
    }[status]
    assert all(needed > len(getattr(frontier, name)) for name in names)
    return frontier._replace(**{name: longer(getattr(frontier, name), needed) for name in names}), block


@dataclass(slots=True)
class Outcome:
    """A finished walk."""

    status: int
    pool: a.Pool
    frontier: a.Frontier
    n_calls: int

    def __getitem__(self, counter: int) -> int:
        """Return a counter."""
        return int(self.frontier.counters[counter])

    def steps(self, paths: list[Path]) -> list[Step]:
        """List the recorded steps."""
        return [
            Step(
                paths[step[a.STEP_NODE]],
                int(step[a.STEP_ROUND]),
                int(step[a.STEP_SCORED]),
                int(step[a.STEP_KEPT]),
                int(step[a.STEP_QUEUED]),
                None if np.isnan(score) else float(score),
            )
            for step, score in zip(
                self.frontier.step_int[: self[a.COUNT_EXPANDED]], self.frontier.step_score, strict=False
            )
        ]


def go_on(
    arguments: tuple[Any, ...],
    pool: a.Pool,
    frontier: a.Frontier,
    *,
    max_rounds: int = 1 << 40,
    capacity: int = 1,
    steer: Steer | None = None,
    reorder: Reorder | None = None,
) -> Outcome:
    """Call `walk` until it ends; the arguments are tree, rows, question, conditions, rules, roots, seeds."""
    block = make_block(capacity)
    n_calls = 0
    while True:
        status = walk(*arguments, pool, frontier, block, max_rounds)
        n_calls += 1
        if status >= f.EXHAUSTED:
            return Outcome(status, pool, frontier, n_calls)
        if status == f.RERANK:
            assert steer is not None
            steer(block, [int(i) for i in block.order[: int(frontier.counters[a.COUNT_BLOCK])]])
        elif status != f.RUNNING:
            frontier, block = grow(status, frontier, block)
        elif reorder is not None:
            reorder(frontier)


def rule_arrays(rules: Rules, *, is_steered: bool = False, record: bool = True) -> a.Rules:
    """Lay out rules."""
    return frozen(
        a.Rules(
            alpha=float32(rules.alpha),
            threshold=rules.threshold,
            is_gte=int(rules.is_gte),
            hotness_alpha=rules.hotness_alpha,
            parallelism=rules.parallelism,
            convergence_rounds=rules.convergence_rounds,
            max_rows=rules.max_rows,
            is_classic=0,
            child_rows=0,
            is_steered=int(is_steered),
            record_steps=int(record),
            record_children=int(record),
        )
    )


def descend(
    snapshot: Snapshot,
    question: Question,
    conditions: Conditions,
    rules: Rules,
    roots: list[Path],
    seeds: list[Path] | None = None,
    k: int = 1000,
    *,
    max_rounds: int = 1 << 40,
    capacity: int = 1,
    reorder: Reorder | None = None,
    record: bool = True,
) -> Outcome:
    """Walk a snapshot from roots and seeds to the end."""
    root_nodes, seed_nodes = snapshot.nodes(roots), snapshot.nodes(seeds or [])
    arguments = (
        snapshot.tree,
        snapshot.rows,
        question_arrays(question),
        condition_arrays(snapshot, conditions),
        rule_arrays(rules, is_steered=reorder is not None, record=record),
        root_nodes,
        seed_nodes,
    )
    pool = make_pool(k)
    depth = max(len(path) for path in snapshot.paths)
    frontier = make_frontier(
        rules.parallelism, len(root_nodes) + len(seed_nodes), depth, capacity=capacity, record=record
    )
    start_walk(*arguments, pool, frontier)
    return go_on(arguments, pool, frontier, max_rounds=max_rounds, capacity=capacity, reorder=reorder)
