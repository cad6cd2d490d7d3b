"""Messages of any type, drawn from their descriptors: plausible ones, senseless ones, and bytes that are none."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

from tests.server.fakes import cosine
from tests.strategies import uri_texts
from viking_rpc.pb.v1 import admin_service_pb2, context_service_pb2, retrieval_service_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

    Draw = Callable[[st.SearchStrategy[Any]], Any]

#: Every method of the contract: what a new one is added to by being in a proto.
METHODS: list[MethodDescriptor] = [
    method
    for module in (retrieval_service_pb2, context_service_pb2, admin_service_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
URIS = [
    "viking://resources", "viking://resources/a", "viking://resources/a/b.md", "viking://~/memories/x.md",
    "viking://resources/a/.abstract.md", "viking://agent/skills/s", "viking://resources/{calendar:today}",
]  # fmt: skip
_TEXTS = [
    "", " ", "x", "q", "\u4e2d\u6587", "\x00", "a" * 3000, "\U0001f600" * 500, "viking://", "viking://user/bob",
    "viking://user/default/peers/p", "viking://resources/../x", "viking://session/s", "http://x", "AAAA", "1-1",
    "viking://resources/{calendar:nope}", "123e4567-e89b-12d3-a456-426614174000", "user", "assistant",
]  # fmt: skip
_FLOATS = [0.0, -0.0, 1.0, 0.5, -1.0, float("nan"), float("inf"), -float("inf"), 3.4e38, 1e-45, 1e300]
_PACKED = [b"", b"\0", b"\0" * 8, b"\xff" * 8, b"\0" * 12, struct.pack("<2f", 3e38, 3e38), cosine(0.5).tobytes()]
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}
#: Fields of which almost any value is refused by itself: mostly left out, so that the rest is reached.
_SHY = {"page_token", "request_id", "etag", "min_revision", "sequence", "expire_time", "vectors"}
_VECTOR = "viking.v1.Vector"


def message_class(descriptor: Descriptor) -> type[Message]:
    """Return the class of a message type."""
    return message_factory.GetMessageClass(descriptor)


def messages(descriptor: Descriptor) -> st.SearchStrategy[Message]:
    """Return messages of a type: a third of them plausible in every field, the others senseless here and there."""
    return st.sampled_from([0, 0, 1, 3, 8]).flatmap(lambda wildness: _drawn(descriptor, wildness))


@st.composite
def _drawn(draw: Draw, descriptor: Descriptor, wildness: int) -> Message:
    message = message_class(descriptor)()
    _fill(message, draw, wildness)
    return message


def _fill(message: Message, draw: Draw, wildness: int, depth: int = 0) -> None:
    """Set some fields; of ten values, `wildness` mean nothing."""
    descriptor = message.DESCRIPTOR
    if descriptor.full_name == _VECTOR and not _is_wild(draw, wildness):
        message.packed = cosine(draw(st.sampled_from([-1.0, 0.0, 0.5]))).tobytes()  # type: ignore[attr-defined]
        return
    if descriptor.full_name.startswith("google.protobuf."):
        seconds = [0, 1, 1_767_225_600, -1, 2**63 - 1, -(2**63)] if _is_wild(draw, wildness) else [1]
        message.seconds = draw(st.sampled_from(seconds))  # type: ignore[attr-defined]
        message.nanos = draw(st.sampled_from([0, 1, 999_999_999, 10**9, -1] if wildness else [0, 1000]))  # type: ignore[attr-defined]
        return
    for field in descriptor.fields:
        leaves_out = 8 if field.name in _SHY else 3 + depth
        if draw(st.integers(0, 9)) < leaves_out:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            if value.message_type is None:
                for _ in range(draw(st.integers(1, 3))):
                    key = draw(st.sampled_from(["a", "b", "", "k" * 65]))
                    getattr(message, field.name)[key] = _value(value, draw, wildness)
        elif field.is_repeated:
            _fill_repeated(getattr(message, field.name), field, draw, wildness, depth)
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            _fill(getattr(message, field.name), draw, wildness, depth + 1)
        else:
            setattr(message, field.name, _value(field, draw, wildness))


def _fill_repeated(values: Any, field: FieldDescriptor, draw: Draw, wildness: int, depth: int) -> None:
    """Add some values to a repeated field; very many of them are one again and again."""
    n = draw(st.sampled_from([1, 1, 1, 2, 3, *([70, 300] if wildness > 1 else [])]))
    if field.message_type is not None:
        for _ in range(min(n, 3)):
            _fill(values.add(), draw, wildness, depth + 1)
        return
    few = [_value(field, draw, wildness) for _ in range(min(n, 3))]
    if isinstance(few[0], str):
        few = [text[:2000] for text in few]  # a message that gRPC itself refuses is another test
    values.extend([*few, *few[:1] * (n - len(few))])


def _is_wild(draw: Draw, wildness: int) -> bool:
    return wildness > 0 and draw(st.integers(0, 9)) < wildness


def _value(field: FieldDescriptor, draw: Draw, wildness: int) -> Any:
    """Return a value for a field that is no message."""
    is_wild = _is_wild(draw, wildness)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return draw(st.one_of(st.sampled_from(_PACKED), st.binary(max_size=32)))
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return draw(st.booleans())
    if kind in {FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE}:
        return draw(st.sampled_from(_FLOATS) if is_wild else st.sampled_from([0.0, 0.25, 1.0]))
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return _text(field.name, draw, is_wild=is_wild)
    least, greatest = _INTEGERS[kind]
    if is_wild:
        edges = st.sampled_from([0, 1, 9, 63, 64, 65, 1000, 1001, greatest, least, greatest - 1])
        return draw(st.one_of(edges.map(lambda n: min(max(n, least), greatest)), st.integers(least, greatest)))
    if field.enum_type is not None:
        return draw(st.sampled_from([value.number for value in field.enum_type.values]))
    return draw(st.integers(1, 5))


def _text(name: str, draw: Draw, *, is_wild: bool) -> str:
    if is_wild:
        huge = st.sampled_from([8 * 1024, 8 * 1024 + 1, 200_000]).map(lambda n: "x" * n)
        text: str = draw(st.one_of(st.sampled_from(_TEXTS), st.text(max_size=40), uri_texts(), huge))
        return text.encode(errors="replace").decode()  # a message holds no surrogate
    if "uri" in name:
        return str(draw(st.sampled_from(URIS)))
    if name == "role":
        return "user"
    return str(draw(st.sampled_from(["x", "q", "where is the manual"])))


def damaged(encoded: bytes) -> st.SearchStrategy[bytes]:
    """Return bytes near a message: cut, with changes, with unknown fields, with fields twice, deeply nested."""
    unknown = st.binary(max_size=40)
    deep = st.integers(1, 2000).map(lambda n: b"\x0b" * n)  # groups that begin and never end
    nested = st.integers(1, 12).map(_nest)
    fields = st.builds(
        lambda number, payload: _varint(number << 3 | 2) + _varint(len(payload)) + payload,
        st.integers(1, 2**29 - 1),
        st.binary(max_size=30),
    )
    cut = st.integers(0, len(encoded)).map(lambda n: encoded[:n])
    changed = st.builds(_change, st.just(encoded), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255))))
    return st.one_of(
        cut,
        changed,
        fields.map(lambda extra: encoded + extra),
        st.just(encoded + encoded),
        st.one_of(unknown, deep, nested).map(lambda extra: encoded + extra),
        unknown,
    )


def _change(encoded: bytes, changes: list[tuple[int, int]]) -> bytes:
    changed = bytearray(encoded)
    for at, byte in changes:
        if changed:
            changed[at % len(changed)] = byte
    return bytes(changed)


def _nest(depth: int) -> bytes:
    """Return a field 1 within a field 1, two to that depth deep."""
    payload = b""
    for _ in range(min(2**depth, 300)):
        payload = b"\x0a" + _varint(len(payload)) + payload
    return payload


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
