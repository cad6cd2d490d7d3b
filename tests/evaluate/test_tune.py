"""Tuning finds what is there, says so when there is nothing, and writes what `viking serve --config` reads."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from viking_rpc.adapters.wordllama import WordLlamaEmbedder
from viking_rpc.cli.main import run
from viking_rpc.config import Settings, load_settings
from viking_rpc.engine import search_settings
from viking_rpc.errors import InvalidArgumentError
from viking_rpc.evaluate.arms import ARMS, Arm
from viking_rpc.evaluate.bootstrap import Estimate
from viking_rpc.evaluate.fragment import fragment
from viking_rpc.evaluate.prepare import prepared
from viking_rpc.evaluate.run import Bench, ask
from viking_rpc.evaluate.trials import Trials, TuningSet, grid_of, options_of
from viking_rpc.evaluate.tune import SetGain, Tuning, search, tune
from viking_rpc.retrieve.profiles import BALANCED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from viking_rpc.evaluate.run import JudgedQuery

SETS = Path(__file__).parent.parent / "data" / "evaluate"
NOW_US = 1_780_000_000_000_000
GAIN = Estimate(0.1, 0.05, 0.15)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where imported sets are kept."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def docs(store: Path) -> Iterator[tuple[Bench, tuple[JudgedQuery, ...]]]:
    """Open the small set of pages."""
    embedder = WordLlamaEmbedder()
    with prepared(SETS / "docs", Settings(), embedder, cache=store) as ready:
        yield Bench(ready.snapshot, embedder, search_settings(Settings()), NOW_US), ready.queries


def relabelled(folder: Path, judgments: dict[str, str]) -> Path:
    """Write the small set of pages with other judgments."""
    shutil.copytree(SETS / "docs", folder)
    lines = (f"{query}\t{uri}\t1\n" for query, uri in judgments.items())
    (folder / "qrels.tsv").write_text("".join(lines))
    return folder


def texts_of(folder: Path) -> list[dict[str, Any]]:
    with gzip.open(folder / "queries.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def typed(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


def test_what_dense_scores_like_is_found_and_served(
    docs: tuple[Bench, tuple[JudgedQuery, ...]], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench, queries = docs
    best = {one.id: ask(bench, one, bench.embed(one.text), ARMS["flat_dense"]).ranking[0] for one in queries}
    folder, out = relabelled(tmp_path / "dense", best), tmp_path / "tuned.toml"
    options = ("--parameter", "lexical_weight", "--folds", 3, "--store", store, "--out", out, "--json")
    assert typed("tune", folder, *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["is_within_noise"], found["in_effect"], found["warnings"]) == (False, True, [])
    assert found["parameters"]["lexical_weight"] < 0.5
    assert found["held_out"]["interval"][0] > 0
    assert found["ndcg@10"]["tuned"] > found["ndcg@10"]["default"]
    served = load_settings({}, out).retrieval
    assert served.balanced.lexical_weight == found["parameters"]["lexical_weight"]
    assert served.exhaustive.lexical_weight == served.balanced.lexical_weight
    # what is served is what was measured
    option = options_of((("lexical_weight", found["parameters"]["lexical_weight"]),))
    asked = [ask(bench, one, bench.embed(one.text), Arm(ARMS["thinking"].mode, option)) for one in queries[:5]]
    tuned = Bench(bench.snapshot, bench.embedder, search_settings(load_settings({}, out)), NOW_US)
    assert [ask(tuned, one, bench.embed(one.text), ARMS["thinking"]).ranking for one in queries[:5]] == [
        one.ranking for one in asked
    ]


def test_noise_is_called_noise_and_changes_nothing(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [one["id"] for one in texts_of(SETS / "docs")]
    uris = [line.split("\t")[1] for line in (SETS / "docs" / "qrels.tsv").read_text().splitlines()]
    shuffled = dict(zip(ids, np.random.default_rng(5).permutation(uris).tolist(), strict=False))
    folder, out = relabelled(tmp_path / "noise", shuffled), tmp_path / "tuned.toml"
    options = ("--parameter", "lexical_weight", "--parameter", "leaf_seeds", "--folds", 3, "--store", store)
    assert typed("tune", folder, *options, "--out", out) == 0
    captured = capsys.readouterr()
    assert "warning: " in captured.err
    assert "changes nothing" in captured.err
    text = out.read_text()
    assert "# WARNING: " in text
    assert all(line.startswith("#") or not line for line in text.splitlines())
    assert load_settings({}, out).retrieval == Settings().retrieval

    assert typed("tune", folder, *options, "--out", out) == 1  # it exists
    assert "FILE_EXISTS" in capsys.readouterr().err
    assert typed("tune", folder, *options, "--out", out, "--force", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["is_within_noise"]
    assert found["in_effect"] == bool(found["parameters"])
    assert load_settings({}, out).retrieval.balanced.model_dump(exclude_none=True) == found["parameters"]


def test_a_budget_is_kept_and_told(docs: tuple[Bench, tuple[JudgedQuery, ...]]) -> None:
    bench, queries = docs
    seen: list[tuple[int, int]] = []
    trials = Trials([TuningSet("docs", bench, queries[:12])], 6, lambda n, n_all: seen.append((n, n_all)))
    found = tune(trials, grid_of([]), n_folds=3)
    assert (found.n_tried, found.is_cut) == (6, True)
    assert seen == [(i, 6) for i in range(1, 7)]
    assert any("budget" in warning for warning in found.warnings())
    assert any("too few" in warning or "nothing is better" in warning for warning in found.warnings())
    assert found.is_within_noise


def test_every_query_is_held_out_once(docs: tuple[Bench, tuple[JudgedQuery, ...]]) -> None:
    bench, queries = docs
    trials = Trials([TuningSet("docs", bench, queries[:20])], 50)
    found = tune(trials, grid_of(["lexical_weight"]), n_folds=5, seed=1)
    assert len(found.folds) == 5
    # folds are of four queries each, so their mean is that of all held-out queries
    mean = float(np.mean([fold.held_out_gain for fold in found.folds]))
    assert found.held_out.value == pytest.approx(mean / found.default)
    assert tune(trials, grid_of(["lexical_weight"]), n_folds=5, seed=1) == found


def test_a_search_takes_only_what_is_worth_a_change(docs: tuple[Bench, tuple[JudgedQuery, ...]]) -> None:
    bench, queries = docs
    trials = Trials([TuningSet("docs", bench, queries)], 50)
    everything = [np.ones(len(queries), bool)]
    assert search(trials, {"leaf_seeds": (BALANCED.leaf_seeds,)}, everything) == ()  # the default's own value
    assert search(trials, {}, everything) == ()
    best = search(trials, grid_of(["lexical_weight"]), everything)
    values = [
        trials.of((("lexical_weight", value),))[0].mean() for value in grid_of(["lexical_weight"])["lexical_weight"]
    ]
    assert trials.of(best)[0].mean() >= max(values) * 0.999


def test_what_cannot_be_tuned_is_refused(docs: tuple[Bench, tuple[JudgedQuery, ...]]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        grid_of(["lexical_weight", "colour", "size"])
    assert len(caught.value.violations) == 2
    bench, queries = docs
    with pytest.raises(InvalidArgumentError, match="fewer judged queries"):
        tune(Trials([TuningSet("docs", bench, queries[:3])], 5), grid_of([]), n_folds=5)


def tuning(gain: Estimate, n_queries: int = 100) -> Tuning:
    one = SetGain("a", n_queries, 0.5, 0.55, gain)
    choice = (("leaf_seeds", 40.0), ("score_propagation_alpha", 0.4))
    return Tuning(choice, 0.5, 0.55, 100, 120, GAIN, gain, (), (one,), 7, is_cut=False)


def test_a_fragment_says_what_it_is_worth(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text(fragment(tuning(GAIN), model="m", seed=0))
    assert "WARNING" not in path.read_text()
    read = load_settings({}, path).retrieval
    assert (read.balanced.leaf_seeds, read.balanced.score_propagation_alpha) == (40, 0.4)
    assert (read.exhaustive.leaf_seeds, read.exhaustive.score_propagation_alpha) == (None, 0.4)
    for weak in (tuning(Estimate(0.1, -0.01, 0.2)), tuning(GAIN, n_queries=20)):
        path.write_text(fragment(weak, model="m", seed=0))
        assert "# WARNING: " in path.read_text()
        assert load_settings({}, path).retrieval == Settings().retrieval
        path.write_text(fragment(weak, model="m", seed=0, allow_noise=True))
        assert load_settings({}, path).retrieval.balanced.leaf_seeds == 40


def test_a_set_that_loses_is_named() -> None:
    assert any("a loses 10.0 %" in warning for warning in tuning(Estimate(-0.1, -0.2, -0.05)).warnings())
