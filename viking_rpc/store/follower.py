"""A thread that tells when any process has committed, so that the others follow its change log."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from viking_rpc.errors import VikingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from viking_rpc.store.connections import Watch
    from viking_rpc.store.database import Database

logger = logging.getLogger(__name__)

#: A look costs some ten microseconds, a hundred of them a thousandth of a core.
LOOK_S: Final = 0.01
#: How often what is less urgent is done.
IDLE_S: Final = 0.5
_PAUSE_AFTER_ERROR_S: Final = 0.5


class Follower:
    """Looks for commits until it is stopped."""

    def __init__(self, database: Database, follow: Callable[[], None], idle: Callable[[], None]) -> None:
        """Start the thread.

        Args:
            database: looked at.
            follow: called soon after each commit, of this process or another.
            idle: called every half a second.
        """
        self._database = database
        self._follow = follow
        self._idle = idle
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; a second call does nothing."""
        self._is_stopped.set()
        self._thread.join()

    def _run(self) -> None:
        watch: Watch | None = None
        n_looks = 0
        while not self._is_stopped.wait(LOOK_S):
            n_looks += 1
            try:
                watch = watch or self._database.watch()
                if watch.has_changed():
                    self._follow()
                if n_looks * LOOK_S >= IDLE_S:
                    n_looks = 0
                    self._idle()
            except VikingError as error:
                logger.warning("follow_failed reason=%s %s", error.reason, error)
                watch = _close(watch)
                self._is_stopped.wait(_PAUSE_AFTER_ERROR_S)
            except Exception:
                # The state goes stale without this thread: it must not end while the process serves.
                logger.exception("follow_failed")
                watch = _close(watch)
                self._is_stopped.wait(_PAUSE_AFTER_ERROR_S)
        _close(watch)


def _close(watch: Watch | None) -> Watch | None:
    """Close a watch; returns none, and the next look opens another one and finds a change."""
    if watch is not None:
        watch.close()
    return None
