"""The table of a comparison, for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

_COLUMNS = (
    "p50_ms",
    "p95_ms",
    "searches",
    "rows_scored",
    "recall10",
    "agreement10",
    "rss_mb",
    "load_s",
)


def show(answer: dict[str, Any]) -> None:
    """Print a table for each size, and the ratios."""
    console = Console()
    for n_nodes, ratios in answer["ratios"].items():
        title = f"{n_nodes} contexts, load average {answer['run']['load_average']:.1f}"
        table = Table(title=title, title_justify="left")
        table.add_column("arm", no_wrap=True)
        for column in _COLUMNS:
            table.add_column(column, justify="right", no_wrap=True)
        for arm, figures in answer[n_nodes].items():
            table.add_row(arm, *(_cell(figures.get(column)) for column in _COLUMNS))
        console.print(table)
        for arm, figures in answer[n_nodes].items():
            console.print(f"  {arm}: {figures.get('error') or figures['state'] + '; ' + figures['note']}")
        for name, ratio in ratios.items():
            console.print(f"  {name}: {'not measured' if ratio is None else f'{ratio:g} times faster'}")


def _cell(value: object) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, (int, float)) else str(value)
