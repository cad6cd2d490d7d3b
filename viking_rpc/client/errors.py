"""Turn what gRPC raises back into the error that the server raised."""

from __future__ import annotations

from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from viking_rpc.errors import VikingError, Violation

_DETAILS_KEY: Final = "grpc-status-details-bin"
_CLASS_OF_CODE: Final = {cls.code: cls for cls in VikingError.__subclasses__()}
_NAME_OF_CODE: Final = {code.value[0]: code.name for code in grpc.StatusCode}


def to_error(error: grpc.RpcError) -> VikingError:
    """Return the server's error, with its reason, metadata, violations and retry delay.

    Args:
        error: as a call raised it. Without details, because the server was not reached or the transport refused the
            call, the reason is the name of the status code.
    """
    return _read(error.code().name, _status(error), error.details() or "")


def to_refusal(status: status_pb2.Status) -> VikingError:
    """Return the error of a part of a call that the call itself went on without."""
    return _read(_NAME_OF_CODE.get(status.code, "UNKNOWN"), status, "")


def _read(name: str, status: status_pb2.Status, text: str) -> VikingError:
    """Return the error of a status code's name, with what the details say."""
    cls = _CLASS_OF_CODE.get(name, VikingError)
    info = error_details_pb2.ErrorInfo(reason=name)
    bad_request = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    for detail in status.details:
        for message in (info, bad_request, retry):
            if detail.Is(message.DESCRIPTOR):
                detail.Unpack(message)
    violations = tuple(Violation(v.field, v.description, v.reason) for v in bad_request.field_violations)
    retry_after_s = None
    if retry.HasField("retry_delay"):
        retry_after_s = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    message = status.message or text or name
    made = cls(info.reason, message, dict(info.metadata), violations, retry_after_s)
    # The status tells the violations in its message too, for those who read nothing else; `str` adds them again.
    made.message = message.removesuffix(str(cls(info.reason, "", {}, violations)))
    return made


def _status(error: Any) -> status_pb2.Status:
    """Return the status with details; an empty one where there is none that can be read."""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY:
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                break
    return status_pb2.Status()
