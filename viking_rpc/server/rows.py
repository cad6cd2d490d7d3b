"""Make the rows of contexts that a caller wrote: its own vectors where it sent some, embedded texts elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from viking_rpc.domain.context import Level, Row
from viking_rpc.ingest.rows import count_row, embed_rows, row_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from viking_rpc.domain.context import ContextWrite
    from viking_rpc.domain.ports import Embedder
    from viking_rpc.ingest.tree import PlannedContext


def with_rows(
    writes: Sequence[ContextWrite], ready: Sequence[Mapping[Level, NDArray[np.float32]]], embedder: Embedder
) -> list[ContextWrite]:
    """Give writes their rows; one call of the embedder for all texts without a ready vector.

    Args:
        writes: without rows.
        ready: for each write, float32[dimensions] by level, finite, of any length.
        embedder: gives float32[n_texts, dimensions].

    Returns:
        The writes with a row for each level that has a text or a ready vector.

    Raises:
        UnavailableError, FailedPreconditionError: what the embedder raises.
    """
    texts_of = [_texts(write, vectors) for write, vectors in zip(writes, ready, strict=True)]
    missing = [
        entry for entries, vectors in zip(texts_of, ready, strict=True) for entry in entries if entry[0] not in vectors
    ]
    embedded = iter(embed_rows(missing, embedder)) if missing else iter(())
    result = []
    for write, entries, vectors in zip(writes, texts_of, ready, strict=True):
        rows = []
        for level, title, text in entries:
            vector = unit(vectors[level]) if level in vectors else next(embedded).copy()
            terms = count_row(title, text)
            rows.append(Row(level, vector, terms.hashes, terms.frequencies))
        result.append(replace(write, rows=tuple(rows)))
    return result


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a vector of unit length, float32[n]; a zero vector stays zero.

    Args:
        vector: float32[n], finite.
    """
    wide = vector.astype(np.float64)
    length = float(np.sqrt(wide @ wide))
    return (wide / length if length else wide).astype(np.float32)


def _texts(write: ContextWrite, ready: Mapping[Level, object]) -> list[tuple[Level, str, str]]:
    """Return (level, title, text) of each row, in the levels' order."""
    # A write has every attribute of a planned context that is read here.
    found = {entry[0]: entry for entry in row_texts(cast("PlannedContext", write))}
    for level in ready:
        found.setdefault(level, (level, write.title, ""))
    return [found[level] for level in sorted(found) if level in ready or any(map(str.strip, found[level][1:]))]
