"""Keeps the checkpoints of a data directory that several processes serve: lays out what has changed, holds no tree."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from viking_rpc.errors import VikingError
from viking_rpc.store.layouts import Layouts

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.store.database import Database
    from viking_rpc.store.layouts import StoreSettings

logger = logging.getLogger(__name__)


class Keeper:
    """Makes new checkpoints; of one thread. The processes that serve take them into memory (`AccountTree.adopt`)."""

    def __init__(self, folder: Path, database: Database, settings: StoreSettings) -> None:
        """Remember the store.

        Args:
            folder: the data directory.
            database: the truth.
            settings: the same that the serving processes have, with `is_shared`.
        """
        self._database = database
        self._settings = settings
        self._layouts = Layouts(folder, database, settings)
        self._seen: dict[str, int] = {}

    def keep(self) -> int:
        """Lay out every account that is due and save it; returns how many.

        What cannot be saved is told in the log and tried again when somebody has written.
        """
        n_made = 0
        for account, revision in self._database.revisions().items():
            if self._seen.get(account) == revision and self._layouts.revision(account):
                continue
            if self._is_due(account):
                n_made += self._make(account)
            self._seen[account] = revision
        return n_made

    def _is_due(self, account: str) -> bool:
        kept = self._layouts.revision(account)
        n_rows, n_stale = self._database.staleness(account, kept)
        if n_rows < max(self._settings.min_checkpoint_rows, 1):
            return False
        return not kept or self._settings.is_due(n_rows, n_stale)

    def _make(self, account: str) -> bool:
        started = time.monotonic()
        try:
            snapshot = self._layouts.make(account)
            self._layouts.save(account, snapshot)
        except VikingError as error:
            logger.warning("keep_failed reason=%s %s", error.reason, error)
            return False
        seconds = time.monotonic() - started
        logger.info("layout revision=%d rows=%d seconds=%.2f", snapshot.revision, snapshot.n_rows, seconds)
        return True
