"""Assemble the gRPC server: bind, load, serve, stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from viking_rpc.adapters.embedders import make_embedder
from viking_rpc.adapters.planners import make_planner
from viking_rpc.adapters.rerankers import make_reranker
from viking_rpc.domain.address import UNIX
from viking_rpc.errors import FailedPreconditionError
from viking_rpc.pb.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    context_service_pb2,
    context_service_pb2_grpc,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)
from viking_rpc.server.admin import AdminService
from viking_rpc.server.contexts import ContextService
from viking_rpc.server.convert_answer import MAX_RESPONSE_BYTES
from viking_rpc.server.exposure import check_exposure
from viking_rpc.server.figures import Figures, figures_path
from viking_rpc.server.interceptors import Edge, Limits
from viking_rpc.server.keys import KeyCallers, unlimited
from viking_rpc.server.metrics_endpoint import MetricsEndpoint
from viking_rpc.server.retrieval import RetrievalService
from viking_rpc.server.runner import Runner
from viking_rpc.server.tls import CertificateFiles
from viking_rpc.store.lock import DataLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from viking_rpc.config import Settings
    from viking_rpc.domain.ports import Clock, Embedder, Planner, Reranker
    from viking_rpc.server.identity import IdentityResolver

logger = logging.getLogger(__name__)

SERVICES: Final = (
    retrieval_service_pb2.DESCRIPTOR.services_by_name["RetrievalService"].full_name,
    context_service_pb2.DESCRIPTOR.services_by_name["ContextService"].full_name,
    admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name,
)

_GRACE_S: Final = 2.0
_NOTICE_S: Final = 0.25
#: Clients may ask every ten seconds whether the connection lives, calls or not.
_MIN_PING_MS: Final = 10_000
_SPARE_STREAMS: Final = 64
#: Calls of all connections that have arrived and are not begun: some seconds of work, which callers may still wait for.
_MAX_WAITING: Final = 4096


class Server:
    """One server on one data directory: `start` binds, `load` makes it ready, `stop` drains and closes.

    Args:
        settings: in effect.
        embedder: None makes the one that the settings name.
        planner: None makes the one that the settings name.
        reranker: None makes the one that the settings name.
        clock: None is the machine's.
        resolve: says who calls; None: the keys in the data directory, and without any everybody is the one local user.
        worker: what the access log calls this process where several serve the data directory on one port; its
            supervisor holds the directory, and it loads before it binds.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        embedder: Embedder | None = None,
        planner: Planner | None = None,
        reranker: Reranker | None = None,
        clock: Clock | None = None,
        resolve: IdentityResolver | None = None,
        worker: str = "",
    ) -> None:
        """Make the parts; nothing is opened yet."""
        self.address = ""
        self._settings = settings
        self.runner = Runner(
            settings,
            embedder or make_embedder(settings.embedder),
            clock,
            planner or make_planner(settings.planner),
            reranker or make_reranker(settings.reranker),
            is_shared=bool(worker),
            figures=Figures(figures_path(settings.data, worker)) if worker else None,
        )
        limits = Limits(settings.server.default_deadline_s, settings.server.max_deadline_s)
        self._keys = KeyCallers(settings.data, settings.keys, self.runner.clock)
        callers = self._keys if resolve is None else unlimited(resolve)
        self._edge = Edge(callers, self.runner.admission, limits, self.runner.recorder, worker)
        self._health = health_aio.HealthServicer()
        self._worker = worker
        self._is_loaded = False
        self._lock: DataLock | None = None
        self._metrics: MetricsEndpoint | None = None
        self._grpc: grpc.aio.Server | None = None

    async def start(self) -> str:
        """Take the data directory, bind, and answer health checks with NOT_SERVING.

        Returns:
            The address that clients connect to; with the port that was found, where any was asked for.

        Raises:
            FailedPreconditionError: NOT_LOOPBACK, TLS_FILES_UNUSABLE, CANNOT_LISTEN, METRICS_CANNOT_LISTEN, or what
                locking the data directory raises.
        """
        listen = self._settings.server.listen
        told = check_exposure(self._settings)
        if told and not self._worker:
            logger.warning("exposed reason=%s address=%s", told, listen)
        credentials = self._credentials(listen)
        if not self._worker:
            self._lock = DataLock.acquire(self._settings.data)
            self._metrics = self._open_metrics()
        server = self._grpc = grpc.aio.server(options=self._options())
        edge = self._edge.around(server)
        retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server(RetrievalService(self.runner), edge)
        context_service_pb2_grpc.add_ContextServiceServicer_to_server(ContextService(self.runner), edge)
        admin_service_pb2_grpc.add_AdminServiceServicer_to_server(AdminService(self.runner), edge)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
        reflection.enable_server_reflection((*SERVICES, health_name, reflection.SERVICE_NAME), server)
        if not self._is_loaded:
            await self._tell_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        try:
            if credentials is None:
                port = server.add_insecure_port(listen)
            else:
                port = server.add_secure_port(listen, credentials)
        except RuntimeError as error:
            self._release()
            message = f"cannot listen on {listen}: is another server there?"
            raise FailedPreconditionError("CANNOT_LISTEN", message, {"address": listen}) from error
        await server.start()
        self.address = listen if listen.startswith(UNIX) else f"{listen.rpartition(':')[0]}:{port}"
        if self._lock is not None:
            self._lock.announce(self.address)
        return self.address

    async def load(self) -> None:
        """Load the store and take calls; health turns SERVING. Raises what opening the store raises."""
        await self.runner.load()
        self._is_loaded = True
        await self._tell_health(health_pb2.HealthCheckResponse.SERVING)
        logger.info("serving address=%s", self.address or self._settings.server.listen)

    async def stop(self, grace_s: float = _GRACE_S) -> None:
        """Turn NOT_SERVING, let calls in work end for so many seconds, close the store; a second call does nothing."""
        self.runner.admission.drain()
        await self._health.enter_graceful_shutdown()
        if self.runner.admission.n_in_flight:
            # Calls that are on their way are refused as UNAVAILABLE, which clients retry; a stopping gRPC cancels them.
            await asyncio.sleep(_NOTICE_S)
        if self._grpc is not None:
            await self._grpc.stop(grace_s)
            self._grpc = None
        await self.runner.close()
        self._keys.close()
        self._release()

    def _credentials(self, listen: str) -> grpc.ServerCredentials | None:
        """Return what makes the port one of TLS; a socket file has none, for its folder says who may open it."""
        if self._settings.tls.cert is None or listen.startswith(UNIX):
            return None
        return CertificateFiles(self._settings.tls).credentials()

    def _open_metrics(self) -> MetricsEndpoint:
        runner = self.runner
        try:
            return MetricsEndpoint(self._settings.metrics, runner.readings, runner.start_us)
        except FailedPreconditionError:
            self._release()
            raise

    @property
    def metrics_address(self) -> str:
        """Return where Prometheus reads figures; empty where it cannot."""
        return self._metrics.address if self._metrics is not None else ""

    def _release(self) -> None:
        if self._metrics is not None:
            self._metrics.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    async def _tell_health(self, status: int) -> None:
        for name in ("", *SERVICES):
            await self._health.set(name, status)

    def _options(self) -> list[tuple[str, Any]]:
        return [
            ("grpc.max_receive_message_length", self._settings.server.max_message_bytes),
            ("grpc.max_send_message_length", MAX_RESPONSE_BYTES),
            # Two servers on one port would share its callers in silence, which is what workers are for.
            ("grpc.so_reuseport", int(bool(self._worker))),
            # A flood waits where it comes from: a connection holds what may be in work and a few more, to be refused.
            ("grpc.max_concurrent_streams", self._settings.server.max_in_flight + _SPARE_STREAMS),
            # What has arrived is answered in turn. Beyond these gRPC drops more and more, then all, as CANCELLED and
            # without a reason; by default from 1,000 on, which are answered within a second.
            ("grpc.server.max_pending_requests", _MAX_WAITING),
            ("grpc.server.max_pending_requests_hard_limit", 2 * _MAX_WAITING),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", _MIN_PING_MS),
        ]


async def run(server: Server, on_bound: Callable[[str], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        server: not started yet.
        on_bound: called with the address as soon as clients may connect.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    try:
        address = await server.start()
        if on_bound is not None:
            on_bound(address)
        await server.load()
        await stopping.wait()
    finally:
        await server.stop()


def serve(
    settings: Settings, on_bound: Callable[[str], None] | None = None, set_up: Callable[[], object] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM, in this process or in as many as the settings say; blocking.

    Args:
        settings: in effect.
        on_bound: called with the address as soon as clients may connect.
        set_up: called first in every further process, to be pickled: logging.

    Raises:
        VikingError: as `Server.start` and `Server.load`, or `Supervisor.run`.
    """
    if settings.server.workers > 1:
        from viking_rpc.server.supervisor import supervise

        supervise(settings, on_bound, set_up)
        return

    async def main() -> None:
        await run(Server(settings), on_bound)

    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(main())


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop where it is installed: a call costs the server about a tenth less CPU time."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
