"""Plan for a caller: read and check what is asked, give the planner its surroundings and its share of the time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.access import check_targets, select_roots
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import MAX_QUERIES, MAX_QUERY_BYTES, ROLES, PlanRequest, Turn, bound_session, fall_back
from viking_rpc.errors import InvalidArgumentError, Violation
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.retrieve.resolve import target_abstract
from viking_rpc.server.convert_request import read_enum, read_scope
from viking_rpc.server.runner import check_time
from viking_rpc.server.validate import DEFAULT_SCOPE, MAX_TARGETS, check_count, check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.plan import PlanResult, QueryPlan
    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner

#: Of the time left, what a planner gets whose plan is the whole answer; a search keeps more for itself.
PLAN_SHARE: Final = 0.8
#: Turns of a conversation that may be sent; the last few are used.
MAX_TURNS_SENT: Final = 1_000

_MAX_ABSTRACT_CHARS: Final = 2_000


def read_plan_request(message: pb.PlanRequest, found: list[Violation]) -> PlanRequest:
    """Read a request; its defaults are filled in and its number of queries is lowered to the greatest one.

    Args:
        message: as it was received.
        found: receives what cannot be read.
    """
    if message.max_queries < 0:
        found.append(Violation("max_queries", f"{message.max_queries} is negative", "OUT_OF_RANGE"))
    found += check_count("turns", message.turns, MAX_TURNS_SENT)
    kind = read_enum(ContextType, message.type, ContextType.RESOURCE, "type", found) if message.type else None
    return PlanRequest(
        task=message.task,
        turns=tuple(Turn(turn.role, turn.text) for turn in message.turns[:MAX_TURNS_SENT]),
        summary=message.summary,
        type=kind,
        scope=read_scope(message.scope, found) if message.HasField("scope") else DEFAULT_SCOPE,
        max_queries=min(max(message.max_queries, 0), MAX_QUERIES) or MAX_QUERIES,
    )


def check_plan_request(
    request: PlanRequest, identity: Identity, now_us: int, found: Iterable[Violation] = (), prefix: str = ""
) -> None:
    """Refuse a request that cannot be planned for; nothing here depends on what exists.

    Args:
        request: in the domain's terms.
        identity: the caller.
        now_us: the server's time for path variables, microseconds since the epoch, UTC.
        found: what is wrong already, from reading the message.
        prefix: the path to the request in the message that was sent.

    Raises:
        InvalidArgumentError: all violations, by field path.
        PermissionDeniedError: all targets that the caller may not read.
    """
    violations = [*found, *_check_fields(request)]
    targets = request.scope.target_uris
    violations += check_count("scope.target_uris", targets, MAX_TARGETS)
    uris, invalid = check_targets(targets[:MAX_TARGETS], identity, now_us)
    violations += invalid
    if violations:
        raise InvalidArgumentError.of(replace(v, field=prefix + v.field) for v in violations)
    select_roots(uris, request.scope.types, identity, f"{prefix}scope.target_uris")


def _check_fields(request: PlanRequest) -> Iterator[Violation]:
    if not request.task.strip():
        what = "holds nothing but white space" if request.task else "must not be empty"
        yield Violation("task", what, "EMPTY_TASK")
    yield from check_text("task", request.task, MAX_QUERY_BYTES)
    for i, turn in enumerate(request.turns):
        if turn.role not in ROLES:
            yield Violation(f"turns[{i}].role", f"{turn.role[:64]!a} is none of {', '.join(ROLES)}", "UNKNOWN_ROLE")
    types = request.scope.types
    if request.type is not None and types and request.type not in types:
        yield Violation("type", f"{request.type.name} is not among scope.types", "CONTRADICTION")


async def make_plan(runner: Runner, request: PlanRequest, call: Call, share: float = PLAN_SHARE) -> PlanResult:
    """Plan for a checked request; a planner that is slow, broken or absent makes it FALLBACK.

    Args:
        runner: the server's state.
        request: checked.
        call: whose time the planner gets a share of.
        share: of the time left, in (0, 1).

    Raises:
        NotFoundError: a target does not exist.
        DeadlineExceededError: the call's time is over.
    """
    snapshot = await runner.snapshot(call)
    abstract = target_abstract(snapshot, request.scope.target_uris, call.identity, runner.clock.now_us())
    request, warnings = bound_session(replace(request, target_abstract=abstract[:_MAX_ABSTRACT_CHARS]))
    check_time(call)
    if runner.planner is None:
        result = fall_back(request, "no planner is configured")
    else:
        result = await runner.planner.plan(request, call.remaining_s * share)
    call.facts.update(plan_status=result.status.name, n_queries=len(result.plan.queries))
    return replace(result, warnings=(*warnings, *result.warnings))


def plan_response(result: PlanResult) -> pb.PlanResponse:
    """Write a plan and how it came about."""
    response = pb.PlanResponse(status=int(result.status))  # type: ignore[arg-type]
    fill_plan(response.plan, result.plan)
    for warning in result.warnings:
        response.warnings.add(reason=warning.reason, message=warning.message)
    return response


def fill_plan(message: pb.QueryPlan, plan: QueryPlan) -> None:
    """Write a plan."""
    message.reasoning, message.session_context = plan.reasoning, plan.session_context
    for query in plan.queries:
        message.queries.add(
            query=query.query,
            type=0 if query.type is None else int(query.type),
            intent=query.intent,
            priority=query.priority,
            target_uris=query.target_uris,
        )
