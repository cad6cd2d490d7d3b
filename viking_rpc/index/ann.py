"""The approximate index over the rows of one large subtree: the only module that knows usearch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

# usearch carries a C++ runtime of its own: where the shared one comes after it, as onnxruntime brings it, the process
# crashes. llvmlite, which the kernels need anyway, brings the shared one first.
import llvmlite.binding  # noqa: F401
import numpy as np
from usearch.index import Index

from viking_rpc.index.bfloat16 import decode

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

#: Rows whose vectors are copied together when a graph is built.
ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class AnnParameters:
    """How the graph is built and searched; the defaults are measured in benchmarks/retrieve.py.

    Args:
        connectivity: links per vector.
        expansion_add: candidates looked at when a vector is linked.
        expansion_search: least number of candidates looked at per search; asking for more looks at more.
        dtype: how the graph keeps vectors (`f32`, `f16`, `i8`); what it finds is scored exactly from the rows.
        threads: threads that build; a search always uses the caller's alone.
    """

    connectivity: int = 16
    expansion_add: int = 96
    expansion_search: int = 12
    dtype: str = "i8"
    threads: int = 1


class AnnIndex:
    """An immutable graph over some rows, by cosine. Usearch has no filter: callers over-fetch and mask."""

    def __init__(self, index: Index, parameters: AnnParameters) -> None:
        """Wrap a filled usearch index."""
        self._index = index
        self._parameters = parameters
        # the graph looks at max(k, this) candidates; mypy misses the setter
        self._size = len(index)
        self._index.expansion_search = parameters.expansion_search  # type: ignore[misc]

    @classmethod
    def build(cls, vectors: NDArray[Any], rows: NDArray[np.int32], parameters: AnnParameters) -> AnnIndex:
        """Link rows of a snapshot.

        Args:
            vectors: [n_rows, dim], all rows, float32 or as `index.bfloat16` keeps them.
            rows: int32[n], the rows to link; at least one.
            parameters: how.
        """
        index = Index(
            ndim=vectors.shape[1],
            metric="cos",
            dtype=parameters.dtype,
            connectivity=parameters.connectivity,
            expansion_add=parameters.expansion_add,
            expansion_search=parameters.expansion_search,
        )
        for lo in range(0, len(rows), ROWS_AT_ONCE):  # a copy of all vectors would double what a large tree takes
            part = rows[lo : lo + ROWS_AT_ONCE]
            index.add(part.astype(np.uint64), decode(vectors[part]), threads=parameters.threads)
        return cls(index, parameters)

    @classmethod
    def load(cls, path: Path, parameters: AnnParameters) -> AnnIndex:
        """Map a saved graph: processes share it, and it is read where it is needed. The file may be deleted then."""
        index = Index.restore(str(path), view=True)
        if index is None:
            message = f"not an index file: {path}"
            raise ValueError(message)
        return cls(index, parameters)

    def save(self, path: Path) -> None:
        """Write the graph to a file."""
        self._index.save(str(path))

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._size

    def search(self, vector: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Return about the k nearest rows, nearest first; fewer when there are fewer."""
        found = self._index.search(vector, min(k, self._size), threads=1)
        return found.keys.astype(np.int64)
