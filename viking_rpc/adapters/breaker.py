"""A circuit breaker: an endpoint that keeps failing is left alone for a moment, and then tried by one call."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class CircuitBreaker:
    """Counts failures in a row; thread-safe.

    Closed: every call passes. Open, after `failures` in a row: none does, for `reset_s`. Then half-open: one call
    passes, and its end decides. Every call that passed must end in `succeed`, `fail` or `abandon`.

    Args:
        failures: how many failures in a row open it.
        reset_s: how long it stays open.
        clock: monotonic seconds.
    """

    def __init__(self, failures: int = 5, reset_s: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Start closed."""
        self._limit, self._reset_s, self._clock = failures, reset_s, clock
        self._lock = threading.Lock()
        self._n_failures = 0
        self._opened_at: float | None = None
        self._is_probing = False

    def wait_s(self) -> float:
        """Ask to pass: return 0.0 for yes, else the seconds after which asking again may help."""
        with self._lock:
            if self._opened_at is None:
                return 0.0
            left = self._opened_at + self._reset_s - self._clock()
            if left > 0.0 or self._is_probing:
                return max(left, 0.05 * self._reset_s, 0.001)
            self._is_probing = True
            return 0.0

    def succeed(self) -> None:
        """Say that a call worked."""
        with self._lock:
            self._n_failures, self._opened_at, self._is_probing = 0, None, False

    def fail(self) -> None:
        """Say that a call failed by the endpoint's fault."""
        with self._lock:
            self._n_failures += 1
            self._is_probing = False
            if self._n_failures >= self._limit:
                self._opened_at = self._clock()

    def abandon(self) -> None:
        """Say that a call ended without telling anything about the endpoint (cancelled, or given too little time)."""
        with self._lock:
            self._is_probing = False
