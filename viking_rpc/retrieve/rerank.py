"""Reranking in one retrieval: which rows are sent, within which budget, and the order that the answers make.

A reranker's scale is its own. Matches with its score come first, ordered by it; the others follow in vector order. No
score of one scale is ever compared with, or mixed into, one of the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from viking_rpc.domain.query import RerankScope
from viking_rpc.domain.rerank import MAX_TEXTS, PARTIAL, TIMEOUT
from viking_rpc.domain.trace import AnswerWarning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from viking_rpc.domain.query import RetrieveOptions
    from viking_rpc.domain.rerank import RerankAnswer
    from viking_rpc.retrieve.answer import Found


class Reordered(NamedTuple):
    """Matches by the reranker, the others, and what the threshold on the reranker's scale cut."""

    reranked: list[Found]
    others: list[Found]
    n_cut: int
    best_cut: float


@dataclass(slots=True)
class RerankCost:
    """What a retrieval has sent to a reranker."""

    n_calls: int = 0
    n_sent: int = 0
    duration_us: float = 0.0


class Reranking:
    """The reranker's part of one retrieval.

    Args:
        options: of the request.
        limit: matches wanted; when each level is reranked, as many texts of the budget (half of it at most) are kept
            for the best candidates.
    """

    def __init__(self, options: RetrieveOptions, limit: int) -> None:
        """Begin with the whole budget."""
        budget = options.max_rerank_documents
        self.max_texts = MAX_TEXTS if budget is None else budget
        self.is_each_level = options.rerank_scope == RerankScope.EACH_LEVEL and self.max_texts > 0
        self.cost = RerankCost()
        self.score_of_row: dict[int, float] = {}
        self.fault: AnswerWarning | None = None
        self._threshold, self._is_gte = options.rerank_threshold, options.score_gte
        self._kept_back = min(limit, self.max_texts // 2) if self.is_each_level else 0
        self._asked: set[int] = set()
        self._is_over = self.max_texts == 0

    @property
    def n_asked(self) -> int:
        """Return how many rows were asked about."""
        return len(self._asked)

    @property
    def n_left(self) -> int:
        """Return how many more rows may be asked about before the end."""
        return 0 if self._is_over else max(0, self.max_texts - self._kept_back - len(self._asked))

    def choose(self, rows: Iterable[int], *, is_final: bool = False) -> NDArray[np.int32] | None:
        """Return those of some rows, best first, that are asked about now: new ones, within the budget; None: none.

        Args:
            rows: best first.
            is_final: the descent has ended, nothing need be kept back.
        """
        if is_final:
            self._kept_back = 0
        n_left = self.n_left
        new = [row for row in dict.fromkeys(rows) if row not in self._asked][:n_left]
        return self._ask(new)

    def choose_all(self, rows: NDArray[np.int32]) -> bool:
        """Return whether all of some rows may be asked about together; rows that were asked before cost nothing."""
        new = [row for row in rows.tolist() if row not in self._asked]
        if self._is_over or len(self._asked) + len(new) > self.max_texts:
            return False
        self._ask(new)
        return True

    def _ask(self, rows: list[int]) -> NDArray[np.int32] | None:
        self._asked.update(rows)
        return np.array(rows, np.int32) if rows else None

    def take(self, rows: NDArray[np.int32], answer: RerankAnswer, duration_us: float) -> None:
        """Take the scores of the rows that were asked about."""
        self.cost.n_calls += answer.n_calls
        self.cost.n_sent += answer.n_sent
        self.cost.duration_us += duration_us
        is_known = np.isfinite(answer.scores)
        self.score_of_row |= dict(zip(rows[is_known].tolist(), answer.scores[is_known].tolist(), strict=True))
        if answer.fault is not None:
            self.give_up(answer.fault, is_over=answer.fault.reason != PARTIAL)

    def give_up(self, fault: AnswerWarning, *, is_over: bool = True) -> None:
        """Remember the first fault; ask no more, unless it was a passing one."""
        if self.score_of_row and fault.reason != PARTIAL:
            fault = AnswerWarning(PARTIAL, f"a part was reranked, then: {fault.message}")
        self.fault = self.fault or fault
        self._is_over = self._is_over or is_over

    def out_of_time(self) -> None:
        """Note that no time is left for the reranker."""
        if not self._is_over:
            self.give_up(AnswerWarning(TIMEOUT, "nothing was reranked: no time was left for it"))

    @property
    def is_threshold_used(self) -> bool:
        """Return whether the threshold on the reranker's scale had something to compare."""
        return self._threshold is not None and bool(self.score_of_row)

    def reorder(self, found: list[Found]) -> Reordered:
        """Part matches, best first by vectors, into reranked ones by the reranker's score and the others as they are.

        Equal scores of the reranker stay in vector order.
        """
        reranked, others, cut = [], [], []
        for one in found:
            score = self.score_of_row.get(one.row)
            if score is None:
                others.append(one)
            elif self._passes(score):
                # hotness is of another scale: it takes no part, and is not told
                reranked.append(one._replace(score=score, rerank=score, hotness=float("nan")))
            else:
                cut.append(score)
        reranked.sort(key=lambda one: -one.score)
        return Reordered(reranked, others, len(cut), max(cut, default=float("-inf")))

    def _passes(self, score: float) -> bool:
        if self._threshold is None:
            return True
        at = float(np.float32(self._threshold))  # scores are float32
        return score > at or (self._is_gte and score == at)
