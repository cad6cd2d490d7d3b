"""One data directory's laid-out trees: made from the database, kept as checkpoints, one process at a time writing."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from viking_rpc.index.ann import AnnParameters
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.owners import with_owners
from viking_rpc.store.checkpoint import remove_checkpoint
from viking_rpc.store.derived import load_snapshot, save_snapshot, saved_revision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.store.database import Database

#: Accounts with longer names are called by a digest in the file system, which takes names of 255 bytes.
_MAX_NAME_BYTES = 100
_LOCK_NAME = "checkpoints.lock"
_ASKED_LOCK_NAME = "layouts.lock"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How snapshots are made.

    Args:
        min_ann_rows: owners with fewer rows have no approximate index.
        ann: its parameters.
        rows: how vectors are kept in memory and in checkpoints, `float32` or `bfloat16`; the database keeps float32.
        max_fresh_rows: a tree is laid out anew when more rows than this, or than half of all, are fresh or replaced,
        max_fresh_share: and more than this share of all.
        min_checkpoint_rows: smaller accounts have no checkpoint: laying them out costs less than three files do.
        memory_budget_bytes: loaded accounts beyond it are unloaded, those first that were not asked for longest; 0: no
            limit.
        is_shared: other processes serve the data directory too: the change log is followed, and large accounts are
            laid out by a `store.keeper`, whose checkpoints replace what is in memory.
    """

    min_ann_rows: int = 4096
    ann: AnnParameters = field(default_factory=AnnParameters)
    rows: str = "float32"
    max_fresh_rows: int = 256
    max_fresh_share: float = 0.1
    min_checkpoint_rows: int = 0
    memory_budget_bytes: int = 0
    is_shared: bool = False

    def is_due(self, n_rows: int, n_stale: int) -> bool:
        """Return whether a tree is to be laid out anew when so many of its rows are fresh, replaced or gone."""
        return n_stale > max(min(self.max_fresh_rows, n_rows / 2), self.max_fresh_share * n_rows)


class Layouts:
    """Makes, loads and saves laid-out trees. Safe for threads and processes."""

    def __init__(self, folder: Path, database: Database, settings: StoreSettings) -> None:
        """Remember where they are.

        Args:
            folder: the data directory.
            database: the truth.
            settings: how they are made.
        """
        self._folder = folder / "checkpoints"
        self._database = database
        self.settings = settings

    def make(self, account: str, *, is_urgent: bool = False) -> Snapshot:
        """Lay an account out from the database, with its approximate indexes.

        Args:
            account: its name.
            is_urgent: somebody waits for it, so that all cores build the indexes; else as many threads as the settings
                say, for others are served meanwhile.
        """
        with self._database.scan(account) as scan:
            dimensions = self._database.meta.dimensions
            snapshot = build_snapshot(
                scan.records,
                revision=scan.revision,
                dimensions=dimensions,
                n_rows=scan.n_rows,
                rows=self.settings.rows,
            )
        ann = self.settings.ann
        if is_urgent:
            ann = replace(ann, threads=max(ann.threads, os.cpu_count() or 1))
        return with_owners(snapshot, min_rows=self.settings.min_ann_rows, parameters=ann)

    def load(self, account: str, *, max_revision: int) -> Snapshot:
        """Map an account's checkpoint, all of it checked.

        Raises:
            StaleCheckpointError, DamagedCheckpointError: there is none that can be used.
        """
        meta = self._database.meta
        with self._locked(fcntl.LOCK_SH):  # or its files could be replaced while they are opened
            return load_snapshot(
                self._folder,
                checkpoint_name(account),
                model=meta.model,
                dimensions=meta.dimensions,
                layout=layout_of(meta.store_id, self.settings),
                max_revision=max_revision,
                parameters=self.settings.ann,
            )

    def revision(self, account: str) -> int:
        """Return the revision of the newest checkpoint that an account may have, unchecked; 0 without one."""
        meta = self._database.meta
        layout = layout_of(meta.store_id, self.settings)
        name = checkpoint_name(account)
        return saved_revision(self._folder, name, model=meta.model, dimensions=meta.dimensions, layout=layout)

    def is_kept(self, snapshot: Snapshot) -> bool:
        """Return whether a tree of this size has a checkpoint."""
        return snapshot.n_contexts > 0 and snapshot.n_rows >= self.settings.min_checkpoint_rows

    def save(self, account: str, snapshot: Snapshot) -> None:
        """Write the checkpoint of a snapshot just laid out, unless there is a newer one. Raises as `save_snapshot`."""
        meta = self._database.meta
        with self._locked(fcntl.LOCK_EX):
            if self.settings.is_shared and self.revision(account) > snapshot.revision:
                return
            layout = layout_of(meta.store_id, self.settings)
            save_snapshot(snapshot, self._folder, checkpoint_name(account), model=meta.model, layout=layout)

    def discard(self, account: str) -> None:
        """Remove an account's checkpoint, which turned out to be damaged, so that it is made anew."""
        with self._locked(fcntl.LOCK_EX):
            remove_checkpoint(self._folder, checkpoint_name(account))

    def asked(self) -> AbstractContextManager[None]:
        """Let one process at a time lay out what somebody asked for: who comes next may find that it is done."""
        return self._locked(fcntl.LOCK_EX, _ASKED_LOCK_NAME)

    @contextmanager
    def _locked(self, how: int, name: str = _LOCK_NAME) -> Iterator[None]:
        """Let one process at a time write checkpoints and none read them meanwhile, where there may be several."""
        if not self.settings.is_shared:
            yield
            return
        with (self._folder.parent / name).open("w") as file:
            fcntl.flock(file, how)
            yield


def checkpoint_name(account: str) -> str:
    """Return the name of an account's checkpoint, of characters that every file system takes."""
    name = account.encode()
    if len(name) > _MAX_NAME_BYTES:
        return "long-" + hashlib.blake2b(name, digest_size=32).hexdigest()
    return "tree-" + name.hex()


def layout_of(store_id: str, settings: StoreSettings) -> str:
    """Return what a checkpoint must agree with: whose it is, and how its approximate indexes are made."""
    made = {key: value for key, value in asdict(settings.ann).items() if key not in ("threads", "expansion_search")}
    return f"{store_id} {settings.rows} {settings.min_ann_rows} {sorted(made.items())}"
