"""Rerank with a cross-encoder in ONNX form in a local folder (extra `onnx`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from viking_rpc.adapters.extras import package_folder, require_file
from viking_rpc.adapters.onnx import open_session, read_tokenizer
from viking_rpc.adapters.worker import ModelWorker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_NAME: Final = "onnx"
_ROLE: Final = "reranker"
_QUERY_SHARE: Final = 0.75
_TWO_CLASSES: Final = 2


class OnnxScorer:
    """A cross-encoder that is run on this machine, one pair after the other.

    A pair alone has the same score whatever else is asked, and a caller who leaves stops before the next one.

    Args:
        folder: holds `model.onnx` and `tokenizer.json`, whose post-processor joins pairs.
        model: its stable name; empty means the folder's name.
        max_tokens: the model's window, special tokens included.
        threads: how many threads one run may use.
    """

    def __init__(self, folder: Path, *, model: str = "", max_tokens: int = 512, threads: int = 1) -> None:
        """Load the model and its tokenizer.

        Raises:
            FailedPreconditionError: the extra or a file is missing, or a file cannot be read.
        """
        package_folder("onnxruntime", embedder=_NAME, extra="onnx", role=_ROLE)
        weights = require_file(folder / "model.onnx", embedder=_NAME, role=_ROLE)
        self._tokenizer = read_tokenizer(require_file(folder / "tokenizer.json", embedder=_NAME, role=_ROLE))
        self._session = open_session(weights, threads)
        self._inputs = frozenset(i.name for i in self._session.get_inputs())
        self._name = model or folder.resolve().name
        self._room = max(2, max_tokens - self._tokenizer.num_special_tokens_to_add(is_pair=True))
        self._worker = ModelWorker(self._name)

    @property
    def name(self) -> str:
        """Return `onnx/` and the model's name."""
        return f"{_NAME}/{self._name}"

    async def score(self, query: str, texts: Sequence[str], out: NDArray[np.float32], allowed_s: float) -> None:
        """Write float32[n_texts], each as soon as it is known: the model's logit."""
        del allowed_s  # the caller cancels; a pair that runs is short
        for i, text in enumerate(texts):
            out[i] = await self._worker.run_async(lambda text=text: self._score(query, text))  # type: ignore[misc]

    async def close(self) -> None:
        """Let the model's thread end."""
        self._worker.close()

    def _score(self, query: str, text: str) -> float:
        """Return the logit of one pair; the query is cut to three quarters of the window, the text to the rest."""
        first = self._tokenizer.encode(query, add_special_tokens=False)
        first.truncate(max(1, int(_QUERY_SHARE * self._room)))
        second = self._tokenizer.encode(text, add_special_tokens=False)
        second.truncate(max(1, self._room - len(first.ids)))
        pair = self._tokenizer.post_process(first, second)
        columns = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
        feeds = {name: np.asarray([columns[name]], np.int64) for name in self._inputs}
        logits = np.asarray(self._session.run(None, feeds)[0], np.float64).reshape(-1)
        return float(logits[1] - logits[0]) if len(logits) == _TWO_CLASSES else float(logits[0])
