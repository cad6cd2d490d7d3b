"""A server in a thread of this process, for commands without a running one, and for the demo."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Self

from viking_rpc.config import MetricsSettings
from viking_rpc.server.app import Server

if TYPE_CHECKING:
    from types import TracebackType

    from viking_rpc.config import Settings
    from viking_rpc.domain.ports import Embedder
    from viking_rpc.server.identity import IdentityResolver


class EmbeddedServer:
    """A server with an event loop and a thread of its own: enter it, call `address`, leave it.

    Args:
        settings: in effect; `server.listen` says where.
        embedder: None makes the one that the settings name.
        resolve: says who calls; None: the keys of the data directory.
    """

    def __init__(
        self, settings: Settings, embedder: Embedder | None = None, resolve: IdentityResolver | None = None
    ) -> None:
        """Make it; nothing runs yet."""
        self.address = ""
        # The port of the metrics is a server's own, and nobody would look there for those of a command.
        self._settings = settings.model_copy(update={"metrics": MetricsSettings()})
        self._embedder = embedder
        self._resolve = resolve
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._is_ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)

    def __enter__(self) -> Self:
        """Start, and wait until it serves. Raises what starting raises."""
        self._thread.start()
        self._is_ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and wait until all is closed."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised again where the server was started
            self._error = error
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = Server(self._settings, embedder=self._embedder, resolve=self._resolve)
        try:
            self.address = await server.start()
            await server.load()
            self._is_ready.set()
            await self._stopping.wait()
        finally:
            await server.stop(grace_s=0)
