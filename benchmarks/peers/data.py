"""The tree and the queries of a comparison as plain files, which every system's process reads without NumPy.

A folder holds `rows.f32` and `queries.f32` (float32, row after row), `rows.jsonl` (one line a row: uri, level,
type, owner, abstract) and `meta.json`. The caller is the user `default`; a twentieth of the contexts are the memories
of another user, which no answer may hold, so that every system has to filter.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

CALLER, OTHER = "default", "other"
#: What the caller may see: a row's owner is one of these.
VISIBLE = ("", CALLER)
LIMIT = 10


@dataclass(frozen=True, slots=True)
class Data:
    """A folder that `benchmarks.peers.tree` has filled."""

    folder: Path
    n_contexts: int
    n_rows: int
    n_queries: int
    dimensions: int

    @classmethod
    def read(cls, folder: Path) -> Data:
        """Read what the folder says of itself."""
        meta = json.loads((folder / "meta.json").read_text())
        return cls(folder, **meta)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows without their vectors."""
        with (self.folder / "rows.jsonl").open() as lines:
            return [json.loads(line) for line in lines]

    def vectors(self) -> list[array[float]]:
        """Return the rows' vectors."""
        return self._read("rows.f32", self.n_rows)

    def queries(self) -> list[array[float]]:
        """Return the queries."""
        return self._read("queries.f32", self.n_queries)

    def _read(self, name: str, n: int) -> list[array[float]]:
        size = 4 * self.dimensions
        stored = (self.folder / name).read_bytes()
        return [array("f", stored[i * size : (i + 1) * size]) for i in range(n)]
