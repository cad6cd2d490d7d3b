"""The table of a comparison, for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

#: Figure by its heading, which leaves room for all on 80 columns.
_COLUMNS = {
    "p50 ms": "p50_ms",
    "p95 ms": "p95_ms",
    "searches": "searches",
    "rows": "rows_scored",
    "recall": "recall10",
    "agree": "agreement10",
    "MB": "rss_mb",
    "load s": "load_s",
}


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
            table.add_row(arm, *(_cell(figures.get(name)) for name in _COLUMNS.values()))
        console.print(table)
        for arm, figures in answer[n_nodes].items():
            console.print(f"  {arm}: {figures.get('error') or figures['state'] + '; ' + figures['note']}")
        for name, ratio in ratios.items():
            console.print(f"  {name}: {'not measured' if ratio is None else f'{ratio:g} times faster'}")


def _cell(value: object) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, (int, float)) else str(value)
