"""One retrieval, from a request to the answer: resolve, seed, descend, finish. Start reading here.

The steps are those of docs/algorithm.md. A `Retrieval` pins one snapshot and goes on in slices, so that whoever runs it
can look at the clock, at cancellation and at the steps in between.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from viking_kernels.arrays import PART_OWN, Conditions, Pool, Rules, frozen
from viking_rpc.domain.query import Mode, Profile, TraceLevel
from viking_rpc.domain.trace import (
    AnswerWarning,
    EmptyReason,
    RetrieveResult,
    RetrieveStats,
    StopReason,
    ThresholdSpace,
)
from viking_rpc.index.narrowing import narrow
from viking_rpc.index.pools import best_first, make_pool
from viking_rpc.index.scopes import make_conditions
from viking_rpc.index.seeds import SeedParameters, Seeds, find_seeds
from viking_rpc.retrieve.answer import Hydrator
from viking_rpc.retrieve.descent import Descent, DescentTotals
from viking_rpc.retrieve.exclusion import is_left_out
from viking_rpc.retrieve.finish import Ranked, count_passing, nodes_of, rank_flat, read_pool, with_hotness
from viking_rpc.retrieve.frontier import Scratch
from viking_rpc.retrieve.paging import Chosen, choose, n_candidates
from viking_rpc.retrieve.profiles import PRESETS, make_rules, resolve_parameters
from viking_rpc.retrieve.question import ask
from viking_rpc.retrieve.resolve import resolve_place
from viking_rpc.retrieve.workings import Workings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.trace import TraceStep
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.answer import Found
    from viking_rpc.retrieve.profiles import Parameters

_NO_ROOM = make_pool(0)
_CLASSIC_LEVELS = 0b011  # the global search of the published algorithm looks at L0 and L1


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What the operator decides for all requests.

    Args:
        presets: parameters by profile.
        max_exact_rows: scopes and owners with at most this many rows are scanned exactly.
        n_candidates: candidates asked of each approximate index over files for starting points.
        n_directory_candidates: the same for directories.
        n_flat_candidates: the same for QUICK, at least; four times the limit if that is more.
        n_classic_candidates: the same for the starting points of CLASSIC, which are to be the exact ones.
    """

    presets: Mapping[Profile, Parameters] = field(default_factory=lambda: PRESETS)
    max_exact_rows: int = 4096
    n_candidates: int = 16
    n_directory_candidates: int = 12
    n_flat_candidates: int = 128
    n_classic_candidates: int = 64


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
            embed_us: what embedding took, for the statistics.

        Raises:
            InvalidArgumentError, PermissionDeniedError: targets that cannot be or may not be searched.
            NotFoundError: a target or the `like_uri` does not exist.
            FailedPreconditionError: DIMENSION_MISMATCH.
        """
        self._started = time.perf_counter_ns()
        self._settings = settings or SearchSettings()
        self._embed_us = embed_us
        self.snapshot = snapshot
        self.request = request
        self.parameters = resolve_parameters(request.options, self._settings.presets)
        self.now_us = now_us
        self._identity = identity
        self._result: RetrieveResult | None = None
        self.warnings: list[AnswerWarning] = []
        self.stop_reason: StopReason | None = None
        self._is_classic = request.options.profile == Profile.CLASSIC
        self._place, self.searched_roots = resolve_place(snapshot, request, identity, now_us)
        self._conditions = make_conditions(
            snapshot, self._place, request.filter, request.scope.types, request.filter.levels, now_us
        )
        types = () if self._is_classic else request.scope.types  # the published algorithm opens what leads nowhere
        place = (self._place, self._conditions)
        self._near, self._near_conditions = narrow(snapshot, *place, types, self._settings.max_exact_rows)
        self._limit = n_candidates(request)
        self._chosen = Chosen([])
        self._question, self._like_node = ask(snapshot, request.query, vector, self.parameters, identity, now_us)
        self._limit += self._like_node >= 0  # it is the best match of itself, and not wanted
        self._scratch = Scratch.take()
        has_words = bool(request.query.text or request.query.lexical_text)
        self._hydrator = Hydrator(snapshot, identity, request.view, now_us, has_words=has_words)
        seeding = time.perf_counter_ns()
        self._descent: Descent | None = None
        self._seeds = self._search_flat() if request.mode == Mode.QUICK else self._start_descent()
        started_us = self._descent.duration_us if self._descent else 0.0
        self._seed_us = (time.perf_counter_ns() - seeding) / 1000 - started_us
        self.is_done = self._descent is None

    # -- seed

    def _search_flat(self) -> Seeds:
        """QUICK: one flat search by own score; rows collapse to nodes before the cut (CLASSIC: after it)."""
        limit = self._limit
        if self._is_classic:
            return self._find_rows(self._conditions, max(limit, self.parameters.global_top_k), is_exact=True)
        n_candidates = max(self._settings.n_flat_candidates, 4 * limit)
        seeds = self._find_seeds(limit, 0, n_candidates, n_candidates)
        is_told = seeds.path != "exact" or seeds.n_matched <= limit or self._n_passing(seeds.matches) < limit
        if self._threshold is None or is_told:
            return seeds
        # the whole limit passes: how many more do, and which is the best that does not, only a ranking of all can tell
        ranked = self._find_seeds(seeds.n_matched, 0, n_candidates, n_candidates)
        return replace(ranked, rows_scored=seeds.rows_scored + ranked.rows_scored)

    def _start_descent(self) -> Seeds:
        """THINKING: find starting points and queue them."""
        request, parameters, roots = self.request, self.parameters, self._near.roots
        n_best = max(self._limit, parameters.global_top_k)
        if self._is_classic:
            above = self._conditions._replace(level_mask=_CLASSIC_LEVELS, is_open=1)
            seeds = self._find_rows(above, n_best, is_exact=False)
            chosen = best_first(seeds.matches)
            self._descent = self._make_descent(len(chosen))
            self._descent.start_classic(
                frozen(seeds.matches.row[chosen]),
                frozen(seeds.matches.parts[chosen, PART_OWN]),
                has_levels=bool(request.filter.levels),
            )
            return seeds
        n_directories = n_best if parameters.global_top_k else 0
        seeds = self._find_seeds(
            parameters.leaf_seeds,
            n_directories,
            self._settings.n_candidates,
            max(self._settings.n_directory_candidates, n_directories) if n_directories else 0,
        )
        # a few nodes: Python's sets are faster than numpy's
        found = {node for pool in (seeds.matches, seeds.directories) for node in nodes_of(pool)}
        starts = frozen(np.array(sorted(found.difference(roots.tolist())), np.int32))
        self._descent = self._make_descent(len(starts))
        self._descent.start(starts)
        return seeds

    def _find_seeds(self, n_matches: int, n_directories: int, n_candidates: int, n_directory_candidates: int) -> Seeds:
        return find_seeds(
            self.snapshot,
            self._near,
            self._near_conditions,
            self._question,
            SeedParameters(
                max_exact_rows=self._settings.max_exact_rows,
                n_candidates=n_candidates,
                n_directory_candidates=n_directory_candidates,
                is_exact=self.request.options.profile == Profile.EXHAUSTIVE,
            ),
            self._scratch.pool("matches", n_matches),
            self._scratch.pool("directories", n_directories),
        )

    def _find_rows(self, conditions: Conditions, n_rows: int, *, is_exact: bool) -> Seeds:
        """Search flat by rows: what CLASSIC does before it collapses them."""
        n_candidates = max(self._settings.n_classic_candidates, 4 * n_rows)
        parameters = SeedParameters(self._settings.max_exact_rows, 0, n_candidates, is_exact=is_exact, is_by_row=True)
        pool = self._scratch.pool("matches", n_rows)
        return find_seeds(self.snapshot, self._place, conditions, self._question, parameters, pool, _NO_ROOM)

    # -- descend

    def _make_descent(self, n_starts: int) -> Descent:
        return Descent(
            self.snapshot,
            self._question,
            self._near_conditions,
            self._make_rules(),
            self._near.roots,
            limit=self._n_candidates,
            n_starts=n_starts,
            scratch=self._scratch,
        )

    @property
    def _n_candidates(self) -> int:
        """Return how many candidates a descent keeps, of which it must be sure."""
        return self._limit

    @property
    def _has_steering(self) -> bool:
        """Return whether somebody else orders the queue."""
        return False

    def _make_rules(self) -> Rules:
        """Say how the walk goes."""
        request, threshold = self.request, self._threshold
        return make_rules(
            self.parameters,
            self.snapshot.grouping,
            threshold=-np.inf if threshold is None else threshold,
            is_gte=request.options.score_gte,
            limit=self._limit,
            is_classic=self._is_classic,
            is_steered=self._has_steering,
            trace_level=request.trace_level,
        )

    @property
    def _threshold(self) -> float | None:
        """Return the cut on relevance; CLASSIC has one at 0 unless told otherwise."""
        threshold = self.request.options.score_threshold
        return 0.0 if threshold is None and self._is_classic else threshold

    def advance(self, max_rounds: int = 64) -> bool:
        """Go on for at most `max_rounds` rounds; return whether the retrieval is done."""
        if not self.is_done and self._descent is not None:
            reason = self._descent.advance(max_rounds)
            if reason is not None:
                self.stop(reason)
        return self.is_done

    def stop(self, reason: StopReason) -> None:
        """End the descent here; the best so far is the answer."""
        self.stop_reason = reason
        self.is_done = True
        if reason == StopReason.TIME:
            self.warnings.append(AnswerWarning("TIME_BUDGET", "the time was over before the descent; best so far"))

    def new_steps(self) -> tuple[TraceStep, ...]:
        """Return the steps that were recorded since the last call."""
        return self._descent.new_steps(self._hydrator) if self._descent and self._result is None else ()

    # -- explain

    @property
    def score_of_row(self) -> Mapping[int, float]:
        """Return what a reranker said of rows."""
        return {}

    def workings(self) -> Workings:
        """Return what the retrieval worked with; to be asked when it is done, and before its result."""
        descent, flat = self._descent, self._seeds.matches
        ranked = best_first(flat)[: self._n_passing(flat)] if descent is None else best_first(descent.pool)
        return Workings(
            question=self._question,
            conditions=self._conditions,
            rules=self._make_rules(),
            roots=self._place.roots,
            known=frozenset(nodes_of(flat)) if descent is None else descent.known,
            is_complete=descent is not None or self._seeds.path == "exact",
            ranked=(flat if descent is None else descent.pool).node[ranked],
            record=None if descent is None else descent.record(),
            like_node=self._like_node,
            rerank_score_of_row=self.score_of_row,
        )

    # -- finish

    def result(self) -> RetrieveResult:
        """Return the answer; the retrieval must be done. Steps are told no more."""
        if self._result is None:
            self._result = self._make_result()
            if self._descent is not None:
                self._descent.release()
            else:
                self._scratch.give_back(None, self._scratch.block)
        return self._result

    def _make_result(self) -> RetrieveResult:
        descent, seeds = self._descent, self._seeds
        totals = descent.totals if descent is not None else None
        ranked = self._rank_flat() if descent is None or totals is None else self._rank(descent, totals)
        # the walk does not count its roots
        n_filtered = max(totals.n_filtered if totals else 0, seeds.n_filtered)
        has_steps = self.request.trace_level >= TraceLevel.STEPS
        matches = tuple(self._hydrator.match(one, has_steps=has_steps) for one in ranked.found)
        n_before = self.request.page.n_told if self.request.page else 0
        is_told = bool(matches or n_before)  # the last page may be empty
        return RetrieveResult(
            matches=matches,
            revision=self.snapshot.revision,
            mode=self.request.mode,
            searched_roots=self.searched_roots,
            stats=self._stats(n_filtered, totals),
            steps=descent.steps(self._hydrator) if descent is not None else (),
            warnings=(*self.warnings, *self._chosen.warnings),
            empty_reason=EmptyReason.NONE if is_told else self._empty_reason(n_cut=ranked.n_cut, n_filtered=n_filtered),
            total_matched=ranked.n_matched,
            best_below_threshold=ranked.best_cut if ranked.n_cut and np.isfinite(ranked.best_cut) else None,
            threshold_space=self._threshold_space,
            n_before=n_before,
            has_more=self._chosen.has_more and not self._is_classic,
        )

    @property
    def _threshold_space(self) -> ThresholdSpace | None:
        """Return on which scale a threshold has cut."""
        return None if self._threshold is None else ThresholdSpace.RELEVANCE

    def _rank(self, descent: Descent, totals: DescentTotals) -> Ranked:
        """Order the candidates of a descent, and cut them."""
        found, n_matched = self._candidates(descent, totals)
        return Ranked(self._finish(self._choose(found, n_matched)), n_matched, totals.n_cut, totals.best_cut)

    def _choose(self, found: list[Found], n_matched: int) -> list[Found]:
        """Return the matches of the wanted page, of each group only so many."""
        self._chosen = choose(self.request, self.snapshot, self.searched_roots, found, n_matched)
        return self._chosen.found

    def _candidates(self, descent: Descent, totals: DescentTotals) -> tuple[list[Found], int]:
        """Return the candidates of a descent, best first, and how many matched."""
        found = read_pool(descent.pool)
        if self._like_node < 0:
            return found, totals.n_matched
        others = [one for one in found if one.node != self._like_node]
        return others, totals.n_matched - len(found) + len(others)

    def _finish(self, found: list[Found]) -> list[Found]:
        """Mix hotness into what CLASSIC has found; the others' walk has done so."""
        if not self._is_classic:
            return found
        return with_hotness(found, self.parameters.hotness_alpha, self.snapshot.tree, self.now_us)

    def _rank_flat(self) -> Ranked:
        """Cut QUICK's pool."""
        pool = self._seeds.matches
        n_passing = self._n_passing(pool)
        n_matched = self._seeds.n_matched if self._threshold is None else n_passing
        ranked = rank_flat(pool, n_passing, self._limit, n_matched, is_classic=self._is_classic)
        others = [one for one in ranked.found if one.node != self._like_node]
        n_others = ranked.n_matched - len(ranked.found) + len(others)
        return ranked._replace(found=self._choose(others, n_others), n_matched=n_others)

    def _n_passing(self, pool: Pool) -> int:
        return count_passing(pool, self._threshold, is_gte=self.request.options.score_gte)

    def _empty_reason(self, *, n_cut: int, n_filtered: int) -> EmptyReason:
        """Say why there are no matches."""
        if n_cut:
            return EmptyReason.BELOW_THRESHOLD
        asked = (self.snapshot, self.request, self._identity, self._question, self.now_us)
        is_held = n_filtered or self._near.has_others or is_left_out(*asked, is_narrow=self._near is not self._place)
        return EmptyReason.FILTERED_OUT if is_held else EmptyReason.NO_CONTEXTS

    def _stats(self, n_filtered: int, totals: DescentTotals | None) -> RetrieveStats:
        """Say what the retrieval cost."""
        descent = self._descent
        return RetrieveStats(
            stop_reason=self.stop_reason,
            n_rounds=totals.n_rounds if totals else 0,
            n_expanded=totals.n_expanded if totals else 0,
            rows_scored=self._seeds.rows_scored + (totals.n_rows if totals else 0),
            rows_filtered=n_filtered,
            seed_path=self._seeds.path,
            embed_us=self._embed_us,
            seed_us=self._seed_us,
            descent_us=descent.duration_us if descent else 0.0,
            total_us=(time.perf_counter_ns() - self._started) / 1000 + self._embed_us,
            levels=descent.levels() if descent else (),
        )
