"""`viking explain`: why a context is, or is not, among the matches of a query."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from viking_rpc.cli.answers import parts_of
from viking_rpc.cli.as_json import to_json
from viking_rpc.cli.console import out, print_json
from viking_rpc.cli.finding import make_request
from viking_rpc.cli.session import open_client
from viking_rpc.domain.explain import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import RenderableType

    from viking_rpc.cli.finding import Wanted
    from viking_rpc.domain.explain import Explanation


def explain_context(
    wanted: Wanted, uri: str, *, data: Path | None, server: str | None, config: Path | None, as_json: bool
) -> None:
    """Explain and print it."""
    request = make_request(wanted, time.time_ns() // 1000)
    with open_client(data=data, server=server, config=config) as client:
        told = client.explain(request, uri)
    if as_json:
        print_json(to_json(told))
        return
    for part in show_explanation(told):
        out.print(part)


def show_explanation(told: Explanation) -> Iterator[RenderableType]:
    """Yield an explanation for people: the verdict, the sentence, and the way from the top."""
    for warning in told.warnings:
        yield Text.assemble(("warning: ", "bold yellow"), warning.message, (f" ({warning.reason})", "dim"))
    style = "bold green" if told.verdict is Verdict.RETURNED else "bold red"
    yield Text.assemble((told.verdict.name, style), "  ", told.summary)
    yield path_table(told)


def path_table(told: Explanation) -> Table:
    """Return the way from the top to the context, with what was seen of each node."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("relevance", justify="right")
    table.add_column("rank", justify="right")
    table.add_column("opened", justify="right")
    table.add_column("node", overflow="fold")
    table.add_column("parts", style="dim", overflow="fold")
    above = ""
    for step in told.path:
        name = step.uri[len(above) + 1 :] if above and step.uri.startswith(f"{above}/") else step.uri
        mark = " <- here the descent stopped" if step.uri == told.blocked_uri else ""
        table.add_row(
            "-" if step.parts is None else f"{step.parts.relevance:.4f}",
            f"{step.sibling_rank}/{step.sibling_count}" if step.sibling_rank else "-",
            "-" if step.step_index is None else f"#{step.step_index + 1}",
            Text(f"{name}{mark}"),
            "" if step.parts is None else parts_of(step.parts),
        )
        above = step.uri
    return table
