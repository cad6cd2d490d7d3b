"""A small set is imported, reused, measured; its numbers are what its ranking gives."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from viking_rpc.adapters.rules_planner import RulesPlanner
from viking_rpc.adapters.wordllama import WordLlamaEmbedder
from viking_rpc.config import Settings
from viking_rpc.engine import search_settings
from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from viking_rpc.evaluate.arms import ARMS, EXTRA_ARMS
from viking_rpc.evaluate.measure import MeasuredSet, Wanted
from viking_rpc.evaluate.prepare import prepared, read_judged
from viking_rpc.evaluate.report import as_json, evaluation_of
from viking_rpc.evaluate.run import Bench, run_arms
from viking_rpc.store.lock import DataLock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ROOT = "viking://agent/skills/kitchen"
LEAVES = {
    "bread/sourdough.md": "Feed the sourdough starter with rye flour every evening.",
    "bread/baguette.md": "A baguette wants a very hot oven and steam.",
    "soup/leek.md": "Leek soup with potatoes, nutmeg and cream.",
    "soup/borscht.md": "Borscht is made of beetroot, cabbage and dill.",
}
QUERIES = [
    {"id": "q1", "text": "beetroot and dill"},
    {"id": "q2", "text": "how hot is the oven for a baguette", "target_uri": f"{ROOT}/bread"},
    {"id": "q3", "text": "beetroot", "target_uri": f"{ROOT}/bread"},
    {"id": "q4", "text": "not judged"},
]
QRELS = [("q1", "soup/borscht.md", 1), ("q2", "bread/baguette.md", 2), ("q3", "soup/borscht.md", 1), ("q4", "x", 0)]
NOW_US = 1_780_000_000_000_000


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def write_corpus(folder: Path, leaves: dict[str, str]) -> None:
    records = (
        {"uri": f"{ROOT}/{name}", "context_type": "skill", "title": name, "text": text} for name, text in leaves.items()
    )
    write_lines(folder / "corpus.jsonl.gz", records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a set."""
    folder = tmp_path / "kitchen"
    folder.mkdir()
    write_corpus(folder, LEAVES)
    write_lines(folder / "queries.jsonl.gz", QUERIES)
    lines = (f"{query}\t{ROOT}/{name}\t{grade}\n" for query, name, grade in QRELS)
    (folder / "qrels.tsv").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def embedder() -> WordLlamaEmbedder:
    """Load the packaged model."""
    return WordLlamaEmbedder()


def test_a_set_is_measured_with_every_arm(folder: Path, tmp_path: Path, embedder: WordLlamaEmbedder) -> None:
    settings = Settings()
    seen: list[tuple[int, int]] = []
    with prepared(folder, settings, embedder, cache=tmp_path / "cache") as ready:
        assert (ready.name, ready.n_dropped, ready.is_reused) == ("kitchen", 1, False)
        bench = Bench(ready.snapshot, embedder, search_settings(settings), NOW_US, RulesPlanner())
        reports = run_arms(bench, ready.queries, on_progress=lambda n_done, n_all: seen.append((n_done, n_all)))
        planned = run_arms(bench, ready.queries, arms=EXTRA_ARMS)["search"]
    assert seen == [(1, 3), (2, 3), (3, 3)]
    evaluation = evaluation_of([MeasuredSet(ready.name, ready.n_dropped, reports)], Wanted(), ["wordllama"])
    report = json.loads(json.dumps(as_json(evaluation)))
    assert report["set"] == "kitchen"
    assert list(report["arms"]) == list(ARMS)
    names = ["recall@5", "recall@10", "ndcg@10", "mrr@10", "p50_us", "rows_scored"]
    assert all(set(names) < set(arm) for arm in report["arms"].values())
    # Two of three are found at rank 1; the third's answer lies outside of its target.
    for arm in ("flat_lexical", "flat_hybrid", "thinking", "exhaustive"):
        assert [report["arms"][arm][name] for name in names[:4]] == [0.6667] * 4, arm
    assert (planned.recall_5, planned.ndcg_10) == (reports["thinking"].recall_5, reports["thinking"].ndcg_10)
    assert planned.rows_scored >= reports["thinking"].rows_scored
    assert all(arm["rows_scored"] > 0 and arm["p50_us"] > 0 for arm in report["arms"].values())


def test_a_prepared_set_is_reused_until_its_corpus_changes(
    folder: Path, tmp_path: Path, embedder: WordLlamaEmbedder
) -> None:
    cache = tmp_path / "cache"
    with prepared(folder, Settings(), embedder, cache=cache) as first:
        n_rows = first.snapshot.n_rows
    with prepared(folder, Settings(), embedder, cache=cache) as second:
        assert (second.is_reused, second.snapshot.n_rows) == (True, n_rows)
    write_corpus(folder, dict(list(LEAVES.items())[:3]))
    with prepared(folder, Settings(), embedder, cache=cache) as third:
        assert (third.is_reused, third.snapshot.n_rows) == (False, n_rows - 1)


def test_an_interrupted_import_is_not_taken_for_a_set(
    folder: Path, tmp_path: Path, embedder: WordLlamaEmbedder
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    cache = tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt), prepared(folder, Settings(), embedder, cache=cache, on_progress=stop):
        pass
    with prepared(folder, Settings(), embedder, cache=cache) as ready:
        assert not ready.is_reused


def test_two_processes_do_not_prepare_one_set_at_once(
    folder: Path, tmp_path: Path, embedder: WordLlamaEmbedder
) -> None:
    cache = tmp_path / "cache"
    with prepared(folder, Settings(), embedder, cache=cache):
        data = next(cache.iterdir())
        with pytest.raises(FailedPreconditionError, match="in use"):
            DataLock.acquire(data)


def test_a_set_without_judgments_is_refused(folder: Path) -> None:
    (folder / "qrels.tsv").write_text(f"q4\t{ROOT}/x\t0\n")
    with pytest.raises(InvalidArgumentError, match="no query"):
        read_judged(folder)


def test_a_missing_set_is_not_found(tmp_path: Path, embedder: WordLlamaEmbedder) -> None:
    with pytest.raises(NotFoundError), prepared(tmp_path / "none", Settings(), embedder, cache=tmp_path):
        pass
