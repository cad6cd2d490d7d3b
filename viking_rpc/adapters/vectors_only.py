"""Stand in for an embedder where callers bring their own vectors: it knows the dimension and embeds nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viking_rpc.errors import FailedPreconditionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class VectorsOnly:
    """No model; texts are refused.

    Args:
        dimensions: length of the vectors that callers bring.
        model: the name of the model that callers use, for a store to remember.
    """

    is_inline = True

    def __init__(self, dimensions: int, model: str = "") -> None:
        """Remember the dimension."""
        self.dimensions = dimensions
        self.model = model or "none"

    def embed_texts(
        self, texts: Sequence[str], titles: Sequence[str] | None = None, title_shares: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        """Refuse.

        Raises:
            FailedPreconditionError: reason NO_EMBEDDER.
        """
        del texts, titles, title_shares
        raise _no_embedder(self.dimensions)

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Refuse. Raises as `embed_texts`."""
        del text, timeout_s
        raise _no_embedder(self.dimensions)

    async def embed_query_async(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Refuse. Raises as `embed_texts`."""
        return self.embed_query(text, timeout_s)


def _no_embedder(dimensions: int) -> FailedPreconditionError:
    return FailedPreconditionError(
        "NO_EMBEDDER",
        f"this server has no embedder: send a vector of {dimensions} numbers, or set embedder.name",
        {"dimensions": str(dimensions)},
    )
