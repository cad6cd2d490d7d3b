"""Read an export back, every byte checked first, and write it into a store as it was."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from viking_rpc.domain.context import ContextType, ContextWrite, Kind, Level, Relation, Row
from viking_rpc.errors import DataLossError, FailedPreconditionError
from viking_rpc.index.text import ANALYSIS_VERSION
from viking_rpc.ingest.corpus import MANIFEST_NAME, bad_line, read_records
from viking_rpc.ingest.export import (
    COUNTS_NAME,
    DATA_NAMES,
    DIRECTORIES_NAME,
    FILES_NAME,
    FORMAT_VERSION,
    TERMS_NAME,
    VECTORS_NAME,
    Manifest,
    sums_of,
)
from viking_rpc.ingest.pipeline import ImportReport
from viking_rpc.ingest.rows import terms_of
from viking_rpc.store.backup import DATABASE_NAME
from viking_rpc.store.database import Database
from viking_rpc.store.operations import Upsert
from viking_rpc.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from viking_rpc.store.layouts import StoreSettings

    Progress = Callable[[int, int, str], None]

_BATCH: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """An export that was checked: its arrays are mapped, its lines are read when they are asked for."""

    folder: Path
    manifest: Manifest
    vectors: NDArray[np.float32]
    terms: NDArray[np.uint64]
    counts: NDArray[np.float32]

    def writes(self) -> Iterator[Upsert]:
        """Yield every context, directories first, parents before children; terms of other rules are counted again.

        Raises:
            InvalidArgumentError: BAD_CORPUS, a line cannot be read; it is named.
        """
        for name, kind in ((DIRECTORIES_NAME, Kind.DIRECTORY), (FILES_NAME, Kind.FILE)):
            path = self.folder / name
            for i, line in read_records(path):
                try:
                    yield self._write(line, kind)
                except (AttributeError, KeyError, TypeError, ValueError) as error:
                    raise bad_line(path, i, f"makes no sense: {error!r}") from error

    def _write(self, line: dict[str, Any], kind: Kind) -> Upsert:
        is_file = kind is Kind.FILE
        write = ContextWrite(
            uri=line["uri"],
            kind=kind,
            type=ContextType[line["context_type"].upper()] if line.get("is_type_given") else None,
            title=line["title"],
            abstract=line.get("abstract", ""),
            overview=line.get("overview", ""),
            content=line["text"] if is_file else line.get("content", ""),
            tags=line.get("tags", {}),
            create_us=line.get("create_us", 0),
            update_us=line.get("update_us", 0),
            expire_us=line.get("expire_us", 0),
            active_count=line.get("active_count", 0),
            relations=tuple(Relation(uri, reason) for uri, reason in line.get("relations", ())),
        )
        rows = tuple(self._row(write, *map(int, numbers)) for numbers in line.get("rows", ()))
        facts = {name: getattr(write, name) for name in write.__dataclass_fields__}
        return Upsert(ContextWrite(**{**facts, "rows": rows}), line.get("source_hash", ""))

    def _row(self, write: ContextWrite, level: int, row: int, lo: int, n_terms: int) -> Row:
        if not (0 <= row < len(self.vectors) and 0 <= lo <= lo + n_terms <= len(self.terms)):
            message = f"row {row} or its terms lie outside the arrays"
            raise ValueError(message)
        terms, counts = self.terms[lo : lo + n_terms], self.counts[lo : lo + n_terms]
        if self.manifest.analysis != ANALYSIS_VERSION:
            terms, counts = terms_of(write, Level(level))
        return Row(Level(level), self.vectors[row], terms, counts)


def read_export(folder: Path) -> Export:
    """Check an export and map its arrays.

    Raises:
        DataLossError: EXPORT_DAMAGED, a file is missing or is not as it was written.
        FailedPreconditionError: EXPORT_FORMAT, a newer release wrote it.
    """
    path = folder / MANIFEST_NAME
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        found = facts["format"]
        if found != FORMAT_VERSION:
            raise FailedPreconditionError(
                "EXPORT_FORMAT",
                f"{path} has format {found}, this release reads {FORMAT_VERSION}; use a newer release",
                {"path": str(path), "found": str(found), "supported": str(FORMAT_VERSION)},
            )
        manifest = Manifest(**facts)
        for name in DATA_NAMES:
            if sums_of(folder / name) != manifest.files[name]:
                raise _damaged(folder / name, "its size or checksum is wrong")
        vectors, terms, counts = (
            np.load(folder / name, mmap_mode="r") for name in (VECTORS_NAME, TERMS_NAME, COUNTS_NAME)
        )
        shapes = ((manifest.n_rows, manifest.dimensions), (manifest.n_terms,), (manifest.n_terms,))
        if (vectors.shape, terms.shape, counts.shape) != shapes:
            raise _damaged(path, f"its arrays are not {shapes}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    return Export(folder, manifest, vectors, terms, counts)


def restore(
    export: Export, data: Path, *, settings: StoreSettings, now_us: int, on_progress: Progress | None = None
) -> ImportReport:
    """Write an export into a data directory, whose lock the caller holds; contexts that are not in it stay.

    Args:
        export: goes into the account that it came from.
        data: a data directory of the same model, or a new one, which then has the export's model.
        settings: how trees are made.
        now_us: the time of the write.
        on_progress: called with (contexts written, contexts in all, URI) after each batch.

    Raises:
        FailedPreconditionError: MODEL_MISMATCH, ANALYSIS_MISMATCH.
        InvalidArgumentError: a line cannot be read or written; batches before it stay, and a second run writes all.
    """
    started = time.perf_counter()
    manifest = export.manifest
    data.mkdir(parents=True, exist_ok=True)
    n_all = manifest.n_directories + manifest.n_files
    n_before = n_done = 0
    with Database.open(data / DATABASE_NAME) as database:
        if manifest.model:
            database.bind_model(manifest.model, manifest.dimensions)
        if database.bind_analysis(ANALYSIS_VERSION) != ANALYSIS_VERSION:
            message = "the store's terms were made by another text analysis; run `viking doctor --repair` first"
            raise FailedPreconditionError("ANALYSIS_MISMATCH", message, {"release": ANALYSIS_VERSION})
        n_before = sum(database.counts(manifest.account, now_us=0)[:2])
        batch: list[Upsert] = []
        for upsert in export.writes():
            batch.append(upsert)
            if len(batch) == _BATCH:
                n_done += _apply(database, manifest.account, batch, now_us)
                if on_progress:
                    on_progress(n_done, n_all, upsert.write.uri)
        n_done += _apply(database, manifest.account, batch, now_us)
        n_added = sum(database.counts(manifest.account, now_us=0)[:2]) - n_before
    if manifest.model:
        with Store.open(data, model=manifest.model, dimensions=manifest.dimensions, settings=settings) as store:
            store.lay_out(manifest.account)
    elapsed_s = time.perf_counter() - started
    return ImportReport(n_added, n_done - n_added, 0, 0, (), manifest.n_files, elapsed_s)


def _apply(database: Database, account: str, batch: list[Upsert], now_us: int) -> int:
    n = len(batch)
    if batch:
        database.apply(account, batch, now_us=now_us)
        batch.clear()
    return n


def _damaged(path: Path, how: str) -> DataLossError:
    return DataLossError("EXPORT_DAMAGED", f"{path} is damaged: {how}", {"path": str(path)})
