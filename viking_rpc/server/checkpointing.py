"""Make checkpoints when somebody asks: one at a time in a process, and calls at the same time share one."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from viking_rpc.errors import VikingError

if TYPE_CHECKING:
    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner

logger = logging.getLogger(__name__)


class _Run(NamedTuple):
    account: str
    future: asyncio.Future[int]


class Checkpointing:
    """Of one event loop. A run that has begun goes on when its caller is gone, and ends before the store is closed."""

    def __init__(self, runner: Runner) -> None:
        """Remember the shared state."""
        self._runner = runner
        self._running: _Run | None = None

    async def make(self, call: Call) -> int:
        """Return the revision of a checkpoint of the caller's account that has all that is committed by now.

        Raises:
            DeadlineExceededError: the call's time is over first; the run goes on.
            VikingError: it cannot be written.
        """
        runner, account = self._runner, call.identity.account
        await runner.snapshot(call)
        wanted = await runner.in_thread(call, runner.store.database.revision, account)
        while True:
            run = self._running
            if run is None or run.future.done():
                run = self._running = self._start(account, wanted)
            try:
                made = await runner.in_time(call, asyncio.shield(run.future))
            except VikingError:
                if run.account == account or call.remaining_s <= 0:
                    raise
                continue  # it was another account's
            if run.account == account and made >= wanted:
                return made

    def _start(self, account: str, wanted: int) -> _Run:
        future = self._runner.finish(self._runner.store.checkpoint, account, wanted)
        future.add_done_callback(_tell)
        return _Run(account, future)


def _tell(future: asyncio.Future[int]) -> None:
    """Log what went wrong, also when nobody waits for it any more."""
    error = future.exception()
    if isinstance(error, VikingError):
        logger.warning("checkpoint_failed code=%s reason=%s", error.code, error.reason)
