"""Read the vectors out of an embeddings answer, and refuse every answer that is not exactly what was asked for."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.adapters.endpoint import bad_answer
from viking_rpc.errors import FailedPreconditionError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_vectors(
    answer: object, n_texts: int, dimensions: int | None, stage: str, origin: str, model: str
) -> NDArray[np.float32]:
    """Return the vectors in the order of the texts.

    Args:
        answer: parsed JSON: `{"data": [{"index": i, "embedding": [...] or base64 of float32}, ...]}`.
        n_texts: how many texts were sent.
        dimensions: expected length; None takes what comes, if it is the same for all.
        stage: for messages, as are `origin` and `model`.
        origin: the endpoint.
        model: its name there.

    Returns:
        float32[n_texts, dimensions], finite, as answered (not scaled).

    Raises:
        UnavailableError: reason EMBEDDER_BAD_ANSWER: another shape, number or order of vectors, or not finite.
        FailedPreconditionError: reason DIMENSION_MISMATCH.
    """
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise bad_answer(stage, origin, "has no list `data` of objects")
    if len(entries) != n_texts:
        counts = {"n_vectors": str(len(entries)), "n_texts": str(n_texts)}
        raise bad_answer(stage, origin, f"has {len(entries)} vectors for {n_texts} texts", counts)
    indexes = [entry.get("index") for entry in entries]
    if all(index is None for index in indexes):  # some servers leave it out and keep the order
        indexes = list(range(n_texts))
    if any(type(index) is not int for index in indexes) or set(indexes) != set(range(n_texts)):
        raise bad_answer(stage, origin, f"does not number its {n_texts} vectors from 0 to {n_texts - 1}")
    rows = [_read_row(entry.get("embedding")) for entry in entries]
    lengths = {0 if row is None else len(row) for row in rows}
    if any(row is None for row in rows) or 0 in lengths:
        raise bad_answer(stage, origin, "has an `embedding` that is not a list of numbers")
    expected = dimensions if dimensions is not None else min(lengths)
    wrong = sorted(lengths - {expected})
    if wrong and dimensions is None:
        raise bad_answer(stage, origin, f"mixes vectors of {expected} and {wrong[0]} dimensions")
    if wrong:
        raise FailedPreconditionError(
            "DIMENSION_MISMATCH",
            f"{stage}: the model {model!r} at {origin} gives vectors of {wrong[0]} dimensions, {expected} are expected",
            {"stage": stage, "endpoint": origin, "model": model, "got": str(wrong[0]), "expected": str(expected)},
        )
    vectors = np.empty((n_texts, expected), dtype=np.float32)
    for index, row in zip(indexes, rows, strict=True):
        vectors[index] = row
    if not np.isfinite(vectors).all():
        raise bad_answer(stage, origin, "has numbers that are not finite")
    return vectors


def _read_row(embedding: object) -> NDArray[np.float32] | None:
    """Return float32[n], or None for what is not a vector; numbers too large for float32 become infinite."""
    if isinstance(embedding, str):
        try:
            data = base64.b64decode(embedding, validate=True)
            return np.frombuffer(data, dtype="<f4").astype(np.float32)
        except (binascii.Error, ValueError):
            return None
    if not isinstance(embedding, list) or any(type(x) not in (int, float) for x in embedding):
        return None
    try:
        with np.errstate(over="ignore"):
            return np.asarray(embedding, dtype=np.float64).astype(np.float32)
    except OverflowError:
        return None
