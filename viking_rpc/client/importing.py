"""The messages of an import stream; a failure of what makes the batches is kept, which gRPC would log and hide."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING

from viking_rpc.client.requests import import_message

if TYPE_CHECKING:
    from viking_rpc.domain.context import ContextWrite
    from viking_rpc.pb.v1 import context_service_pb2 as pb

Batches = Iterable[Iterable["ContextWrite"]]
AsyncBatches = AsyncIterable[Iterable["ContextWrite"]]


class ImportMessages:
    """Numbers batches and writes each when the transport asks for it; the stream ends where the batches do.

    Args:
        batches: blocking, or of an event loop.
    """

    def __init__(self, batches: Batches | AsyncBatches) -> None:
        """Take nothing yet."""
        self._batches = batches
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[pb.ImportContextsRequest]:
        """Yield the messages of blocking batches."""
        if isinstance(self._batches, AsyncIterable):
            text = "the blocking client takes blocking batches"
            raise TypeError(text)
        try:
            for sequence, batch in enumerate(self._batches, 1):
                yield import_message(sequence, batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's own
            self._failure = error

    async def __aiter__(self) -> AsyncIterator[pb.ImportContextsRequest]:
        """Yield the messages of either kind of batches."""
        if not isinstance(self._batches, AsyncIterable):
            for message in self:
                yield message
            return
        sequence = 0
        try:
            async for batch in self._batches:
                sequence += 1
                yield import_message(sequence, batch)
        except Exception as error:  # noqa: BLE001
            self._failure = error

    def check(self) -> None:
        """Raise what making the batches raised; what was sent before it is answered."""
        if self._failure is not None:
            raise self._failure
