"""Count the calls in work, and refuse the one that is too many at once instead of letting it wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viking_rpc.errors import ResourceExhaustedError, UnavailableError

if TYPE_CHECKING:
    from types import TracebackType

_RETRY_S = 0.1


class Admission:
    """A counter to enter with `with`; of one event loop, so it takes no lock.

    Args:
        limit: the most calls in work.
    """

    def __init__(self, limit: int) -> None:
        """Begin with none in work, and closed."""
        self._limit = limit
        self._n_in_flight = 0
        self._is_open = False
        self._is_draining = False

    @property
    def n_in_flight(self) -> int:
        """Return how many calls are in work."""
        return self._n_in_flight

    def open(self) -> None:
        """Take calls from now on."""
        self._is_open = True

    def drain(self) -> None:
        """Take no new calls from now on; those in work go on."""
        self._is_draining = True

    def __enter__(self) -> None:
        """Take one call in.

        Raises:
            UnavailableError: NOT_READY, SHUTTING_DOWN.
            ResourceExhaustedError: TOO_MANY_CALLS.
        """
        if self._is_draining:
            raise UnavailableError("SHUTTING_DOWN", "the server is shutting down", retry_after_s=_RETRY_S)
        if not self._is_open:
            raise UnavailableError("NOT_READY", "the server is still loading its store", retry_after_s=_RETRY_S)
        if self._n_in_flight >= self._limit:
            raise ResourceExhaustedError(
                "TOO_MANY_CALLS",
                f"{self._limit} calls are in work, which is the limit",
                {"limit": str(self._limit)},
                retry_after_s=_RETRY_S,
            )
        self._n_in_flight += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let it out, however it ended."""
        self._n_in_flight -= 1
