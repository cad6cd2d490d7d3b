"""Draw an evaluation as SVG: arms by set, differences from flat hybrid, and the curves of sweeps (extra `report`).

The same figures give the same bytes, so that a report can be committed: no dates, identifiers that depend on content.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.adapters.extras import package_folder
from viking_rpc.evaluate.arms import DESCENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from viking_rpc.evaluate.arms import Sweep
    from viking_rpc.evaluate.report import Evaluation
    from viking_rpc.evaluate.summary import ArmFigures, Summary

#: Colours that people with any colour vision tell apart (Okabe and Ito), the plain black for what sums up.
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#999933")
_SUM: Final = "#222222"
_QUIET: Final = "#9AA0A6"
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "viking",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial", "sans-serif"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#555555",
    "axes.grid": True,
    "grid.color": "#E4E6E8",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    "legend.frameon": False,
}
#: Arms of one kind of score: so far below that they would flatten every other difference.
_FAR: Final = ("flat_dense", "flat_lexical", "classic")
_MAX_COLUMNS: Final = 3
#: What loses more percent than this is not worth the room that it takes from the rest.
_FLOOR: Final = -15.0


def require_plots() -> None:
    """Check that plots can be drawn.

    Raises:
        FailedPreconditionError: EXTRA_MISSING.
    """
    package_folder("matplotlib", embedder="plots", extra="report", role="report")


def draw(evaluation: Evaluation) -> dict[str, bytes]:
    """Return the plots as SVG, by a name for each: `arms`, `differences`, and `sweep-NAME` for each sweep."""
    import matplotlib as mpl

    mpl.use("svg")
    with mpl.rc_context(_STYLE):
        plots = {"arms": _arms(evaluation)}
        if any(arm.relative for one in evaluation.sets for arm in _near(evaluation, one).values()):
            plots["differences"] = _differences(evaluation)
        for name, sweep in evaluation.sweeps.items():
            plots[f"sweep-{name}"] = _sweep(evaluation, sweep)
        return {name: _svg(figure) for name, figure in plots.items()}


def _svg(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight", pad_inches=0.1)
    return file.getvalue()


def _grid(n: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Make n panels in rows of at most three."""
    from matplotlib.figure import Figure

    n_columns = min(n, _MAX_COLUMNS)
    n_rows = -(-n // n_columns)
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, squeeze=False, sharey=False).ravel().tolist()
    for panel in panels[n:]:
        panel.set_visible(False)
    return figure, panels[:n]


def _arms(evaluation: Evaluation) -> Figure:
    """Draw nDCG@10 of every arm with its interval, a panel for each set."""
    summaries = evaluation.sets + evaluation.overall[:1]
    n_arms = len(evaluation.plain_arms(summaries[0]))
    figure, panels = _grid(len(summaries), 3.4, 0.7 + 0.26 * n_arms)
    for i, (panel, one) in enumerate(zip(panels, summaries, strict=True)):
        arms = evaluation.plain_arms(one)
        values = [arm.ndcg for arm in arms.values()]
        colours = [_COLOURS[0] if name.startswith(DESCENT) else _QUIET for name in arms]
        errors = [[v.value - v.low for v in values], [v.high - v.value for v in values]]
        panel.barh(range(n_arms), [v.value for v in values], color=colours, height=0.62)
        panel.errorbar(
            [v.value for v in values], range(n_arms), xerr=errors, fmt="none", ecolor=_SUM, elinewidth=1, capsize=2.5
        )
        for j, v in enumerate(values):
            panel.text(0.01, j, f"{v.value:.3f}", va="center", ha="left", color="white", fontsize=8)
        shown = i % _MAX_COLUMNS == 0
        panel.set_yticks(range(n_arms), [name.replace("_", " ") for name in arms] if shown else [""] * n_arms)
        panel.set_xlim(0, 1)
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
        panel.set_title(_title(evaluation, one))
    figure.supxlabel("nDCG@10 with 95 % intervals", fontsize=9)
    return figure


def _differences(evaluation: Evaluation) -> Figure:
    """Draw how far arms are from flat hybrid, set by set, and where no difference would be."""
    from matplotlib.figure import Figure

    summaries = evaluation.summaries
    names = [name for name, arm in _near(evaluation, summaries[0]).items() if arm.relative]
    figure = Figure(figsize=(7.2, 0.9 + len(summaries) * (0.16 + 0.17 * len(names))), layout="constrained")
    panel = figure.subplots()
    panel.axvline(0, color=_SUM, linewidth=1)
    step = 0.7 / max(len(names), 1)
    for k, name in enumerate(names):
        found = [(i, one.arms[name].relative) for i, one in enumerate(summaries)]
        at = [i + (k - (len(names) - 1) / 2) * step for i, relative in found if relative]
        known = [relative for _, relative in found if relative]
        values = [100 * r.value for r in known]
        errors = [[100 * (r.value - r.low) for r in known], [100 * (r.high - r.value) for r in known]]
        colour = _COLOURS[k % len(_COLOURS)]
        panel.errorbar(
            values,
            at,
            xerr=errors,
            fmt="o",
            markersize=5,
            color=colour,
            elinewidth=1.4,
            capsize=2.5,
            label=name.replace("_", " "),
        )
    if evaluation.overall:
        panel.axhline(len(evaluation.sets) - 0.5, color=_QUIET, linewidth=0.8)
    panel.set_yticks(range(len(summaries)), [one.name for one in summaries])
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")
    panel.set_xlabel("nDCG@10 against flat hybrid, % (95 % intervals, paired)")
    if len(names) > 1:
        panel.legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    else:
        panel.set_title(names[0].replace("_", " "))
    return figure


def _near(evaluation: Evaluation, one: Summary) -> dict[str, ArmFigures]:
    """Return the arms that are worth a place beside flat hybrid."""
    return {name: arm for name, arm in evaluation.plain_arms(one).items() if not name.startswith(_FAR)}


def _sweep(evaluation: Evaluation, sweep: Sweep) -> Figure:
    """Draw each curve of a sweep: the change of nDCG@10 from the arm as it is, and below that of the rows scored."""
    from matplotlib.figure import Figure

    lines = evaluation.lines(sweep)
    figure = Figure(figsize=(0.6 + 4.2 * len(lines), 4.6), layout="constrained")
    above, below = figure.subplots(2, len(lines), squeeze=False, sharex="col", height_ratios=[3, 1.1])
    positions = sweep.values if max(sweep.values) <= 1 else tuple(range(len(sweep.values)))
    for column, (line, mark) in enumerate(lines):
        quality, rows = above[column], below[column]
        names = [sweep.name_of(line, value) + mark for value in sweep.values]
        for k, one in enumerate(evaluation.sets):
            _curve(quality, rows, positions, _Curve(one, names, line + mark, _COLOURS[k % len(_COLOURS)]))
        if evaluation.overall:
            _curve(quality, rows, positions, _Curve(evaluation.overall[0], names, line + mark, _SUM))
        quality.axhline(0, color=_SUM, linewidth=0.8, linestyle=":")
        quality.set_title(f"{line}{mark}".replace("_", " "))
        rows.set_xticks(positions, [f"{value:g}" for value in sweep.values])
        rows.set_xlabel(sweep.option)
        rows.set_ylim(bottom=0)
        quality.set_ylim(bottom=max(_FLOOR, quality.get_ylim()[0]))
    above[0].set_ylabel("nDCG@10, % from the default")
    below[0].set_ylabel("rows, x default")
    above[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    return figure


class _Curve:
    """One set's values along a sweep, as changes from the arm as it is; where that was not run, from the best value."""

    def __init__(self, one: Summary, names: Sequence[str], base: str, colour: str) -> None:
        found = [one.arms[name].ndcg.value for name in names]
        default = one.arms[base].ndcg.value if base in one.arms else max(found)
        self.name = one.name
        self.values = [100 * (value / default - 1) if default else 0.0 for value in found]
        n_rows = one.arms[base if base in one.arms else names[-1]].rows_scored
        self.rows = [one.arms[name].rows_scored / max(n_rows, 1) for name in names]
        self.style: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 3, "linewidth": 1.3}
        if colour == _SUM:
            self.style |= {"linewidth": 2.6, "markersize": 4}


def _curve(quality: Axes, rows: Axes, positions: Sequence[float], curve: _Curve) -> None:
    quality.plot(positions, curve.values, label=curve.name, **curve.style)
    rows.plot(positions, curve.rows, **curve.style)


def _title(evaluation: Evaluation, one: Summary) -> str:
    return f"{one.name} of {len(evaluation.sets)} sets" if one in evaluation.overall else one.name
