"""The default embedder: the packaged static model, whole texts, and the weighting of subwords."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from viking_rpc.adapters import wordllama
from viking_rpc.adapters.extras import package_folder
from viking_rpc.adapters.wordllama import WordLlamaEmbedder
from viking_rpc.domain.ports import Embedder
from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

EMBEDDER = WordLlamaEmbedder()
FOLDER = package_folder("wordllama", embedder="wordllama")
TOKENIZER = Tokenizer.from_file(str(FOLDER / "tokenizers" / "l2_supercat_tokenizer_config.json"))
MATRIX = load_file(FOLDER / "weights" / "l2_supercat_256.safetensors")["embedding.weight"].astype(np.float64)

CHINESE = "\u5982\u4f55\u914d\u7f6e\u96c6\u7fa4"
TEXTS = st.text(st.sampled_from("ab cZ 9.\n\t_-#\u2581\u00e9\u4e2d\u6587\U0001f600 "), max_size=60)


def oracle(text: str, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the mean of the vectors of the untouched tokenizer's subwords, of unit length."""
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    factors = np.ones(len(MATRIX)) if weights is None else weights
    total = (MATRIX[ids] * factors[ids, None]).sum(axis=0)
    vector: NDArray[np.float64] = total / (np.linalg.norm(total) or 1.0)
    return vector


def stored_oracle(text: str) -> NDArray[np.float64]:
    """Return what a stored text is embedded to: subword i counts 1 / (1 + i / 64)."""
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids if text.strip() else []
    total = (MATRIX[ids] / (1 + np.arange(len(ids)) / 64)[:, None]).sum(axis=0)
    vector: NDArray[np.float64] = total / (np.linalg.norm(total) or 1.0)
    return vector


def test_is_an_embedder() -> None:
    assert isinstance(EMBEDDER, Embedder)
    assert (EMBEDDER.dimensions, EMBEDDER.is_inline) == (256, True)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
@example("    indented\n\n\tcode  ")
@example(CHINESE)
def test_vectors_are_those_of_the_plain_model(text: str) -> None:
    expected = oracle(text) if text.strip() else np.zeros(256)
    np.testing.assert_allclose(EMBEDDER.embed_query(text), expected, atol=2e-6)


@settings(max_examples=25, deadline=None)
@given(st.lists(TEXTS, max_size=6))
def test_a_text_has_one_vector_whatever_is_beside_it(texts: list[str]) -> None:
    vectors = EMBEDDER.embed_texts(texts)
    assert vectors.shape == (len(texts), 256)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_array_equal(vector, EMBEDDER.embed_texts([text])[0])
        np.testing.assert_allclose(vector, stored_oracle(text), atol=2e-6)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from([0.0, 0.2, 0.5, 1.0])), max_size=6))
def test_a_title_makes_its_share_of_the_vector(entries: list[tuple[str, str, float]]) -> None:
    texts, titles, shares = [list(column) for column in zip(*entries, strict=True)] or ([], [], [])
    vectors = EMBEDDER.embed_texts(texts, titles, shares)
    for vector, text, title, share in zip(vectors, texts, titles, shares, strict=True):
        mixed = (1 - share) * stored_oracle(text) + share * stored_oracle(title)
        if np.linalg.norm(mixed) > 0.1 or not mixed.any():
            np.testing.assert_allclose(vector, mixed / (np.linalg.norm(mixed) or 1), atol=2e-5)


WORDS = st.tuples(
    st.sampled_from(["a", "the", "Z9", "\u4e2d", "-", "\u00e9"]), st.sampled_from([" ", "\n", "   ", "\n\n"])
)


@settings(max_examples=100, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=30), st.integers(8, 20))
def test_cutting_a_long_text_changes_no_subword(words: list[tuple[str, str]], size: int) -> None:
    text = "".join(word + gap for word, gap in words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordllama, "_SEGMENT_CHARS", size)
        parts = list(wordllama._segments(wordllama._marked(text)))
    assert all(len(part) <= size for part in parts)
    ids = [i for part in parts for i in EMBEDDER._tokenizer.encode(part, add_special_tokens=False).ids]
    assert ids == TOKENIZER.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("text", ["word " * 20_000, "line\n" * 20_000, CHINESE * 10_000], ids=["words", "lines", "cjk"])
def test_the_end_of_a_long_text_counts(text: str) -> None:
    tail = " zebra umbrella" * 5_000
    whole, head = EMBEDDER.embed_texts([text + tail, text])
    assert whole @ head < 0.999
    np.testing.assert_allclose(whole, stored_oracle(text + tail), atol=1e-4)


def test_the_beginning_of_a_text_counts_more() -> None:
    first, last = "How to bake bread. ", "Cluster quotas and limits. "
    early, late = EMBEDDER.embed_texts([first * 20 + last * 20, last * 20 + first * 20]) @ EMBEDDER.embed_query(first)
    assert early > late


def test_blank_texts_are_zero() -> None:
    assert not EMBEDDER.embed_texts(["", " ", "\n\t "]).any()
    assert not EMBEDDER.embed_query("").any()
    assert EMBEDDER.embed_texts([]).shape == (0, 256)


def test_rows_have_unit_length() -> None:
    norms = np.linalg.norm(EMBEDDER.embed_texts(["a", CHINESE, "x " * 10_000, "\0", "\U0001f600"]), axis=1)
    np.testing.assert_allclose(norms, 1.0, atol=1e-6)


def test_meaning_is_found_in_english_and_chinese() -> None:
    texts = ["How to bake bread at home", "Set up the cluster's quota", "\u4eca\u5929\u5929\u6c14\u5f88\u597d", CHINESE]
    vectors = EMBEDDER.embed_texts(texts)
    assert np.argmax(vectors @ EMBEDDER.embed_query("cluster resource quotas")) == 1
    assert np.argmax(vectors @ EMBEDDER.embed_query("\u914d\u7f6e\u96c6\u7fa4\u7684\u65b9\u6cd5")) == 3


def test_async_queries_give_the_same() -> None:
    np.testing.assert_array_equal(asyncio.run(EMBEDDER.embed_query_async("text")), EMBEDDER.embed_query("text"))


def test_weights_scale_subwords_and_are_part_of_the_name() -> None:
    weights = np.random.default_rng(1).random(len(MATRIX), dtype=np.float32)
    weighted = WordLlamaEmbedder(weights)
    text = "how much each subword counts"
    np.testing.assert_allclose(weighted.embed_query(text), oracle(text, weights.astype(np.float64)), atol=2e-6)
    assert weighted.model != EMBEDDER.model
    assert weighted.model == WordLlamaEmbedder(weights).model


def test_subwords_without_weight_leave_nothing() -> None:
    assert not WordLlamaEmbedder(np.zeros(len(MATRIX), dtype=np.float32)).embed_query("text").any()


@pytest.mark.parametrize("weights", [np.ones(5), np.full(len(MATRIX), np.nan)], ids=["short", "nan"])
def test_weights_that_do_not_fit_are_refused(weights: NDArray[np.float32]) -> None:
    with pytest.raises(InvalidArgumentError, match="token_weights: must be 32000 finite numbers"):
        WordLlamaEmbedder(weights)


def test_an_unpaired_surrogate_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="unpaired surrogate"):
        EMBEDDER.embed_query("a\ud800")


@pytest.mark.parametrize("name", ["l2_supercat_256.safetensors", "l2_supercat_tokenizer_config.json"])
def test_a_damaged_file_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("weights", "tokenizers"):
        (tmp_path / folder).mkdir()
        for file in (FOLDER / folder).glob("l2_*"):
            (tmp_path / folder / file.name).symlink_to(file)
    broken = next(tmp_path.rglob(name))
    broken.unlink()
    monkeypatch.setattr(wordllama, "package_folder", lambda *_, **__: tmp_path)
    with pytest.raises(FailedPreconditionError, match=name) as caught:
        WordLlamaEmbedder()
    assert caught.value.reason == "MODEL_FILE_MISSING"
    broken.write_bytes(b"{}")
    with pytest.raises(FailedPreconditionError, match=name) as caught:
        WordLlamaEmbedder()
    assert caught.value.reason == "MODEL_FILE_DAMAGED"


def test_loading_is_quiet_and_imports_neither_the_package_nor_a_client() -> None:
    code = """
import sys
from viking_rpc.adapters.wordllama import WordLlamaEmbedder
WordLlamaEmbedder().embed_texts(["a"])
heavy = {"wordllama", "requests", "huggingface_hub", "httpx2", "pydantic"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
