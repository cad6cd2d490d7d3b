"""Any message and any bytes are refused or succeed: never INTERNAL, never UNKNOWN, and the server goes on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor

from tests.server.fakes import cosine
from viking_rpc.pb.v1 import admin_service_pb2, context_service_pb2, retrieval_service_pb2
from viking_rpc.pb.v1.context_pb2 import Vector
from viking_rpc.server.interceptors import logger

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from viking_rpc.server.app import Server

#: What a server may say to nonsense.
CODES = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}
TEXTS = [
    "", " ", "x", "q", "\u4e2d\u6587", "\x00", "a" * 3000, "viking://", "viking://resources", "viking://resources/a",
    "viking://resources/a/b.md", "viking://~/memories/x.md", "viking://user/bob", "viking://user/default/peers/p",
    "viking://resources/a/.abstract.md", "viking://resources/../x", "viking://{calendar:today}", "viking://session/s",
    "viking://resources/{calendar:nope}", "http://x", "123e4567-e89b-12d3-a456-426614174000", "AAAA", "1-1",
]  # fmt: skip
NUMBERS = [0, 1, 2, 3, 4, 9, -1, 10, 64, 1000, 2**31 - 1, -(2**31)]
FLOATS = [0.0, -0.0, 1.0, 0.5, -1.0, float("nan"), float("inf"), -float("inf"), 3e38, 1e-40]
BYTES = [b"", b"\0", b"\0" * 8, cosine(0.5).tobytes(), b"\xff" * 8, b"\0" * 12]
URIS = ["viking://resources", "viking://resources/a", "viking://resources/a/b.md", "viking://~/memories/x.md"]
FIELD_KINDS = {value: name for name, value in vars(FieldDescriptor).items() if name.startswith("TYPE_")}
SERVICES = (
    retrieval_service_pb2.DESCRIPTOR.services_by_name["RetrievalService"],
    context_service_pb2.DESCRIPTOR.services_by_name["ContextService"],
    admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"],
)
METHODS = [
    pytest.param(service, method, id=method.name)
    for service in SERVICES
    for method in service.methods
    if not method.client_streaming
]


def fill(message: Message, choose: random.Random, wildness: float, depth: int = 0) -> None:
    """Set some fields of a message, and of those in it; `wildness` is the share of values that mean nothing."""
    if isinstance(message, Vector) and choose.random() >= wildness:
        message.packed = cosine(choose.choice([-1.0, 0.0, 0.5])).tobytes()
        return
    for field in message.DESCRIPTOR.fields:
        if choose.random() < 0.35 + 0.1 * depth and depth + (field.message_type is not None):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(choose.randrange(3)):
                getattr(message, field.name)[choose.choice("ab")] = value_of(field, choose, wildness)
        elif field.is_repeated:
            for _ in range(choose.randrange(4)):
                if field.message_type is not None:
                    fill(getattr(message, field.name).add(), choose, wildness, depth + 1)
                else:
                    getattr(message, field.name).append(value_of(field, choose, wildness))
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), choose, wildness, depth + 1)
        else:
            setattr(message, field.name, value_of(field, choose, wildness))


def value_of(field: FieldDescriptor, choose: random.Random, wildness: float) -> Any:
    """Return a value for a field."""
    is_wild = choose.random() < wildness
    if field.type == FieldDescriptor.TYPE_BYTES:
        return choose.choice(BYTES)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return choose.random() < 0.5
    if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
        return choose.choice(FLOATS if is_wild else [0.0, 0.25, 1.0])
    if field.cpp_type in {FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_MESSAGE}:
        if field.name in {"page_token", "request_id", "etag"} and not is_wild:
            return ""
        return choose.choice(TEXTS if is_wild else URIS if "uri" in field.name else ["x", "q"])
    return choose.choice(
        [*NUMBERS, 2**63 - 1] if is_wild and "64" in FIELD_KINDS[field.type] else NUMBERS if is_wild else [1, 2, 3]
    )


async def code_of(channel: grpc.aio.Channel, service: Any, method: Any, encoded: bytes) -> grpc.StatusCode:
    """Send bytes and return the status code."""
    path = f"/{service.full_name}/{method.name}"
    try:
        if method.server_streaming:
            async for _ in channel.unary_stream(path)(encoded, timeout=0.5):
                pass
        else:
            await channel.unary_unary(path)(encoded, timeout=0.5)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize(("service", "method"), METHODS)
async def test_any_message_is_refused_or_succeeds(
    server: Server, service: Any, method: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("ERROR", logger.name)
    modules = (retrieval_service_pb2, context_service_pb2, admin_service_pb2)
    name = method.input_type.name
    request_class = next(getattr(module, name) for module in modules if hasattr(module, name))
    choose = random.Random(20_260_101)
    found = set()
    async with grpc.aio.insecure_channel(server.address) as channel:
        for _ in range(120):
            message = request_class()
            fill(message, choose, wildness=choose.choice([0.0, 0.02, 0.5]))
            if hasattr(message, "min_revision") and message.min_revision > 0:
                message.min_revision = 0  # waiting for it is right, and takes long
            found.add(await code_of(channel, service, method, message.SerializeToString()))
    assert found <= CODES
    assert not caplog.records


@pytest.mark.parametrize(("service", "method"), METHODS)
async def test_bytes_that_are_no_message_do_not_hurt(server: Server, service: Any, method: Any) -> None:
    choose = random.Random(7)
    async with grpc.aio.insecure_channel(server.address) as channel:
        for _ in range(20):
            await code_of(channel, service, method, choose.randbytes(choose.randrange(1, 60)))
        assert await code_of(channel, SERVICES[2], SERVICES[2].methods[0], b"") == grpc.StatusCode.OK
