"""The processes of a server with several workers: what each does from its start to its end.

They are spawned, never forked: gRPC's threads, numba's compiled code and SQLite's connections do not survive a fork. A
process ends when its supervisor says so, when it gets SIGTERM, and when its supervisor is gone, whichever comes first.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from viking_rpc.errors import VikingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from viking_rpc.config import Settings

KEEPER: Final = "keeper"

#: How often the keeper looks whether an account is due.
_KEEP_S: Final = 0.5
#: Layouts are urgent for nobody; queries go first.
_KEEPER_NICENESS: Final = 10
#: A thread of Python that computes lets another one run after this time; the default would be felt in every query.
SWITCH_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Ready:
    """A process does its work from now on."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A process could not begin, for a reason that the operator must hear."""

    error: VikingError


def run_process(name: str, settings: Settings, control: Connection, set_up: Callable[[], object] | None) -> None:
    """Be a worker or the keeper until the end.

    Args:
        name: `KEEPER`, or what the access log calls the worker.
        settings: in effect, with the address that all workers share.
        control: to the supervisor; it is told `Ready` or `Failed`, and anything from it means the end, also its loss.
        set_up: called first: logging.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the supervisor decides
    if set_up is not None:
        set_up()
    try:
        if name == KEEPER:
            _keep(settings, control)
        else:
            _work(name, settings, control)
    except VikingError as error:
        with suppress(OSError):
            control.send(Failed(error))
        sys.exit(1)


def _work(name: str, settings: Settings, control: Connection) -> None:
    from viking_rpc.server.app import Server, fast_loop

    sys.setswitchinterval(SWITCH_S)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stopping.set)
        _when_told(control, lambda: loop.call_soon_threadsafe(stopping.set))
        server = Server(settings, worker=name)
        try:
            await server.load()
            await server.start()  # after loading: the kernel gives connections to whoever listens
            control.send(Ready())
            await stopping.wait()
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(main())


def _keep(settings: Settings, control: Connection) -> None:
    from viking_rpc.adapters.embedders import make_embedder
    from viking_rpc.engine import open_store, store_settings
    from viking_rpc.store.keeper import Keeper

    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    _when_told(control, stopping.set)
    with open_store(settings, make_embedder(settings.embedder), is_shared=True) as store:
        keeper = Keeper(store.folder, store.database, store_settings(settings, is_shared=True))
        keeper.keep()  # once: else each worker would do it at the same time, and keep it to itself
        control.send(Ready())
        os.nice(_KEEPER_NICENESS)
        while not stopping.wait(_KEEP_S):
            keeper.keep()


def _when_told(control: Connection, act: Callable[[], object]) -> None:
    """Act when the supervisor says that it is over, or is gone."""

    def wait() -> None:
        with suppress(EOFError, OSError):
            control.recv()
        with suppress(RuntimeError):  # the loop is closed already
            act()

    threading.Thread(target=wait, name="control", daemon=True).start()
