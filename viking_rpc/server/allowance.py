"""How much one key may ask for in this process: so many calls a second, so many in work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from viking_rpc.errors import ResourceExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_RETRY_S: Final = 0.1


class Allowance:
    """A bucket of calls that fills up with time, and a counter; to enter with `with`, in one event loop.

    Args:
        rate: calls a second; 0 sets no limit.
        burst: what the bucket holds; 0: the calls of one second, at least one.
        max_calls: calls in work; 0 sets no limit.
        now_s: a clock that only goes forward.
    """

    __slots__ = ("_burst", "_last_s", "_left", "_max_calls", "_n_calls", "_now_s", "_rate")

    def __init__(self, rate: float, burst: int, max_calls: int, now_s: Callable[[], float] = time.monotonic) -> None:
        """Begin with a full bucket."""
        self._rate = rate
        self._burst = float(burst) if burst else max(rate, 1.0)
        self._max_calls = max_calls
        self._now_s = now_s
        self._left = self._burst
        self._last_s = now_s()
        self._n_calls = 0

    @property
    def n_calls(self) -> int:
        """Return how many calls are in work."""
        return self._n_calls

    def __enter__(self) -> None:
        """Take one call in; one that is refused costs nothing.

        Raises:
            ResourceExhaustedError: KEY_TOO_MANY_CALLS, KEY_RATE_EXCEEDED; both say when to come again.
        """
        if self._max_calls and self._n_calls >= self._max_calls:
            raise ResourceExhaustedError(
                "KEY_TOO_MANY_CALLS",
                f"{self._max_calls} calls of this key are in work, which is its limit",
                {"limit": str(self._max_calls)},
                retry_after_s=_RETRY_S,
            )
        if self._rate:
            now_s = self._now_s()
            self._left = min(self._burst, self._left + (now_s - self._last_s) * self._rate)
            self._last_s = now_s
            if self._left < 1.0:
                raise ResourceExhaustedError(
                    "KEY_RATE_EXCEEDED",
                    f"this key may make {self._rate:g} calls a second",
                    {"limit": f"{self._rate:g}"},
                    retry_after_s=(1.0 - self._left) / self._rate,
                )
            self._left -= 1.0
        self._n_calls += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let it out, however it ended."""
        self._n_calls -= 1


#: For everybody who has no limits of their own.
UNLIMITED: Final = Allowance(0.0, 0, 0)
