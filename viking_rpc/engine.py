"""Make the parts of a running engine from the settings, the same ones wherever it runs: server, import, evaluation.

Opening a store needs no kernels, so nothing here may import the search before `search_settings` is called: an import
then need not wait for their compilation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from viking_rpc.domain.query import Profile
from viking_rpc.index.ann import AnnParameters
from viking_rpc.store.store import Store, StoreSettings

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.config import Settings
    from viking_rpc.domain.ports import Clock, Embedder
    from viking_rpc.retrieve.retriever import SearchSettings


def open_store(
    settings: Settings, embedder: Embedder, *, folder: Path | None = None, clock: Clock | None = None
) -> Store:
    """Open the store of a data directory; the caller holds its lock.

    Args:
        settings: in effect.
        embedder: whose model and dimensions the store must have.
        folder: the data directory; None means that of the settings.
        clock: None is the machine's.

    Raises:
        FailedPreconditionError, DataLossError: as `Store.open`.
    """
    return Store.open(
        folder or settings.data,
        model=embedder.model,
        dimensions=embedder.dimensions,
        settings=store_settings(settings),
        clock=clock,
    )


def store_settings(settings: Settings) -> StoreSettings:
    """Return how the trees of a data directory are made."""
    ann = AnnParameters(**settings.index.ann.model_dump())
    return StoreSettings(min_ann_rows=settings.index.exact_scan_max_rows, ann=ann)


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
