"""Vectors at half the memory: float32 without its lower 16 bits, rounded, kept as uint16."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A rounded value differs by at most this share of itself: 8 bits of significance, half of the last one.
MAX_ERROR = 2.0**-8
ROW_TYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(np.uint16)}


def encode(vectors: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return vectors as rows of a type hold them; float32 as they are, uint16 for bfloat16.

    Args:
        vectors: float32, any shape, finite.
        dtype: one of `ROW_TYPES`.
    """
    if dtype != np.uint16:
        return vectors
    bits = np.ascontiguousarray(vectors, np.float32).view(np.uint32)
    # to the nearest; halfway to the one whose last bit is 0
    return ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(np.uint16)


def decode(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return as float32 what rows hold; float32 as it is."""
    if vectors.dtype != np.uint16:
        return vectors
    return (vectors.astype(np.uint32) << 16).view(np.float32)
