"""The OpenAI-compatible embedder against a real endpoint on loopback that misbehaves in every way."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.adapters import stub
from tests.adapters.stub import KEY, Answer, Reply, Stub, entries_of, ok, serving, tidy, vector_of
from viking_rpc.adapters.openai import OpenAiEmbedder, OpenAiOptions
from viking_rpc.domain.ports import Embedder
from viking_rpc.errors import (
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
    VikingError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@contextmanager
def embedding(*script: Answer, **options: object) -> Iterator[tuple[Stub, OpenAiEmbedder]]:
    with serving(*script) as server:
        settings: dict[str, object] = {"dimensions": 4, "backoff_s": 0.001} | options
        embedder = OpenAiEmbedder(server.base_url, "tiny", KEY, OpenAiOptions(**settings))  # type: ignore[arg-type]
        try:
            yield server, embedder
        finally:
            embedder.close()


def unit(text: str) -> NDArray[np.float32]:
    vector: NDArray[np.float32] = np.asarray(vector_of(text), dtype=np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def edited(**change: object) -> Answer:
    """Answer tidily, with fields of the last entry replaced."""

    def answer(_: Stub, body: dict[str, Any]) -> Reply:
        entries = entries_of(body)
        entries[-1] |= change
        return ok(entries)

    return answer


def test_is_an_embedder_and_sends_what_the_contract_says() -> None:
    with embedding(tidy) as (server, embedder):
        assert isinstance(embedder, Embedder)
        vectors = embedder.embed_texts(["one", "three"])
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, [unit("one"), unit("three")], rtol=1e-6)
        expected = {"path": "/v1/embeddings", "model": "tiny", "input": ["one", "three"], "encoding_format": "float"}
        assert server.requests == [expected]
        assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_sends_no_authorization_without_a_key() -> None:
    with serving(tidy) as server:
        embedder = OpenAiEmbedder(server.base_url, "tiny")
        embedder.embed_query("x")
        embedder.close()
    assert "Authorization" not in server.headers[0]


def test_shuffled_entries_are_put_in_the_order_of_their_index() -> None:
    with embedding(lambda _, body: ok(entries_of(body)[::-1])) as (_, embedder):
        texts = ["a", "bb", "ccc"]
        np.testing.assert_allclose(embedder.embed_texts(texts), [unit(t) for t in texts], rtol=1e-6)


def test_entries_without_any_index_keep_their_order() -> None:
    with embedding(lambda _, body: ok([{"embedding": e["embedding"]} for e in entries_of(body)])) as (_, embedder):
        np.testing.assert_allclose(embedder.embed_texts(["a", "bb"]), [unit("a"), unit("bb")], rtol=1e-6)
        titled = embedder.embed_texts(["a", "bb"], ["T", ""], [0.2, 0.2])
        np.testing.assert_allclose(titled, [unit("T\na"), unit("bb")], rtol=1e-6)


def test_base64_vectors_are_read() -> None:
    def answer(_: Stub, body: dict[str, Any]) -> Reply:
        rows = [np.asarray(e["embedding"], dtype="<f4").tobytes() for e in entries_of(body)]
        return ok([{"index": i, "embedding": base64.b64encode(row).decode()} for i, row in enumerate(rows)])

    with embedding(answer) as (_, embedder):
        np.testing.assert_allclose(embedder.embed_query("abc"), unit("abc"), rtol=1e-6)


UNUSABLE: dict[str, Answer] = {
    "missing entry": lambda _, body: ok(entries_of(body)[:-1]),
    "one too many": lambda _, body: ok([*entries_of(body), {"index": 9, "embedding": [1.0] * 4}]),
    "index twice": edited(index=0),
    "index out of range": edited(index=7),
    "index on some only": edited(index=None),
    "index as text": edited(index="1"),
    "NaN": edited(embedding=[1.0, float("nan"), 0.0, 0.0]),
    "infinite": edited(embedding=[1.0, float("inf"), 0.0, 0.0]),
    "too large for float32": edited(embedding=[1e300, 0.0, 0.0, 0.0]),
    "too large for a float": edited(embedding=[10**400, 0, 0, 0]),
    "not numbers": edited(embedding=["1", "2", "3", "4"]),
    "null vector": edited(embedding=None),
    "empty vector": edited(embedding=[]),
    "bad base64": edited(embedding="?"),
    "no data": stub.raw(b'{"object": "list"}'),
    "data of numbers": stub.raw(b'{"data": [1, 2]}'),
    "bare list": stub.raw(b"[]"),
    "garbage": stub.raw(b"<html>it works</html>"),
    "cut JSON": stub.raw(b'{"data": [{"index": 0, "embe'),
    "deep JSON": stub.raw(b"[" * 200_000),
    "empty": stub.raw(b""),
    "not UTF-8": stub.raw(b'{"data": "\xff\xfe"}'),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_answer_is_unavailable_and_not_retried(name: str) -> None:
    with embedding(UNUSABLE[name]) as (server, embedder):
        with pytest.raises(UnavailableError, match="embed_texts: the answer of http://127") as caught:
            embedder.embed_texts(["one", "two"])
        assert caught.value.reason == "EMBEDDER_BAD_ANSWER"
        assert len(server.requests) == 1


def test_another_dimension_names_both() -> None:
    with embedding(tidy, dimensions=5) as (_, embedder):
        with pytest.raises(FailedPreconditionError, match=r"'tiny'.* of 4 dimensions, 5 are expected") as caught:
            embedder.embed_query("x")
        assert caught.value.reason == "DIMENSION_MISMATCH"
        assert (caught.value.metadata["got"], caught.value.metadata["expected"]) == ("4", "5")


def test_one_vector_of_another_dimension_is_found_before_it_is_known() -> None:
    said = pytest.raises(UnavailableError, match="mixes vectors of 2 and 4 dimensions")
    with embedding(edited(embedding=[1.0, 2.0]), dimensions=None) as (_, embedder), said:
        embedder.embed_texts(["one", "two"])


def test_unknown_dimension_is_asked_once_and_then_held() -> None:
    with embedding(tidy, lambda _, body: ok(entries_of(body, 6)), dimensions=None) as (server, embedder):
        assert embedder.dimensions == 4
        assert embedder.dimensions == 4
        assert len(server.requests) == 1
        with pytest.raises(FailedPreconditionError, match="6 dimensions, 4 are expected"):
            embedder.embed_query("x")


def test_dimension_is_sent_and_named_only_when_asked_for() -> None:
    with embedding(tidy, is_asking_dimensions=True) as (server, embedder):
        embedder.embed_query("x")
        assert server.requests[0]["dimensions"] == 4
        assert embedder.model == "tiny@4"


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_a_passing_failure_is_retried_once(code: int) -> None:
    with embedding(stub.status(code), tidy) as (server, embedder):
        np.testing.assert_allclose(embedder.embed_query("x"), unit("x"), rtol=1e-6)
        assert len(server.requests) == 2


def test_a_dropped_connection_is_retried_once() -> None:
    with embedding(stub.cut, tidy) as (server, embedder):
        np.testing.assert_allclose(embedder.embed_query("x"), unit("x"), rtol=1e-6)
        assert len(server.requests) == 2


def test_a_lasting_failure_is_unavailable_after_one_retry() -> None:
    with embedding(stub.status(503, "model is loading")) as (server, embedder):
        with pytest.raises(UnavailableError, match="status 503: model is loading") as caught:
            embedder.embed_query("x")
        assert caught.value.reason == "EMBEDDER_UNAVAILABLE"
        assert len(server.requests) == 2


def test_a_named_pause_longer_than_the_time_left_is_not_waited_for() -> None:
    with embedding(stub.status(429, "slow down", ("Retry-After", "30")), tidy) as (server, embedder):
        with pytest.raises(UnavailableError, match="slow down") as caught:
            embedder.embed_query("x", timeout_s=5.0)
        assert caught.value.retry_after_s == 30.0
        assert len(server.requests) == 1


def test_a_named_pause_of_nothing_is_kept() -> None:
    with embedding(stub.status(429, "", ("Retry-After", "0")), tidy, backoff_s=1e6) as (_, embedder):
        np.testing.assert_allclose(embedder.embed_query("x"), unit("x"), rtol=1e-6)


@pytest.mark.parametrize("code", [301, 400, 401, 404, 422])
def test_a_refusal_is_for_people_and_not_retried(code: int) -> None:
    with embedding(stub.status(code, "no such model")) as (server, embedder):
        with pytest.raises(FailedPreconditionError, match=f"status {code}: no such model") as caught:
            embedder.embed_query("x")
        assert caught.value.reason == "EMBEDDER_REFUSED"
        assert len(server.requests) == 1


def test_nobody_listening_is_unavailable() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        embedder = OpenAiEmbedder(f"http://127.0.0.1:{closed.getsockname()[1]}/v1", "tiny")
        with pytest.raises(UnavailableError, match="does not answer") as caught:
            embedder.embed_query("x")
        embedder.close()
    assert caught.value.reason == "EMBEDDER_UNAVAILABLE"


def test_a_hanging_endpoint_is_a_timeout_of_embed_query() -> None:
    with embedding(stub.hang) as (_, embedder):
        with pytest.raises(DeadlineExceededError, match="embed_query") as caught:
            embedder.embed_query("x", timeout_s=0.05)
        assert caught.value.reason == "EMBED_TIMEOUT"
        assert caught.value.metadata["timeout_s"] == "0.05"


def test_no_time_at_all_is_a_timeout_too() -> None:
    with embedding(tidy) as (_, embedder), pytest.raises(DeadlineExceededError):
        embedder.embed_query("x", timeout_s=0.0)


def test_a_hanging_endpoint_makes_stored_texts_unavailable() -> None:
    with embedding(stub.hang, timeout_s=0.05) as (_, embedder):
        with pytest.raises(UnavailableError, match="embed_texts") as caught:
            embedder.embed_texts(["x"])
        assert caught.value.reason == "EMBED_TIMEOUT"


def test_a_cancelled_query_drops_its_connection() -> None:
    async def run(server: Stub, embedder: OpenAiEmbedder) -> None:
        task = asyncio.create_task(embedder.embed_query_async("x"))
        assert await asyncio.to_thread(server.arrived.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.disconnected.wait, 10)

    with embedding(stub.hang) as (server, embedder):
        asyncio.run(run(server, embedder))


def test_async_queries_share_the_client_across_event_loops() -> None:
    with embedding(tidy) as (_, embedder):
        for text in ("one", "two"):
            np.testing.assert_allclose(asyncio.run(embedder.embed_query_async(text)), unit(text), rtol=1e-6)


def test_blank_texts_are_zero_and_not_sent() -> None:
    with embedding(tidy) as (server, embedder):
        vectors = embedder.embed_texts(["", "word", " \n"])
        assert server.requests[0]["input"] == ["word"]
        assert not vectors[[0, 2]].any()
        np.testing.assert_allclose(vectors[1], unit("word"), rtol=1e-6)
        assert not embedder.embed_query("  ").any()
        assert embedder.embed_texts([]).shape == (0, 4)


def test_batches_hold_to_count_and_characters() -> None:
    with embedding(tidy, batch_size=3, batch_chars=10) as (server, embedder):
        texts = ["a", "b", "c", "d", "eeeeee", "ffffff", "g" * 30, "h"]
        vectors = embedder.embed_texts(texts)
        sent = [r["input"] for r in server.requests]
        assert sent == [["a", "b", "c"], ["d", "eeeeee"], ["ffffff"], ["g" * 30], ["h"]]
        np.testing.assert_allclose(vectors, [unit(t) for t in texts], rtol=1e-6)


def test_long_texts_go_in_parts_that_are_the_whole_text() -> None:
    text = "alpha beta gamma delta " * 20
    with embedding(tidy, max_text_chars=100) as (server, embedder):
        vector = embedder.embed_query(text)
        parts = server.requests[0]["input"]
        assert len(parts) > 4
        assert "".join(parts) == text
        mean = sum(unit(p) * len(p) for p in parts)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), rtol=1e-5)


def test_prefixes_tell_queries_from_stored_texts() -> None:
    with embedding(tidy, query_prefix="query: ", text_prefix="passage: ") as (server, embedder):
        embedder.embed_query("x")
        embedder.embed_texts(["y"])
        assert [r["input"] for r in server.requests] == [["query: x"], ["passage: y"]]


def test_an_unpaired_surrogate_is_refused_before_sending() -> None:
    with embedding(tidy) as (server, embedder):
        with pytest.raises(InvalidArgumentError) as caught:
            embedder.embed_texts(["fine", "\ud800", "\udfff"])
        assert [v.field for v in caught.value.violations] == ["texts[1]", "texts[2]"]
        assert server.requests == []


def test_failures_open_the_circuit_and_the_endpoint_is_left_alone() -> None:
    with embedding(stub.status(500), breaker_failures=2, breaker_reset_s=1e6) as (server, embedder):
        for _ in range(2):
            with pytest.raises(UnavailableError, match="status 500"):
                embedder.embed_query("x")
        n_sent = len(server.requests)
        with pytest.raises(UnavailableError, match="is left alone") as caught:
            embedder.embed_query("x")
        assert caught.value.retry_after_s
        assert len(server.requests) == n_sent


def test_a_refusal_does_not_open_the_circuit() -> None:
    with embedding(stub.status(401), breaker_failures=1, breaker_reset_s=1e6) as (server, embedder):
        for _ in range(3):
            with pytest.raises(FailedPreconditionError):
                embedder.embed_query("x")
        assert len(server.requests) == 3


def test_callers_with_little_time_do_not_open_the_circuit() -> None:
    def answer(server: Stub, body: dict[str, Any]) -> Reply:
        return stub.hang(server, body) if body["input"] == ["slow"] else tidy(server, body)

    with embedding(answer, breaker_failures=1, breaker_reset_s=1e6) as (_, embedder):
        with pytest.raises(DeadlineExceededError):
            embedder.embed_query("slow", timeout_s=0.02)
        assert embedder.embed_query("x").any()


@pytest.mark.parametrize("code", [401, 500])
def test_the_key_is_in_no_error_and_no_log_line(code: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with embedding(stub.status(code, "x" * 190 + f" incorrect key {KEY}, {KEY}")) as (_, embedder):
        with pytest.raises(VikingError) as caught:
            embedder.embed_query("x")
        shown = [str(caught.value), repr(caught.value), json.dumps(dict(caught.value.metadata)), caplog.text]
        shown.append(repr(caught.value.__cause__))
    assert not [s for s in shown if KEY[:8] in s]


@pytest.mark.parametrize(("base_url", "key"), [("ftp://host/v1", ""), ("host:80", ""), ("http://h/v1", "a\nb")])
def test_what_cannot_be_sent_is_refused_at_once(base_url: str, key: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        OpenAiEmbedder(base_url, "tiny", key)
    assert "a\nb" not in str(caught.value)


def test_passwords_in_the_address_are_not_shown() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        embedder = OpenAiEmbedder(f"http://me:secret@127.0.0.1:{closed.getsockname()[1]}/v1", "tiny")
        with pytest.raises(UnavailableError) as caught:
            embedder.embed_query("x")
        embedder.close()
    assert "secret" not in str(caught.value)
