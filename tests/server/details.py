"""Read what a refused call carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    import grpc

M = TypeVar("M", bound=Message)


def status_of(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    """Return the status with its details."""
    trailers = dict(error.trailing_metadata())
    return status_pb2.Status.FromString(trailers["grpc-status-details-bin"])


def detail(status: status_pb2.Status, kind: type[M]) -> M | None:
    """Return the detail of a kind."""
    for packed in status.details:
        if packed.Is(kind.DESCRIPTOR):
            found = kind()
            packed.Unpack(found)
            return found
    return None


def reason_of(error: grpc.aio.AioRpcError) -> str:
    """Return the reason."""
    info = detail(status_of(error), error_details_pb2.ErrorInfo)
    assert info is not None
    assert info.domain == "viking-rpc"
    return info.reason


def violations_of(error: grpc.aio.AioRpcError) -> dict[str, str]:
    """Return the reason of each violation by its field."""
    found = detail(status_of(error), error_details_pb2.BadRequest)
    assert found is not None
    return {violation.field: violation.reason for violation in found.field_violations}
