"""Serve metrics as Prometheus reads them: over HTTP, from a thread, without keys; by default to this machine alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Self

from viking_rpc.errors import FailedPreconditionError

if TYPE_CHECKING:
    from types import TracebackType

    from viking_rpc.config import MetricsSettings
    from viking_rpc.server.readings import Readings

logger = logging.getLogger(__name__)


class MetricsEndpoint:
    """Serves until `close`; where the settings name no port, it does nothing.

    Args:
        settings: where.
        readings: of what all processes counted.
        start_us: since when, microseconds since the epoch.

    Raises:
        FailedPreconditionError: METRICS_CANNOT_LISTEN.
    """

    def __init__(self, settings: MetricsSettings, readings: Readings, start_us: int) -> None:
        """Bind and serve."""
        self.address = ""
        if settings.port is None:
            return
        from prometheus_client import CollectorRegistry, start_http_server

        from viking_rpc.server.metrics import FiguresCollector

        registry = CollectorRegistry()
        registry.register(FiguresCollector(readings, start_us))
        try:
            self._server, self._thread = start_http_server(settings.port, settings.host, registry)
        except OSError as error:
            address = f"{settings.host}:{settings.port}"
            message = f"metrics cannot be served on {address}: {error.strerror or error}"
            raise FailedPreconditionError("METRICS_CANNOT_LISTEN", message, {"address": address}) from error
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.address = f"{host}:{self._server.server_port}"
        logger.info("metrics address=%s", self.address)

    def close(self) -> None:
        """Stop serving; a second call does nothing."""
        if self.address:
            self.address = ""
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        self.close()
