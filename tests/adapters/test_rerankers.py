"""Rerankers against an endpoint on loopback: what they send, what they make of untidy answers, when they give up."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.adapters.rerank_answers import changed, tei, texts_of, tidy
from tests.adapters.stub import KEY, Reply, hang, raw, serving, status
from viking_rpc.adapters.rerankers import make_reranker
from viking_rpc.config import RerankerSettings
from viking_rpc.domain.context import Level
from viking_rpc.domain.rerank import ERROR, PARTIAL, TIMEOUT, RerankAnswer, RerankText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.adapters.stub import Stub
    from viking_rpc.domain.ports import Reranker

QUERY = "how are tokens rotated"


def at(level: Level, *texts: str) -> list[RerankText]:
    """Return texts of one level."""
    return [RerankText(level, text) for text in texts]


def make(stub: Stub, **settings: Any) -> Reranker:
    """Make a reranker on a stub."""
    settings = {"name": "http", "model": "tiny", "base_url": stub.base_url} | settings
    reranker = make_reranker(RerankerSettings(**settings), {"KEY": KEY})
    assert reranker is not None
    return reranker


def ask(
    stub: Stub, texts: Sequence[RerankText], query: str = QUERY, timeout_s: float | None = None, **settings: Any
) -> RerankAnswer:
    """Ask a new reranker once."""
    reranker = make(stub, **settings)
    try:
        return asyncio.run(reranker.rerank(query, texts, timeout_s))
    finally:
        reranker.close()


def scores(answer: RerankAnswer) -> list[float | None]:
    """Return the scores; None where there is none."""
    return [None if math.isnan(score) else score for score in answer.scores.tolist()]


def test_there_is_none_unless_the_settings_name_one() -> None:
    assert make_reranker(RerankerSettings()) is None


def test_scores_come_back_in_the_order_of_the_texts() -> None:
    with serving(tidy) as stub:
        answer = ask(stub, at(Level.DETAIL, "b -3", "a 5.5", "c 1"), api_key_env="KEY")
    assert (scores(answer), answer.fault, answer.n_calls, answer.n_sent) == ([-3.0, 5.5, 1.0], None, 1, 3)
    request = stub.requests[0]
    assert request == {
        "path": "/v1/rerank",
        "model": "tiny",
        "query": QUERY,
        "documents": ["b -3", "a 5.5", "c 1"],
        "top_n": 3,
    }
    assert stub.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_teis_shape() -> None:
    with serving(tei) as stub:
        answer = ask(stub, at(Level.DETAIL, "a 1", "b 2"), name="tei", model="")
        assert scores(answer) == [1.0, 2.0]
        assert ask(stub, at(Level.DETAIL, *map(str, range(1, 41))), name="tei").n_calls == 2
    assert stub.requests[0] == {"path": "/v1/rerank", "query": QUERY, "texts": ["a 1", "b 2"], "truncate": True}


def test_long_texts_are_cut() -> None:
    """Users: pull/1262. Texts of 5,000 characters, a cap of 600: nothing longer is sent."""
    with serving(tidy) as stub:
        answer = ask(stub, at(Level.DETAIL, "x" * 5_000, "y" * 5_000), text_chars=600)
    assert answer.fault is None
    assert [len(text) for text in stub.requests[0]["documents"]] == [600, 600]


def test_a_reranker_that_does_not_answer_is_left_in_time() -> None:
    """Users: pull/1262. A stub that hangs, a limit of 0.2 s: a timeout, and the request is over."""
    with serving(hang) as stub:
        answer = ask(stub, at(Level.DETAIL, "a 1"), timeout_s=0.2)
        assert stub.disconnected.wait(10) or not stub.requests
    assert (scores(answer), answer.n_calls) == ([None], 1)
    assert answer.fault is not None
    assert answer.fault.reason == TIMEOUT


def test_every_level_has_a_budget_of_its_own() -> None:
    """Users: issues/3004. 50 KB of section text beside a short abstract: each cut to its level's, none dropped."""
    texts = [*at(Level.DETAIL, "d" * 50_000), *at(Level.OVERVIEW, "o" * 9_000), *at(Level.ABSTRACT, "a" * 256)]
    with serving(tidy) as stub:
        answer = ask(stub, texts, abstract_chars=200, overview_chars=700, text_chars=900)
    assert scores(answer) == [0.0, 0.0, 0.0]
    assert [len(text) for text in stub.requests[0]["documents"]] == [900, 700, 200]


def test_many_texts_are_parted_by_characters_and_by_number() -> None:
    """Users: issues/2739. 40 texts of 1,200 characters, 16,000 in a request: three requests at least, all scored."""
    texts = at(Level.DETAIL, *(f"{'x' * 1_190} {i}" for i in range(40)))
    with serving(tidy) as stub:
        answer = ask(stub, texts, batch_chars=16_000)
        assert ask(stub, texts, batch_size=15).n_calls == 3
    assert answer.n_calls >= 3
    assert scores(answer) == list(range(40))
    sizes = [sum(len(QUERY) + len(text) for text in texts_of(request)) for request in stub.requests[: answer.n_calls]]
    assert max(sizes) <= 16_000


def test_a_long_query_leaves_room_for_the_text() -> None:
    """Users: pull/3289. The query gets three quarters of a pair at most, a text the rest."""
    with serving(tidy) as stub:
        answer = ask(stub, at(Level.DETAIL, "t" * 900, "7"), query="q" * 2_000, pair_chars=512)
        ask(stub, at(Level.DETAIL, "t" * 900), query="q", pair_chars=512)
    assert scores(answer) == [0.0, 7.0]
    first, second = stub.requests
    assert (len(first["query"]), [len(text) for text in first["documents"]]) == (384, [128, 1])
    assert (len(second["query"]), [len(text) for text in second["documents"]]) == (1, [511])


def test_blank_texts_are_never_sent_and_equal_ones_once() -> None:
    with serving(tidy) as stub:
        answer = ask(stub, at(Level.DETAIL, "a 1", "", " \n", "b 2", "a 1"))
        nothing = ask(stub, at(Level.DETAIL, "", "\t"))
    assert scores(answer) == [1.0, None, None, 2.0, 1.0]
    assert (answer.n_sent, answer.fault) == (2, None)
    assert (nothing.n_calls, nothing.fault) == (0, None)
    assert [request["documents"] for request in stub.requests] == [["a 1", "b 2"]]


def test_answers_are_remembered_by_query_and_text() -> None:
    async def run(reranker: Reranker) -> list[RerankAnswer]:
        texts = at(Level.DETAIL, "a 1", "b 2")
        return [await reranker.rerank(query, texts) for query in ("one", "one", "two")] + [
            await reranker.rerank("one", at(Level.DETAIL, "a 1", "c 3"))
        ]

    with serving(tidy) as stub:
        reranker = make(stub, cache_size=3)
        answers = asyncio.run(run(reranker))
        reranker.close()
    assert [answer.n_sent for answer in answers] == [2, 0, 2, 2]  # "one" with "a 1" had to go
    assert [scores(answer) for answer in answers[:3]] == [[1.0, 2.0]] * 3


@pytest.mark.parametrize("code", [400, 401, 422])
def test_a_refusal_is_told(code: int) -> None:
    """Users: issues/4027. top_n is always sent; a 4xx is an error in the answer, not silence."""
    with serving(status(code, "no such model")) as stub:
        answer = ask(stub, at(Level.DETAIL, "a 1"))
    assert stub.requests[0]["top_n"] == 1
    assert answer.fault is not None
    assert (answer.fault.reason, scores(answer)) == (ERROR, [None])
    assert f"status {code}: no such model" in answer.fault.message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"null",
        b"3",
        b"{}",
        b'{"output": {"results": []}}',
        b'{"results": [1, 2]}',
        b'{"results": [{"index": 7, "relevance_score": 1}]}',
        b'{"results": [{"index": true, "relevance_score": 1}]}',
        b'{"results": [{"index": 0, "relevance_score": 1}, {"index": 0, "relevance_score": 2}]}',
        b'{"results": [{"index": 0, "relevance_score": 1}, {"index": 1, "relevance_score": 2}, {"index": 2}]}',
        b'{"results": [{"relevance_score": 1}, {"relevance_score": 2}]}',
    ],
)
def test_an_answer_of_another_shape_is_told(body: bytes) -> None:
    """Users: issues/3459. Unknown JSON, or scores of texts that were not sent: an error, never a guess."""
    with serving(raw(body)) as stub:
        answer = ask(stub, at(Level.DETAIL, "a 1", "b 2"))
    assert answer.fault is not None
    assert (answer.fault.reason, scores(answer)) == (ERROR, [None, None])


def test_a_broken_reranker_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """Users: issues/3459. One line a minute at most."""

    async def run(reranker: Reranker) -> None:
        for i in range(5):
            await reranker.rerank(f"{QUERY} {i}", at(Level.DETAIL, "a 1"))

    with serving(raw(b"{}")) as stub, caplog.at_level(logging.WARNING):
        reranker = make(stub, breaker_failures=100)
        asyncio.run(run(reranker))
        reranker.close()
    assert len([record for record in caplog.records if "rerank_fault" in record.getMessage()]) == 1
    assert QUERY not in caplog.text


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300, None, "0.5", True])
def test_scores_that_are_no_finite_numbers_are_missing(bad: object) -> None:
    def spoil(entries: list[dict[str, Any]]) -> object:
        return [entry | {"relevance_score": bad} if entry["index"] == 1 else entry for entry in entries]

    with serving(changed(spoil)) as stub:
        answer = ask(stub, at(Level.DETAIL, "a 1", "b 2", "c 3"))
    assert scores(answer) == [1.0, None, 3.0]
    assert answer.fault is not None
    assert answer.fault.reason == PARTIAL
    assert answer.fault.message.startswith("1 of 3 texts")


def test_fewer_scores_than_texts_are_a_part_and_none_an_error() -> None:
    with serving(changed(lambda entries: entries[:1]), changed(lambda _: [])) as stub:
        part, nothing = (ask(stub, at(Level.DETAIL, "a 1", "b 2")) for _ in range(2))
    assert (scores(part), scores(nothing)) == ([None, 2.0], [None, None])
    assert part.fault is not None
    assert nothing.fault is not None
    assert (part.fault.reason, nothing.fault.reason) == (PARTIAL, ERROR)


def test_a_failed_request_of_several_costs_its_texts_only() -> None:
    def refuse_one(stub: Stub, body: dict[str, Any]) -> Reply:
        return Reply(422, b"{}") if "bad 2" in body["documents"] else tidy(stub, body)

    with serving(refuse_one) as stub:
        answer = ask(stub, at(Level.DETAIL, "a 1", "bad 2", "c 3"), batch_size=1)
    assert scores(answer) == [1.0, None, 3.0]
    assert answer.fault is not None
    assert answer.fault.reason == PARTIAL
    assert "status 422" in answer.fault.message


def test_what_came_before_the_limit_counts() -> None:
    def hang_at_two(stub: Stub, body: dict[str, Any]) -> Reply:
        return Reply(is_hanging=True) if body["documents"] == ["b 2"] else tidy(stub, body)

    with serving(hang_at_two) as stub:
        answer = ask(stub, at(Level.DETAIL, "a 1", "b 2"), batch_size=1, timeout_s=2.0)
    assert scores(answer) == [1.0, None]
    assert answer.fault is not None
    assert answer.fault.reason == PARTIAL


def test_no_request_begins_without_time() -> None:
    with serving(tidy) as stub:
        answer = ask(stub, at(Level.DETAIL, "a 1"), timeout_s=-1.0)
    assert stub.requests == []
    assert answer.fault is not None
    assert (answer.fault.reason, answer.n_calls) == (TIMEOUT, 0)


def test_a_caller_who_leaves_ends_the_request() -> None:
    async def leave(reranker: Reranker, stub: Stub) -> None:
        task = asyncio.create_task(reranker.rerank(QUERY, at(Level.DETAIL, *"abcdef")))
        await asyncio.to_thread(stub.arrived.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(stub.disconnected.wait, 10)

    with serving(hang) as stub:
        reranker = make(stub, batch_size=1)
        asyncio.run(leave(reranker, stub))
        n_requests = len(stub.requests)
        reranker.close()
    assert n_requests <= 4  # so many at once; those in line have never begun


def test_after_a_moment_of_failure_the_next_call_works() -> None:
    """Users: issues/1246. Five failures open the breaker; once it has closed again, all is as before."""

    async def run(reranker: Reranker, stub: Stub) -> tuple[list[str], int, RerankAnswer]:
        reasons = []
        for i in range(6):
            answer = await reranker.rerank(str(i), at(Level.DETAIL, "a 1"))
            assert answer.fault is not None
            reasons.append(answer.fault.message)
        n_requests = len(stub.requests)
        stub.script[:] = [tidy]
        answer = await reranker.rerank("healed", at(Level.DETAIL, "a 1"))
        while answer.fault is not None:  # at most breaker_reset_s
            await asyncio.sleep(0.01)
            answer = await reranker.rerank("healed", at(Level.DETAIL, "a 1"))
        return reasons, n_requests, answer

    with serving(raw(b"{}")) as stub:
        reranker = make(stub, breaker_failures=5, breaker_reset_s=0.2)
        reasons, n_requests, answer = asyncio.run(run(reranker, stub))
        reranker.close()
    assert n_requests == 5
    assert "left alone" in reasons[5]
    assert scores(answer) == [1.0]


def test_the_key_is_in_no_message() -> None:
    with serving(status(401, f"bad key {KEY}")) as stub:
        answer = ask(stub, at(Level.DETAIL, "a 1"), api_key_env="KEY")
    assert answer.fault is not None
    assert KEY not in answer.fault.message


def test_scores_are_float32() -> None:
    with serving(tidy) as stub:
        answer = ask(stub, at(Level.DETAIL, "a -11.25", "b 6.5"))
    assert answer.scores.dtype == np.float32
    assert scores(answer) == [-11.25, 6.5]
