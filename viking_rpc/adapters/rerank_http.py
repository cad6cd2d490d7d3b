"""Rerank by an HTTP endpoint: `POST /rerank` as Cohere, Jina, vLLM and others have it, or as TEI has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from viking_rpc.adapters.endpoint import Endpoint, bad_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from viking_rpc.errors import VikingError

_STAGE: Final = "rerank"
_SERVICE: Final = "RERANKER"


class HttpScorer:
    """A reranking model behind HTTP.

    Args:
        base_url: what stands before `/rerank`, with a version where the service has one.
        model: the name that the endpoint knows; TEI serves one model and needs none.
        shape: how requests look; answers of either shape are read.
        key: sent as bearer token when not empty; never part of an error, a warning or a log line.
        backoff_s: pause before the one retry, when the endpoint does not name one.
    """

    def __init__(
        self, base_url: str, model: str, shape: Literal["http", "tei"] = "http", key: str = "", backoff_s: float = 0.1
    ) -> None:
        """Make it; nothing is sent yet. Raises InvalidArgumentError for an address that is none."""
        self._model, self._shape = model, shape
        self._endpoint = Endpoint(base_url, "rerank", key, backoff_s, _SERVICE)

    @property
    def name(self) -> str:
        """Return the shape and the model's name, or its address where it has none."""
        return f"{self._shape}/{self._model or self._endpoint.origin}"

    async def score(self, query: str, texts: Sequence[str], out: NDArray[np.float32], allowed_s: float) -> None:
        """Write float32[n_texts]; what the answer lacks stays NaN.

        Raises:
            UnavailableError: reason RERANKER_UNAVAILABLE or RERANKER_BAD_ANSWER.
            FailedPreconditionError: reason RERANKER_REFUSED.
            TimeoutError: it did not answer in time.
        """
        answer = await self._endpoint.post(self._body(query, texts), _STAGE, allowed_s)
        out[:] = read_scores(answer, len(texts), self._endpoint.origin)

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    def _body(self, query: str, texts: Sequence[str]) -> dict[str, object]:
        if self._shape == "tei":
            return {"query": query, "texts": list(texts), "truncate": True}
        # some services refuse a request without top_n, others answer with fewer than all
        body: dict[str, object] = {"query": query, "documents": list(texts), "top_n": len(texts)}
        return {"model": self._model, **body} if self._model else body


def read_scores(answer: Any, n_texts: int, origin: str) -> NDArray[np.float32]:
    """Return float32[n_texts] in the order of the texts; NaN where the answer has no finite number.

    Args:
        answer: parsed JSON: `{"results": [{"index": i, "relevance_score": s}, ...]}`, `data` for `results`, or TEI's
            `[{"index": i, "score": s}, ...]`.
        n_texts: how many texts were sent.
        origin: the endpoint, for messages.

    Raises:
        UnavailableError: reason RERANKER_BAD_ANSWER: another shape, or entries for texts that were not sent.
    """
    entries = answer
    if isinstance(answer, dict):
        entries = answer.get("results", answer.get("data"))
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _bad(origin, "has no list `results` of objects")
    scores = np.full(n_texts, np.nan, np.float32)
    seen: set[int] = set()
    for entry in entries:
        i = entry.get("index")
        if type(i) is not int or not 0 <= i < n_texts or i in seen:
            raise _bad(origin, f"does not number its scores by the {n_texts} texts, each at most once")
        seen.add(i)
        scores[i] = _number(entry.get("relevance_score", entry.get("score")))
    return scores


def _number(value: object) -> float:
    """Return a number as float32 holds it, NaN for what is none."""
    if type(value) not in (int, float):
        return float("nan")
    try:
        with np.errstate(over="ignore"):
            return float(np.float32(value))  # type: ignore[arg-type]
    except OverflowError:
        return float("nan")


def _bad(origin: str, what: str) -> VikingError:
    return bad_answer(_STAGE, origin, what, service=_SERVICE)
