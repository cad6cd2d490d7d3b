"""The target of an import into a server: batches that one call takes, and texts that the server itself embeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from viking_rpc.domain.context import Kind
from viking_rpc.domain.query import View
from viking_rpc.errors import NotFoundError
from viking_rpc.ingest.pipeline import Stored, describe_stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from viking_rpc.client import Client
    from viking_rpc.domain.context import Context, ContextWrite

MAX_BATCH: Final = 256
#: Texts of one call; the contract's 4 MiB hold the rest of the message too.
MAX_BATCH_BYTES: Final = 3 * 1024 * 1024
#: Embedding a batch with a slow model takes its time.
_WRITE_TIMEOUT_S: Final = 60.0
_ROOT: Final = "viking://"


class RemoteTarget:
    """Writes through a server; what is stored already is read from it and compared here.

    Args:
        client: of the server.
    """

    def __init__(self, client: Client) -> None:
        """Remember the server."""
        self._client = client

    def existing(self, uri: str) -> Mapping[str, Stored]:
        """Return every context at and below a URI; empty when there is none."""
        try:
            top = None if uri == _ROOT else self._client.get(uri)
        except NotFoundError:
            return {}
        found = {} if top is None else {top.uri: describe_stored(top)}
        if top is None or top.kind is Kind.DIRECTORY:
            found |= ((child.uri, describe_stored(child)) for child in self._below(uri))
        return found

    def write(self, batch: Sequence[ContextWrite]) -> None:
        """Create or replace contexts, in as many calls as their size needs; parents first, so that a repeat goes on."""
        for part in parts_of(batch):
            self._client.upsert(part, timeout_s=_WRITE_TIMEOUT_S)

    def delete(self, uris: Sequence[str]) -> None:
        """Delete contexts with everything below them."""
        for lo in range(0, len(uris), MAX_BATCH):
            self._client.delete(uris[lo : lo + MAX_BATCH], recursive=True, allow_missing=True)

    def _below(self, uri: str) -> Iterator[Context]:
        waiting = [uri]
        while waiting:
            for child in self._client.list(waiting.pop(), view=View.FULL):
                yield child
                if child.kind is Kind.DIRECTORY and child.child_count:
                    waiting.append(child.uri)


class ServerEmbeds:
    """Stands where an embedder is asked for: vectors of no length, which are not sent, for the server makes its own."""

    model = ""
    dimensions = 0
    is_inline = True

    def embed_texts(
        self,
        texts: Sequence[str],
        titles: Sequence[str] | None = None,  # noqa: ARG002
        title_shares: Sequence[float] | None = None,  # noqa: ARG002
    ) -> NDArray[np.float32]:
        """Return float32[n_texts, 0]."""
        return np.empty((len(texts), 0), np.float32)

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:  # noqa: ARG002
        """Return float32[0]."""
        return np.empty(0, np.float32)

    async def embed_query_async(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Return float32[0]."""
        return self.embed_query(text, timeout_s)


def parts_of(batch: Iterable[ContextWrite]) -> Iterator[list[ContextWrite]]:
    """Cut a batch into parts that one call takes, without rows."""
    from dataclasses import replace

    part: list[ContextWrite] = []
    n_bytes = 0
    for write in batch:
        size = _size(write)
        if part and (len(part) == MAX_BATCH or n_bytes + size > MAX_BATCH_BYTES):
            yield part
            part, n_bytes = [], 0
        part.append(replace(write, rows=()))
        n_bytes += size
    if part:
        yield part


def _size(write: ContextWrite) -> int:
    texts = (write.uri, write.title, write.abstract, write.overview, write.content, *write.tags, *write.tags.values())
    return sum(len(text.encode()) for text in texts)
