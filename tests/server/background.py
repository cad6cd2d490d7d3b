"""A real server on a loop of its own, for properties that call it from ordinary functions."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from tests.server.fakes import FakeClock, TableEmbedder
from viking_rpc.server.app import Server

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from viking_rpc.config import Settings

T = TypeVar("T")


class Background:
    """A server that takes calls, its loop, and a channel to it."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop, channel: grpc.Channel) -> None:
        """Use `in_background`."""
        self.server = server
        self.channel = channel
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the server's loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


@contextmanager
def in_background(settings: Settings, **parts: Any) -> Iterator[Background]:
    """Run a server in a thread."""
    parts.setdefault("embedder", TableEmbedder())
    parts.setdefault("clock", FakeClock())
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="server")
    thread.start()

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    async def start() -> Server:
        server = Server(settings, **parts)
        await server.start()
        await server.load()
        return server

    try:
        server = run(start())
        try:
            with grpc.insecure_channel(server.address) as channel:
                yield Background(server, loop, channel)
        finally:
            run(server.stop(grace_s=0))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
