"""Several processes that serve one data directory on one port: started, started again when they die, stopped."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from dataclasses import dataclass
from multiprocessing import connection
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.address import UNIX
from viking_rpc.domain.ports import SystemClock
from viking_rpc.errors import FailedPreconditionError, UnavailableError
from viking_rpc.server.exposure import check_exposure
from viking_rpc.server.figures import clear_figures
from viking_rpc.server.metrics_endpoint import MetricsEndpoint
from viking_rpc.server.port import SharedPort
from viking_rpc.server.readings import Readings
from viking_rpc.server.tls import CertificateFiles
from viking_rpc.server.worker import KEEPER, Failed, Ready, run_process
from viking_rpc.store.lock import DataLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from viking_rpc.config import Settings

logger = logging.getLogger(__name__)

_FIRST_DELAY_S: Final = 0.1
_MAX_DELAY_S: Final = 5.0
#: A process that lived so long is well; deaths before do not count against it.
_WELL_AFTER_S: Final = 60.0
#: A process that dies so often in a row does so for a reason that another start will not remove.
_MAX_DEATHS: Final = 10
#: What a process gets to end calls in work and to close its store, before it is ended.
_STOP_S: Final = 15.0


@dataclass(slots=True, eq=False)
class _Child:
    """A place for a process: the one that lives, or the time of its next start."""

    name: str
    process: BaseProcess | None = None
    control: Connection | None = None
    is_ready: bool = False
    started_s: float = 0.0
    start_at_s: float = 0.0
    n_deaths: int = 0


class Supervisor:
    """Holds the data directory and the port, and sees to it that a keeper and so many workers live.

    Args:
        settings: in effect; `server.workers` is how many.
        set_up: called first in every process, to be pickled: logging.
    """

    def __init__(self, settings: Settings, set_up: Callable[[], object] | None = None) -> None:
        """Start nothing yet."""
        self._settings = settings
        self._set_up = set_up
        self._context = multiprocessing.get_context("spawn")
        self._keeper = _Child(KEEPER)
        self._workers = [_Child(str(i + 1)) for i in range(settings.server.workers)]
        self._wake_r, self._wake_w = os.pipe()

    def stop(self) -> None:
        """Make `run` return, from a signal handler or another thread."""
        os.write(self._wake_w, b".")

    def run(self, on_bound: Callable[[str], None] | None = None) -> None:
        """Serve until `stop`, SIGINT or SIGTERM; the signals where this is the main thread.

        Args:
            on_bound: called with the address as soon as a worker serves.

        Raises:
            FailedPreconditionError: NOT_LOOPBACK, WORKERS_NEED_A_PORT, TLS_FILES_UNUSABLE, CANNOT_LISTEN,
                METRICS_CANNOT_LISTEN, or what locking the data directory and opening the store raise.
            UnavailableError: WORKERS_FAIL, a process dies again and again.
        """
        listen = self._settings.server.listen
        told = check_exposure(self._settings)
        if listen.startswith(UNIX):
            message = f"several workers share a port, not a path: {listen}"
            raise FailedPreconditionError("WORKERS_NEED_A_PORT", message, {"address": listen})
        if self._settings.tls.cert is not None:
            CertificateFiles(self._settings.tls)  # what cannot be used is told before anything is started
        if told:
            logger.warning("exposed reason=%s address=%s", told, listen)
        with _signals(self.stop), DataLock.acquire(self._settings.data) as lock, SharedPort(listen) as port:
            server = self._settings.server.model_copy(update={"listen": port.address})
            self._settings = self._settings.model_copy(update={"server": server})
            clear_figures(self._settings.data)
            readings = Readings(None, self._settings.data)
            metrics = MetricsEndpoint(self._settings.metrics, readings, SystemClock().now_us())
            try:
                if self._await_ready([self._keeper]) and self._await_ready(self._workers):
                    lock.announce(port.address)
                    logger.info("serving address=%s workers=%d", port.address, len(self._workers))
                    if on_bound is not None:
                        on_bound(port.address)
                    self._watch()
            finally:
                self._end(self._workers)
                self._end([self._keeper])
                metrics.close()
                clear_figures(self._settings.data)

    # -- living

    def _await_ready(self, children: list[_Child]) -> bool:
        """Start processes and wait until all are ready; returns whether nobody said stop. Raises why one cannot be."""
        for child in children:
            self._start(child)
        while not all(child.is_ready for child in children):
            if not self._look(is_first=True):
                return False
        return True

    def _watch(self) -> None:
        while self._look():
            pass

    def _look(self, *, is_first: bool = False) -> bool:
        """Wait for what happens next and answer it; returns whether nobody said stop."""
        children = [self._keeper, *self._workers]
        now = time.monotonic()
        waiting = [child.start_at_s - now for child in children if child.process is None and child.start_at_s]
        handles: list[Connection | int] = [self._wake_r]
        for child in children:
            handles += [child.process.sentinel] if child.process is not None else []
            handles += [child.control] if child.control is not None else []
        happened = connection.wait(handles, max(min(waiting), 0) if waiting else None)
        if self._wake_r in happened:
            return False
        for child in children:
            if child.control is not None and child.control in happened:
                self._hear(child, is_first=is_first)
            if child.process is not None and child.process.sentinel in happened:
                self._bury(child)
            if child.process is None and 0 < child.start_at_s <= time.monotonic():
                self._start(child)
        return True

    def _start(self, child: _Child) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=run_process, args=(child.name, self._settings, theirs, self._set_up), name=f"viking-{child.name}"
        )
        process.start()
        theirs.close()
        child.process, child.control = process, ours
        child.is_ready, child.started_s = False, time.monotonic()

    def _hear(self, child: _Child, *, is_first: bool) -> None:
        """Take what a process says of itself."""
        if child.control is None:
            return
        try:
            told = child.control.recv()
        except (EOFError, OSError):  # it died; its sentinel says so too
            child.control.close()
            child.control = None
            return
        if isinstance(told, Ready):
            child.is_ready = True
            logger.info("process_ready name=%s pid=%s", child.name, child.process.pid if child.process else None)
        elif isinstance(told, Failed):
            logger.error("process_failed name=%s reason=%s %s", child.name, told.error.reason, told.error)
            if is_first:
                raise told.error

    def _bury(self, child: _Child) -> None:
        """Decide when a process that died is started again."""
        if child.process is None:
            return
        child.process.join()
        lived_s = time.monotonic() - child.started_s
        child.n_deaths = 1 if lived_s > _WELL_AFTER_S else child.n_deaths + 1
        if child.n_deaths > _MAX_DEATHS:
            raise UnavailableError(
                "WORKERS_FAIL",
                f"process {child.name} died {child.n_deaths} times in a row; the log says why",
                {"process": child.name, "n_deaths": str(child.n_deaths)},
            )
        delay_s = min(_FIRST_DELAY_S * 2 ** (child.n_deaths - 1), _MAX_DELAY_S)
        logger.warning(
            "process_died name=%s exit=%s lived_s=%.1f again_in_s=%.1f",
            *(child.name, child.process.exitcode, lived_s, delay_s),
        )
        child.process.close()
        child.process, child.is_ready = None, False
        if child.control is not None:
            child.control.close()
            child.control = None
        child.start_at_s = time.monotonic() + delay_s

    # -- the end

    def _end(self, children: list[_Child]) -> None:
        """Tell processes that it is over, and end those that do not follow in time."""
        alive = [child for child in children if child.process is not None]
        for child in alive:
            if child.control is not None:
                with contextlib.suppress(OSError):
                    child.control.send(None)
        until_s = time.monotonic() + _STOP_S
        for child in alive:
            if child.process is None:
                continue
            child.process.join(max(until_s - time.monotonic(), 0))
            if child.process.is_alive():
                logger.warning("process_ended name=%s", child.name)
                child.process.kill()
                child.process.join()
            child.process.close()
            child.process = None
            if child.control is not None:
                child.control.close()
                child.control = None


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """Let SIGINT and SIGTERM stop the server, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stop()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def supervise(
    settings: Settings, on_bound: Callable[[str], None] | None = None, set_up: Callable[[], object] | None = None
) -> None:
    """Serve with several processes until SIGINT or SIGTERM; blocking. Raises as `Supervisor.run`."""
    Supervisor(settings, set_up).run(on_bound)
