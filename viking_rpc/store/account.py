"""One account's current snapshot: loaded when it is asked for, moved on by writes, laid out anew beside the readers."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from viking_rpc.errors import DeadlineExceededError, VikingError
from viking_rpc.index.records import merged
from viking_rpc.index.update import apply_changes
from viking_rpc.store.checkpoint import DamagedCheckpointError, StaleCheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from viking_rpc.index.records import ChangeSet
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.store.database import Committed, Database
    from viking_rpc.store.layouts import Layouts

logger = logging.getLogger(__name__)


class AccountTree:
    """The changing part of one account. Readers take `snapshot` without a lock; writers come through `advance`."""

    def __init__(self, account: str, database: Database, layouts: Layouts, note: Callable[[str], None]) -> None:
        """Load nothing yet.

        Args:
            account: its name.
            database: the truth.
            layouts: makes and keeps laid-out trees.
            note: told what was found damaged and rebuilt.
        """
        self.account = account
        self._database = database
        self._layouts = layouts
        self._settings = layouts.settings
        self._note = note
        self._swapping = threading.Lock()  # held by whoever puts the next snapshot in place
        self._laying_out = threading.Lock()  # one layout at a time, or an older checkpoint could replace a newer one
        self._is_newer = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._snapshot: Snapshot | None = None
        self._committed: dict[int, ChangeSet] = {}  # by revision: this process wrote them, nobody has applied them yet
        self._base_revision = 0  # at which the snapshot in place was laid out
        self.checkpoint_revision = 0
        #: When it was asked for last; what is older is unloaded first.
        self.used = 0

    @property
    def snapshot(self) -> Snapshot:
        """Return the current state; the first call loads it."""
        snapshot = self._snapshot
        if snapshot is None:
            with self._swapping:
                snapshot = self._snapshot
                if snapshot is None:
                    snapshot = self._snapshot = self._load()
        return snapshot

    @property
    def loaded(self) -> Snapshot | None:
        """Return the current state; None when it is not in memory."""
        return self._snapshot

    def unload(self) -> bool:
        """Let go of the state, unless it is being worked on; who holds a snapshot keeps it."""
        if not self._swapping.acquire(blocking=False):
            return False
        try:
            if self._thread is not None and self._thread.is_alive():
                return False
            self._snapshot = None
            self._committed.clear()
            return True
        finally:
            self._swapping.release()

    # -- from the disk

    def _load(self) -> Snapshot:
        """Take the checkpoint and what was written since; lay the tree out if that cannot be."""
        revision = self._database.revision(self.account)
        snapshot, problem, level = None, "", logging.WARNING
        try:
            snapshot = self._layouts.load(self.account, max_revision=revision)
        except StaleCheckpointError as error:
            is_missing = error.reason == "CHECKPOINT_MISSING"
            problem = f"{'is missing' if is_missing else f'is stale ({error.message})'} and is rebuilt"
            level = logging.INFO if is_missing else logging.WARNING
        except DamagedCheckpointError as error:
            problem = f"is damaged and is rebuilt ({error.message})"
            if self._settings.is_shared:
                self._layouts.discard(self.account)
        if snapshot is not None:
            self._base_revision = self.checkpoint_revision = snapshot.revision
            snapshot = self._caught_up(snapshot)
        if snapshot is None:
            snapshot = self._laid_out(is_urgent=True)
            if problem and self._layouts.is_kept(snapshot):  # a first import that went past this object left none yet
                self._tell_operator(problem, level)
            self._save(snapshot)
        return snapshot

    def _caught_up(self, snapshot: Snapshot) -> Snapshot | None:
        """Return the snapshot with all that was committed after it; None when only a layout can tell."""
        changes = self._database.changes_since(self.account, snapshot.revision)
        if changes is None:
            return None
        for change in changes:
            snapshot = apply_changes(snapshot, change)
        return snapshot

    def _laid_out(self, *, is_urgent: bool = False) -> Snapshot:
        snapshot = self._layouts.make(self.account, is_urgent=is_urgent)
        self._base_revision = snapshot.revision
        return snapshot

    def _save(self, snapshot: Snapshot, *, is_asked: bool = False) -> None:
        """Write the checkpoint of a snapshot just laid out; when it cannot be written, that costs time only."""
        if not self._layouts.is_kept(snapshot) or snapshot.revision < self.checkpoint_revision:
            return
        if self._settings.is_shared and not is_asked:  # the keeper's
            return
        try:
            self._layouts.save(self.account, snapshot)
        except VikingError as error:
            self._tell_operator(f"could not be written ({error.message})")
        else:
            self.checkpoint_revision = snapshot.revision

    def _tell_operator(self, what: str, level: int = logging.WARNING) -> None:
        text = f"the checkpoint of account {self.account} {what}"
        logger.log(level, "derived_file %s", text)
        self._note(text)

    # -- writes

    def expect(self, committed: Committed) -> None:
        """Take note of a batch of this process, which one of the next `advance` puts in place."""
        if self._snapshot is not None:
            self._committed[committed.revision] = committed.change_set
            if self._snapshot.revision >= committed.revision:  # a follower was faster
                self._committed.pop(committed.revision, None)

    def advance(self, revision: int) -> None:
        """Put a snapshot in place that is at least this new, unless somebody did or nobody has loaded the account.

        Batches that were committed together are applied together, by whoever comes first.
        """
        with self._swapping:
            snapshot = self._snapshot
            if snapshot is None or snapshot.revision >= revision:
                return
            is_first = not snapshot.n_contexts  # laid out at once, or its words would have no weights
            following = None if is_first else self._following(snapshot, revision)
            self._snapshot = following = following if following is not None else self._laid_out()
            for applied in [number for number in list(self._committed) if number <= following.revision]:
                self._committed.pop(applied, None)
        self._tell()
        if is_first:
            with self._laying_out:
                self._save(following)
        else:
            self._lay_out_later()

    def _following(self, snapshot: Snapshot, revision: int) -> Snapshot | None:
        """Return the snapshot with all that this process has committed since; None when only a layout can tell."""
        changes: list[ChangeSet] = []
        while (change := self._committed.get(snapshot.revision + len(changes) + 1)) is not None:
            changes.append(change)
        if snapshot.revision + len(changes) < revision:  # another process wrote in between
            return self._caught_up(snapshot)
        return apply_changes(snapshot, merged(changes))

    def _tell(self) -> None:
        with self._is_newer:
            self._is_newer.notify_all()

    def wait_for(self, revision: int, timeout_s: float) -> Snapshot:
        """Return a snapshot that is at least this new.

        Raises:
            DeadlineExceededError: REVISION_NOT_REACHED within `timeout_s`.
        """
        with self._is_newer:
            if self._is_newer.wait_for(lambda: self.snapshot.revision >= revision, timeout_s):
                return self.snapshot
        now = self.snapshot.revision
        raise DeadlineExceededError(
            "REVISION_NOT_REACHED",
            f"revision {revision} was not reached in time, the newest is {now}",
            {"min_revision": str(revision), "revision": str(now)},
            retry_after_s=0.1,
        )

    # -- layouts

    def _lay_out_later(self) -> None:
        """Start a layout in the background when enough is fresh."""
        snapshot, settings = self._snapshot, self._settings
        if snapshot is None or not settings.is_due(snapshot.n_rows, pending_rows(snapshot) + snapshot.n_gone):
            return
        if not (settings.is_shared and self._layouts.is_kept(snapshot)):  # else the keeper does it
            self._start(self._renew)

    def adopt(self) -> None:
        """Take the newest checkpoint in the background where another process wrote one, and enough is fresh here."""
        snapshot = self._snapshot
        if snapshot is None or not self._settings.is_due(snapshot.n_rows, pending_rows(snapshot) + snapshot.n_gone):
            return
        if self._layouts.revision(self.account) > self._base_revision:
            self._start(self._take_checkpoint)

    def _start(self, work: Callable[[], None]) -> None:
        """Do work that takes long in a thread of its own, one at a time."""
        with self._swapping:
            if self._is_closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._alone, args=(work,), name="layout")
            self._thread.start()

    def _alone(self, work: Callable[[], None]) -> None:
        """Work in a thread of its own, where an error has nobody to go to."""
        try:
            with self._laying_out:
                work()
        except VikingError as error:
            self._tell_operator(f"could not be renewed ({error.message})")

    def _renew(self, *, is_asked: bool = False) -> None:
        """Lay the account out anew, catch up with what was written meanwhile, swap, save."""
        started = time.monotonic()
        fresh = self._layouts.make(self.account, is_urgent=is_asked)
        self._replace(fresh)
        self._save(fresh, is_asked=is_asked)
        logger.info("layout revision=%d rows=%d seconds=%.2f", fresh.revision, fresh.n_rows, time.monotonic() - started)

    def _take_checkpoint(self) -> None:
        """Swap in what another process laid out."""
        started = time.monotonic()
        fresh = self._layouts.load(self.account, max_revision=self._database.revision(self.account))
        self._replace(fresh)
        self.checkpoint_revision = fresh.revision
        taken_s = time.monotonic() - started
        logger.info("checkpoint_taken revision=%d rows=%d seconds=%.2f", fresh.revision, fresh.n_rows, taken_s)

    def _replace(self, fresh: Snapshot) -> None:
        """Put a snapshot just laid out in place, with what was written meanwhile."""
        base_revision = fresh.revision
        snapshot = self._caught_up(fresh)  # most of it while writers go on
        with self._swapping:
            snapshot = self._caught_up(snapshot) if snapshot is not None else None
            if snapshot is None:
                snapshot = self._layouts.make(self.account)
                base_revision = snapshot.revision
            self._snapshot = snapshot  # at least as new: what is in place was committed before
            self._base_revision = base_revision
        self._tell()  # whoever committed what was caught up with finds it in place and tells nobody

    def lay_out(self) -> None:
        """Lay the account out now and save its checkpoint, if anything was written since."""
        with self._laying_out:
            snapshot = self.snapshot
            is_saved = self.checkpoint_revision == self._database.revision(self.account)
            if pending_rows(snapshot) or snapshot.n_gone or not is_saved:
                self._renew(is_asked=True)

    def checkpoint(self, wanted: int) -> int:
        """Lay the account out and save it, unless a checkpoint of a revision is there; see `Store.checkpoint`."""
        if not wanted:
            return 0
        with self._laying_out, self._layouts.asked():
            kept = self._layouts.revision(self.account)
            if kept < wanted:
                fresh = self._layouts.make(self.account)
                self._layouts.save(self.account, fresh)
                self._replace(fresh)
                kept = fresh.revision
                logger.info("checkpoint revision=%d rows=%d", kept, fresh.n_rows)
            self.checkpoint_revision = max(kept, self.checkpoint_revision)
            return kept

    @property
    def is_laying_out(self) -> bool:
        """Return whether a layout is under way."""
        return self._laying_out.locked()

    def settle(self) -> None:
        """Wait until no layout is under way."""
        with self._swapping:  # a thread is started under it
            thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Wait for the layout that is under way; none starts any more."""
        with self._swapping:
            self._is_closed = True
        self.settle()


def pending_rows(snapshot: Snapshot) -> int:
    """Return how many rows are fresh or replaced since the tree was laid out."""
    return snapshot.n_rows - int(snapshot.base_row[-1]) + snapshot.n_replaced_rows
