"""A cross-encoder of two nodes, written byte by byte: its logit is the sum of the token ids of a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenizers import Tokenizer, models, pre_tokenizers, processors

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("[CLS]", "[SEP]", "[UNK]", "tokens", "rotate", "daily", "weekly")
_FLOAT, _INT64 = 1, 7


def write_cross_encoder(folder: Path) -> None:
    """Write `model.onnx` and `tokenizer.json`."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 0), ("[SEP]", 1)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "model.onnx").write_bytes(_model())


def _model() -> bytes:
    to_float = _field(1, b"to") + _number(3, _FLOAT) + _number(20, 2)
    cast = _field(1, b"input_ids") + _field(2, b"floats") + _field(4, b"Cast") + _field(5, to_float)
    total = _field(1, b"floats") + _field(2, b"logits") + _field(4, b"ReduceSum")
    graph = _field(1, cast) + _field(1, total) + _field(2, b"sum")
    graph += _field(11, _tensor(b"input_ids", _INT64)) + _field(12, _tensor(b"logits", _FLOAT))
    return _number(1, 8) + _field(7, graph) + _field(8, _number(2, 13))


def _tensor(name: bytes, kind: int) -> bytes:
    """Describe a matrix of any size."""
    shape = _field(1, _field(2, name + b"_n")) + _field(1, _field(2, name + b"_m"))
    return _field(1, name) + _field(2, _field(1, _number(1, kind) + _field(2, shape)))


def _field(number: int, value: bytes) -> bytes:
    """Write a length-delimited field of fewer than 16,384 bytes."""
    n = len(value)
    length = bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7])
    return bytes([number << 3 | 2]) + length + value


def _number(number: int, value: int) -> bytes:
    """Write a varint field with a value below 128."""
    tag = number << 3
    return (bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])) + bytes([value])
