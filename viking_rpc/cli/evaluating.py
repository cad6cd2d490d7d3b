"""`viking eval`: measure a set."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from viking_rpc.cli.console import err, out, print_json, progress_bar
from viking_rpc.cli.kernels import ensure_compiled
from viking_rpc.cli.session import settings_for
from viking_rpc.errors import InvalidArgumentError, Violation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from viking_rpc.evaluate.run import Arm


def evaluate_set(
    folder: Path, names: tuple[str, ...] = (), *, data: Path | None, config: Path | None, as_json: bool
) -> None:
    """Import a set, or take it as an earlier run left it, run its queries, and print the report.

    Args:
        folder: holds the set.
        names: of the arms to run; none: the usual ones.
        data: keeps imported sets.
        config: a file with settings.
        as_json: print JSON.

    Raises:
        InvalidArgumentError: there is no such arm.
    """
    arms = _arms(names)
    settings = settings_for(None, config)
    ensure_compiled()
    from viking_rpc.adapters.embedders import make_embedder
    from viking_rpc.adapters.planners import make_planner
    from viking_rpc.engine import search_settings
    from viking_rpc.evaluate.prepare import prepared
    from viking_rpc.evaluate.report import as_json as report_json
    from viking_rpc.evaluate.report import as_table
    from viking_rpc.evaluate.run import Bench, run_arms

    embedder = make_embedder(settings.embedder)
    with progress_bar() as progress:
        task = progress.add_task(f"importing {folder.name}", total=None)

        def show(n_done: int, n_all: int, _: str = "") -> None:
            progress.update(task, completed=n_done, total=n_all)

        with prepared(folder, settings, embedder, cache=data, on_progress=show) as ready:
            progress.reset(task, description=f"running {ready.name}", total=len(ready.queries))
            how = search_settings(settings)
            planner = make_planner(settings.planner)
            bench = Bench(ready.snapshot, embedder, how, time.time_ns() // 1000, planner)
            reports = run_arms(bench, ready.queries, arms=arms, on_progress=show)
    if as_json:
        print_json(report_json(ready.name, reports))
        return
    out.print(as_table(ready.name, reports, len(ready.queries)))
    out.print("[dim]p50: one whole in-process retrieval, its query embedded before; rows: scored, mean[/]")
    if ready.n_dropped:
        err.print(f"{ready.n_dropped:,} queries have no relevant judgment and were left out")


def _arms(names: tuple[str, ...]) -> Mapping[str, Arm]:
    """Return the arms of some names, the usual ones for none."""
    from viking_rpc.evaluate.run import ARMS, EXTRA_ARMS

    known = {**ARMS, **EXTRA_ARMS}
    unknown = [name for name in names if name not in known]
    if unknown:
        found = (Violation("--arm", f"{name!a} is none of {', '.join(known)}") for name in unknown)
        raise InvalidArgumentError.of(found)
    return {name: known[name] for name in dict.fromkeys(names)} or ARMS
