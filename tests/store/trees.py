"""What the store's tests share: writes with rows, and trees put together from records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.domain.context import ContextWrite, Kind, Level, Row
from viking_rpc.store.database import Upsert

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from viking_rpc.index.records import NodeRecord
    from viking_rpc.store.database import Database

DIMENSIONS = 8
ACCOUNT = "acme"
NOW = 1_700_000_000_000_000
ROOT = "viking://resources"


def row(seed: int, level: Level = Level.DETAIL) -> Row:
    """Make a row that only this seed makes."""
    rng = np.random.default_rng(seed)
    vector = rng.standard_normal(DIMENSIONS).astype(np.float32)
    terms = np.sort(rng.integers(0, 2**64, 5, dtype=np.uint64))
    return Row(level, vector / np.linalg.norm(vector), terms, rng.integers(1, 4, 5).astype(np.float32))


def file(uri: str, **facts: Any) -> Upsert:
    """Write a file."""
    return Upsert(ContextWrite(uri, Kind.FILE, **facts))


def directory(uri: str, **facts: Any) -> Upsert:
    """Write a directory."""
    return Upsert(ContextWrite(uri, Kind.DIRECTORY, **facts))


def tree_of(records: Iterable[NodeRecord]) -> dict[str, NodeRecord]:
    """Return records by URI; fails when a parent is missing."""
    by_key = {record.key: record for record in records}
    tree = {}
    for record in by_key.values():
        names, above = [record.name], record.parent_key
        while above:
            names.append(by_key[above].name)
            above = by_key[above].parent_key
        tree["viking://" + "/".join(reversed(names))] = record
    return tree


def scanned(database: Database, account: str = ACCOUNT) -> dict[str, NodeRecord]:
    """Return all that is stored, by URI."""
    with database.scan(account) as scan:
        records = list(scan.records)
        assert len(records) == scan.n_contexts
        assert sum(len(record.rows) for record in records) == scan.n_rows
    return tree_of(records)


def facts_of(record: NodeRecord) -> tuple[object, ...]:
    """Return a record as a value that can be compared."""
    rows = tuple((r.level, r.vector.tobytes(), r.terms.tobytes(), r.term_counts.tobytes()) for r in record.rows)
    names = (name for name in record.__dataclass_fields__ if name not in {"rows", "tags"})
    return (*(getattr(record, name) for name in names), tuple(sorted(record.tags.items())), rows)
