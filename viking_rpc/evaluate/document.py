"""Write an evaluation as a report: Markdown with its plots beside it, and one HTML page that holds all."""

from __future__ import annotations

import base64
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING, Final

from viking_rpc.evaluate.bootstrap import N_RESAMPLES
from viking_rpc.evaluate.plots import draw
from viking_rpc.evaluate.run import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from viking_rpc.evaluate.arms import Sweep
    from viking_rpc.evaluate.report import Evaluation
    from viking_rpc.evaluate.summary import ArmFigures, Summary

_WIDTH: Final = 120
_CAPTIONS: Final = {
    "arms": "nDCG@10 of every arm",
    "differences": "Difference of nDCG@10 from flat hybrid",
}
_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1f2328; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
h1, h2, h3 {{ line-height: 1.25; margin-top: 2rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow: auto; }}
td {{ font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .8rem; border-bottom: 1px solid #e4e6e8; white-space: nowrap; }}
th {{ border-bottom: 2px solid #9aa0a6; }}
tbody tr:hover {{ background: #f6f8fa; }}
img {{ max-width: 100%; }}
code {{ background: #f2f3f5; padding: .1rem .3rem; border-radius: .2rem; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def write_report(evaluation: Evaluation, folder: Path, *, title: str = "Evaluation", command: str = "") -> Path:
    """Write `report.md`, `report.html` and `plots/*.svg`.

    Args:
        evaluation: the figures.
        folder: made where it does not exist; files of an earlier report are replaced.
        title: the heading.
        command: how it was made, for those who want to repeat it; empty: not told.

    Returns:
        The path of the page.

    Raises:
        FailedPreconditionError: plots need an extra that is missing.
    """
    plots = draw(evaluation)
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for name, svg in plots.items():
        (folder / "plots" / f"{name}.svg").write_bytes(svg)
    text = markdown(evaluation, plots, title=title, command=command)
    (folder / "report.md").write_text(text, encoding="utf-8")
    page = folder / "report.html"
    page.write_text(html(text, plots, title=title), encoding="utf-8")
    return page


def markdown(evaluation: Evaluation, plots: Mapping[str, bytes], *, title: str, command: str = "") -> str:
    """Return the report as Markdown; plots are named as `plots/NAME.svg`."""
    parts = [f"# {title}"]
    if command:
        parts.append(f"    {command}")
    parts.append(notes(evaluation))
    parts.append(overview_table(evaluation))
    parts += [image(name) for name in ("arms", "differences") if name in plots]
    for one in evaluation.overall:
        parts += [f"## {one.name.capitalize()} of {len(evaluation.sets)} sets", arms_table(evaluation, one)]
    for one in evaluation.sets:
        parts += [f"## {one.name}", arms_table(evaluation, one)]
    for name, sweep in evaluation.sweeps.items():
        parts += [f"## {sweep.option}", image(f"sweep-{name}"), sweep_table(evaluation, sweep)]
    return "\n\n".join(parts) + "\n"


def html(text: str, plots: Mapping[str, bytes], *, title: str) -> str:
    """Return a report in Markdown as one page that needs no other file."""
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    for name, svg in plots.items():
        body = body.replace(f'src="plots/{name}.svg"', f'src="data:image/svg+xml;base64,{_base64(svg)}"')
    return _PAGE.format(title=escape(title), body=body)


def notes(evaluation: Evaluation) -> str:
    """Say what was run, and what the figures mean."""
    sets = ", ".join(
        f"{one.name} ({one.n_queries:,} queries"
        + (f", {one.n_dropped:,} without a relevant judgment left out)" if one.n_dropped else ")")
        for one in evaluation.sets
    )
    text = (
        f"Sets: {sets}. Embedders: {', '.join(evaluation.embedders)}. Limit 10, only files are asked for. Intervals: "
        f"95 %, paired bootstrap over queries, {N_RESAMPLES:,} resamples, seed {evaluation.seed}; they say what other "
        "queries of the same kind could have given, and nothing of other corpora. "
        "p50: one whole in-process retrieval, its query embedded before. Rows: scored for a query, mean."
    )
    return fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def overview_table(evaluation: Evaluation) -> str:
    """Return nDCG@10 by set and arm, the best of each set in bold."""
    arms = list(evaluation.plain_arms(evaluation.sets[0]))
    rows = []
    for one in evaluation.summaries:
        found = evaluation.plain_arms(one)
        best = max(arm.ndcg.value for arm in found.values())
        rows.append([one.name, *(_bold(found[name].ndcg.value, best) for name in arms)])
    return table(["nDCG@10", *(name.replace("_", " ") for name in arms)], rows)


def arms_table(evaluation: Evaluation, one: Summary, *, has_times: bool = True) -> str:
    """Return all figures of one set's arms; without times where the machine did other things too."""
    arms = evaluation.plain_arms(one)
    best = {metric: max(arm.metrics[metric].value for arm in arms.values()) for metric in METRICS}
    heads = ["arm", "Recall@5", "Recall@10", "nDCG@10", "95 %", "MRR@10", "to flat hybrid", "95 %", "rows"]
    if has_times:
        heads.append("p50 us")
    rows = []
    for name, arm in arms.items():
        cells = [_bold(arm.metrics[metric].value, best[metric]) for metric in METRICS]
        cells.insert(3, f"{arm.ndcg.low:.3f} to {arm.ndcg.high:.3f}")
        times = [f"{arm.p50_us:,.0f}"] if has_times else []
        rows.append([name.replace("_", " "), *cells, *_relative(arm), f"{arm.rows_scored:,.0f}", *times])
    return table(heads, rows)


def sweep_table(evaluation: Evaluation, sweep: Sweep) -> str:
    """Return nDCG@10 and rows at each value of a sweep."""
    shown = evaluation.sets + evaluation.overall[:1]  # a median of curves is no curve
    rows = []
    heads = [sweep.option]
    lines = evaluation.lines(sweep)
    for one in shown:
        heads += [f"{one.name}{f', {line}{mark}' if len(lines) > 1 else ''}".replace("_", " ") for line, mark in lines]
    for value in sweep.values:
        names = [sweep.name_of(line, value) + mark for line, mark in lines]
        cells = [_with_rows(one.arms[name]) for one in shown for name in names]
        rows.append([f"{value:g}", *cells])
    return table(heads, rows) + "\n\nnDCG@10, in brackets the rows scored for a query."


def image(name: str) -> str:
    """Return the line that shows a plot."""
    return f"![{_CAPTIONS.get(name, name.replace('-', ' '))}](plots/{name}.svg)"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, the first column to the left, numbers to the right."""
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _bold(value: float, best: float) -> str:
    shown = f"{value:.3f}"
    return f"**{shown}**" if shown == f"{best:.3f}" else shown


def _with_rows(arm: ArmFigures) -> str:
    return f"{arm.ndcg.value:.3f} ({arm.rows_scored:,.0f})"


def _relative(arm: ArmFigures) -> tuple[str, str]:
    relative = arm.relative
    if relative is None:
        return "", ""
    return f"{100 * relative.value:+.1f} %", f"{100 * relative.low:+.1f} to {100 * relative.high:+.1f}"


def _base64(svg: bytes) -> str:
    return base64.b64encode(svg).decode("ascii")
