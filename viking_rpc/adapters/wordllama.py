"""Embed with the static model in the `wordllama` package: a vector per subword, pooled; no network, no limit."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.adapters.extras import package_folder, require_file
from viking_rpc.adapters.texts import require_encodable, scale_row, scale_to_unit
from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_NAME = "wordllama"
_TENSOR = "embedding.weight"
# The tokenizer writes a space as this mark and puts one before the text.
_SPACE = "\u2581"
# No subword spans a space after a letter, or a line end: splitting there changes no id, and the tokenizer can
# remember words.
_WORDS = f"{_SPACE}*[^{_SPACE}\\n]+|{_SPACE}+|\\n"
_SEGMENT_CHARS = 32_768
_BATCH_CHARS = 262_144
_POOL_TOKENS = 1_024
#: A subword at this position of a stored text counts half as much as the first; see docs/scores.md. Part of the model's
#: name, for vectors of another recipe do not compare.
_HALF_POSITION = 64


class WordLlamaEmbedder:
    """The packaged 256-d static model; a query takes tens of microseconds.

    Its package is not imported: reading its two files takes a quarter of the time, and pulls in nothing.

    Args:
        token_weights: float32[vocabulary], finite: how much each subword counts in pooling; None means all alike.
    """

    is_inline = True

    def __init__(self, token_weights: NDArray[np.float32] | None = None) -> None:
        """Load the matrix and the tokenizer.

        Raises:
            FailedPreconditionError: the package or one of its files is missing or damaged.
            InvalidArgumentError: the weights do not fit the vocabulary.
        """
        folder = package_folder(_NAME, embedder=_NAME)
        weights = require_file(folder / "weights" / "l2_supercat_256.safetensors", embedder=_NAME)
        vocabulary = require_file(folder / "tokenizers" / "l2_supercat_tokenizer_config.json", embedder=_NAME)
        self._matrix = _read_matrix(weights)
        self._tokenizer = _read_tokenizer(vocabulary)
        self._model = f"wordllama-l2-supercat-256-h{_HALF_POSITION}"
        if token_weights is not None:
            factors = _require_weights(token_weights, len(self._matrix))
            # Rows are scaled once, here: weighting costs a query nothing. A store must see that this is another model.
            self._matrix *= factors[:, None]
            self._model += f"-w{blake2b(factors.tobytes(), digest_size=4).hexdigest()}"

    @property
    def model(self) -> str:
        """Return the model's stable name; weights are part of it."""
        return self._model

    @property
    def dimensions(self) -> int:
        """Return the length of its vectors."""
        return int(self._matrix.shape[1])

    def embed_texts(
        self, texts: Sequence[str], titles: Sequence[str] | None = None, title_shares: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        """Embed texts that are stored, each as a whole, however long; memory is bounded by batches.

        A subword counts 1 / (1 + i / 64) at position i: the beginning says most often what a text is about, the rest
        still counts. The vector is share * title + (1 - share) * text, both of unit length.

        Args:
            texts: without their titles.
            titles: one for each text, empty where it has none.
            title_shares: one for each title, in [0, 1]; None: 0.5 each.

        Returns:
            float32[n_texts, dimensions], C order, rows of unit length; all zero where text and title are blank.

        Raises:
            InvalidArgumentError: a text or title has an unpaired surrogate.
        """
        vectors = self._pool_texts(texts)
        if titles is not None:
            share = np.full(len(texts), 0.5) if title_shares is None else np.asarray(title_shares)
            share = share.astype(np.float32)
            vectors *= (1 - share)[:, None]
            vectors += self._pool_texts(titles) * share[:, None]
        return scale_to_unit(vectors)

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query: float32[dimensions]; all its subwords count alike. `timeout_s` is not needed."""
        del timeout_s
        require_encodable([text])
        vector = np.zeros(self.dimensions, dtype=np.float32)
        if text and not text.isspace():
            for part in _segments(_marked(text)):
                self._pool(self._tokenizer.encode(part, add_special_tokens=False).ids, vector)
        return scale_row(vector)

    async def embed_query_async(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query; it takes microseconds, so it runs where it is called."""
        return self.embed_query(text, timeout_s)

    def _pool_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return float32[n_texts, dimensions], each text pooled with falling weights, of unit length or zero."""
        require_encodable(texts)
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        n_pooled = [0] * len(texts)
        for batch in _batches(texts):
            encodings = self._tokenizer.encode_batch_fast([part for _, part in batch], add_special_tokens=False)
            for (i, _), encoding in zip(batch, encodings, strict=True):
                ids = encoding.ids
                for lo in range(0, len(ids), _POOL_TOKENS):
                    taken = self._matrix.take(ids[lo : lo + _POOL_TOKENS], axis=0)
                    position = np.arange(n_pooled[i], n_pooled[i] + len(taken), dtype=np.float32)
                    vectors[i] += (1 / (1 + position / _HALF_POSITION)) @ taken
                    n_pooled[i] += len(taken)
        return scale_to_unit(vectors)

    def _pool(self, ids: Sequence[int], out: NDArray[np.float32]) -> None:
        # The sum serves as the mean: the vector is scaled to unit length in the end.
        for lo in range(0, len(ids), _POOL_TOKENS):
            out += self._matrix.take(ids[lo : lo + _POOL_TOKENS], axis=0).sum(axis=0)


def _read_matrix(path: Path) -> NDArray[np.float32]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensor: NDArray[np.float16] = load_file(path)[_TENSOR]
    except (SafetensorError, KeyError) as error:
        raise _damaged(path, error) from error
    return np.ascontiguousarray(tensor, dtype=np.float32)


def _read_tokenizer(path: Path) -> Tokenizer:
    from tokenizers import Regex, Tokenizer
    from tokenizers.pre_tokenizers import Split

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the binding raises plain Exception
        raise _damaged(path, error) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.normalizer = None  # `_marked` does its work, once for all parts of a text
    tokenizer.pre_tokenizer = Split(Regex(_WORDS), "isolated")
    return tokenizer


def _damaged(path: Path, error: BaseException) -> FailedPreconditionError:
    return FailedPreconditionError(
        "MODEL_FILE_DAMAGED",
        f"the embedder {_NAME!r} cannot read {str(path)!r}: {error}; reinstall the package {_NAME!r}",
        {"embedder": _NAME, "file": str(path), "error": str(error)},
    )


def _require_weights(weights: NDArray[np.float32], n_tokens: int) -> NDArray[np.float32]:
    factors = np.ascontiguousarray(weights, dtype=np.float32)
    if factors.shape != (n_tokens,) or not np.isfinite(factors).all():
        description = f"must be {n_tokens} finite numbers, is an array of shape {factors.shape}"
        raise InvalidArgumentError.of([Violation("token_weights", description)])
    return factors


def _marked(text: str) -> str:
    return _SPACE + text.replace(" ", _SPACE)


def _batches(texts: Sequence[str]) -> Iterator[list[tuple[int, str]]]:
    """Yield lists of (index of the text, part of it), each of about `_BATCH_CHARS` characters at most."""
    batch: list[tuple[int, str]] = []
    n_chars = 0
    for i, text in enumerate(texts):
        if not text or text.isspace():
            continue
        for part in _segments(_marked(text)):
            if n_chars + len(part) > _BATCH_CHARS and batch:
                yield batch
                batch, n_chars = [], 0
            batch.append((i, part))
            n_chars += len(part)
    if batch:
        yield batch


def _segments(marked: str) -> Iterator[str]:
    """Yield parts of at most `_SEGMENT_CHARS` characters, cut where no subword can span the cut.

    Only a run of that length without any space or line end is cut elsewhere, which changes the two subwords at the cut.
    """
    lo = 0
    while len(marked) - lo > _SEGMENT_CHARS:
        hi = lo + _SEGMENT_CHARS
        cut = max(marked.rfind(_SPACE, lo + 1, hi), marked.rfind("\n", lo + 1, hi))
        while cut > lo and marked[cut] == _SPACE and marked[cut - 1] == _SPACE:
            cut -= 1
        yield marked[lo : cut if cut > lo else hi]
        lo = cut if cut > lo else hi
    yield marked[lo:]
