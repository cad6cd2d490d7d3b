"""Why a context was, or was not, among the matches of a request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viking_rpc.domain.trace import AnswerWarning, ScoreParts, StopReason


class Verdict(IntEnum):
    """What became of a context in a request; the numbers are those of the contract."""

    RETURNED = 1
    OUTRANKED = 2
    BELOW_THRESHOLD = 3
    NOT_REACHED = 4
    FILTERED_OUT = 5
    OUT_OF_SCOPE = 6
    NOT_INDEXED = 7


@dataclass(frozen=True, slots=True)
class PathStep:
    """One node on the way to the context; `parts` None: it has nothing to score.

    `sibling_rank` counts from 1, by relevance; 0 without parts. `step_index` and `round` say when the descent opened
    it, None when it did not.
    """

    uri: str
    parts: ScoreParts | None = None
    sibling_rank: int = 0
    sibling_count: int = 0
    step_index: int | None = None
    round: int | None = None

    @property
    def is_expanded(self) -> bool:
        """Return whether the descent opened it."""
        return self.step_index is not None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer; `path` runs from the top to the context itself.

    `rank` and `exhaustive_rank` count from 1, 0 is none. `blocked_uri` is the directory that the descent would have had
    to open next, with the relevance by which it waited, if it did.
    """

    verdict: Verdict
    path: tuple[PathStep, ...]
    summary: str
    revision: int
    rank: int = 0
    exhaustive_rank: int = 0
    blocked_uri: str = ""
    blocked_score: float | None = None
    stop_reason: StopReason | None = None
    n_expanded: int = 0
    warnings: tuple[AnswerWarning, ...] = ()
