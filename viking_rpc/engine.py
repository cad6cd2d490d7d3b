"""Make the parts of a running engine from the settings, the same ones wherever it runs: server, import, evaluation.

Opening a store needs no kernels, so nothing here may import the search before `search_settings` is called: an import
then need not wait for their compilation.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from viking_rpc.domain.query import Profile
from viking_rpc.index.ann import AnnParameters
from viking_rpc.store.store import Store, StoreSettings

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.config import Settings
    from viking_rpc.domain.ports import Clock, Embedder
    from viking_rpc.retrieve.retriever import SearchSettings


#: Accounts with fewer rows have no checkpoint: these are read from the database in a few milliseconds, while a
#: checkpoint is three files and four waits for the disk. Thousands of small accounts hence leave no files.
MIN_CHECKPOINT_ROWS = 1024
_MIB = 1 << 20


def open_store(
    settings: Settings,
    embedder: Embedder,
    *,
    folder: Path | None = None,
    clock: Clock | None = None,
    is_shared: bool = False,
) -> Store:
    """Open the store of a data directory; the caller holds its lock.

    Args:
        settings: in effect.
        embedder: whose model and dimensions the store must have.
        folder: the data directory; None means that of the settings.
        clock: None is the machine's.
        is_shared: whether other processes serve it too.

    Raises:
        FailedPreconditionError, DataLossError: as `Store.open`.
    """
    return Store.open(
        folder or settings.data,
        model=embedder.model,
        dimensions=embedder.dimensions,
        settings=store_settings(settings, is_shared=is_shared),
        clock=clock,
    )


def store_settings(settings: Settings, *, is_shared: bool = False) -> StoreSettings:
    """Return how the trees of a data directory are made; the memory is shared out among the processes that serve it."""
    ann = AnnParameters(**settings.index.ann.model_dump())
    budget = settings.index.memory_budget_mb * _MIB or _machine_bytes() // 2
    return StoreSettings(
        min_ann_rows=settings.index.exact_scan_max_rows,
        ann=ann,
        rows=settings.index.rows,
        min_checkpoint_rows=MIN_CHECKPOINT_ROWS,
        memory_budget_bytes=budget // (settings.server.workers if is_shared else 1),
        is_shared=is_shared,
    )


def _machine_bytes() -> int:
    """Return the memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def search_settings(settings: Settings) -> SearchSettings:
    """Return what the operator decides for all requests; loads the kernels."""
    from viking_rpc.retrieve.profiles import with_settings
    from viking_rpc.retrieve.retriever import SearchSettings

    profiles = settings.retrieval
    changes = {
        Profile.BALANCED: profiles.balanced,
        Profile.CLASSIC: profiles.classic,
        Profile.EXHAUSTIVE: profiles.exhaustive,
    }
    presets = with_settings({profile: section.model_dump() for profile, section in changes.items()})
    return SearchSettings(presets=presets, max_exact_rows=settings.index.exact_scan_max_rows)
