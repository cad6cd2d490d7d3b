"""The store: the database as the truth, a current snapshot per account derived from it, and the writes that swap them.

A write is acknowledged when the database has it on disk and the account's next snapshot is in place. Readers take the
current snapshot without a lock and keep it as long as they like. When enough has been written since the tree was laid
out, a thread lays it out anew from the database and the store swaps that in; nobody waits for it. Accounts are loaded
when they are asked for, and unloaded when all together take more memory than they may.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from viking_rpc.domain.ports import SystemClock
from viking_rpc.errors import FailedPreconditionError
from viking_rpc.index.text import ANALYSIS_VERSION
from viking_rpc.store.account import AccountTree, pending_rows
from viking_rpc.store.database import Committed, Counts, Database, PurgeExpired
from viking_rpc.store.follower import Follower
from viking_rpc.store.layouts import Layouts, StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from viking_rpc.domain.context import Context
    from viking_rpc.domain.ports import Clock
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.store.operations import Operation

__all__ = ["Store", "StoreInfo", "StoreSettings", "pending_rows"]


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Facts about one account and the store that holds it.

    Args:
        revision: of the account's current snapshot.
        checkpoint_revision: of its checkpoint; 0 without one.
        pending_rows: rows that are fresh or replaced since the tree was laid out.
        is_laying_out: whether they are being folded in.
        counts: visible directories, files and rows.
        is_alone: whether the store holds no other account, so that its size is this one's.
        notes: what of the account was found damaged and rebuilt since the store was opened.
    """

    model: str
    dimensions: int
    revision: int
    checkpoint_revision: int
    pending_rows: int
    has_ann: bool
    is_laying_out: bool
    database_bytes: int
    counts: Counts
    is_alone: bool
    notes: tuple[str, ...]


class Store:
    """All accounts of one data directory. Safe for threads.

    One process at a time (see `store.lock`), or several whose settings say `is_shared`: each follows what the others
    write, and a `store.keeper` writes the checkpoints.
    """

    def __init__(self, folder: Path, database: Database, settings: StoreSettings, clock: Clock) -> None:
        """Use `open`."""
        self.folder = folder
        self.database = database
        self._settings = settings
        self._clock = clock
        self._trees: dict[str, AccountTree] = {}
        self.layouts = Layouts(folder, database, self._settings)
        self._opening = threading.Lock()
        self._unloading = threading.Lock()
        self._clicks = itertools.count(1)
        self._notes: dict[str, list[str]] = {}
        database.on_committed(self._expect, self._is_followed)
        self._follower = Follower(database, self._follow, self._adopt) if settings.is_shared else None

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
            _require_analysis(database.bind_analysis(ANALYSIS_VERSION))
        except BaseException:
            database.close()
            raise
        return cls(folder, database, settings or StoreSettings(), clock or SystemClock())

    def close(self) -> None:
        """Wait for layouts that are under way, then close the database."""
        if self._follower is not None:
            self._follower.stop()
        with self._opening:
            trees = list(self._trees.values())
        for tree in trees:
            tree.close()
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
        tree = self._tree(account)
        snapshot = tree.loaded
        if snapshot is None:
            snapshot = tree.snapshot
            self._keep_to_budget(tree)
        return snapshot

    def loaded(self, account: str) -> Snapshot | None:
        """Return the account's current state; None when it has to be loaded first, which takes time."""
        tree = self._trees.get(account)
        if tree is None:
            return None
        tree.used = next(self._clicks)
        return tree.loaded

    def follow(self, account: str) -> Snapshot:
        """Return the account's state with all that was committed straight into the database, as an import does."""
        self._tree(account).advance(self.database.revision(account))
        return self.snapshot(account)

    def _tree(self, account: str) -> AccountTree:
        tree = self._trees.get(account)
        if tree is None:
            with self._opening:
                tree = self._trees.get(account)
                if tree is None:
                    tree = AccountTree(account, self.database, self.layouts, partial(self.note, account))
                    self._trees[account] = tree
        tree.used = next(self._clicks)
        return tree

    def _keep_to_budget(self, newest: AccountTree) -> None:
        """Unload accounts until the rest fits into the budget; the one that was asked for last stays."""
        budget = self._settings.memory_budget_bytes
        if not budget:
            return
        with self._unloading:
            loaded = [(tree.used, tree, found.size_bytes) for tree in self._all() if (found := tree.loaded) is not None]
            excess = sum(size for _, _, size in loaded) - budget
            for _, tree, size in sorted(loaded, key=lambda one: one[0]):
                if excess <= 0:
                    break
                if tree is not newest and tree.unload():
                    excess -= size

    def _all(self) -> list[AccountTree]:
        with self._opening:
            return list(self._trees.values())

    # -- other processes

    def _expect(self, account: str, committed: Committed) -> None:
        tree = self._trees.get(account)
        if tree is not None:
            tree.expect(committed)

    def _is_followed(self, account: str) -> bool:
        tree = self._trees.get(account)
        return tree is not None and tree.loaded is not None

    def _follow(self) -> None:
        """Bring every loaded account to what is committed."""
        with self._opening:
            loaded = {name: tree for name, tree in self._trees.items() if tree.loaded is not None}
        for name, revision in self.database.revisions(loaded).items():
            loaded[name].advance(revision)

    def _adopt(self) -> None:
        """Take the checkpoints that another process wrote."""
        for tree in self._all():
            tree.adopt()

    # -- writes

    def apply(self, account: str, operations: Sequence[Operation], *, request_id: str = "") -> Committed:
        """Commit a batch and make it visible to the next reader; all of it or nothing.

        Raises:
            As `Database.apply`.
        """
        self.snapshot(account)  # loaded before, so that reading it does not hold up what is committed
        committed = self.database.apply(account, operations, now_us=self._clock.now_us(), request_id=request_id)
        self._trees[account].advance(committed.revision)
        return committed

    def answered(self, account: str, request_id: str) -> Committed | None:
        """Return the first answer to a request id that was committed not long ago, None when there is none."""
        return self.database.answered(account, request_id, now_us=self._clock.now_us())

    def purge_expired(self, limit: int) -> int:
        """Remove what is expired: of each account at most so many contexts, with all below them, the oldest first.

        Accounts that nobody has asked for are not loaded for it.

        Returns:
            How many contexts are gone.
        """
        now_us, purge = self._clock.now_us(), [PurgeExpired(limit)]
        n_removed = 0
        for account in self.database.expired_accounts(now_us=now_us):
            committed = self.database.apply(account, purge, now_us=now_us)
            with self._opening:  # one that is being loaded may not have seen it
                tree = self._trees.get(account)
            if tree is not None:
                tree.advance(committed.revision)
            n_removed += committed.n_deleted
        return n_removed

    def settle(self) -> None:
        """Wait until no layout is under way."""
        for tree in self._all():
            tree.settle()

    def lay_out(self, account: str) -> None:
        """Lay an account out now and save its checkpoint: for the end of an import, and before measuring."""
        self._tree(account).lay_out()

    def checkpoint(self, account: str, wanted: int) -> int:
        """Lay an account out and save it, small or not, unless somebody has saved what is wanted.

        Args:
            account: its name.
            wanted: the revision that the checkpoint must have at least; it is committed.

        Returns:
            The revision that it has; 0 when nothing was ever written.

        Raises:
            ResourceExhaustedError, FailedPreconditionError: it cannot be written.
        """
        return self._tree(account).checkpoint(wanted)

    # -- reads

    def lag(self) -> tuple[int, int]:
        """Return by how many revisions the accounts in memory are behind what is committed, at most; and their number.

        It is more than 0 for a moment while a write is put in place, and while other processes' writes are followed.
        """
        in_memory = {tree.account: found.revision for tree in self._all() if (found := tree.loaded) is not None}
        committed = self.database.revisions(in_memory) if in_memory else {}
        behind = (revision - in_memory[account] for account, revision in committed.items())
        return max(behind, default=0), len(in_memory)

    def wait_for(self, account: str, revision: int, timeout_s: float) -> Snapshot:
        """Return a snapshot that is at least this new.

        Raises:
            DeadlineExceededError: REVISION_NOT_REACHED within `timeout_s`.
        """
        return self._tree(account).wait_for(revision, timeout_s)

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

    def note(self, account: str, text: str) -> None:
        """Remember what was degraded, for those who ask about the account."""
        self._notes.setdefault(account, []).append(text)

    @property
    def notes(self) -> list[str]:
        """Return what was degraded in any account."""
        return [note for notes in self._notes.values() for note in notes]

    def info(self, account: str) -> StoreInfo:
        """Return facts about an account."""
        tree, snapshot = self._tree(account), self.snapshot(account)
        meta = self.database.meta
        return StoreInfo(
            model=meta.model,
            dimensions=meta.dimensions,
            revision=snapshot.revision,
            checkpoint_revision=tree.checkpoint_revision,
            pending_rows=pending_rows(snapshot),
            has_ann=bool(snapshot.owners),
            is_laying_out=tree.is_laying_out,
            database_bytes=sum(path.stat().st_size for path in self.folder.glob("viking.db*")),
            counts=self.database.counts(account, now_us=self._clock.now_us()),
            is_alone=set(self.database.accounts()) <= {account},
            notes=tuple(self._notes.get(account, ())),
        )


def _require_analysis(stored: str) -> None:
    """Refuse terms that another text analysis made."""
    if stored != ANALYSIS_VERSION:
        raise FailedPreconditionError(
            "ANALYSIS_MISMATCH",
            f"the store's terms were made by text analysis {stored}, this release has {ANALYSIS_VERSION};"
            " make them again from the texts: viking doctor --repair",
            {"stored": stored, "release": ANALYSIS_VERSION},
        )
