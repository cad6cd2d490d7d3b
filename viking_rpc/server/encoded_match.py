"""Write matches as the bytes of `RetrieveResponse.matches`: scores are packed behind contexts that are remembered."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.trace import ScoreParts
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from viking_rpc.domain.query import View
    from viking_rpc.domain.trace import Match
    from viking_rpc.server.encoded import EncodedFor

_VARINT, _DELIMITED, _FLOAT = 0, 2, 5  # wire types


def _tag(message: type[Message], field: str, wire_type: int) -> int:
    """Return the byte in front of a field with a number below 16."""
    return message.DESCRIPTOR.fields_by_name[field].number << 3 | wire_type


_MATCHES: Final = bytes([_tag(pb.RetrieveResponse, "matches", _DELIMITED)])
_SCORE: Final = _tag(pb.Match, "score", _FLOAT)
_PARTS: Final = _tag(pb.Match, "parts", _DELIMITED)
_STEP_INDEX: Final = bytes([_tag(pb.Match, "step_index", _VARINT)])
_OWN, _RELEVANCE, _DENSE, _LEXICAL, _PARENT, _RERANK, _HOTNESS = (
    _tag(pb.ScoreParts, name, _FLOAT) for name in ScoreParts._fields
)
#: By the number of parts that exist: the score, the head of the parts, each part behind its tag.
_SCORES: Final = tuple(struct.Struct("<BfBB" + "Bf" * n) for n in range(len(ScoreParts._fields) + 1))
_FLOAT_BYTES: Final = 5  # with its tag


def encode_match(match: Match, view: View, encoded: EncodedFor, *, has_steps: bool) -> bytes:
    """Return what serialising a `RetrieveResponse` with this match only returns.

    Fields stand in another order than protobuf's own, which readers do not mind.

    Args:
        match: scores must be in the range of float32.
        view: how much of the context is shown.
        encoded: writes contexts for the caller.
        has_steps: whether to tell the step that found it.
    """
    body = encoded.match(match, view) + _encode_scores(match)
    if match.ancestors:
        body += encoded.chain(match.ancestors)
    if has_steps and match.step_index is not None:
        body += _STEP_INDEX + encode_varint(match.step_index)
    return _MATCHES + encode_varint(len(body)) + body


def _encode_scores(match: Match) -> bytes:
    """Return the bytes of a `Match` that has a score and its parts only."""
    own, relevance, dense, lexical, parent, rerank, hotness = match.parts
    others: list[float] = []  # one by one: a loop over names takes twice the time
    if dense is not None:
        others += (_DENSE, dense)
    if lexical is not None:
        others += (_LEXICAL, lexical)
    if parent is not None:
        others += (_PARENT, parent)
    if rerank is not None:
        others += (_RERANK, rerank)
    if hotness is not None:
        others += (_HOTNESS, hotness)
    n = 2 + len(others) // 2
    return _SCORES[n].pack(_SCORE, match.score, _PARTS, n * _FLOAT_BYTES, _OWN, own, _RELEVANCE, relevance, *others)


def encode_varint(number: int) -> bytes:
    """Return a number, not negative, in groups of seven bits, the lowest first; all but the last have the top bit."""
    groups = []
    while number > 0x7F:  # noqa: PLR2004 - seven bits
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
