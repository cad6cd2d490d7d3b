"""What embedders do with texts and vectors: refuse broken text, join titles, split long text, scale to unit length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.errors import InvalidArgumentError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_BREAKS = ("\n\n", "\n", " ")


def require_encodable(texts: Sequence[str]) -> None:
    """Refuse texts that no tokenizer can read.

    Raises:
        InvalidArgumentError: reason INVALID_TEXT; one violation for each text with an unpaired surrogate.
    """
    bad = [i for i, text in enumerate(texts) if not (text.isascii() or _is_encodable(text))]
    if bad:
        raise InvalidArgumentError.of(
            Violation(f"texts[{i}]", "has an unpaired surrogate, which is not text", "INVALID_TEXT") for i in bad
        )


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def with_titles(texts: Sequence[str], titles: Sequence[str] | None) -> Sequence[str]:
    """Put each text's title on a line before it; None or an empty title adds nothing."""
    if titles is None:
        return texts
    return [f"{title}\n{text}" if title else text for title, text in zip(titles, texts, strict=True)]


def split_text(text: str, max_chars: int) -> Iterator[str]:
    """Yield consecutive parts of at most `max_chars` characters that together are the whole text.

    A part ends after a blank line, else a line, else a word, in its second half; else (no spaces) anywhere.
    """
    lo = 0
    while len(text) - lo > max_chars:
        hi = lo + max_chars
        for mark in _BREAKS:
            found = text.rfind(mark, lo + max_chars // 2, hi)
            if found >= 0:
                hi = found + len(mark)
                break
        yield text[lo:hi]
        lo = hi
    yield text[lo:]


def scale_row(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale one vector, float32[dimensions], to unit length in place, as `scale_to_unit` does; return it."""
    scale_to_unit(vector[None, :])
    return vector


def scale_to_unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to unit length in place; all-zero rows stay.

    Args:
        vectors: float32[n_rows, dimensions], finite, written.

    Returns:
        The same array.
    """
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    norms[norms == 0.0] = 1.0
    vectors /= norms[:, None].astype(np.float32)
    return vectors
