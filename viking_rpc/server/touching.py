"""Collect what was used, so that many callers share one write: those who wait for it, and the server for itself."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from viking_rpc.errors import VikingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

logger = logging.getLogger(__name__)

#: How long the server collects what it served before it writes the counts.
DELAY_S: Final = 0.1
#: URIs that wait for that; what is served beyond them is not counted.
MAX_LATER: Final = 65_536
#: URIs of one transaction, so that other writers get their turn.
MAX_AT_ONCE: Final = 1_024


class _Group:
    """Counts of one account that are written together, and what came of it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.outcome: asyncio.Future[int | VikingError] = asyncio.get_running_loop().create_future()


class Touches:
    """Counts on their way to the store; of one event loop, so it takes no lock.

    While a group of an account is written, the next one gathers: nobody waits longer than for two writes, and however
    many callers there are, there is one write at a time for each account.

    Args:
        write: writes the touches of one account, each URI as often as it was used, and gives the revision.
        delay_s: how long `later` collects.
    """

    def __init__(self, write: Callable[[str, Sequence[str]], Awaitable[int]], delay_s: float = DELAY_S) -> None:
        """Begin with none."""
        self._write = write
        self._delay_s = delay_s
        self._next: dict[str, _Group] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._later: dict[str, Counter[str]] = {}
        self._n_later = 0
        self._n_dropped = 0
        self._timer: asyncio.TimerHandle | None = None

    async def now(self, account: str, uris: Iterable[str]) -> int:
        """Count contexts, and return the revision that has the counts when it is on the disk.

        Raises:
            VikingError: what the store raises; nothing was counted then.
        """
        outcome = await asyncio.shield(self._begin(account, Counter(uris)))
        if isinstance(outcome, VikingError):
            raise outcome
        return outcome

    def later(self, account: str, uris: Iterable[str]) -> None:
        """Count contexts soon, without telling what came of it."""
        if self._n_later >= MAX_LATER:
            self._n_dropped += 1
            return
        counts = self._later.setdefault(account, Counter())
        self._n_later -= len(counts)
        counts.update(uris)
        self._n_later += len(counts)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._delay_s, self._begin_later)

    async def close(self) -> None:
        """Write what waits, and wait for it."""
        if self._timer is not None:
            self._timer.cancel()
            self._begin_later()
        while self._writing:
            await asyncio.gather(*self._writing.values())

    def _begin(self, account: str, counts: Counter[str]) -> asyncio.Future[int | VikingError]:
        group = self._next.get(account)
        if group is None:
            group = self._next[account] = _Group()
        group.counts.update(counts)
        if account not in self._writing:
            self._writing[account] = asyncio.create_task(self._write_groups(account))
        return group.outcome

    def _begin_later(self) -> None:
        self._timer = None
        later, self._later, self._n_later = self._later, {}, 0
        if self._n_dropped:
            logger.warning("touches_dropped answers=%d", self._n_dropped)
            self._n_dropped = 0
        for account, counts in later.items():
            self._begin(account, counts)

    async def _write_groups(self, account: str) -> None:
        """Write group after group until none has gathered."""
        try:
            while (group := self._next.pop(account, None)) is not None:
                outcome = await self._outcome(account, group.counts)
                if not group.outcome.done():
                    group.outcome.set_result(outcome)
        finally:
            del self._writing[account]

    async def _outcome(self, account: str, counts: Counter[str]) -> int | VikingError:
        uris = list(counts)
        revision = 0
        try:
            for lo in range(0, len(uris), MAX_AT_ONCE):
                part = [uri for uri in uris[lo : lo + MAX_AT_ONCE] for _ in range(counts[uri])]
                revision = await self._write(account, part)
        except VikingError as error:
            logger.warning("touches_lost uris=%d code=%s reason=%s", len(uris), error.code, error.reason)
            return error
        except Exception:  # whoever waits must hear of it
            logger.exception("touches_lost uris=%d", len(uris))
            return VikingError("INTERNAL", "an internal error occurred")
        return revision
