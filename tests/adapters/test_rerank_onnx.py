"""A local cross-encoder in ONNX form, a tiny one that the test writes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.adapters.tiny_onnx import write_cross_encoder
from viking_rpc.adapters import extras
from viking_rpc.adapters.rerankers import make_reranker
from viking_rpc.config import RerankerSettings
from viking_rpc.domain.context import Level
from viking_rpc.domain.rerank import PARTIAL, TIMEOUT, RerankAnswer, RerankText
from viking_rpc.errors import FailedPreconditionError

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")


def ask(folder: Path, query: str, *texts: str, timeout_s: float | None = None, max_tokens: int = 32) -> RerankAnswer:
    """Ask a cross-encoder once."""
    reranker = make_reranker(RerankerSettings(name="onnx", folder=folder, max_tokens=max_tokens))
    assert reranker is not None
    assert reranker.name == f"onnx/{folder.name}"
    try:
        return asyncio.run(reranker.rerank(query, [RerankText(Level.DETAIL, text) for text in texts], timeout_s))
    finally:
        reranker.close()


def test_the_score_is_the_models_logit(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path)
    answer = ask(tmp_path, "tokens", "rotate daily", "", "rotate weekly")
    # [CLS] tokens [SEP] ... [SEP]: 0 + 3 + 1 + ... + 1
    assert answer.scores.tolist()[::2] == [14.0, 15.0]
    assert (answer.n_sent, answer.fault) == (2, None)


def test_a_pair_is_cut_to_the_window(tmp_path: Path) -> None:
    """16 tokens, 3 of them special: a long query gets three quarters of the rest, the text what is left."""
    write_cross_encoder(tmp_path)
    answer = ask(tmp_path, "tokens " * 50, "rotate " * 50, max_tokens=16)
    assert answer.scores.tolist() == [9 * 3 + 1 + 4 * 4 + 1]


def test_no_time_gives_no_score(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path)
    answer = ask(tmp_path, "tokens", "rotate", timeout_s=0.0)
    assert answer.fault is not None
    assert answer.fault.reason in {TIMEOUT, PARTIAL}


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FailedPreconditionError) as caught:
        make_reranker(RerankerSettings(name="onnx", folder=tmp_path))
    assert caught.value.reason == "MODEL_FILE_MISSING"
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(FailedPreconditionError) as caught:
        make_reranker(RerankerSettings(name="onnx", folder=tmp_path))
    assert caught.value.reason == "EXTRA_MISSING"
    assert "the reranker 'onnx' needs the package" in str(caught.value)
    assert "pip install 'viking-rpc[onnx]'" in str(caught.value)
