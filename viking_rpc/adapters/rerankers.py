"""Make the reranker that the settings name; only its own packages are imported."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from viking_rpc.adapters.reranking import Scorer
    from viking_rpc.config import RerankerSettings
    from viking_rpc.domain.ports import Reranker

#: Pairs in one request where the settings do not say; TEI refuses more than 32 unless it is told otherwise.
_BATCH_SIZE: Final = {"tei": 32}
_DEFAULT_BATCH_SIZE: Final = 64


def make_reranker(settings: RerankerSettings, environ: Mapping[str, str] | None = None) -> Reranker | None:
    """Make a reranker; None where there is to be none.

    Args:
        settings: the section `reranker` of the configuration, validated.
        environ: where the key is looked up; None means the process's environment.

    Raises:
        FailedPreconditionError: an extra, a file, or the key is missing; the message says what to do.
    """
    if settings.name == "none":
        return None
    from viking_rpc.adapters.rerank_pairs import PairBudget
    from viking_rpc.adapters.reranking import BatchReranker, RerankOptions

    budget = PairBudget(
        pair_chars=settings.pair_chars,
        abstract_chars=settings.abstract_chars,
        overview_chars=settings.overview_chars,
        text_chars=settings.text_chars,
        batch_size=settings.batch_size or _BATCH_SIZE.get(settings.name, _DEFAULT_BATCH_SIZE),
        batch_chars=settings.batch_chars,
    )
    options = RerankOptions(
        budget=budget,
        timeout_s=settings.timeout_s,
        cache_size=settings.cache_size,
        breaker_failures=settings.breaker_failures,
        breaker_reset_s=settings.breaker_reset_s,
    )
    return BatchReranker(_make_scorer(settings, os.environ if environ is None else environ), options)


def _make_scorer(settings: RerankerSettings, environ: Mapping[str, str]) -> Scorer:
    if settings.name == "onnx":
        from viking_rpc.adapters.rerank_onnx import OnnxScorer

        folder = settings.folder or Path()  # the settings require one
        return OnnxScorer(folder, model=settings.model, max_tokens=settings.max_tokens, threads=settings.threads)
    from viking_rpc.adapters.keys import read_key
    from viking_rpc.adapters.rerank_http import HttpScorer

    key = read_key("reranker", settings.api_key_env, environ)
    return HttpScorer(settings.base_url, settings.model, "tei" if settings.name == "tei" else "http", key)
