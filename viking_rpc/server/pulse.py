"""Once a second, note for the metrics what changes by itself: revisions behind, accounts in memory, the cache."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from viking_kernels import _jit
from viking_rpc.errors import VikingError
from viking_rpc.server.log_pipeline import take_dropped

if TYPE_CHECKING:
    from viking_rpc.server.runner import Runner

_PULSE_S: Final = 1.0


async def pulse(runner: Runner) -> None:
    """Go on until cancelled."""
    n_told = 0
    while True:
        n_misses = _jit.cache_misses
        try:
            lag, n_loaded = await runner.finish(runner.store.lag)
        except VikingError:  # the next second will tell
            lag, n_loaded = 0, 0
        runner.recorder.notice(
            revision_lag=lag, n_loaded=n_loaded, n_cache_misses=n_misses - n_told, n_dropped_lines=take_dropped()
        )
        n_told = n_misses
        await asyncio.sleep(_PULSE_S)
