"""The store: the database as the truth, one current snapshot per account derived from it, and the writes that swap them.

A write is acknowledged when the database has it on disk and the account's next snapshot is in place. Readers take the
current snapshot without a lock and keep it as long as they like. When enough has been written since the tree was laid
out, a thread lays it out anew from the database and the store swaps that in; nobody waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Self

from viking_rpc.domain.ports import SystemClock
from viking_rpc.errors import DataLossError, DeadlineExceededError, FailedPreconditionError
from viking_rpc.index.ann import AnnParameters
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.owners import with_owners
from viking_rpc.index.text import ANALYSIS_VERSION
from viking_rpc.index.update import NeedsLayoutError, apply_changes
from viking_rpc.store.checkpoint import DamagedCheckpointError, StaleCheckpointError
from viking_rpc.store.database import Committed, Counts, Database
from viking_rpc.store.derived import load_snapshot, save_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from viking_rpc.domain.context import Context
    from viking_rpc.domain.ports import Clock
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.store.operations import Operation

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How snapshots are made.

    Args:
        min_ann_rows: owners with fewer rows have no approximate index.
        ann: its parameters.
        max_fresh_rows: a tree is laid out anew when more rows than this are fresh or replaced,
        max_fresh_share: and more than this share of all rows.
    """

    min_ann_rows: int = 4096
    ann: AnnParameters = field(default_factory=AnnParameters)
    max_fresh_rows: int = 256
    max_fresh_share: float = 0.1


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Facts about one account and the store that holds it.

    Args:
        revision: of the account's current snapshot.
        checkpoint_revision: of its checkpoint; 0 without one.
        pending_rows: rows that are fresh or replaced since the tree was laid out.
        counts: visible directories, files and rows.
        notes: what was found damaged and rebuilt since the store was opened.
    """

    model: str
    dimensions: int
    revision: int
    checkpoint_revision: int
    pending_rows: int
    has_ann: bool
    database_bytes: int
    counts: Counts
    notes: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Tree:
    """The changing part of one account: its current snapshot and the lock under which the next one is swapped in."""

    snapshot: Snapshot
    checkpoint_revision: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_newer: threading.Condition = field(default_factory=threading.Condition)
    layout: threading.Thread | None = None


class Store:
    """All accounts of one data directory. Safe for threads; one process at a time (see `store.lock`)."""

    def __init__(self, folder: Path, database: Database, settings: StoreSettings, clock: Clock) -> None:
        """Use `open`."""
        self.folder = folder
        self.database = database
        self._settings = settings
        self._clock = clock
        self._trees: dict[str, _Tree] = {}
        self._opening = threading.Lock()
        self._is_closed = False
        self.notes: list[str] = []

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        model: str,
        dimensions: int,
        settings: StoreSettings | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Open a data directory, or make it.

        Args:
            folder: holds the database and what is derived from it.
            model, dimensions: of the embedder; the first ones are remembered.
            settings: how snapshots are made.
            clock: says when a write happened.

        Raises:
            FailedPreconditionError: MODEL_MISMATCH names both models and dimensions; ANALYSIS_MISMATCH.
            DataLossError: the database is damaged.
        """
        folder.mkdir(parents=True, exist_ok=True)
        database = Database.open(folder / "viking.db")
        try:
            database.bind_model(model, dimensions)
            stored = database.bind_analysis(ANALYSIS_VERSION)
            if stored != ANALYSIS_VERSION:
                raise FailedPreconditionError(
                    "ANALYSIS_MISMATCH",
                    f"the store's terms were made by text analysis {stored}, this release has {ANALYSIS_VERSION};"
                    " import the contents again",
                    {"stored": stored, "release": ANALYSIS_VERSION},
                )
        except BaseException:
            database.close()
            raise
        return cls(folder, database, settings or StoreSettings(), clock or SystemClock())

    def close(self) -> None:
        """Wait for layouts that are under way, then close the database."""
        self._is_closed = True
        self.settle()
        self.database.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    # -- snapshots

    def snapshot(self, account: str) -> Snapshot:
        """Return the account's current state; the first call for an account loads it."""
        return self._tree(account).snapshot

    def _tree(self, account: str) -> _Tree:
        tree = self._trees.get(account)
        if tree is None:
            with self._opening:
                tree = self._trees.get(account)
                if tree is None:
                    tree = self._trees[account] = self._load(account)
        return tree

    def _load(self, account: str) -> _Tree:
        """Take the checkpoint and what was written since; lay the tree out if that cannot be."""
        revision = self.database.revision(account)
        snapshot = None
        try:
            snapshot = load_snapshot(
                self._checkpoints,
                self._name(account),
                model=self.database.meta.model,
                dimensions=self.database.meta.dimensions,
                layout=self._layout,
                max_revision=revision,
                parameters=self._settings.ann,
            )
        except StaleCheckpointError as error:
            if error.reason != "CHECKPOINT_MISSING":
                self._note(f"the checkpoint of account {account} is stale and is rebuilt: {error.message}")
        except DamagedCheckpointError as error:
            self._note(f"the checkpoint of account {account} is damaged and is rebuilt: {error.message}")
        saved = snapshot.revision if snapshot is not None else 0
        if snapshot is not None:
            snapshot = self._caught_up(account, snapshot)
        if snapshot is None:
            snapshot = self._lay_out(account)
            saved = self._save(account, snapshot)
        return _Tree(snapshot, saved)

    def _caught_up(self, account: str, snapshot: Snapshot) -> Snapshot | None:
        """Return the snapshot with all that was committed after it; None when that needs a new layout."""
        changes = self.database.changes_since(account, snapshot.revision)
        if changes is None:
            return None
        try:
            for change in changes:
                snapshot = apply_changes(snapshot, change)
        except NeedsLayoutError:
            return None
        return snapshot

    def _lay_out(self, account: str) -> Snapshot:
        """Build the account's snapshot from the database, with its approximate indexes."""
        with self.database.scan(account) as scan:
            snapshot = build_snapshot(scan.records, revision=scan.revision, dimensions=self.database.meta.dimensions)
        return with_owners(snapshot, min_rows=self._settings.min_ann_rows, parameters=self._settings.ann)

    # -- writes

    def apply(self, account: str, operations: Sequence[Operation], *, request_id: str = "") -> Committed:
        """Commit a batch and make it visible to the next reader; all of it or nothing.

        Raises:
            As `Database.apply`.
        """
        committed = self.database.apply(account, operations, now_us=self._clock.now_us(), request_id=request_id)
        self._advance(account, committed)
        return committed

    def _advance(self, account: str, committed: Committed) -> None:
        """Swap in a snapshot that holds the committed batch, unless a concurrent writer already did."""
        tree = self._tree(account)
        with tree.lock:
            snapshot = tree.snapshot
            if snapshot.revision >= committed.revision:
                return
            following: Snapshot | None
            if committed.revision == snapshot.revision + 1:
                try:
                    following = apply_changes(snapshot, committed.change_set)
                except NeedsLayoutError:
                    following = None
            else:
                following = self._caught_up(account, snapshot)
            tree.snapshot = following if following is not None else self._lay_out(account)
        with tree.is_newer:
            tree.is_newer.notify_all()
        self._lay_out_later(account, tree)

    def _lay_out_later(self, account: str, tree: _Tree) -> None:
        """Start a layout in the background when enough is fresh."""
        snapshot, settings = tree.snapshot, self._settings
        pending = pending_rows(snapshot)
        if pending <= max(settings.max_fresh_rows, settings.max_fresh_share * snapshot.n_rows):
            return
        with tree.lock:
            if self._is_closed or (tree.layout is not None and tree.layout.is_alive()):
                return
            tree.layout = threading.Thread(target=self._renew, args=(account, tree), name="layout")
            tree.layout.start()

    def _renew(self, account: str, tree: _Tree) -> None:
        """Lay an account out anew, catch up with what was written meanwhile, swap, save."""
        started = time.monotonic()
        fresh = self._lay_out(account)
        with tree.lock:
            snapshot = self._caught_up(account, fresh)
            if snapshot is None:
                snapshot = fresh = self._lay_out(account)
            if snapshot.revision < tree.snapshot.revision:  # cannot be: the lock holds writers back
                return
            tree.snapshot = snapshot
        tree.checkpoint_revision = self._save(account, fresh)
        logger.info("layout revision=%d rows=%d seconds=%.2f", fresh.revision, fresh.n_rows, time.monotonic() - started)

    def settle(self) -> None:
        """Wait until no layout is under way."""
        for tree in list(self._trees.values()):
            layout = tree.layout
            if layout is not None:
                layout.join()

    def lay_out(self, account: str) -> None:
        """Lay an account out now and save its checkpoint: for the end of an import, and before measuring."""
        tree = self._tree(account)
        self.settle()
        if pending_rows(tree.snapshot) or tree.snapshot.n_gone or tree.checkpoint_revision != tree.snapshot.revision:
            self._renew(account, tree)

    # -- checkpoints

    @property
    def _checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def _layout(self) -> str:
        return (
            f"{self.database.meta.store_id} {self._settings.min_ann_rows} {sorted(asdict(self._settings.ann).items())}"
        )

    def _name(self, account: str) -> str:
        return "tree-" + account.encode().hex()

    def _save(self, account: str, snapshot: Snapshot) -> int:
        """Write the checkpoint; return its revision, 0 when it could not be written, which costs time only."""
        if not snapshot.n_contexts:
            return 0
        try:
            save_snapshot(
                snapshot, self._checkpoints, self._name(account), model=self.database.meta.model, layout=self._layout
            )
        except (FailedPreconditionError, DataLossError) as error:
            self._note(f"the checkpoint of account {account} could not be written: {error.message}")
            return 0
        return snapshot.revision

    def _note(self, text: str) -> None:
        logger.warning("derived_file %s", text)
        self.notes.append(text)

    # -- reads

    def wait_for(self, account: str, revision: int, timeout_s: float) -> Snapshot:
        """Return a snapshot that is at least this new.

        Raises:
            DeadlineExceededError: REVISION_NOT_REACHED within `timeout_s`.
        """
        tree = self._tree(account)
        with tree.is_newer:
            if tree.is_newer.wait_for(lambda: tree.snapshot.revision >= revision, timeout_s):
                return tree.snapshot
        now = tree.snapshot.revision
        raise DeadlineExceededError(
            "REVISION_NOT_REACHED",
            f"revision {revision} was not reached in time, the newest is {now}",
            {"min_revision": str(revision), "revision": str(now)},
            retry_after_s=0.1,
        )

    def get(self, account: str, uri: str, *, with_overview: bool = False, with_content: bool = False) -> Context | None:
        """Return a context from the database, None when there is none."""
        return self.database.get(
            account, uri, now_us=self._clock.now_us(), with_overview=with_overview, with_content=with_content
        )

    def children(
        self,
        account: str,
        uri: str,
        *,
        after_name: str = "",
        limit: int = 100,
        with_overview: bool = False,
        with_content: bool = False,
    ) -> list[Context]:
        """Return a page of a directory's children, by name. Raises NotFoundError."""
        return self.database.children(
            account,
            uri,
            now_us=self._clock.now_us(),
            after_name=after_name,
            limit=limit,
            with_overview=with_overview,
            with_content=with_content,
        )

    def bodies(
        self, account: str, keys: Iterable[int], *, overview: bool = True, content: bool = True
    ) -> dict[int, tuple[str, str]]:
        """Return key -> (overview, content)."""
        return self.database.hydrate(account, keys, overview=overview, content=content)

    def source_hashes(self, account: str, uri: str) -> dict[str, str]:
        """Return URI -> source hash of what was imported at and below a URI."""
        return self.database.source_hashes(account, uri, now_us=self._clock.now_us())

    def info(self, account: str) -> StoreInfo:
        """Return facts about an account."""
        tree = self._tree(account)
        meta = self.database.meta
        return StoreInfo(
            model=meta.model,
            dimensions=meta.dimensions,
            revision=tree.snapshot.revision,
            checkpoint_revision=tree.checkpoint_revision,
            pending_rows=pending_rows(tree.snapshot),
            has_ann=bool(tree.snapshot.owners),
            database_bytes=sum(path.stat().st_size for path in self.folder.glob("viking.db*")),
            counts=self.database.counts(account, now_us=self._clock.now_us()),
            notes=tuple(self.notes),
        )


def pending_rows(snapshot: Snapshot) -> int:
    """Return how many rows are fresh or replaced since the tree was laid out."""
    return snapshot.n_rows - int(snapshot.base_row[-1]) + snapshot.n_replaced_rows
