"""`viking plan`: a task and its conversation in, typed queries out; nothing is searched."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from viking_rpc.cli.as_json import to_json
from viking_rpc.cli.console import out, print_json
from viking_rpc.cli.session import open_client
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.plan import MAX_QUERIES, ROLES, PlanRequest, PlanStatus, Turn
from viking_rpc.domain.query import Scope
from viking_rpc.errors import InvalidArgumentError, PermissionDeniedError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import RenderableType

    from viking_rpc.domain.plan import PlanResult, QueryPlan


@dataclass(frozen=True, slots=True)
class Planning:
    """What was typed of a task and its conversation, as it was typed."""

    task: str
    turns: tuple[str, ...] = ()
    summary: Path | None = None
    type: str | None = None
    targets: tuple[str, ...] = ()
    max_queries: int = MAX_QUERIES


def plan_task(typed: Planning, *, data: Path | None, server: str | None, config: Path | None, as_json: bool) -> None:
    """Plan and print the plan."""
    request = make_plan_request(typed)
    with open_client(data=data, server=server, config=config) as client:
        result = client.plan(request)
    if as_json:
        print_json(to_json(result))
        return
    for part in show_plan_result(result):
        out.print(part)


def make_plan_request(typed: Planning) -> PlanRequest:
    """Turn what was typed into a request.

    Raises:
        InvalidArgumentError: all that is wrong with it, whether the command line or the contract says so.
    """
    found: list[Violation] = []
    turns = []
    for text in typed.turns:
        role, colon, said = text.partition(":")
        if not colon or role.strip() not in ROLES:
            found.append(Violation("--turn", f"{text[:60]!a} does not begin with {', '.join(ROLES)} and a colon"))
        turns.append(Turn(role.strip() if role.strip() in ROLES else ROLES[0], said.strip()))
    request = PlanRequest(
        task=typed.task,
        turns=tuple(turns),
        summary=_read_summary(typed.summary, found),
        type=None if typed.type is None else ContextType[typed.type.upper()],
        scope=Scope(typed.targets),
        max_queries=typed.max_queries,
    )
    _check(request, found)
    return request


def show_plan_result(result: PlanResult) -> Iterator[RenderableType]:
    """Yield a plan and how it came about, for people."""
    for warning in result.warnings:
        yield Text.assemble(("warning: ", "bold yellow"), warning.message, (f" ({warning.reason})", "dim"))
    yield from show_plan(result.plan, result.status)


def show_plan(plan: QueryPlan, status: PlanStatus | None) -> Iterator[RenderableType]:
    """Yield a plan for people; `status` None: the caller gave it."""
    if status is PlanStatus.SKIPPED:
        yield Text.assemble("nothing needs to be looked up", ("  SKIPPED", "dim"))
    if plan.queries:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("priority", justify="right")
        table.add_column("type")
        table.add_column("query", overflow="fold")
        table.add_column("for", style="dim", overflow="fold")
        for query in plan.queries:
            kind = "any" if query.type is None else query.type.name.lower()
            table.add_row(str(query.priority), kind, escape(query.query), escape(query.intent))
        yield table
    notes = [text for text in (plan.reasoning, plan.session_context) if text]
    if notes:
        yield Text("; ".join(notes), style="dim")


def _read_summary(path: Path | None, found: list[Violation]) -> str:
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        found.append(Violation("--summary", f"{path} cannot be read: {error.strerror or error}"))
    except UnicodeDecodeError:
        found.append(Violation("--summary", f"{path} is not UTF-8"))
    return ""


def _check(request: PlanRequest, found: list[Violation]) -> None:
    """Refuse what no server takes, all of it at once; who may read what is the server's to say."""
    from viking_rpc.server.planning import check_plan_request

    if request.max_queries < 0:
        found.append(Violation("max_queries", f"{request.max_queries} is negative", "OUT_OF_RANGE"))
    with suppress(PermissionDeniedError):
        try:
            check_plan_request(request, LOCAL, time.time_ns() // 1000, found)
        except InvalidArgumentError as error:
            raise replace(error, message="the call cannot work as it stands") from None
