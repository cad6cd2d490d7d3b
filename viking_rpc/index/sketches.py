"""Sketches of fresh rows: made as rows are appended, gone when the tree is laid out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from viking_kernels.arrays import Sketches, frozen
from viking_kernels.sketch import sketch_rows
from viking_rpc.index.bfloat16 import decode

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from viking_kernels.arrays import Rows


def no_sketches(rows: Rows) -> Sketches:
    """Return the sketches beside rows that are all laid out: none."""
    n_rows, dimensions = rows.vectors.shape
    nothing = frozen(np.empty(0, np.float32))
    return Sketches(frozen(np.empty((0, dimensions), np.int8)), nothing, nothing, n_rows)


def make_sketches(vectors: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.float32]]:
    """Return code, scale and error of each row, see `viking_kernels.arrays.Sketches`.

    Args:
        vectors: [n, dim], as rows hold them: float32 or bfloat16.
    """
    n = len(vectors)
    code, scale, error = np.empty(vectors.shape, np.int8), np.empty(n, np.float32), np.empty(n, np.float32)
    sketch_rows(np.ascontiguousarray(decode(vectors)), code, scale, error)
    return code, scale, error
