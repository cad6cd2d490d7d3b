"""A search: what is asked with which plan, how the answers of its queries become one, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import DEFAULT_PRIORITY, QueryPlan
from viking_rpc.domain.query import Filter, Grouping, Mode, RetrieveOptions, Scope, TraceLevel, View
from viking_rpc.domain.trace import EmptyReason, RetrieveStats

if TYPE_CHECKING:
    from viking_rpc.domain.plan import PlanRequest, PlanStatus
    from viking_rpc.domain.trace import AnswerWarning, Match, TraceStep

#: How little the first ranks differ from those below. docs/algorithm.md says how both were measured.
RRF_K: Final = 0
#: What a rank in the answer of a query of priority 1 to 5 weighs.
PRIORITY_WEIGHTS: Final = (1.0, 0.4, 0.25, 0.15, 0.1)
N_PRIORITIES: Final = len(PRIORITY_WEIGHTS)
MAX_RRF_K: Final = 1000
MAX_WEIGHT: Final = 1000.0


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """How answers are merged: a match scores the sum of `weight of the query / (rrf_k + rank)`, ranks from 1."""

    rrf_k: int = RRF_K
    priority_weights: tuple[float, ...] = PRIORITY_WEIGHTS

    def weight_of(self, priority: int) -> float:
        """Return the weight of a priority, 1 to 5; 0 stands for the default one."""
        return self.priority_weights[(priority or DEFAULT_PRIORITY) - 1]


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One Search call in the domain's terms: either a task to plan for, or a ready plan.

    Every other field means what it means for one retrieval, and is every query's; budgets are shared by all. `scope`
    None is that of `planning`, else the default roots.
    """

    planning: PlanRequest | None = None
    plan: QueryPlan | None = None
    scope: Scope | None = None
    filter: Filter = field(default_factory=Filter)
    limit: int = 10
    view: View = View.ABSTRACT
    mode: Mode = Mode.THINKING
    options: RetrieveOptions = field(default_factory=RetrieveOptions)
    trace_level: TraceLevel = TraceLevel.STATS
    min_revision: int = 0
    merge: MergeOptions = field(default_factory=MergeOptions)
    grouping: Grouping | None = None

    @property
    def effective_scope(self) -> Scope:
        """Return where queries look that name no targets."""
        if self.scope is not None:
            return self.scope
        return self.planning.scope if self.planning is not None else Scope()


@dataclass(frozen=True, slots=True)
class SearchMatch:
    """A merged match: that of the query which ranked it best, with the merged score, and all queries that found it."""

    match: Match
    query_indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What one query of a plan found: the URIs best first, where, at what cost, and what was degraded."""

    uris: tuple[str, ...]
    searched_roots: tuple[str, ...]
    stats: RetrieveStats
    steps: tuple[TraceStep, ...] = ()
    warnings: tuple[AnswerWarning, ...] = ()
    empty_reason: EmptyReason = EmptyReason.NONE


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The merged answer; `plan_status` None: the caller gave the plan. Groups are indexes into `matches`."""

    matches: tuple[SearchMatch, ...]
    plan: QueryPlan
    plan_status: PlanStatus | None
    query_results: tuple[QueryResult, ...]
    revision: int
    warnings: tuple[AnswerWarning, ...] = ()
    empty_reason: EmptyReason = EmptyReason.NONE
    total_matched: int = 0
    total_us: float = 0.0

    def indexes_of(self, kind: ContextType) -> tuple[int, ...]:
        """Return the indexes of the matches of a type."""
        return tuple(i for i, one in enumerate(self.matches) if one.match.context.type is kind)

    @property
    def memories(self) -> tuple[int, ...]:
        """Return the indexes of the memories."""
        return self.indexes_of(ContextType.MEMORY)

    @property
    def resources(self) -> tuple[int, ...]:
        """Return the indexes of the resources."""
        return self.indexes_of(ContextType.RESOURCE)

    @property
    def skills(self) -> tuple[int, ...]:
        """Return the indexes of the skills."""
        return self.indexes_of(ContextType.SKILL)
