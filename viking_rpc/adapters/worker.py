"""Run a local model on one thread of its own, so that callers wait no longer than they want to."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from viking_rpc.errors import DeadlineExceededError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class ModelWorker:
    """One thread; calls run in order. A call that is given up while it waits in line never runs.

    Args:
        embedder: the model's name, for messages.
    """

    def __init__(self, embedder: str) -> None:
        """Make the worker; its thread starts with the first call."""
        self._embedder = embedder
        self._executor = ThreadPoolExecutor(1, thread_name_prefix=f"embed-{embedder}")

    def run(self, call: Callable[[], T], timeout_s: float | None = None) -> T:
        """Run a call and wait for it.

        Raises:
            DeadlineExceededError: reason EMBED_TIMEOUT.
        """
        future = self._executor.submit(call)
        try:
            return future.result(timeout_s)
        except TimeoutError as error:
            future.cancel()
            raise embed_timeout(self._embedder, timeout_s) from error

    async def run_async(self, call: Callable[[], T], timeout_s: float | None = None) -> T:
        """Run a call without blocking the event loop. Raises as `run`."""
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.wrap_future(self._executor.submit(call))
        except TimeoutError as error:
            raise embed_timeout(self._embedder, timeout_s) from error

    def close(self) -> None:
        """Let the thread end after the call that it runs; calls in line are cancelled."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def embed_timeout(embedder: str, timeout_s: float | None) -> DeadlineExceededError:
    """Return the error of a query whose embedding did not come in time."""
    allowed = "the time allowed" if timeout_s is None else f"{timeout_s:.3g} s"
    return DeadlineExceededError(
        "EMBED_TIMEOUT",
        f"embed_query: the embedder {embedder!r} gave no vector within {allowed}",
        {"stage": "embed_query", "embedder": embedder, "timeout_s": "" if timeout_s is None else f"{timeout_s:.3g}"},
    )
