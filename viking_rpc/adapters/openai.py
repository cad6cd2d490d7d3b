"""Embed by any OpenAI-compatible `POST /v1/embeddings` endpoint (OpenAI, TEI, vLLM, Ollama, ...)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.adapters.answers import read_vectors
from viking_rpc.adapters.background import BackgroundLoop
from viking_rpc.adapters.breaker import CircuitBreaker
from viking_rpc.adapters.endpoint import Endpoint
from viking_rpc.adapters.texts import require_encodable, scale_to_unit, split_text, with_titles
from viking_rpc.adapters.worker import embed_timeout
from viking_rpc.errors import UnavailableError, VikingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_QUERY = "embed_query"
_TEXTS = "embed_texts"


@dataclass(frozen=True, slots=True)
class OpenAiOptions:
    """How to talk to the endpoint.

    Args:
        dimensions: length of the vectors; None means that a first call finds out.
        is_asking_dimensions: send `dimensions` in requests, for models that can shorten their vectors.
        timeout_s: for one request, its retry included.
        batch_size, batch_chars: the most texts and characters in one request.
        max_text_chars: longer texts are sent in parts, and their vectors averaged, since endpoints cut or refuse them.
        query_prefix, text_prefix: put before queries and stored texts, as some models ask for.
        breaker_failures, breaker_reset_s: after that many failures in a row, calls fail at once for so long.
        backoff_s: pause before the retry, when the endpoint does not name one.
    """

    dimensions: int | None = None
    is_asking_dimensions: bool = False
    timeout_s: float = 10.0
    batch_size: int = 64
    batch_chars: int = 100_000
    max_text_chars: int = 6_000
    query_prefix: str = ""
    text_prefix: str = ""
    breaker_failures: int = 5
    breaker_reset_s: float = 1.0
    backoff_s: float = 0.1


class OpenAiEmbedder:
    """A model behind HTTP; all callers share one connection pool, on a loop of its own.

    Args:
        base_url: up to and with `/v1`.
        model: the name that the endpoint knows, and that a store remembers.
        key: sent as bearer token when not empty; never part of an error or a log line.
        options: see there.
    """

    is_inline = False

    def __init__(self, base_url: str, model: str, key: str = "", options: OpenAiOptions | None = None) -> None:
        """Make the embedder; nothing is sent yet."""
        self._options = options or OpenAiOptions()
        self._name = model
        self._dimensions = self._options.dimensions
        self._breaker = CircuitBreaker(self._options.breaker_failures, self._options.breaker_reset_s)
        self._endpoint = Endpoint(base_url, "embeddings", key, self._options.backoff_s)
        self._loop = BackgroundLoop("embed-openai")

    @property
    def model(self) -> str:
        """Return the model's stable name; an asked-for dimension is part of it."""
        return f"{self._name}@{self._options.dimensions}" if self._is_asking else self._name

    @property
    def dimensions(self) -> int:
        """Return the length of its vectors; asks the endpoint the first time when the options do not say.

        Raises:
            UnavailableError: the endpoint does not answer.
        """
        if self._dimensions is None:
            self._block([self._options.text_prefix + "dimension"], _TEXTS, None)
        return self._dimensions or 0

    def embed_texts(
        self, texts: Sequence[str], titles: Sequence[str] | None = None, title_shares: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        """Embed texts that are stored, in batches; blank texts are not sent.

        Args:
            texts: without their titles.
            titles: one for each text, put in front of it.
            title_shares: not needed.

        Returns:
            float32[n_texts, dimensions], C order, rows of unit length; all zero where text and title are blank.

        Raises:
            InvalidArgumentError: a text has an unpaired surrogate.
            UnavailableError: the endpoint does not answer, or answers wrongly.
            FailedPreconditionError: it answers with vectors of another dimension, or refuses the request.
        """
        del title_shares
        texts = with_titles(texts, titles)
        require_encodable(texts)
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        return self._block(texts, _TEXTS, None)

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query: float32[dimensions]; blocking, bounded by `timeout_s`.

        Raises:
            DeadlineExceededError: reason EMBED_TIMEOUT; else as `embed_texts`.
        """
        require_encodable([text])
        vector: NDArray[np.float32] = self._block([text], _QUERY, timeout_s)[0]
        return vector

    async def embed_query_async(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query without blocking the event loop; a cancelled call stops its request.

        Raises as `embed_query`.
        """
        require_encodable([text])
        future = self._loop.submit(self._embed([text], _QUERY, timeout_s))
        vector: NDArray[np.float32] = (await asyncio.wrap_future(future))[0]
        return vector

    def close(self) -> None:
        """Close the connections; nothing can be embedded after."""
        self._loop.submit(self._endpoint.close()).result()
        self._loop.close()

    @property
    def _is_asking(self) -> bool:
        return self._options.is_asking_dimensions and self._options.dimensions is not None

    def _block(self, texts: Sequence[str], stage: str, timeout_s: float | None) -> NDArray[np.float32]:
        future = self._loop.submit(self._embed(texts, stage, timeout_s))
        try:
            return future.result()
        except BaseException:
            future.cancel()  # no-op when it ended; stops the request when the caller is interrupted
            raise

    async def _embed(self, texts: Sequence[str], stage: str, timeout_s: float | None) -> NDArray[np.float32]:
        """Return float32[n_texts, dimensions] of unit length."""
        options = self._options
        prefix = options.query_prefix if stage == _QUERY else options.text_prefix
        owners: list[int] = []
        parts: list[str] = []
        for i, text in enumerate(texts):
            if text and not text.isspace():
                for part in split_text(text, options.max_text_chars):
                    if not part.isspace():
                        owners.append(i)
                        parts.append(prefix + part)
        allowed_s = options.timeout_s if timeout_s is None else min(timeout_s, options.timeout_s)
        if not parts and self._dimensions is None:
            await self._request(["dimension"], stage, allowed_s)
        clock = asyncio.get_running_loop().time
        ends = clock() + allowed_s
        answers = []
        for lo, hi in _batches(parts, options.batch_size, options.batch_chars):
            # A query has its time as a whole; stored texts have it for each request.
            left_s = max(0.0, ends - clock()) if stage == _QUERY else allowed_s
            answers.append(await self._request(parts[lo:hi], stage, left_s))
        vectors = np.zeros((len(texts), self._dimensions or 0), dtype=np.float32)
        if answers:
            rows = scale_to_unit(np.concatenate(answers))
            sizes = np.asarray([len(part) for part in parts], dtype=np.float32)
            np.add.at(vectors, owners, rows * sizes[:, None])
        return scale_to_unit(vectors)

    async def _request(self, parts: Sequence[str], stage: str, allowed_s: float) -> NDArray[np.float32]:
        """Return the vectors of one batch: float32[n_parts, dimensions], as answered."""
        wait_s = self._breaker.wait_s()
        if wait_s:
            raise UnavailableError(
                "EMBEDDER_UNAVAILABLE",
                f"{stage}: {self._endpoint.origin} failed repeatedly and is left alone for {wait_s:.3g} s",
                {"stage": stage, "endpoint": self._endpoint.origin, "retry_s": f"{wait_s:.3g}"},
                retry_after_s=wait_s,
            )
        body: dict[str, object] = {"model": self._name, "input": list(parts), "encoding_format": "float"}
        if self._is_asking:
            body["dimensions"] = self._options.dimensions
        try:
            async with asyncio.timeout(allowed_s):
                answer = await self._endpoint.post(body, stage, allowed_s)
            vectors = read_vectors(answer, len(parts), self._dimensions, stage, self._endpoint.origin, self._name)
        except TimeoutError as error:
            # A caller with little time says little about the endpoint.
            is_fair = allowed_s >= min(1.0, self._options.timeout_s)
            (self._breaker.fail if is_fair else self._breaker.abandon)()
            raise self._timeout(stage, allowed_s) from error
        except UnavailableError:
            self._breaker.fail()
            raise
        except VikingError:
            self._breaker.succeed()  # it answers; what it answers is for people to mend
            raise
        except BaseException:
            self._breaker.abandon()
            raise
        self._breaker.succeed()
        self._dimensions = vectors.shape[1]
        return vectors

    def _timeout(self, stage: str, allowed_s: float) -> VikingError:
        if stage == _QUERY:
            return embed_timeout(self._name, allowed_s)
        return UnavailableError(
            "EMBED_TIMEOUT",
            f"{stage}: {self._endpoint.origin} did not answer within {allowed_s:.3g} s",
            {"stage": stage, "endpoint": self._endpoint.origin, "timeout_s": f"{allowed_s:.3g}"},
            retry_after_s=self._options.breaker_reset_s,
        )


def _batches(parts: Sequence[str], max_parts: int, max_chars: int) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges of at most `max_parts` parts and `max_chars` characters, one part at least."""
    lo = n_chars = 0
    for i, part in enumerate(parts):
        if i > lo and (i - lo >= max_parts or n_chars + len(part) > max_chars):
            yield lo, i
            lo, n_chars = i, 0
        n_chars += len(part)
    if lo < len(parts):
        yield lo, len(parts)
