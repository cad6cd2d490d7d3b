"""A plan: what a task and its conversation become before anything is searched, and the rules that every plan keeps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.query import Scope
from viking_rpc.domain.trace import AnswerWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from viking_rpc.domain.context import ContextType

MAX_QUERIES: Final = 5
MAX_TURNS: Final = 5
MAX_SUMMARY_CHARS: Final = 30_000
MAX_TURN_CHARS: Final = 8_000
MAX_QUERY_BYTES: Final = 8 * 1024
#: Of what a plan says to people; it comes back with the answer, which must not grow beyond its limit by it.
MAX_NOTE_BYTES: Final = 32 * 1024
ROLES: Final = ("user", "assistant", "tool")

FIRST_PRIORITY: Final = 1
DEFAULT_PRIORITY: Final = 3
LAST_PRIORITY: Final = 5


class PlanStatus(IntEnum):
    """How a plan came about; the numbers are those of the contract."""

    PLANNED = 1
    SKIPPED = 2
    FALLBACK = 3


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation; `role` is one of ROLES."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan for.

    Args:
        task: what the caller is trying to do now.
        turns: recent conversation, oldest first.
        summary: of the older conversation.
        type: the one type that is wanted; None: any.
        scope: where the queries will look.
        max_queries: 1 to MAX_QUERIES.
        target_abstract: the first target's own abstract, where the caller may read it.
    """

    task: str
    turns: tuple[Turn, ...] = ()
    summary: str = ""
    type: ContextType | None = None
    scope: Scope = field(default_factory=Scope)
    max_queries: int = MAX_QUERIES
    target_abstract: str = ""

    @property
    def only_type(self) -> ContextType | None:
        """Return the type that every query must have; None when there is a choice."""
        if self.type is None and len(self.scope.types) == 1:
            return next(iter(self.scope.types))
        return self.type


@dataclass(frozen=True, slots=True)
class TypedQuery:
    """One planned query; `type` None is any. `priority` is 1 (most important) to 5 and weights the merge.

    `target_uris` not empty: where to look, in place of the request's targets.
    """

    query: str
    type: ContextType | None = None
    intent: str = ""
    priority: int = DEFAULT_PRIORITY
    target_uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """Typed queries for one task, by priority; `reasoning` and `session_context` are for people."""

    queries: tuple[TypedQuery, ...] = ()
    reasoning: str = ""
    session_context: str = ""


@dataclass(frozen=True, slots=True)
class PlanResult:
    """A plan and how it came about."""

    plan: QueryPlan
    status: PlanStatus
    warnings: tuple[AnswerWarning, ...] = ()


def bound_session(request: PlanRequest) -> tuple[PlanRequest, tuple[AnswerWarning, ...]]:
    """Cut a conversation to what planners are given: the last turns, and texts of bounded length.

    Returns:
        The request with every cut marked in its text, and a warning for each kind of cut.
    """
    warnings = []
    summary, n_cut = _cut(request.summary, MAX_SUMMARY_CHARS)
    if n_cut:
        text = f"the last {n_cut} characters of the summary were not used: at most {MAX_SUMMARY_CHARS} are"
        warnings.append(AnswerWarning("SUMMARY_TRUNCATED", text))
    turns = []
    n_long = 0
    for turn in request.turns[-MAX_TURNS:]:
        text, n_cut = _cut(turn.text, MAX_TURN_CHARS)
        n_long += n_cut > 0
        turns.append(Turn(turn.role, text))
    if n_long:
        text = f"of {n_long} turns the first {MAX_TURN_CHARS} characters were used"
        warnings.append(AnswerWarning("TURNS_TRUNCATED", text))
    return replace(request, summary=summary, turns=tuple(turns)), tuple(warnings)


def complete_plan(request: PlanRequest, plan: QueryPlan, *, task_priority: int = FIRST_PRIORITY) -> PlanResult:
    """Turn what a planner proposes into a plan that keeps the rules.

    Blanks, repeats and queries that are too long or of a type that is not wanted are dropped; a restricting type is
    put in; the task itself is always among the queries; at most `max_queries` are kept, by priority, then in order.

    Args:
        request: what was planned for.
        plan: as proposed; with no query at all it says that nothing needs retrieving.
        task_priority: of the task, where the planner did not propose it itself.
    """
    if not plan.queries:
        return PlanResult(plan, PlanStatus.SKIPPED)
    proposed = list(_usable(request, plan.queries))
    own = _task_query(request, task_priority)
    same = [query for query in proposed if _key(query) == _key(own)]
    if same:  # the planner's words on it, and the task's on what is asked
        own = replace(own, intent=same[0].intent, priority=same[0].priority, target_uris=same[0].target_uris)
    rest = sorted((query for query in proposed if _key(query) != _key(own)), key=lambda query: query.priority)
    kept = [own, *rest[: request.max_queries - 1]]
    kept.sort(key=lambda query: query.priority)  # stable: equal priorities stay in the planner's order
    return PlanResult(replace(plan, queries=tuple(kept)), PlanStatus.PLANNED)


def fall_back(request: PlanRequest, why: str) -> PlanResult:
    """Return the plan for a planner that failed: the task itself is the one query.

    Args:
        request: what was to be planned for.
        why: one clause for people.
    """
    text = f"the task itself is the one query: {why}"
    plan = QueryPlan((_task_query(request, FIRST_PRIORITY),))
    return PlanResult(plan, PlanStatus.FALLBACK, (AnswerWarning("PLAN_FALLBACK", text),))


def _task_query(request: PlanRequest, priority: int) -> TypedQuery:
    return TypedQuery(request.task.strip(), request.only_type, "the task as it was given", priority)


def _usable(request: PlanRequest, queries: Iterable[TypedQuery]) -> Iterator[TypedQuery]:
    only, allowed = request.only_type, request.scope.types
    seen = set()
    for query in queries:
        text = " ".join(query.query.split())
        if not text or len(text.encode(errors="replace")) > MAX_QUERY_BYTES:
            continue
        if only is None and allowed and query.type is not None and query.type not in allowed:
            continue
        priority = min(max(query.priority, FIRST_PRIORITY), LAST_PRIORITY)
        clean = replace(query, query=text, type=only or query.type, priority=priority)
        if _key(clean) not in seen:
            seen.add(_key(clean))
            yield clean


def _key(query: TypedQuery) -> tuple[str, ContextType | None]:
    return " ".join(query.query.casefold().split()), query.type


def _cut(text: str, n_chars: int) -> tuple[str, int]:
    """Return the text, its end replaced by a mark where it is longer, and how many characters are gone."""
    n_cut = max(0, len(text) - n_chars)
    return (f"{text[:n_chars]} [... {n_cut} more characters]" if n_cut else text), n_cut
