"""The descent of one retrieval: its arrays, its slices, its reranker, its steps."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from viking_kernels.arrays import (
    COUNT_BLOCK,
    COUNT_CUT,
    COUNT_EXPANDED,
    COUNT_FILTERED,
    COUNT_MATCHED,
    COUNT_ROUNDS,
    COUNT_ROWS,
    LEVEL_CYCLES,
    Conditions,
    Question,
    Rules,
    frozen,
)
from viking_kernels.classic import start_classic
from viking_kernels.frontier import BUDGET, CONVERGED, EXHAUSTED, NEED_HEAP, RERANK, RUNNING, STAGNANT
from viking_kernels.mask import mask_nodes
from viking_kernels.walk import start_walk, walk
from viking_rpc.domain.trace import StopReason
from viking_rpc.retrieve.answer import level_stats
from viking_rpc.retrieve.frontier import give_room
from viking_rpc.retrieve.steering import reorder_queue, rows_to_rerank
from viking_rpc.retrieve.workings import read_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from viking_rpc.domain.trace import LevelStats, TraceStep
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.answer import Hydrator
    from viking_rpc.retrieve.frontier import Scratch
    from viking_rpc.retrieve.workings import Record

_NO_SEEDS = frozen(np.empty(0, np.int32))
_STOPS = {
    EXHAUSTED: StopReason.EXHAUSTED,
    CONVERGED: StopReason.CONVERGED,
    STAGNANT: StopReason.STAGNANT,
    BUDGET: StopReason.BUDGET,
}


class _ClassicStart(NamedTuple):
    """Where CLASSIC begins: its rows, best first, their cosines, and whether the request names levels."""

    rows: NDArray[np.int32]
    dense: NDArray[np.float32]
    has_levels: bool


@dataclass(frozen=True, slots=True)
class DescentTotals:
    """What a descent did, counted.

    `n_filtered` counts scored nodes that the filter kept out of the matches, `n_cut` those that the threshold did, the
    best of which had `best_cut`.
    """

    n_rounds: int
    n_expanded: int
    n_rows: int
    n_matched: int
    n_filtered: int
    n_cut: int
    best_cut: float


class Descent:
    """A walk that goes on in slices; `pool` holds the best matches so far."""

    def __init__(
        self,
        snapshot: Snapshot,
        question: Question,
        conditions: Conditions,
        rules: Rules,
        roots: NDArray[np.int32],
        *,
        limit: int,
        n_starts: int,
        scratch: Scratch,
    ) -> None:
        """Make the arrays; one of the two `start` methods goes next.

        Args:
            snapshot, question, conditions, rules: what the kernels read.
            roots: int32[n_roots], ascending: the searched roots.
            limit: candidates kept: the matches wanted, or more to rerank.
            n_starts: starting points at most.
            scratch: arrays to work in, until `release`.
        """
        self._snapshot = snapshot
        self._question = question
        self._conditions = conditions
        self._rules = rules
        self._roots = roots
        self._seeds = _NO_SEEDS
        self._classic_start: _ClassicStart | None = None
        self._awaits_start = False
        self._scratch = scratch
        self._block = scratch.block
        self._frontier = scratch.frontier(snapshot.max_depth, rules.parallelism, n_starts + len(roots))
        self._n_ns = 0
        self._n_told = 0
        self.waiting: NDArray[np.int32] | None = None
        self.pool = scratch.pool("best", limit)

    def release(self) -> None:
        """Give the arrays back; nothing may be read any more."""
        self._scratch.give_back(self._frontier, self._block)

    def start(self, seeds: NDArray[np.int32]) -> None:
        """Begin at the roots and at int32[n] seeds, ascending nodes that are no roots; seeds are candidates at once."""
        self._seeds = seeds
        started = time.perf_counter_ns()
        start_walk(
            self._snapshot.tree,
            self._snapshot.rows,
            self._question,
            self._conditions,
            self._rules,
            self._roots,
            seeds,
            self.pool,
            self._frontier,
        )
        self._n_ns += time.perf_counter_ns() - started

    def start_classic(self, rows: NDArray[np.int32], dense: NDArray[np.float32], *, has_levels: bool) -> None:
        """Begin at the directories of a row search, as the published algorithm does; if steered, wait for their scores.

        Args:
            rows: int32[n], the best rows of L0 and L1, best first.
            dense: float32[n], their cosines.
            has_levels: whether the request names levels; then these rows are candidates too (R6).
        """
        self._classic_start = _ClassicStart(rows, dense, has_levels)
        self._begin_classic(self._classic_start, dense)
        if self._rules.is_steered and len(rows):
            self.waiting, self._awaits_start = rows, True

    def start_again(self) -> None:
        """Begin CLASSIC again, by cosines alone: a reranker that does not answer for all rows cannot steer it."""
        if self._classic_start is not None:
            self._rules = self._rules._replace(is_steered=0)
            self.waiting, self._awaits_start = None, False
            self._begin_classic(self._classic_start, self._classic_start.dense)

    def _begin_classic(self, start: _ClassicStart, own: NDArray[np.float32]) -> None:
        if start.has_levels:
            self._seeds = frozen(self._candidates(start.rows, own))
        start_classic(
            self._snapshot.tree,
            self._snapshot.rows,
            self._conditions,
            self._rules,
            self._roots,
            start.rows,
            frozen(own),
            start.dense,
            int(start.has_levels),
            self.pool,
            self._frontier,
        )

    def _candidates(self, rows: NDArray[np.int32], own: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the nodes of those start rows that are candidates by themselves, ascending."""
        nodes = self._snapshot.rows.node[rows]
        is_wanted = np.empty(len(rows), np.uint8)
        mask_nodes(self._snapshot.tree, self._conditions, nodes, is_wanted)
        is_level = (self._conditions.level_mask >> self._snapshot.rows.level[rows].astype(np.int64)) & 1
        passing = own >= self._rules.threshold if self._rules.is_gte else own > self._rules.threshold
        return np.unique(nodes[is_wanted.astype(bool) & is_level.astype(bool) & passing])

    def advance(self, max_rounds: int) -> StopReason | None:
        """Go on for at most `max_rounds` rounds; return why the walk ended, None while it has not."""
        snapshot = self._snapshot
        started = time.perf_counter_ns()
        status = NEED_HEAP
        while status not in _STOPS and status != RUNNING:
            status = walk(
                snapshot.tree,
                snapshot.rows,
                self._question,
                self._conditions,
                self._rules,
                self._roots,
                self._seeds,
                self.pool,
                self._frontier,
                self._block,
                max_rounds,
            )
            if status == RERANK:
                self.waiting = self._block.row[self._seen_block()]
                break
            if status not in _STOPS and status != RUNNING:
                self._frontier, self._block = give_room(status, self._frontier, self._block)
        self._n_ns += time.perf_counter_ns() - started
        return _STOPS.get(status)

    def _seen_block(self) -> NDArray[np.int64]:
        """Return the places in the block of the rows that CLASSIC sees, best cosine first."""
        return self._block.order[: int(self._frontier.counters[COUNT_BLOCK])]

    def supply(self, own: NDArray[np.float32]) -> None:
        """Go on with these scores for the rows that CLASSIC waits for: float32[n], finite."""
        if self._awaits_start and self._classic_start is not None:
            self._begin_classic(self._classic_start, own)
        else:
            self._block.own[self._seen_block()] = own
        self.waiting, self._awaits_start = None, False

    def rows_to_rerank(self) -> list[int]:
        """Return the rows that the last round, or the start, has brought, best first; for walks other than CLASSIC."""
        return rows_to_rerank(self._snapshot.tree, self.pool, self._frontier, is_start=self._is_at_start)

    def prefer(self, score_of_row: Mapping[int, float]) -> None:
        """Let a reranker's scores order what the last round, or the start, has queued."""
        reorder_queue(self._snapshot.tree, self.pool, self._frontier, score_of_row, is_start=self._is_at_start)

    @property
    def is_steered(self) -> bool:
        """Return whether a reranker's scores still steer."""
        return bool(self._rules.is_steered)

    @property
    def _is_at_start(self) -> bool:
        return int(self._frontier.counters[COUNT_ROUNDS]) == 0

    @property
    def duration_us(self) -> float:
        """Return the wall time spent so far, in microseconds."""
        return self._n_ns / 1000

    @property
    def totals(self) -> DescentTotals:
        """Return what has been done so far."""
        counters = self._frontier.counters.tolist()
        return DescentTotals(
            n_rounds=counters[COUNT_ROUNDS],
            n_expanded=counters[COUNT_EXPANDED],
            n_rows=counters[COUNT_ROWS],
            n_matched=counters[COUNT_MATCHED],
            n_filtered=counters[COUNT_FILTERED],
            n_cut=counters[COUNT_CUT],
            best_cut=float(self._frontier.best_cut[0]),
        )

    @property
    def known(self) -> frozenset[int]:
        """Return the nodes that are candidates since the start: seeds, and outside of CLASSIC the roots."""
        return frozenset((*self._seeds.tolist(), *(() if self._rules.is_classic else self._roots.tolist())))

    def record(self) -> Record:
        """Return copies of what was recorded; of use when the rules record the scores of children."""
        return read_record(self._frontier)

    def levels(self) -> tuple[LevelStats, ...]:
        """Return the work by depth below the searched roots."""
        return level_stats(self._frontier, self.duration_us)

    def new_steps(self, hydrator: Hydrator) -> tuple[TraceStep, ...]:
        """Return the steps recorded since the last call; none when the rules do not record them."""
        first, self._n_told = self._n_told, int(self._frontier.counters[COUNT_EXPANDED])
        return self.steps(hydrator, first)

    def steps(self, hydrator: Hydrator, first: int = 0) -> tuple[TraceStep, ...]:
        """Return the recorded steps from an index on, with the scores of children when the rules record them."""
        if not self._rules.record_steps:
            return ()
        frontier = self._frontier
        us_per_cycle = self.duration_us / (int(frontier.level_int[:, LEVEL_CYCLES].sum()) or 1)
        depths = {int(root): int(self._snapshot.tree.depth[root]) for root in self._roots}
        steps = [
            hydrator.step(frontier, i, depths, us_per_cycle)
            for i in range(first, int(frontier.counters[COUNT_EXPANDED]))
        ]
        if self._rules.record_children:
            steps = [replace(step, child_scores=hydrator.child_scores(frontier, step.index)) for step in steps]
        return tuple(steps)
