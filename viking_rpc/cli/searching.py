"""`viking search`: a task or a plan in, the plan and its merged matches out, grouped by type."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from viking_rpc.cli.answers import WHY_EMPTY, descent_tree, show_match
from viking_rpc.cli.as_json import to_json
from viking_rpc.cli.console import out, print_json
from viking_rpc.cli.finding import make_request
from viking_rpc.cli.planning import make_plan_request, show_plan
from viking_rpc.cli.session import open_client
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import DEFAULT_PRIORITY, QueryPlan, TypedQuery
from viking_rpc.domain.search import SearchRequest
from viking_rpc.errors import InvalidArgumentError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import RenderableType

    from viking_rpc.cli.finding import Wanted
    from viking_rpc.cli.planning import Planning
    from viking_rpc.domain.search import SearchResult


def search_task(
    typed: Planning,
    wanted: Wanted,
    plan: Path | None,
    *,
    data: Path | None,
    server: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Search and print the merged answer."""
    request = make_search(typed, wanted, plan)
    with open_client(data=data, server=server, config=config) as client:
        result = client.search(request)
    if as_json:
        groups = {name: getattr(result, name) for name in ("memories", "resources", "skills")}
        print_json({**to_json(result), **groups})
        return
    for part in show_search(result, has_trace=wanted.has_trace):
        out.print(part)


def make_search(typed: Planning, wanted: Wanted, plan: Path | None = None) -> SearchRequest:
    """Turn what was typed into a request.

    Args:
        typed: of the task and its conversation.
        wanted: of how to find.
        plan: a file with a plan, instead of a task.

    Raises:
        InvalidArgumentError: all that is wrong with it.
    """
    if bool(typed.task) == (plan is not None):
        text = "give either a TASK or --plan FILE"
        raise InvalidArgumentError.of([Violation("TASK", text, "REQUIRED")])
    how = make_request(replace(wanted, query=typed.task or "-"), time.time_ns() // 1000)
    return SearchRequest(
        planning=None if plan is not None else replace(make_plan_request(typed), scope=how.scope),
        plan=None if plan is None else read_plan_file(plan),
        scope=how.scope,
        filter=how.filter,
        limit=how.limit,
        mode=how.mode,
        options=how.options,
        trace_level=how.trace_level,
    )


def read_plan_file(path: Path) -> QueryPlan:
    """Read a plan as `viking plan --json` prints it.

    Raises:
        InvalidArgumentError: the file cannot be read, or holds no plan.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        plan = value.get("plan", value)
        return QueryPlan(tuple(map(_read_query, plan["queries"])), str(plan.get("reasoning", "")))
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror or error}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"{path} holds no plan: {type(error).__name__}: {error}"
    raise InvalidArgumentError.of([Violation("--plan", what)])


def _read_query(value: dict[str, Any]) -> TypedQuery:
    kind = value.get("type")
    return TypedQuery(
        query=str(value["query"]),
        type=None if kind is None else ContextType[str(kind).upper()],
        intent=str(value.get("intent", "")),
        priority=int(value.get("priority", DEFAULT_PRIORITY)),
        target_uris=tuple(map(str, value.get("target_uris", ()))),
    )


def show_search(result: SearchResult, *, has_trace: bool = False) -> Iterator[RenderableType]:
    """Yield the whole answer for people: the plan, the matches by type, and what each query found."""
    for warning in result.warnings:
        yield Text.assemble(("warning: ", "bold yellow"), warning.message, (f" ({warning.reason})", "dim"))
    yield from show_plan(result.plan, result.plan_status)
    if not result.matches:
        yield Text.assemble(
            ("no matches: ", "bold"), WHY_EMPTY[result.empty_reason], (f" ({result.empty_reason.name})", "dim")
        )
    for name in ("memories", "resources", "skills"):
        indexes = getattr(result, name)
        if indexes:
            yield Text(f"\n{name}", style="bold green")
        for i in indexes:
            found = result.matches[i]
            by = ",".join(str(index + 1) for index in found.query_indexes)
            yield show_match(i + 1, found.match)
            yield Text(f"    found by query {by}", style="dim")
    if result.query_results:
        yield provenance_table(result)
    if has_trace:
        for one in result.query_results:
            if one.steps:
                yield descent_tree(one.steps, one.searched_roots)
    yield Text(f"{result.total_matched:,} merged in {result.total_us / 1000:.2f} ms", style="dim")


def provenance_table(result: SearchResult) -> Table:
    """Return what each query of the plan found, where, and at what cost."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("query", "matches", "rows scored", "directories", "time"):
        table.add_column(column, justify="right")
    table.add_column("searched", overflow="fold")
    for i, one in enumerate(result.query_results, 1):
        stats = one.stats
        where = ", ".join(one.searched_roots)
        notes = "".join(f"  {warning.reason}" for warning in one.warnings)
        took = f"{stats.total_us / 1000:.2f} ms"
        counts = (f"{len(one.uris):,}", f"{stats.rows_scored:,}", f"{stats.n_expanded:,}", took)
        table.add_row(str(i), *counts, escape(where + notes))
    return table
