"""`viking tune`: fit the parameters to sets, and write a fragment of a configuration."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from viking_rpc.cli.console import err, out, print_json, progress_bar
from viking_rpc.cli.evaluating import embedders_of, require_folders, telling
from viking_rpc.cli.kernels import ensure_compiled
from viking_rpc.cli.session import settings_for
from viking_rpc.errors import AlreadyExistsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from viking_rpc.config import Settings
    from viking_rpc.domain.ports import Embedder
    from viking_rpc.evaluate.bootstrap import Estimate
    from viking_rpc.evaluate.trials import TuningSet
    from viking_rpc.evaluate.tune import Tuning


@dataclass(frozen=True, slots=True)
class TuningRun:
    """What was typed; see `viking tune --help`."""

    folders: tuple[Path, ...]
    out: Path
    parameters: tuple[str, ...] = ()
    n_folds: int = 5
    budget: int = 200
    embedder: str | None = None
    n_queries: int = 500
    seed: int = 0
    store: Path | None = None
    allow_noise: bool = False


def tune_sets(run: TuningRun, *, config: Path | None, as_json: bool) -> None:
    """Fit, show what was found, and write the fragment.

    Args:
        run: what was typed.
        config: a file with settings; its retrieval section is where the search starts.
        as_json: print JSON.

    Raises:
        InvalidArgumentError: there is no such parameter or embedder; a set has too few queries.
        NotFoundError: a folder does not exist.
        AlreadyExistsError: the fragment's file does, and its replacement was not asked for.
    """
    if run.out.exists() and not run.allow_noise:
        text = f"{run.out} exists; name another file (--out), or replace it (--force)"
        raise AlreadyExistsError("FILE_EXISTS", text, {"path": str(run.out)})
    settings = settings_for(None, config)
    require_folders(run.folders)
    from viking_rpc.evaluate.trials import Trials, grid_of

    grid = grid_of(run.parameters)
    ((name, embedder),) = embedders_of(settings, [run.embedder] if run.embedder else []).items()
    ensure_compiled()
    from viking_rpc.evaluate.fragment import fragment
    from viking_rpc.evaluate.tune import tune

    with progress_bar() as progress, ExitStack() as stack:
        told = telling(progress)
        sets = _open_sets(run, settings, embedder, stack, told)
        trials = Trials(sets, run.budget, lambda n, n_all: told("trying settings", n, n_all))
        tuning = tune(trials, grid, n_folds=run.n_folds, seed=run.seed)
    text = fragment(tuning, model=embedder.model, seed=run.seed, allow_noise=run.allow_noise)
    run.out.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"embedder": name, **_json(tuning, run), "fragment": str(run.out), "toml": text})
    else:
        _print(tuning)
    for warning in tuning.warnings():
        err.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
    is_off = tuning.is_within_noise and not run.allow_noise
    effect = "changes nothing: its values are commented out" if is_off else f"viking serve --config {run.out}"
    err.print(f"wrote {escape(str(run.out))}: {escape(effect)}", soft_wrap=True)


def _open_sets(
    run: TuningRun,
    settings: Settings,
    embedder: Embedder,
    stack: ExitStack,
    told: Callable[[str, int, int], None],
) -> list[TuningSet]:
    """Import all sets, or take them as an earlier run left them, and keep them open."""
    from viking_rpc.engine import search_settings
    from viking_rpc.evaluate.measure import drawn
    from viking_rpc.evaluate.prepare import prepared
    from viking_rpc.evaluate.run import Bench
    from viking_rpc.evaluate.trials import TuningSet

    how, now_us = search_settings(settings), time.time_ns() // 1000
    sets = []
    for folder in run.folders:

        def importing(n: int, n_all: int, _: str = "", what: str = f"importing {folder.resolve().name}") -> None:
            told(what, n, n_all)

        ready = stack.enter_context(prepared(folder, settings, embedder, cache=run.store, on_progress=importing))
        queries = drawn(ready.queries, run.n_queries, run.seed)
        sets.append(TuningSet(ready.name, Bench(ready.snapshot, embedder, how, now_us), queries))
    return sets


def _json(tuning: Tuning, run: TuningRun) -> dict[str, Any]:
    from viking_rpc.evaluate.fragment import sections

    return {
        "sets": [
            {
                "set": one.name,
                "queries": one.n_queries,
                "ndcg@10": {"default": round(one.default, 4), "tuned": round(one.tuned, 4)},
                "held_out": _gain(one.held_out),
            }
            for one in tuning.sets
        ],
        "parameters": sections(tuning).get("balanced", {}),
        "ndcg@10": {"default": round(tuning.default, 4), "tuned": round(tuning.tuned, 4)},
        "rows_scored": {"default": round(tuning.rows_default, 1), "tuned": round(tuning.rows_tuned, 1)},
        "train": _gain(tuning.train),
        "held_out": _gain(tuning.held_out),
        "folds": [
            {
                "parameters": dict(fold.choice),
                "train_difference": round(fold.train_gain, 4),
                "held_out_difference": round(fold.held_out_gain, 4),
            }
            for fold in tuning.folds
        ],
        "settings_tried": tuning.n_tried,
        "is_within_noise": tuning.is_within_noise,
        "in_effect": bool(tuning.choice) and (run.allow_noise or not tuning.is_within_noise),
        "warnings": tuning.warnings(),
        "seed": run.seed,
    }


def _gain(gain: Estimate) -> dict[str, Any]:
    return {"relative": round(gain.value, 4), "interval": [round(gain.low, 4), round(gain.high, 4)]}


def _print(tuning: Tuning) -> None:
    from viking_rpc.evaluate.fragment import percent, sections

    table = Table(box=SIMPLE_HEAD, title="nDCG@10", title_justify="left", title_style="bold")
    for column, side in (("set", "left"), ("queries", "right"), ("defaults", "right"), ("tuned", "right")):
        table.add_column(column, justify=side, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("on held-out queries", justify="right", no_wrap=True)
    for one in tuning.sets:
        table.add_row(one.name, f"{one.n_queries:,}", f"{one.default:.4f}", f"{one.tuned:.4f}", percent(one.held_out))
    if len(tuning.sets) > 1:
        table.add_section()
        table.add_row(
            "mean", f"{tuning.n_queries:,}", f"{tuning.default:.4f}", f"{tuning.tuned:.4f}", percent(tuning.held_out)
        )
    out.print(table)
    values = sections(tuning).get("balanced", {})
    out.print(", ".join(f"{name} = {value}" for name, value in values.items()) or "the defaults stay", soft_wrap=True)
    out.print(f"on the queries they were fitted to: {percent(tuning.train)}")
    out.print(
        f"[dim]rows scored for a query: {tuning.rows_default:,.0f} before, {tuning.rows_tuned:,.0f} after; "
        f"{tuning.n_tried} settings tried[/]"
    )
