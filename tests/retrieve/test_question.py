"""What words do to an answer: a rare one decides, common ones do not, unknown ones count nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from viking_kernels.score import score_range
from viking_rpc.domain.context import ContextType, Kind, Level, Row
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.records import ROOT_KEY, NodeRecord
from viking_rpc.index.text import count_terms
from viking_rpc.retrieve.profiles import BALANCED
from viking_rpc.retrieve.question import make_question

if TYPE_CHECKING:
    from viking_rpc.index.snapshot import Snapshot

COMMON = [f"word{i}" for i in range(40)]
ANGLES = {"near": (0.8, 0.6), "far": (0.4, 0.9165151)}


def store(n_files: int, text: str) -> Snapshot:
    """Lay out files whose vectors lie near the query's and whose words are common; one more, far away, has the text."""
    rng = np.random.default_rng(n_files)
    texts = [" ".join(rng.choice(COMMON, 40)) for _ in range(n_files)]
    texts[-1] += f" {text}"
    records = []
    for i, each in enumerate(texts, 1):
        terms = count_terms(each)
        vector = np.array(ANGLES["far" if i == n_files else "near"], np.float32)
        row = Row(Level.DETAIL, vector, terms.hashes, terms.frequencies)
        records.append(NodeRecord(i, ROOT_KEY, f"{i:06}", Kind.FILE, ContextType.RESOURCE, rows=(row,)))
    return build_snapshot(records, revision=1, dimensions=2)


def own_scores(snapshot: Snapshot, text: str, weight: float = BALANCED.lexical_weight) -> np.ndarray:
    vector = np.array([1.0, 0.0], np.float32)
    question = make_question(
        snapshot, vector, text, lexical_weight=weight, directory_lexical_weight=BALANCED.directory_lexical_weight
    )
    out = np.empty(snapshot.n_rows, np.float32)
    score_range(snapshot.rows, question, 0, snapshot.n_rows, out)
    return out


@pytest.mark.parametrize("n_files", [50, 200, 10_000])
@pytest.mark.parametrize("query", ["ERR-4711", "ERR-4711 word1 word2", "what does zanzibar mean"])
def test_the_only_file_with_a_rare_word_comes_first_however_far_its_vector(n_files: int, query: str) -> None:
    scores = own_scores(store(n_files, "ERR-4711 zanzibar"), query)
    assert int(scores.argmax()) == n_files - 1


@pytest.mark.parametrize("n_files", [20, 10_000])
def test_a_common_word_does_not_bring_a_distant_file_to_the_top(n_files: int) -> None:
    scores = own_scores(store(n_files, "word1"), "word1")
    assert int(scores.argmax()) != n_files - 1


def test_unknown_words_change_nothing() -> None:
    snapshot = store(100, "zanzibar")
    np.testing.assert_array_equal(own_scores(snapshot, "zanzibar"), own_scores(snapshot, "zanzibar qqq xxx"))
    np.testing.assert_array_equal(own_scores(snapshot, "qqq", 0.0), own_scores(snapshot, "", 0.75))


def test_words_alone_score_between_0_and_1() -> None:
    snapshot = store(500, "zanzibar")
    scores = own_scores(snapshot, "zanzibar " + " ".join(COMMON), 1.0)
    assert 0 < scores.min() < scores.max() < 1


def test_a_vector_may_lie_at_any_byte() -> None:
    """One read out of a message is not aligned, which approximate indexes refuse."""
    sent = b"\0\0\0" + np.array([0.6, 0.8], "<f4").tobytes()
    vector = np.frombuffer(sent, "<f4", offset=3)
    assert not vector.flags.aligned
    question = make_question(store(3, "x"), vector, "", lexical_weight=0.0, directory_lexical_weight=0.0)
    assert question.vector.flags.aligned
    assert question.vector.tolist() == vector.tolist()
