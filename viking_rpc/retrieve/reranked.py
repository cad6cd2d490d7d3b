"""A retrieval that a reranker has a say in: it stands still whenever rows are wanted, until somebody brings scores."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from viking_rpc.domain.query import Profile, RerankScope
from viking_rpc.domain.rerank import PARTIAL
from viking_rpc.domain.trace import AnswerWarning, StopReason, ThresholdSpace
from viking_rpc.index.pools import best_first
from viking_rpc.retrieve.finish import Ranked
from viking_rpc.retrieve.rerank import Reranking
from viking_rpc.retrieve.retriever import Retrieval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.rerank import RerankAnswer
    from viking_rpc.domain.trace import RetrieveResult, TraceStep
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.descent import Descent, DescentTotals


class RerankedRetrieval(Retrieval):
    """As `Retrieval`, for THINKING: when `advance` returns and rows are `wanted`, `supply` brings their scores.

    FINAL asks once, when the descent has ended. EACH_LEVEL asks at the start and after each round, and orders what is
    opened next by the answers; with CLASSIC they replace own scores, block by block (R17).
    """

    def __init__(self, snapshot: Snapshot, request: RetrieveRequest, identity: Identity, **how: Any) -> None:
        """Resolve the scope and find the starting points; arguments and errors are those of `Retrieval`."""
        self.reranking = Reranking(request.options, request.limit)
        self.wanted: NDArray[np.int32] | None = None
        super().__init__(snapshot, request, identity, **how)
        self._want_level()

    @property
    def _n_candidates(self) -> int:
        # whatever the reranker may lift into the answer, the descent must be sure of; CLASSIC's own stop rule counts
        # the matches that are wanted
        is_published = self.request.options.profile == Profile.CLASSIC and self._has_steering
        return self._limit if is_published else max(self._limit, self.reranking.max_texts)

    @property
    def _has_steering(self) -> bool:
        return self.request.options.rerank_scope == RerankScope.EACH_LEVEL and self.reranking.max_texts > 0

    @property
    def _is_steered(self) -> bool:
        """Return whether a reranker may still change which directories are opened first."""
        if self._descent is None or not self._descent.is_steered:
            return False
        return self._is_classic or self.reranking.n_left > 0

    @property
    def _is_classic_steered(self) -> bool:
        """Return whether the scores of the descent are the reranker's."""
        return self._is_classic and self._descent is not None and self._descent.is_steered

    # -- what is wanted, and what comes

    def advance(self, max_rounds: int = 64) -> bool:
        """Go on for at most `max_rounds` rounds, or until rows are wanted; return whether the retrieval is done."""
        for _ in range(max_rounds):
            if self.is_done or self._descent is None or self.wanted is not None or self.stop_reason is not None:
                break
            is_steered = self._is_steered
            reason = self._descent.advance(1 if is_steered else max_rounds)
            if reason is not None:
                self.stop(reason)
            elif is_steered:
                self._want_level()
            else:
                break
        return self.is_done

    def stop(self, reason: StopReason) -> None:
        """End the descent here, or the wait for the reranker; the best so far is the answer."""
        if self.is_done:
            return
        is_waiting = self.stop_reason is not None
        self.wanted = None
        if is_waiting:
            self.is_done = True
        else:
            super().stop(reason)
        if reason == StopReason.TIME:
            self.reranking.out_of_time()
        elif self._descent is not None and not self._is_classic_steered:
            pool = self._descent.pool
            best = pool.row[best_first(pool)[: self.reranking.max_texts]].tolist()
            self.wanted = self.reranking.choose(best, is_final=True)
            self.is_done = self.wanted is None

    def new_steps(self) -> tuple[TraceStep, ...]:
        """Return the steps that were recorded since the last call; none while a missing answer may still undo them."""
        return () if self._is_classic_steered and not self.is_done else super().new_steps()

    def _want_level(self) -> None:
        """Find the rows that the reranker is to see before the next round."""
        descent = self._descent
        if descent is None or not self._is_steered:
            return
        if not self._is_classic:
            self.wanted = self.reranking.choose(descent.rows_to_rerank())
        elif descent.waiting is not None and self.reranking.choose_all(descent.waiting):
            self.wanted = descent.waiting
        elif descent.waiting is not None:
            self._leave_classic(descent, f"{self.reranking.max_texts} texts are too few for all of its levels")

    def supply(self, answer: RerankAnswer, duration_us: float = 0.0) -> None:
        """Take what the reranker says of the wanted rows, and how long it took.

        Args:
            answer: scores, float32[n], in the order of `wanted`; NaN where there is none.
            duration_us: wall time.
        """
        rows, self.wanted = self.wanted, None
        descent = self._descent
        if rows is None or descent is None:
            return
        self.reranking.take(rows, answer, duration_us)
        if self.stop_reason is not None:
            self.is_done = True
        elif not self._is_classic:
            descent.prefer(self.reranking.score_of_row)
        elif np.isfinite(answer.scores).all():
            descent.supply(answer.scores)
        else:
            self._leave_classic(descent, "the reranker has not answered for all rows")

    def _leave_classic(self, descent: Descent, why: str) -> None:
        """Descend again by cosines: with the reranker's score for some rows only, two scales would meet."""
        descent.start_again()
        text = f"the descent was not steered by the reranker: {why}"
        self.reranking.give_up(AnswerWarning(PARTIAL, text), is_over=False)

    @property
    def score_of_row(self) -> Mapping[int, float]:
        """Return what the reranker said of rows."""
        return self.reranking.score_of_row

    # -- finish

    def _make_result(self) -> RetrieveResult:
        result = super()._make_result()
        fault, cost = self.reranking.fault, self.reranking.cost
        stats = replace(result.stats, n_rerank_calls=cost.n_calls, n_reranked=cost.n_sent, rerank_us=cost.duration_us)
        return replace(result, stats=stats, warnings=result.warnings if fault is None else (*result.warnings, fault))

    @property
    def _threshold_space(self) -> ThresholdSpace | None:
        is_classic = self._is_classic_steered and bool(self.reranking.score_of_row)
        return ThresholdSpace.RERANK if is_classic or self.reranking.is_threshold_used else super()._threshold_space

    def _rank(self, descent: Descent, totals: DescentTotals) -> Ranked:
        """Order the candidates by the reranker where it has said something, the others by vectors below."""
        found, n_matched = self._candidates(descent, totals)
        reranking = self.reranking
        if self._is_classic_steered:
            found = [one._replace(rerank=reranking.score_of_row.get(one.row, np.nan)) for one in found]
            return Ranked(self._finish(self._choose(found, n_matched)), n_matched, totals.n_cut, totals.best_cut)
        parts = reranking.reorder(found)
        if self._is_classic:  # has one page, whose hotness is mixed in after the cut (R15)
            parts = parts._replace(
                others=self._finish(parts.others[: max(0, self.request.limit - len(parts.reranked))])
            )
        best_cut = parts.best_cut if reranking.is_threshold_used else totals.best_cut
        n_cut = totals.n_cut + parts.n_cut
        n_matched -= parts.n_cut
        return Ranked(self._choose([*parts.reranked, *parts.others], n_matched), n_matched, n_cut, best_cut)
