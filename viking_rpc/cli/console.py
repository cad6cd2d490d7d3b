"""What goes to the terminal: results to stdout, everything about them to stderr, and errors as one panel."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from viking_rpc.errors import VikingError

USAGE: Final = 2
FAILURE: Final = 1

#: What is not read on a terminal is not folded at its width.
_FILE_WIDTH: Final = 160

out = Console(highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH)
err = Console(stderr=True, highlight=False)

#: What the command line calls the fields of a request.
_FLAGS: Final = {
    "query.text": "QUERY",
    "query": "QUERY",
    "task": "TASK",
    "type": "--type",
    "max_queries": "--max-queries",
    "planning.task": "TASK",
    "plan.queries": "--plan",
    "max_tokens": "--tokens",
    "exclude_uris": "--exclude",
    "scope.target_uris": "--target",
    "scope.types": "--type",
    "filter.tags": "--tag",
    "filter.updated_since": "--since",
    "filter.levels": "--level",
    "options.score_threshold": "--threshold",
    "options.rerank_mode": "--rerank",
    "limit": "--limit",
    "account": "--account",
    "user": "--user",
    "rate": "--rate",
    "burst": "--burst",
    "max_calls": "--max-calls",
    "parent_uri": "URI",
    "uri": "URI",
    "uris": "URI",
}


def print_json(value: Any) -> None:
    """Write a value to stdout as one JSON document, and nothing else."""
    indent = 2 if sys.stdout.isatty() else None
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=indent) + "\n")


def print_text(text: str) -> None:
    """Write a text to stdout as it is, with a newline at its end."""
    sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")


def print_error(error: VikingError) -> int:
    """Show an error with all that is wrong; return the exit code: 2 where the call itself was wrong, else 1."""
    lines = [escape(error.message)]
    found = [f"[bold]{escape(flag_of(v.field))}[/]: {escape(v.description)}" for v in error.violations]
    if len(found) == 1:
        lines = found
    else:
        lines += [f"  {line}" for line in found]
    show_problem(lines, error.reason)
    return USAGE if error.code == "INVALID_ARGUMENT" else FAILURE


def show_problem(lines: list[str], title: str) -> None:
    """Show lines of markup as a problem: a single one as it is, so that a path in it stays whole, else a panel."""
    if len(lines) == 1:
        err.print(f"[bold red]error:[/] {lines[0]} [dim]({escape(title)})[/]", soft_wrap=True)
    else:
        err.print(Panel("\n".join(lines), title=f"[bold]{escape(title)}[/]", border_style="red", title_align="left"))


def flag_of(field: str) -> str:
    """Return what the command line calls a field of a request: its flag or argument, where it has one."""
    name, bracket, rest = field.partition("[")
    return _FLAGS[name] + bracket + rest if name in _FLAGS else field


@contextmanager
def progress_bar(*, is_shown: bool = True) -> Iterator[Progress]:
    """Show progress on stderr while the block runs, then take it away; nothing where stderr is no terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    is_disabled = not (is_shown and err.is_terminal)
    with Progress(*columns, console=err, transient=True, disable=is_disabled) as progress:
        yield progress


def quit_quietly() -> None:
    """End after the reader of a pipe went away: nothing more can be said."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
