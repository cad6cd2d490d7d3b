"""Put an evaluation into the two forms that it is printed in: JSON and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from viking_rpc.evaluate.run import ArmReport

_BEST = "bold green"


def as_json(name: str, arms: Mapping[str, ArmReport]) -> dict[str, Any]:
    """Return the report as a JSON object.

    Args:
        name: of the set.
        arms: the reports, by arm.
    """
    return {
        "set": name,
        "arms": {
            arm: {
                "recall@5": round(report.recall_5, 4),
                "recall@10": round(report.recall_10, 4),
                "ndcg@10": round(report.ndcg_10, 4),
                "mrr@10": round(report.mrr_10, 4),
                "p50_us": round(report.p50_us, 1),
                "rows_scored": round(report.rows_scored, 1),
            }
            for arm, report in arms.items()
        },
    }


def as_table(name: str, arms: Mapping[str, ArmReport], n_queries: int) -> Table:
    """Return the report as a table; the best value of each metric stands out."""
    table = Table(title=f"{name}: {n_queries:,} queries", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("arm", no_wrap=True)
    for column in ("Recall@5", "Recall@10", "nDCG@10", "MRR@10", "p50", "rows"):
        table.add_column(column, justify="right")
    metrics = {arm: (report.recall_5, report.recall_10, report.ndcg_10, report.mrr_10) for arm, report in arms.items()}
    best = [max(values) for values in zip(*metrics.values(), strict=True)]
    for arm, report in arms.items():
        cells = [
            f"[{_BEST}]{value:.4f}[/]" if value == top else f"{value:.4f}"
            for value, top in zip(metrics[arm], best, strict=True)
        ]
        table.add_row(arm.replace("_", " "), *cells, f"{report.p50_us:,.0f} us", f"{report.rows_scored:,.0f}")
    return table
