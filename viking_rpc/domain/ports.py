"""What the core needs from outside: embedders, planners, clocks and more. Adapters implement it, tests fake it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.domain.plan import PlanRequest, PlanResult
    from viking_rpc.domain.rerank import RerankAnswer, RerankText


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of one model."""

    @property
    def model(self) -> str:
        """Return the model's stable name; a store remembers it."""

    @property
    def dimensions(self) -> int:
        """Return the length of its vectors."""

    @property
    def is_inline(self) -> bool:
        """Return whether a query takes microseconds, so that an event loop may call `embed_query` directly."""

    def embed_texts(
        self, texts: Sequence[str], titles: Sequence[str] | None = None, title_shares: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        """Embed texts that are stored.

        Args:
            texts: without their titles.
            titles: one for each text, empty where it has none; None: no text has one.
            title_shares: for each text how much of its vector the title makes, in [0, 1], given with `titles`. Models
                that read a text in context put the title in front and ignore it.

        Returns:
            float32[n_texts, dimensions], C order, rows of unit length; all zero where there is nothing to embed.

        Raises:
            UnavailableError: the model does not answer.
            FailedPreconditionError: it answers with vectors of another dimension.
        """

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query: float32[dimensions]; blocking, bounded by `timeout_s`.

        Raises:
            DeadlineExceededError: reason EMBED_TIMEOUT; else as `embed_texts`.
        """

    async def embed_query_async(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query without blocking the event loop; a cancelled call stops its request."""


class Summarizer(Protocol):
    """Writes a directory's abstract (L0) and overview (L1) from its children, bottom-up."""

    def abstract(self, title: str, texts: Sequence[str]) -> str:
        """Return one or two sentences, about 100 tokens, from the texts of the children (best first)."""

    def overview(self, title: str, sections: Sequence[tuple[str, str]]) -> str:
        """Return at most about 2,000 tokens from (name, abstract) of each child."""


@runtime_checkable
class Planner(Protocol):
    """Turns a task and its conversation into typed queries."""

    @property
    def name(self) -> str:
        """Return its stable id, for GetStoreInfo."""

    async def plan(self, request: PlanRequest, timeout_s: float | None = None) -> PlanResult:
        """Plan within `timeout_s`, without blocking the event loop; a cancelled call stops its request.

        Never raises for what is wrong with a model or its answer: that is FALLBACK, with a warning.
        """

    def close(self) -> None:
        """Give up what it holds; nothing can be planned after."""


@runtime_checkable
class Reranker(Protocol):
    """Scores texts against a query, on a scale of its own."""

    @property
    def name(self) -> str:
        """Return its stable id, for GetStoreInfo."""

    async def rerank(
        self, query: str, texts: Sequence[RerankText], timeout_s: float | None = None, *, account: str = ""
    ) -> RerankAnswer:
        """Score within `timeout_s`, without blocking the event loop; a cancelled call stops its requests.

        Never raises for what is wrong with a model or its answer: scores are missing then, and the answer says why.
        What is remembered for one account is not known to another: how many texts were sent would tell of its queries.
        """

    def close(self) -> None:
        """Give up what it holds; nothing can be reranked after."""


class Clock(Protocol):
    """Says what time it is, so that tests can decide it."""

    def now_us(self) -> int:
        """Return microseconds since the epoch, UTC."""


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        """Return microseconds since the epoch, UTC."""
        return time.time_ns() // 1000
