"""A gRPC front before a server that hands bytes through, and refuses the first calls of every method as UNAVAILABLE."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import Iterator

#: As many as the service config lets a client try again, less one.
N_REFUSED = 2


class Front(grpc.GenericRpcHandler):
    """Handles unary methods of any name; `n_calls` says how often each was called."""

    def __init__(self, channel: grpc.Channel, n_refused: int) -> None:
        self._channel = channel
        self._n_refused = n_refused
        self.n_calls: Counter[str] = Counter()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        name = handler_call_details.method

        def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.n_calls[name.rpartition("/")[2]] += 1
            if self.n_calls[name.rpartition("/")[2]] <= self._n_refused:
                context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
            forward: Any = self._channel.unary_unary(name)
            answer: bytes = forward(request, timeout=10)
            return answer

        return grpc.unary_unary_rpc_method_handler(handle)


@contextmanager
def refusing_front(address: str, n_refused: int = N_REFUSED) -> Iterator[tuple[str, Front]]:
    """Run a front before a server; yield its address, and what counts its calls."""
    with grpc.insecure_channel(address) as channel, ThreadPoolExecutor(1) as thread:
        front = Front(channel, n_refused)
        server = grpc.server(thread, handlers=(front,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}", front
        finally:
            server.stop(None).wait()
