"""One account's current snapshot: taken from its checkpoint, moved on by writes, laid out anew beside the readers."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from viking_rpc.errors import DeadlineExceededError, VikingError
from viking_rpc.index.ann import AnnParameters
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.owners import with_owners
from viking_rpc.index.update import apply_changes
from viking_rpc.store.checkpoint import DamagedCheckpointError, StaleCheckpointError
from viking_rpc.store.derived import load_snapshot, save_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.store.database import Committed, Database

logger = logging.getLogger(__name__)

#: Accounts with longer names are called by a digest in the file system, which takes names of 255 bytes.
_MAX_NAME_BYTES = 100


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How snapshots are made.

    Args:
        min_ann_rows: owners with fewer rows have no approximate index.
        ann: its parameters.
        max_fresh_rows: a tree is laid out anew when more rows than this, or than half of all, are fresh or replaced,
        max_fresh_share: and more than this share of all.
    """

    min_ann_rows: int = 4096
    ann: AnnParameters = field(default_factory=AnnParameters)
    max_fresh_rows: int = 256
    max_fresh_share: float = 0.1


class AccountTree:
    """The changing part of one account. Readers take `snapshot` without a lock; writers come through `advance`."""

    def __init__(
        self, account: str, database: Database, folder: Path, settings: StoreSettings, note: Callable[[str], None]
    ) -> None:
        """Load the account.

        Args:
            account: its name.
            database: the truth.
            folder: of the checkpoints.
            settings: how snapshots are made.
            note: told what was found damaged and rebuilt.
        """
        self._account = account
        self._database = database
        self._folder = folder
        self._settings = settings
        self._note = note
        self._swapping = threading.Lock()  # held by whoever puts the next snapshot in place
        self._laying_out = threading.Lock()  # one layout at a time, or an older checkpoint could replace a newer one
        self._is_newer = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self.checkpoint_revision = 0
        self.snapshot = self._load()

    # -- from the disk

    def _load(self) -> Snapshot:
        """Take the checkpoint and what was written since; lay the tree out if that cannot be."""
        revision = self._database.revision(self._account)
        snapshot, problem = None, ""
        try:
            snapshot = load_snapshot(
                self._folder,
                self._name,
                model=self._database.meta.model,
                dimensions=self._database.meta.dimensions,
                layout=self._layout,
                max_revision=revision,
                parameters=self._settings.ann,
            )
        except StaleCheckpointError as error:
            what = "is missing" if error.reason == "CHECKPOINT_MISSING" else f"is stale ({error.message})"
            problem = f"{what} and is rebuilt"
        except DamagedCheckpointError as error:
            problem = f"is damaged and is rebuilt ({error.message})"
        if snapshot is not None:
            self.checkpoint_revision = snapshot.revision
            snapshot = self._caught_up(snapshot)
        if snapshot is None:
            snapshot = self._laid_out()
            if problem and snapshot.n_contexts:  # a first import that went past this object has left none yet
                self._tell_operator(problem, logging.INFO if problem.startswith("is missing") else logging.WARNING)
            self._save(snapshot)
        return snapshot

    def _caught_up(self, snapshot: Snapshot) -> Snapshot | None:
        """Return the snapshot with all that was committed after it; None when only a layout can tell."""
        changes = self._database.changes_since(self._account, snapshot.revision)
        if changes is None:
            return None
        for change in changes:
            snapshot = apply_changes(snapshot, change)
        return snapshot

    def _laid_out(self) -> Snapshot:
        """Build the snapshot from the database, with its approximate indexes."""
        with self._database.scan(self._account) as scan:
            dimensions = self._database.meta.dimensions
            snapshot = build_snapshot(scan.records, revision=scan.revision, dimensions=dimensions)
        return with_owners(snapshot, min_rows=self._settings.min_ann_rows, parameters=self._settings.ann)

    @property
    def _layout(self) -> str:
        return layout_of(self._database.meta.store_id, self._settings)

    @property
    def _name(self) -> str:
        return checkpoint_name(self._account)

    def _save(self, snapshot: Snapshot) -> None:
        """Write the checkpoint of a snapshot just laid out; when it cannot be written, that costs time only."""
        if not snapshot.n_contexts or snapshot.revision < self.checkpoint_revision:
            return
        try:
            save_snapshot(snapshot, self._folder, self._name, model=self._database.meta.model, layout=self._layout)
        except VikingError as error:
            self._tell_operator(f"could not be written ({error.message})")
        else:
            self.checkpoint_revision = snapshot.revision

    def _tell_operator(self, what: str, level: int = logging.WARNING) -> None:
        text = f"the checkpoint of account {self._account} {what}"
        logger.log(level, "derived_file %s", text)
        self._note(text)

    # -- writes

    def advance(self, committed: Committed) -> None:
        """Put a snapshot in place that holds a committed batch, unless a concurrent writer already did."""
        with self._swapping:
            snapshot = self.snapshot
            if snapshot.revision >= committed.revision:
                return
            following: Snapshot | None = None
            is_first = not snapshot.n_contexts  # laid out at once, or its words would have no weights
            if not is_first and committed.revision == snapshot.revision + 1:
                following = apply_changes(snapshot, committed.change_set)
            elif not is_first:
                following = self._caught_up(snapshot)
            self.snapshot = following = following if following is not None else self._laid_out()
        self._tell()
        if is_first:
            with self._laying_out:
                self._save(following)
        else:
            self._lay_out_later()

    def follow(self) -> Snapshot:
        """Catch up with what was committed past this object, straight into the database; return the snapshot."""
        with self._swapping:
            if self._database.revision(self._account) > self.snapshot.revision:
                following = self._caught_up(self.snapshot) if self.snapshot.n_contexts else None
                self.snapshot = following if following is not None else self._laid_out()
        self._tell()
        return self.snapshot

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
        snapshot, settings = self.snapshot, self._settings
        n_few = min(settings.max_fresh_rows, snapshot.n_rows / 2)
        if pending_rows(snapshot) + snapshot.n_gone <= max(n_few, settings.max_fresh_share * snapshot.n_rows):
            return
        with self._swapping:
            if self._is_closed or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._renew_alone, name="layout")
            self._thread.start()

    def _renew_alone(self) -> None:
        """Lay out in a thread of its own, where an error has nobody to go to."""
        try:
            with self._laying_out:
                self._renew()
        except VikingError as error:
            self._tell_operator(f"could not be renewed ({error.message})")

    def _renew(self) -> None:
        """Lay the account out anew, catch up with what was written meanwhile, swap, save."""
        started = time.monotonic()
        fresh = self._laid_out()
        with self._swapping:
            snapshot = self._caught_up(fresh)
            if snapshot is None:
                snapshot = fresh = self._laid_out()
            self.snapshot = snapshot  # at least as new: what is in place was committed before
        self._tell()  # whoever committed what was caught up with finds it in place and tells nobody
        self._save(fresh)
        logger.info("layout revision=%d rows=%d seconds=%.2f", fresh.revision, fresh.n_rows, time.monotonic() - started)

    def lay_out(self) -> None:
        """Lay the account out now and save its checkpoint, if anything was written since."""
        with self._laying_out:
            snapshot = self.snapshot
            is_saved = self.checkpoint_revision == self._database.revision(self._account)
            if pending_rows(snapshot) or snapshot.n_gone or not is_saved:
                self._renew()

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


def checkpoint_name(account: str) -> str:
    """Return the name of an account's checkpoint, of characters that every file system takes."""
    name = account.encode()
    if len(name) > _MAX_NAME_BYTES:
        return "long-" + hashlib.blake2b(name, digest_size=32).hexdigest()
    return "tree-" + name.hex()


def layout_of(store_id: str, settings: StoreSettings) -> str:
    """Return what a checkpoint must agree with: whose it is, and how its approximate indexes are made."""
    return f"{store_id} {settings.min_ann_rows} {sorted(asdict(settings.ann).items())}"


def pending_rows(snapshot: Snapshot) -> int:
    """Return how many rows are fresh or replaced since the tree was laid out."""
    return snapshot.n_rows - int(snapshot.base_row[-1]) + snapshot.n_replaced_rows
