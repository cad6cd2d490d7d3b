"""Measure the quality of search on labelled sets, and write the tables and plots of docs/quality.md.

    python -m benchmarks.quality DIR... --write

Each DIR holds a set (see `viking eval --help`). Arms: flat dense, flat lexical, flat hybrid (QUICK), thinking
(BALANCED), exhaustive, classic; sweeps of alpha, of the lexical weight and of the convergence rounds on a sample of the
queries, for they take some 40 arms. Without `--write`, the Markdown goes to standard output. With it, what lies between
the marks `<!-- measured -->` and `<!-- /measured -->` of docs/quality.md is replaced, and the plots in docs/quality/;
the text around the marks is written by hand and must be read again after it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.progress import Progress

from viking_rpc.adapters.wordllama import WordLlamaEmbedder
from viking_rpc.config import Settings
from viking_rpc.evaluate.arms import ARMS, EXTRA_ARMS, SWEEPS
from viking_rpc.evaluate.document import arms_table, notes, overview_table, sweep_table
from viking_rpc.evaluate.measure import Wanted, measure_set
from viking_rpc.evaluate.plots import draw
from viking_rpc.evaluate.report import evaluation_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from viking_rpc.evaluate.report import Evaluation

DOCS: Final = Path(__file__).parent.parent / "docs"
BEGIN: Final = "<!-- measured -->"
END: Final = "<!-- /measured -->"
SWEPT: Final = ("alpha", "lexical", "rounds")


def measure(folders: Sequence[Path], wanted: Wanted, store: Path | None) -> Evaluation:
    """Measure all sets with the default embedder."""
    embedders = {"wordllama": WordLlamaEmbedder()}
    with Progress(transient=True) as progress:
        tasks = {}

        def told(what: str, n_done: int, n_all: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=n_all)
            progress.update(tasks[what], completed=n_done, total=n_all)

        measured = [
            measure_set(folder, Settings(), embedders, wanted, store=store, on_progress=told) for folder in folders
        ]
    return evaluation_of(measured, wanted, embedders)


def text_of(whole: Evaluation, swept: Evaluation) -> str:
    """Return the measured part of the page."""
    parts = [
        notes(whole),
        "### nDCG@10 by set",
        overview_table(whole),
        "![nDCG@10 of every arm, set by set](quality/arms.svg)",
        "### Against flat hybrid",
        "![Difference of nDCG@10 from flat hybrid](quality/differences.svg)",
    ]
    for one in (*whole.overall, *whole.sets):
        title = f"{one.name.capitalize()} of {len(whole.sets)} sets" if one in whole.overall else f"`{one.name}`"
        parts += [f"### {title}", arms_table(whole, one, has_times=False)]
    if swept.sweeps:
        n_queries = ", ".join(f"{one.n_queries:,}" for one in swept.sets)
        parts.append(f"### One parameter at a time\n\nOn samples of {n_queries} queries, everything else as it is.")
    for name, sweep in swept.sweeps.items():
        image = f"![nDCG@10 and rows by {sweep.option}](quality/sweep-{name}.svg)"
        parts += [f"#### `{sweep.option}`", image, sweep_table(swept, sweep)]
    parts.append(f"Load average at the end: {os.getloadavg()[0]:.1f}.")
    return "\n\n".join(parts)


def write(text: str, plots: dict[str, bytes]) -> None:
    """Replace the measured part of the page, and its plots."""
    page = DOCS / "quality.md"
    old = page.read_text(encoding="utf-8")
    before, _, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{page} has no place between {BEGIN} and {END}"
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
    folder = DOCS / "quality"
    folder.mkdir(exist_ok=True)
    for name, svg in plots.items():
        (folder / f"{name}.svg").write_bytes(svg)


def main() -> None:
    """Read the arguments, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--queries", type=int, default=0, help="at most so many of each set; 0: all")
    parser.add_argument("--sweep-queries", type=int, default=200, help="the same for sweeps")
    parser.add_argument("--store", type=Path, help="keeps imported sets; default: the user's cache")
    parser.add_argument("--write", action="store_true", help="into docs/quality.md and docs/quality/")
    arguments = parser.parse_args()
    arms = {**ARMS, "classic": EXTRA_ARMS["classic"]}
    plain = Wanted(arms, n_queries=arguments.queries)
    whole = measure(arguments.folders, plain, arguments.store)
    few = {name: arms[name] for name in ("flat_hybrid", "thinking")}
    sweeps = {name: SWEEPS[name] for name in SWEPT}
    swept = measure(arguments.folders, Wanted(few, sweeps, n_queries=arguments.sweep_queries), arguments.store)
    curves = {name: svg for name, svg in draw(swept).items() if name.startswith("sweep-")}
    text = text_of(whole, swept)
    if arguments.write:
        write(text, {**draw(whole), **curves})
    else:
        print(text)


if __name__ == "__main__":
    main()
