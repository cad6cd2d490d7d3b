"""One retrieval, from a request to the answer: resolve, seed, descend, finish. Start reading here.

The steps are those of docs/algorithm.md. A `Retrieval` pins one snapshot and goes on in slices, so that whoever runs it
can look at the clock, at cancellation and at the steps in between.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

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
    PART_OWN,
    Pool,
    Rules,
    frozen,
)
from viking_kernels.classic import start_classic
from viking_kernels.frontier import BUDGET, CONVERGED, EXHAUSTED, NEED_HEAP, RERANK, RUNNING, STAGNANT
from viking_kernels.hotness import hotness
from viking_kernels.mask import mask_nodes
from viking_kernels.scan import N_SCAN_COUNTS, SCAN_FILTERED, SCAN_MATCHED, SCAN_ROWS, scan_rows
from viking_kernels.walk import start_walk, walk

from viking_rpc.domain.access import check_targets, readable_roots, select_roots
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.query import Mode, Profile, TraceLevel
from viking_rpc.domain.trace import AnswerWarning, EmptyReason, RetrieveResult, RetrieveStats, StopReason
from viking_rpc.domain.uri import check_uri
from viking_rpc.errors import InvalidArgumentError, NotFoundError, Violation
from viking_rpc.index.pools import best_first, make_pool
from viking_rpc.index.scopes import compile_place, make_conditions
from viking_rpc.index.seeds import SeedParameters, Seeds, find_seeds
from viking_rpc.retrieve.answer import Found, Hydrator, level_stats
from viking_rpc.retrieve.frontier import give_room, make_block, make_frontier
from viking_rpc.retrieve.profiles import PRESETS, resolve_parameters
from viking_rpc.retrieve.question import make_question

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from viking_kernels.arrays import Conditions, Frontier, Question

    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.trace import TraceStep
    from viking_rpc.domain.uri import Uri
    from viking_rpc.index.scopes import Place
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.profiles import Parameters

_STOPS = {
    EXHAUSTED: StopReason.EXHAUSTED,
    CONVERGED: StopReason.CONVERGED,
    STAGNANT: StopReason.STAGNANT,
    BUDGET: StopReason.BUDGET,
}
_NO_ROOM = make_pool(0)
_TOP_DEPTH = 2  # a scope, or a user's home: these may be empty without being a mistake of the caller's


class LevelReranker(Protocol):
    """Scores the rows of one block anew; steers CLASSIC when a reranker is asked for at each level."""

    def __call__(self, rows: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return float32[n], a score for each of int32[n] rows."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What the operator decides for all requests.

    Args:
        presets: parameters by profile.
        max_exact_rows: scopes and owners with at most this many rows are scanned exactly.
        n_candidates: candidates asked of each approximate index for starting points.
        n_flat_candidates: the same for QUICK, at least; four times the limit if that is more.
    """

    presets: Mapping[Profile, Parameters] = field(default_factory=lambda: PRESETS)
    max_exact_rows: int = 4096
    n_candidates: int = 32
    n_flat_candidates: int = 128


class Retrieval:
    """One running retrieval: make it, `advance` until it says True, then take the `result`."""

    def __init__(
        self,
        snapshot: Snapshot,
        request: RetrieveRequest,
        identity: Identity,
        *,
        vector: NDArray[np.float32] | None,
        now_us: int,
        settings: SearchSettings | None = None,
        reranker: LevelReranker | None = None,
        embed_us: float = 0.0,
    ) -> None:
        """Resolve the scope and find the starting points.

        Args:
            snapshot: the state to search; pinned until the result is taken.
            request: validated (see viking_rpc.server.validate).
            identity: who asks; what it may not read is not searched.
            vector: float32[dimensions], the embedded query; None for a query without one (words only, or `like_uri`).
            now_us: the time of the request, for expiry, path variables and hotness.
            settings: the operator's.
            reranker: gives CLASSIC its scores, block by block.
            embed_us: what embedding took, for the statistics.

        Raises:
            InvalidArgumentError, PermissionDeniedError: targets that cannot be or may not be searched.
            NotFoundError: a target or the `like_uri` does not exist.
            FailedPreconditionError: DIMENSION_MISMATCH, NO_VECTOR (the `like_uri` has no row).
        """
        self._started = time.perf_counter_ns()
        self._settings = settings or SearchSettings()
        self.snapshot = snapshot
        self.request = request
        self.identity = identity
        self.now_us = now_us
        self.parameters = resolve_parameters(request.options, self._settings.presets)
        self.warnings: list[AnswerWarning] = []
        self.stop_reason: StopReason | None = None
        self._embed_us = embed_us
        self._reranker = reranker
        self._is_classic = request.options.profile == Profile.CLASSIC
        self._place, self.searched_roots = self._resolve()
        levels = request.filter.levels
        self._conditions = make_conditions(snapshot, self._place, request.filter, request.scope.types, levels, now_us)
        self._question = self._ask(vector)
        self._is_done = False
        self._steps_told = 0
        seeding = time.perf_counter_ns()
        if request.mode == Mode.QUICK:
            self._seeds = self._search_flat()
            self._is_done = True
        else:
            self._seeds = self._start()
        self._seed_us = (time.perf_counter_ns() - seeding) / 1000
        self._descent_ns = 0

    # -- resolve

    def _resolve(self) -> tuple[Place, tuple[str, ...]]:
        """Turn targets into node ranges; remembered with the snapshot, for most requests ask for the same places."""
        request, snapshot = self.request, self.snapshot
        key = (self.identity, request.scope, request.filter.exclude_uris)
        found = None if _has_variables(request.scope.target_uris) else snapshot.memo.get(key)
        if found is None:
            targets, violations = check_targets(request.scope.target_uris, self.identity, self.now_us)
            excluded, more = _check_excluded(request.filter.exclude_uris, self.identity, self.now_us)
            if violations or more:
                raise InvalidArgumentError.of((*violations, *more))
            scope = select_roots(targets, request.scope.types, self.identity)
            self._require(targets)
            place = compile_place(snapshot, scope, excluded)
            found = snapshot.memo[key] = (place, tuple(str(root) for root in scope.roots))
        return found  # type: ignore[return-value]

    def _require(self, targets: Sequence[Uri]) -> None:
        """Refuse targets that do not exist; the tops of the tree may be empty."""
        missing = [str(uri) for uri in targets if len(uri.segments) > _TOP_DEPTH and self.snapshot.find(uri) < 0]
        if missing:
            what = ", ".join(missing)
            raise NotFoundError("CONTEXT_NOT_FOUND", f"no such target: {what}", {"uris": what})

    def _ask(self, vector: NDArray[np.float32] | None) -> Question:
        """Build the question from the query's form."""
        query = self.request.query
        text = query.text or query.lexical_text
        if query.like_uri:
            vector = self._vector_of(query.like_uri)
        parameters = self.parameters
        return make_question(
            self.snapshot,
            vector,
            text,
            lexical_weight=parameters.lexical_weight,
            directory_lexical_weight=parameters.directory_lexical_weight,
        )

    def _vector_of(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a stored context: that of the level that a display URI names, else its last level's."""
        snapshot = self.snapshot
        parsed = check_uri(text, self.identity, self.now_us, "query.like_uri")
        if isinstance(parsed, Violation):
            raise InvalidArgumentError.of([parsed])
        node = snapshot.find(parsed.uri) if readable_roots(self.identity).contains(parsed.uri) else -1
        if node < 0:
            raise NotFoundError("CONTEXT_NOT_FOUND", f"{parsed.uri} does not exist", {"uri": str(parsed.uri)})
        for row in range(int(snapshot.tree.row_hi[node]) - 1, int(snapshot.tree.row_lo[node]) - 1, -1):
            if parsed.level is None or snapshot.rows.level[row] == parsed.level:
                return snapshot.rows.vectors[row]
        raise InvalidArgumentError("NO_VECTOR", f"{text} has no vector", {"uri": text})

    # -- seed

    def _search_flat(self) -> Seeds:
        """QUICK: one flat search by own score; rows collapse to nodes before the cut (CLASSIC: after it)."""
        limit = self.request.limit
        if self._is_classic:
            return self._scan_rows(self._conditions, max(limit, self.parameters.global_top_k))
        return find_seeds(
            self.snapshot,
            self._place,
            self._conditions,
            self._question,
            SeedParameters(
                n_matches=limit,
                n_directories=0,
                max_exact_rows=self._settings.max_exact_rows,
                n_candidates=max(self._settings.n_flat_candidates, 4 * limit),
                is_exact=self.request.options.profile == Profile.EXHAUSTIVE,
            ),
        )

    def _scan_rows(self, conditions: Conditions, n_rows: int) -> Seeds:
        """Search flat by rows: what CLASSIC does before it collapses them."""
        counts = np.zeros(N_SCAN_COUNTS, np.int64)
        pool = make_pool(n_rows)
        scan_rows(self.snapshot.tree, self.snapshot.rows, self._question, conditions, pool, counts)
        return Seeds(pool, _NO_ROOM, int(counts[SCAN_ROWS]), int(counts[SCAN_MATCHED]), int(counts[SCAN_FILTERED]), "exact")

    def _start(self) -> Seeds:
        """THINKING: find starting points, make the walk's arrays and queue them."""
        request, parameters, snapshot = self.request, self.parameters, self.snapshot
        n_best = max(request.limit, parameters.global_top_k)
        self._pool = make_pool(request.limit)
        self._block = make_block()
        self._rules = self._make_rules()
        self._roots = self._place.roots
        if self._is_classic:
            return self._start_classic(n_best)
        seeds = find_seeds(
            snapshot,
            self._place,
            self._conditions,
            self._question,
            SeedParameters(
                n_matches=parameters.leaf_seeds,
                n_directories=n_best if parameters.global_top_k else 0,
                max_exact_rows=self._settings.max_exact_rows,
                n_candidates=max(self._settings.n_candidates, 2 * parameters.leaf_seeds),
                is_exact=request.options.profile == Profile.EXHAUSTIVE,
            ),
        )
        found = np.concatenate([pool.node[pool.heap[: pool.size[0]]] for pool in (seeds.matches, seeds.directories)])
        self._seed_nodes = frozen(np.setdiff1d(found, self._roots))
        self._frontier = self._make_frontier(len(self._seed_nodes) + len(self._roots))
        start_walk(
            snapshot.tree,
            snapshot.rows,
            self._question,
            self._conditions,
            self._rules,
            self._roots,
            self._seed_nodes,
            self._pool,
            self._frontier,
        )
        return seeds

    def _start_classic(self, n_rows: int) -> Seeds:
        """Start as the published algorithm does: from the best rows of L0 and L1, whatever the filter says."""
        snapshot, has_levels = self.snapshot, bool(self.request.filter.levels)
        above = self._conditions._replace(level_mask=0b011, is_open=1)
        seeds = self._scan_rows(above, n_rows)
        chosen = best_first(seeds.matches)
        rows = frozen(seeds.matches.row[chosen])
        own = dense = frozen(seeds.matches.parts[chosen, PART_OWN])
        if self._reranker is not None and len(rows):
            own = frozen(np.asarray(self._reranker(rows), np.float32))
        self._frontier = self._make_frontier(len(rows) + len(self._roots))
        self._seed_nodes = frozen(self._candidates(rows, own) if has_levels else np.empty(0, np.int32))
        start_classic(
            snapshot.tree,
            snapshot.rows,
            self._conditions,
            self._rules,
            self._roots,
            rows,
            own,
            dense,
            int(has_levels),
            self._pool,
            self._frontier,
        )
        return seeds

    def _candidates(self, rows: NDArray[np.int32], own: NDArray[np.float32]) -> NDArray[np.int32]:
        """Return the nodes of those start rows that are candidates by themselves, ascending."""
        nodes = self.snapshot.rows.node[rows]
        is_wanted = np.empty(len(rows), np.uint8)
        mask_nodes(self.snapshot.tree, self._conditions, nodes, is_wanted)
        is_level = (self._conditions.level_mask >> self.snapshot.rows.level[rows].astype(np.int64)) & 1
        passing = own >= self._rules.threshold if self._rules.is_gte else own > self._rules.threshold
        return np.unique(nodes[is_wanted.astype(bool) & is_level.astype(bool) & passing])

    def _make_rules(self) -> Rules:
        """Say how the walk goes."""
        options, parameters = self.request.options, self.parameters
        threshold = options.score_threshold
        if threshold is None:
            threshold = 0.0 if self._is_classic else -np.inf
        alpha = np.full(4, parameters.score_propagation_alpha, np.float32)
        alpha[ContextType.SKILL] = parameters.skill_alpha
        return Rules(
            alpha=frozen(alpha),
            threshold=float(threshold),
            is_gte=int(options.score_gte),
            # CLASSIC mixes hotness after the cut, so its walk knows nothing of it
            hotness_alpha=0.0 if self._is_classic else parameters.hotness_alpha,
            parallelism=parameters.parallelism,
            convergence_rounds=parameters.convergence_rounds,
            max_rows=parameters.max_scored_rows,
            is_classic=int(self._is_classic),
            child_rows=max(2 * self.request.limit, 20),
            is_steered=int(self._reranker is not None),
            record_steps=int(self.request.trace_level >= TraceLevel.STEPS),
            record_children=int(self.request.trace_level >= TraceLevel.SCORES),
        )

    def _make_frontier(self, n_starts: int) -> Frontier:
        level = self.request.trace_level
        return make_frontier(
            self.snapshot.max_depth,
            self.parameters.parallelism,
            n_starts,
            has_steps=level >= TraceLevel.STEPS,
            has_children=level >= TraceLevel.SCORES,
        )

    # -- descend

    def advance(self, max_rounds: int = 64) -> bool:
        """Go on for at most `max_rounds` rounds; return whether the retrieval is done."""
        if self._is_done:
            return True
        snapshot = self.snapshot
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
                self._seed_nodes,
                self._pool,
                self._frontier,
                self._block,
                max_rounds,
            )
            if status == RERANK:
                self._steer()
            elif status not in _STOPS and status != RUNNING:
                self._frontier, self._block = give_room(status, self._frontier, self._block)
        self._descent_ns += time.perf_counter_ns() - started
        if status in _STOPS:
            self.stop(_STOPS[status])
        return self._is_done

    def _steer(self) -> None:
        """Replace the block's own scores by the reranker's."""
        n = int(self._frontier.counters[COUNT_BLOCK])
        seen = self._block.order[:n] if self._is_classic else np.arange(n)
        assert self._reranker is not None  # noqa: S101 - the rules say so
        self._block.own[seen] = np.asarray(self._reranker(self._block.row[seen]), np.float32)

    def stop(self, reason: StopReason) -> None:
        """End the descent here; the best so far is the answer."""
        self.stop_reason = reason
        self._is_done = True
        if reason == StopReason.TIME:
            self.warnings.append(AnswerWarning("TIME_BUDGET", "the time was over before the descent; best so far"))
        elif reason == StopReason.BUDGET:
            budget = self.parameters.max_scored_rows
            self.warnings.append(AnswerWarning("ROW_BUDGET", f"stopped at {budget} scored rows; best so far"))

    # -- finish

    def new_steps(self) -> tuple[TraceStep, ...]:
        """Return the steps that were recorded since the last call."""
        if self.request.mode == Mode.QUICK or not self._rules.record_steps:
            return ()
        first, n = self._steps_told, int(self._frontier.counters[COUNT_EXPANDED])
        self._steps_told = n
        return self._steps(first, n)

    def _steps(self, first: int, end: int) -> tuple[TraceStep, ...]:
        frontier, hydrator = self._frontier, self._hydrator()
        n_cycles = int(frontier.level_int[:, LEVEL_CYCLES].sum()) or 1
        us_per_cycle = self._descent_ns / 1000 / n_cycles
        depths = {int(root): int(self.snapshot.tree.depth[root]) for root in self._roots}
        steps = (hydrator.step(frontier, i, depths, us_per_cycle) for i in range(first, end))
        if not self._rules.record_children:
            return tuple(steps)
        return tuple(replace(step, child_scores=hydrator.child_scores(frontier, step.index)) for step in steps)

    def _hydrator(self) -> Hydrator:
        return Hydrator(self.snapshot, self.identity, self.request.view, self.now_us)

    def result(self) -> RetrieveResult:
        """Return the answer; the descent must be done."""
        is_quick = self.request.mode == Mode.QUICK
        found = self._finish_flat() if is_quick else self._finish()
        has_steps = not is_quick and bool(self._rules.record_steps)
        hydrator = self._hydrator()
        matches = tuple(hydrator.match(one, has_steps=has_steps) for one in found)
        n_matched, n_cut, n_filtered, best_cut = self._totals
        steps = self._steps(0, int(self._frontier.counters[COUNT_EXPANDED])) if has_steps else ()
        return RetrieveResult(
            matches=matches,
            revision=self.snapshot.revision,
            mode=self.request.mode,
            searched_roots=self.searched_roots,
            stats=self._stats(n_filtered),
            steps=steps,
            warnings=tuple(self.warnings),
            empty_reason=_empty_reason(matches, n_cut, n_filtered),
            total_matched=n_matched,
            best_below_threshold=best_cut if n_cut else None,
        )

    def _finish(self) -> list[Found]:
        """Order the pool; CLASSIC mixes hotness now, after the cut (R17)."""
        counters = self._frontier.counters
        best_cut = float(self._frontier.best_cut[0])
        self._totals = (int(counters[COUNT_MATCHED]), int(counters[COUNT_CUT]), int(counters[COUNT_FILTERED]), best_cut)
        found = _read(self._pool)
        weight = self.parameters.hotness_alpha
        if not self._is_classic or weight == 0:
            return found
        tree, nodes = self.snapshot.tree, [one.node for one in found]
        hot = np.empty(len(nodes), np.float32)
        hotness(tree.active_count[nodes], tree.update_us[nodes], self.now_us, hot)
        mixed = [
            one._replace(score=(1 - weight) * one.relevance + weight * float(h), hotness=float(h))
            for one, h in zip(found, hot, strict=True)
        ]
        return sorted(mixed, key=lambda one: -one.score)

    def _finish_flat(self) -> list[Found]:
        """Cut QUICK's pool by the threshold; CLASSIC's rows collapse to nodes, the best row of each first."""
        seeds, options = self._seeds, self.request.options
        found = _read(seeds.matches)
        threshold = options.score_threshold
        if threshold is None and self._is_classic:
            threshold = 0.0
        passing = found
        if threshold is not None:
            at = np.float32(threshold)
            passing = [one for one in found if one.own > at or (options.score_gte and one.own == at)]
        cut = found[len(passing) :]
        n_matched = len(passing) if cut else seeds.n_matched
        self._totals = (n_matched, len(cut), seeds.n_filtered, cut[0].own if cut else float("-inf"))
        if self._is_classic:
            passing = list({one.node: one for one in reversed(passing)}.values())[::-1][: self.request.limit]
        return passing

    def _stats(self, n_filtered: int) -> RetrieveStats:
        """Say what the retrieval cost."""
        now = time.perf_counter_ns()
        stats = RetrieveStats(
            stop_reason=self.stop_reason,
            rows_scored=self.rows_scored,
            rows_filtered=n_filtered,
            seed_path=self._seeds.path,
            embed_us=self._embed_us,
            seed_us=self._seed_us,
            total_us=(now - self._started) / 1000 + self._embed_us,
        )
        if self.request.mode == Mode.QUICK:
            return stats
        counters = self._frontier.counters
        descent_us = self._descent_ns / 1000
        return replace(
            stats,
            n_rounds=int(counters[COUNT_ROUNDS]),
            n_expanded=int(counters[COUNT_EXPANDED]),
            descent_us=descent_us,
            levels=level_stats(self._frontier, descent_us),
        )

    @property
    def rows_scored(self) -> int:
        """Return how many rows have been scored so far, by the global search and by the descent."""
        n_rows = self._seeds.rows_scored
        return n_rows if self.request.mode == Mode.QUICK else n_rows + int(self._frontier.counters[COUNT_ROWS])


def _read(pool: Pool) -> list[Found]:
    """Return a pool's entries, best first."""
    slots = best_first(pool)
    columns = (pool.node, pool.row, pool.step, pool.score)
    parts = pool.parts[slots].tolist()
    return [
        Found(node, row, step, score, *part)
        for node, row, step, score, part in zip(*(column[slots].tolist() for column in columns), parts, strict=True)
    ]


def _empty_reason(matches: Sequence[object], n_cut: int, n_filtered: int) -> EmptyReason:
    """Say why there are no matches."""
    if matches:
        return EmptyReason.NONE
    if n_cut:
        return EmptyReason.BELOW_THRESHOLD
    return EmptyReason.FILTERED_OUT if n_filtered else EmptyReason.NO_CONTEXTS


def _has_variables(targets: Iterable[str]) -> bool:
    """Return whether a target may mean another place at another time."""
    return any("{" in target for target in targets)


def _check_excluded(
    texts: Sequence[str], identity: Identity, now_us: int
) -> tuple[tuple[Uri, ...], tuple[Violation, ...]]:
    """Parse the subtrees to leave out; unlike a target, the root is not allowed, for it would leave nothing."""
    parsed = [check_uri(text, identity, now_us, f"filter.exclude_uris[{i}]") for i, text in enumerate(texts)]
    uris = tuple(one.uri for one in parsed if not isinstance(one, Violation))
    return uris, tuple(one for one in parsed if isinstance(one, Violation))
