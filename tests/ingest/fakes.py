"""A target and an embedder that live in memory, for tests of the import."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.domain.context import Context, ContextType
from viking_rpc.ingest.pipeline import Stored, describe_stored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from viking_rpc.domain.context import ContextWrite


class CountingEmbedder:
    """Embeds a text as a unit vector that depends on it, and counts what it was given."""

    model = "counting"
    dimensions = 8
    is_inline = True

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_texts(
        self, texts: Sequence[str], titles: Sequence[str] | None = None, title_shares: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        del title_shares
        texts = [f"{title}\n{text}" for title, text in zip(titles or [""] * len(texts), texts, strict=True)]
        self.texts += texts
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for i, text in enumerate(texts):
            vectors[i, zlib.crc32(text.encode()) % self.dimensions] = 1
        return vectors

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        del timeout_s
        vector: NDArray[np.float32] = self.embed_texts([text])[0]
        return vector

    async def embed_query_async(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        return self.embed_query(text, timeout_s)


class MemoryTarget:
    """Keeps contexts as a store does: parents must exist or be made, kinds do not change, deletes take subtrees."""

    def __init__(self) -> None:
        self.contexts: dict[str, Context] = {}
        self.writes: dict[str, ContextWrite] = {}
        self.deleted: list[str] = []
        self.n_batches = 0

    def existing(self, uri: str) -> Mapping[str, Stored]:
        prefix = uri.rstrip("/") + "/"
        found = (context for context in self.contexts.values() if context.uri == uri or context.uri.startswith(prefix))
        return {context.uri: describe_stored(context) for context in found}

    def write(self, batch: Sequence[ContextWrite]) -> None:
        self.n_batches += 1
        for write in batch:
            old = self.contexts.get(write.uri)
            assert old is None or old.kind is write.kind, f"{write.uri} changes its kind"
            self.writes[write.uri] = write
            self.contexts[write.uri] = Context(
                uri=write.uri,
                kind=write.kind,
                type=write.type or ContextType.RESOURCE,
                title=write.title,
                abstract=write.abstract,
                overview=write.overview,
                content=write.content,
                tags=dict(write.tags),
            )

    def delete(self, uris: Sequence[str]) -> None:
        self.deleted += uris
        for uri in uris:
            for key in [key for key in self.contexts if key == uri or key.startswith(f"{uri}/")]:
                del self.contexts[key]
