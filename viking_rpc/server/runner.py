"""The state of a running server: the store, the embedder, the threads for what blocks, and the calls in work."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import numpy as np

from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.ports import SystemClock
from viking_rpc.domain.query import Query, RetrieveRequest
from viking_rpc.engine import open_store, search_settings
from viking_rpc.errors import DeadlineExceededError, UnavailableError, VikingError
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.server.admission import Admission
from viking_rpc.server.checkpointing import Checkpointing
from viking_rpc.server.encoded import EncodedContexts
from viking_rpc.server.figures import Figures
from viking_rpc.server.pulse import pulse
from viking_rpc.server.readings import Readings
from viking_rpc.server.recording import Recorder
from viking_rpc.server.touching import Touches
from viking_rpc.store.operations import Touch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from viking_rpc.config import Settings
    from viking_rpc.domain.ports import Clock, Embedder, Planner, Reranker
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.server.call import Call
    from viking_rpc.store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger(__name__)

_N_THREADS: Final = 4
#: Batches of import streams in work at once: the other threads are for everybody else.
_N_IMPORTS: Final = 2
#: Expired contexts, with their subtrees, that one transaction removes.
_PURGED_AT_ONCE: Final = 256
#: How often a call looks whether the state that it waits for has come.
_POLL_S: Final = 0.01


class Runner:
    """What the services share; of one event loop.

    Args:
        settings: in effect.
        embedder: of the store's model.
        clock: says what time it is.
        planner: turns tasks into queries; None: there is none.
        reranker: scores texts against queries; None: there is none.
        is_shared: whether other processes serve the same store.
        figures: where this process counts; None: where no other one sees it.
    """

    def __init__(
        self,
        settings: Settings,
        embedder: Embedder,
        clock: Clock | None = None,
        planner: Planner | None = None,
        reranker: Reranker | None = None,
        *,
        is_shared: bool = False,
        figures: Figures | None = None,
    ) -> None:
        """Make the parts that need no disk; `load` does the rest."""
        self.settings = settings
        self._is_shared = is_shared
        self.embedder = embedder
        self.planner = planner
        self.reranker = reranker
        self.recorder = Recorder(figures or Figures())
        self.readings = Readings(self.recorder.figures, settings.data if is_shared else None)
        self.clock: Clock = clock or SystemClock()
        self.admission = Admission(settings.server.max_in_flight)
        self.encoded = EncodedContexts()
        self.search = search_settings(settings)
        self.touches = Touches(self._touch)
        self.checkpoints = Checkpointing(self)
        self.importing = asyncio.Semaphore(_N_IMPORTS)
        self.start_us = self.clock.now_us()
        self._store: Store | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._threads = ThreadPoolExecutor(_N_THREADS, thread_name_prefix="viking")

    @property
    def store(self) -> Store:
        """Return the store.

        Raises:
            UnavailableError: NOT_READY, it is not loaded yet.
        """
        if self._store is None:
            raise UnavailableError("NOT_READY", "the server is still loading its store")
        return self._store

    async def load(self) -> None:
        """Open the store and take calls from now on. Raises what opening it raises."""
        loop = asyncio.get_running_loop()
        self._store = await loop.run_in_executor(
            self._threads, lambda: open_store(self.settings, self.embedder, clock=self.clock, is_shared=self._is_shared)
        )
        await loop.run_in_executor(self._threads, self._warm, self._store)
        self._tasks.append(asyncio.create_task(self._purge_again_and_again()))
        if self.settings.metrics.port is not None:
            self._tasks.append(asyncio.create_task(pulse(self)))
        self.admission.open()

    async def close(self) -> None:
        """Close the store, when what runs in threads has ended; a second call does nothing."""
        for task in self._tasks:
            task.cancel()
        await self.touches.close()
        store, self._store = self._store, None
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._threads.shutdown)
        if store is not None:
            await loop.run_in_executor(None, store.close)
        models = (self.planner, self.reranker)
        self.planner = self.reranker = None
        for model in models:
            if model is not None:
                await loop.run_in_executor(None, model.close)

    async def snapshot(self, call: Call) -> Snapshot:
        """Return the newest state of the caller's account, which is loaded in a thread when nobody asked before."""
        account = call.identity.account
        snapshot = self.store.loaded(account)
        if snapshot is None:
            snapshot = await self.in_thread(call, self.store.snapshot, account)
        return snapshot

    async def in_thread(self, call: Call, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run what blocks in a thread, until the call's deadline; a write that has begun is finished all the same.

        Raises:
            DeadlineExceededError: the call's time is over first.
        """
        return await self.in_time(call, self.finish(function, *args, **kwargs))

    async def in_time(self, call: Call, work: Awaitable[R]) -> R:
        """Wait for work until the call's deadline.

        Raises:
            DeadlineExceededError: the call's time is over first.
        """
        try:
            # asyncio.wait_for of Python 3.11 forgets that it was cancelled where the work is done at that moment
            async with asyncio.timeout(call.remaining_s):
                return await work
        except TimeoutError as error:
            raise late("the call did not end within its deadline") from error

    def finish(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """Run what blocks in a thread, to its end."""
        return asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))

    async def purge(self) -> None:
        """Remove what is expired, a little at a time, so that writers get their turn; a failure is only logged."""
        try:
            while n_removed := await self.finish(self.store.purge_expired, _PURGED_AT_ONCE):
                logger.info("purged contexts=%d", n_removed)
        except VikingError as error:
            logger.warning("purge_failed code=%s reason=%s", error.code, error.reason)

    async def reach(self, call: Call, min_revision: int) -> None:
        """Wait until the newest state is at least so new.

        Raises:
            DeadlineExceededError: REVISION_NOT_REACHED.
        """
        if not min_revision:
            return
        while (revision := (await self.snapshot(call)).revision) < min_revision:
            if call.remaining_s <= _POLL_S:
                raise DeadlineExceededError(
                    "REVISION_NOT_REACHED",
                    f"revision {min_revision} did not come within the deadline; the newest is {revision}",
                    {"min_revision": str(min_revision), "revision": str(revision)},
                )
            await asyncio.sleep(_POLL_S)

    async def _touch(self, account: str, uris: Sequence[str]) -> int:
        """Count contexts as used, each as often as it is named."""
        touch = Touch(tuple(uris), allow_missing=True)
        return (await self.finish(self.store.apply, account, [touch])).revision

    async def _purge_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self.settings.server.purge_interval_s)
            await self.purge()

    def _warm(self, store: Store) -> None:
        """Load the local account and run one query, so that the first caller does not pay for what is lazy."""
        snapshot = store.snapshot(LOCAL.account)
        vector = np.zeros(snapshot.dimensions, np.float32)
        vector[0] = 1.0
        request = RetrieveRequest(Query(vector=vector, lexical_text="warm"))
        retrieval = Retrieval(snapshot, request, LOCAL, vector=vector, now_us=self.clock.now_us(), settings=self.search)
        while not retrieval.advance():
            pass
        retrieval.result()
        if self.embedder.is_inline:
            with suppress(VikingError):  # one that takes ready vectors only
                self.embedder.embed_query("warm")


def late(message: str) -> DeadlineExceededError:
    """Return the error of a call whose time is over."""
    return DeadlineExceededError("DEADLINE_EXCEEDED", message)


def check_time(call: Call) -> None:
    """Refuse to go on after the deadline.

    Raises:
        DeadlineExceededError: the call's time is over.
    """
    if time.monotonic() >= call.deadline_s:
        raise late("the call did not end within its deadline")
