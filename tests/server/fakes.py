"""Stand-ins for what lies outside the process: an embedder with a table, one that never answers, a clock."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

START_US = 1_767_225_600_000_000  # 2026-01-01


def cosine(value: float) -> NDArray[np.float32]:
    """Return the unit vector, float32[2], whose cosine to [1, 0] is the value."""
    return np.array([value, math.sqrt(1 - value * value)], np.float32)


class TableEmbedder:
    """Knows the cosine of some texts to [1, 0]; every other text is [0, 1], a blank one zero."""

    model = "table"
    dimensions = 2
    is_inline = True

    def __init__(self, cosine_of: dict[str, float] | None = None) -> None:
        """Remember the table; what is embedded is written down."""
        self.cosine_of = cosine_of or {}
        self.texts: list[str] = []

    def embed_texts(
        self, texts: Sequence[str], titles: Sequence[str] | None = None, title_shares: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        """Embed texts; titles do not matter."""
        del titles, title_shares
        self.texts += texts
        return np.stack([self._embed(text) for text in texts])

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query."""
        del timeout_s
        return self._embed(text)

    async def embed_query_async(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query."""
        return self.embed_query(text, timeout_s)

    def _embed(self, text: str) -> NDArray[np.float32]:
        if not text.strip():
            return np.zeros(2, np.float32)
        return cosine(self.cosine_of.get(text, 0.0))


class StuckEmbedder(TableEmbedder):
    """Never answers a query; says when it was asked and when it was given up."""

    is_inline = False

    def __init__(self) -> None:
        """Make the events."""
        super().__init__()
        self.is_asked = asyncio.Event()
        self.is_given_up = asyncio.Event()

    async def embed_query_async(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Wait for ever."""
        del text, timeout_s
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_given_up.set()
        raise AssertionError


class BrokenEmbedder(TableEmbedder):
    """Fails in a way that nobody foresaw, with a text that nobody may see."""

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Fail for all but the server itself, which asks once before it takes calls."""
        del timeout_s
        if text == "warm":
            return cosine(1.0)
        secret = "the secret path"
        raise RuntimeError(secret)


class FakeClock:
    """Stands still until it is told to go on."""

    def __init__(self, now_us: int = START_US) -> None:
        """Begin at a time."""
        self.us = now_us

    def now_us(self) -> int:
        """Return the time."""
        return self.us
