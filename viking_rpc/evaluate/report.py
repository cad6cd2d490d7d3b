"""Put an evaluation into the forms that it is printed in: JSON and tables for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE_HEAD
from rich.table import Table

from viking_rpc.evaluate.bootstrap import LEVEL, N_RESAMPLES
from viking_rpc.evaluate.run import METRICS
from viking_rpc.evaluate.summary import AT, base_of, resample, summarize, summarize_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from viking_rpc.evaluate.arms import Sweep
    from viking_rpc.evaluate.bootstrap import Estimate
    from viking_rpc.evaluate.measure import MeasuredSet, Wanted
    from viking_rpc.evaluate.summary import ArmFigures, Summary

_BEST: Final = "bold green"


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """All that was measured in one run.

    Args:
        sets: one by one.
        overall: their mean and median where there are several, else empty.
        sweeps: by name; their arms are among those of the sets.
        embedders: that were compared.
        seed: of all draws.
    """

    sets: tuple[Summary, ...]
    overall: tuple[Summary, ...]
    sweeps: Mapping[str, Sweep]
    embedders: tuple[str, ...]
    seed: int = 0

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Return the sets, then what they are together."""
        return self.sets + self.overall

    def plain_arms(self, summary: Summary) -> dict[str, ArmFigures]:
        """Return the arms that belong to no sweep."""
        swept = {name for sweep in self.sweeps.values() for name in sweep.arms()}
        return {name: arm for name, arm in summary.arms.items() if name.partition(AT)[0] not in swept}

    def lines(self, sweep: Sweep) -> list[tuple[str, str]]:
        """Return (line, mark of the embedder) of each curve of a sweep."""
        marks = [AT + name for name in self.embedders] if len(self.embedders) > 1 else [""]
        return [(line, mark) for line in sweep.lines for mark in marks]


def evaluation_of(measured: Sequence[MeasuredSet], wanted: Wanted, embedders: Iterable[str]) -> Evaluation:
    """Make all figures of what was measured.

    Args:
        measured: at least one set.
        wanted: what was asked for.
        embedders: their names.
    """
    resampled = [
        resample(one.name, one.reports, n_dropped=one.n_dropped, seed=(wanted.seed, i))
        for i, one in enumerate(measured)
    ]
    overall = summarize_all(resampled) if len(resampled) > 1 else ()
    sets = tuple(summarize([one]) for one in resampled)
    return Evaluation(sets, overall, wanted.sweeps, tuple(embedders), wanted.seed)


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the evaluation as a JSON object: that of the set where there is one, else `sets`, `mean` and `median`."""
    sets = [_set_json(evaluation, one) for one in evaluation.sets]
    how = {
        "embedders": list(evaluation.embedders),
        "resamples": N_RESAMPLES,
        "interval_level": LEVEL,
        "seed": evaluation.seed,
    }
    if not evaluation.overall:
        return sets[0] | how
    overall = {one.name: {"arms": _arms_json(evaluation, one)} for one in evaluation.overall}
    return {"sets": sets, **overall} | how


def _set_json(evaluation: Evaluation, one: Summary) -> dict[str, Any]:
    found = {"set": one.name, "queries": one.n_queries, "queries_left_out": one.n_dropped}
    found["arms"] = _arms_json(evaluation, one)
    if evaluation.sweeps:
        found["sweeps"] = {
            name: {
                "option": sweep.option,
                **{line + mark: _curve_json(one, sweep, line, mark) for line, mark in evaluation.lines(sweep)},
            }
            for name, sweep in evaluation.sweeps.items()
        }
    return found


def _arms_json(evaluation: Evaluation, one: Summary) -> dict[str, Any]:
    return {name: _arm_json(name, arm) for name, arm in evaluation.plain_arms(one).items()}


def _arm_json(name: str, arm: ArmFigures) -> dict[str, Any]:
    found: dict[str, Any] = {metric: round(estimate.value, 4) for metric, estimate in arm.metrics.items()}
    found |= {"p50_us": round(arm.p50_us, 1), "rows_scored": round(arm.rows_scored, 1)}
    found["intervals"] = {metric: _interval(estimate) for metric, estimate in arm.metrics.items()}
    if arm.differences is not None:
        found["difference"] = {"from": base_of(name)} | {
            metric: {"value": round(estimate.value, 4), "interval": _interval(estimate)}
            for metric, estimate in arm.differences.items()
        }
    if arm.relative is not None:
        found["difference"]["ndcg@10_relative"] = {
            "value": round(arm.relative.value, 4),
            "interval": _interval(arm.relative),
        }
    return found


def _curve_json(one: Summary, sweep: Sweep, line: str, mark: str) -> list[dict[str, Any]]:
    return [
        {"value": value, **_arm_json(name, one.arms[name])}
        for value in sweep.values
        for name in [sweep.name_of(line, value) + mark]
    ]


def _interval(estimate: Estimate) -> list[float]:
    return [round(estimate.low, 4), round(estimate.high, 4)]


def as_table(evaluation: Evaluation, one: Summary) -> Table:
    """Return the arms of one set, or of all as one, as a table; the best value of each metric stands out."""
    over = "sets, " if one in evaluation.overall else ""
    title = f"{one.name}: {len(evaluation.sets)} {over}" if over else f"{one.name}: "
    table = Table(title=f"{title}{one.n_queries:,} queries", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("arm", no_wrap=True)
    for column in ("Recall@5", "Recall@10", "nDCG@10", "interval", "MRR@10", "to flat hybrid", "interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("p50", "rows"):
        table.add_column(column, justify="right", no_wrap=True)
    arms = evaluation.plain_arms(one)
    best = {metric: max(arm.metrics[metric].value for arm in arms.values()) for metric in METRICS}
    for name, arm in arms.items():
        cells = [_marked(arm.metrics[metric].value, best[metric]) for metric in METRICS]
        cells.insert(3, f"[dim]{arm.ndcg.low:.3f}-{arm.ndcg.high:.3f}[/]")
        table.add_row(
            name.replace("_", " "), *cells, *_relative_cells(arm), f"{arm.p50_us:,.0f} us", f"{arm.rows_scored:,.0f}"
        )
    return table


def as_sweep_table(evaluation: Evaluation, sweep: Sweep, summaries: Sequence[Summary]) -> Table:
    """Return the curves of a sweep as a table: a row for each value, nDCG@10 (rows) by set and curve."""
    table = Table(title=f"{sweep.option}: nDCG@10 (rows)", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("value", justify="right")
    lines = evaluation.lines(sweep)
    for one in summaries:
        for line, mark in lines:
            suffix = f"\n{line}{mark}".replace("_", " ") if len(lines) > 1 else ""
            table.add_column(one.name + suffix, justify="right")
    for value in sweep.values:
        names = [sweep.name_of(line, value) + mark for line, mark in lines]
        arms = [one.arms[name] for one in summaries for name in names]
        table.add_row(f"{value:g}", *(f"{arm.ndcg.value:.4f} [dim]({arm.rows_scored:,.0f})[/]" for arm in arms))
    return table


def _marked(value: float, best: float) -> str:
    return f"[{_BEST}]{value:.4f}[/]" if value == best else f"{value:.4f}"


def _relative_cells(arm: ArmFigures) -> tuple[str, str]:
    """Return the relative difference and its interval; dim where it may be none."""
    relative = arm.relative
    if relative is None:
        return "", ""
    style = "dim" if relative.is_noise else "green" if relative.value > 0 else "red"
    interval = f"{relative.low * 100:+.1f} to {relative.high * 100:+.1f}"
    return f"[{style}]{relative.value * 100:+.1f} %[/]", f"[dim]{interval}[/]"
