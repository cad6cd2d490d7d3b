"""Cut queries and texts to what a reranker reads, and part them into requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from viking_rpc.domain.context import Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from viking_rpc.domain.rerank import RerankText

#: A long query leaves at least the rest of a pair to the text.
_QUERY_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class PairBudget:
    """How much a reranker reads, in characters.

    Args:
        pair_chars: of a query and a text together.
        abstract_chars, overview_chars, text_chars: of a text at L0, L1 and L2, at most.
        batch_size, batch_chars: the most pairs, and the most characters of pairs, in one request.
    """

    pair_chars: int = 2_000
    abstract_chars: int = 800
    overview_chars: int = 2_000
    text_chars: int = 2_000
    batch_size: int = 64
    batch_chars: int = 100_000

    def cut(self, query: str, texts: Sequence[RerankText]) -> tuple[str, list[str]]:
        """Cut the query to three quarters of a pair, each text to its level's budget and the rest of the pair.

        Returns:
            The query, and the texts in their order; a blank one is empty.
        """
        query = query.strip()[: max(1, int(_QUERY_SHARE * self.pair_chars))]
        room = max(1, self.pair_chars - len(query))
        limits = {
            Level.ABSTRACT: min(room, self.abstract_chars),
            Level.OVERVIEW: min(room, self.overview_chars),
            Level.DETAIL: min(room, self.text_chars),
        }
        return query, [text.text.strip()[: limits[text.level]] for text in texts]

    def batches(self, query: str, texts: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield half-open ranges of texts for one request each; a request has one text at least."""
        lo = n_chars = 0
        for i, text in enumerate(texts):
            size = len(query) + len(text)
            if i > lo and (i - lo >= self.batch_size or n_chars + size > self.batch_chars):
                yield lo, i
                lo, n_chars = i, 0
            n_chars += size
        if lo < len(texts):
            yield lo, len(texts)
