"""What a retrieval answers: matches with their surroundings, the descent step by step, statistics and warnings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from viking_rpc.domain.context import Context, Level
    from viking_rpc.domain.query import Mode


class StopReason(IntEnum):
    """Why a descent ended; the numbers are those of the contract."""

    EXHAUSTED = 1
    CONVERGED = 2
    STAGNANT = 3
    BUDGET = 4
    TIME = 5


class EmptyReason(IntEnum):
    """Why there are no matches; the numbers are those of the contract."""

    NONE = 0
    NO_CONTEXTS = 1
    FILTERED_OUT = 2
    BELOW_THRESHOLD = 3
    PLAN_SKIPPED = 4


class ThresholdSpace(IntEnum):
    """On which scale a threshold cuts; the numbers are those of the contract."""

    RELEVANCE = 1
    RERANK = 2


@dataclass(frozen=True, slots=True)
class AnswerWarning:
    """Something that could not be done as asked; the rest of the answer is valid."""

    reason: str
    message: str


class ScoreParts(NamedTuple):
    """Where a score comes from; None means that the part does not exist for this match.

    A tuple: every match of every query has one, and a frozen dataclass takes five times as long to make.
    """

    own: float
    relevance: float
    dense: float | None = None
    lexical: float | None = None
    parent: float | None = None
    rerank: float | None = None
    hotness: float | None = None


class Match(NamedTuple):
    """One result: a context at the level that scored best, with its ancestors, root first.

    `step_index` is the step that found it, None when the global search did or when steps are not recorded. A tuple as
    its parts are.
    """

    context: Context
    display_uri: str
    level: Level
    score: float
    parts: ScoreParts
    ancestors: tuple[Context, ...] = ()
    step_index: int | None = None


@dataclass(frozen=True, slots=True)
class ChildScore:
    """One scored row of an expanded directory's children."""

    uri: str
    level: Level
    own: float
    relevance: float
    is_kept: bool


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One expanded directory; `score` is None for a root without a score of its own."""

    index: int
    round: int
    uri: str
    score: float | None
    depth: int
    n_scored: int
    n_kept: int
    n_queued: int
    duration_us: float
    child_scores: tuple[ChildScore, ...] = ()


class LevelStats(NamedTuple):
    """The work done at one depth below the searched roots; a tuple, as every query has several."""

    depth: int
    n_expanded: int
    n_rows: int
    n_kept: int
    duration_us: float


@dataclass(frozen=True, slots=True)
class RetrieveStats:
    """The cost of one retrieval; durations are microseconds of wall time.

    `n_rerank_calls` counts requests to the reranker, `n_reranked` the texts in them.
    """

    stop_reason: StopReason | None = None
    n_rounds: int = 0
    n_expanded: int = 0
    rows_scored: int = 0
    rows_filtered: int = 0
    seed_path: str = ""
    embed_us: float = 0.0
    seed_us: float = 0.0
    descent_us: float = 0.0
    total_us: float = 0.0
    n_rerank_calls: int = 0
    n_reranked: int = 0
    rerank_us: float = 0.0
    levels: tuple[LevelStats, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrieveResult:
    """The whole answer; `best_below_threshold` is the best score that the threshold of `threshold_space` cut.

    `n_before` matches were told on earlier pages, and `has_more` says that others follow; the token for them is made
    where the answer is sent.
    """

    matches: tuple[Match, ...]
    revision: int
    mode: Mode
    searched_roots: tuple[str, ...]
    stats: RetrieveStats
    steps: tuple[TraceStep, ...] = ()
    warnings: tuple[AnswerWarning, ...] = ()
    empty_reason: EmptyReason = EmptyReason.NONE
    total_matched: int = 0
    best_below_threshold: float | None = field(default=None)
    threshold_space: ThresholdSpace | None = None
    n_before: int = 0
    has_more: bool = False
    next_page_token: str = ""
