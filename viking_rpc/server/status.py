"""Turn an error into the google.rpc.Status that every client can read, with its details."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from viking_rpc.errors import UnavailableError, VikingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message

    from viking_rpc.errors import Violation

DOMAIN: Final = "viking-rpc"
#: The trailer that carries the serialized status.
DETAILS_KEY: Final = "grpc-status-details-bin"

# Clients take 8 KiB of trailers by default, and would answer RESOURCE_EXHAUSTED themselves to more. A message travels
# percent-encoded (up to three times its bytes), details in base64 (four thirds).
_MAX_MESSAGE_BYTES: Final = 512
_MAX_METADATA_BYTES: Final = 256
_MAX_DESCRIPTION_BYTES: Final = 512
_MAX_DETAILS_BYTES: Final = 4_096
_DEFAULT_RETRY_S: Final = 1.0


def internal_error() -> VikingError:
    """Return what a caller hears of an exception that nobody foresaw: nothing of its text."""
    return VikingError("INTERNAL", "an internal error occurred; the server's log has it under the request id")


def to_status(error: VikingError, request_id: str = "") -> status_pb2.Status:
    """Build the status of an error.

    Args:
        error: its class is the code.
        request_id: names the call in the server's log; empty leaves it out.

    Returns:
        The status with an ErrorInfo always, a BadRequest when the error has violations, a RetryInfo when a retry may
        help. It fits into a client's default limit for trailers: of very many violations the last one counts the rest.
    """
    status = status_pb2.Status(code=status_code(error).value[0], message=_cut(str(error), _MAX_MESSAGE_BYTES))
    metadata = {key: _cut(str(value), _MAX_METADATA_BYTES) for key, value in error.metadata.items()}
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)]
    retry_after_s = error.retry_after_s
    if retry_after_s is None and isinstance(error, UnavailableError):
        retry_after_s = _DEFAULT_RETRY_S
    if retry_after_s is not None:
        details.append(error_details_pb2.RetryInfo(retry_delay=_duration(retry_after_s)))
    if request_id:
        details.append(error_details_pb2.RequestInfo(request_id=request_id))
    if error.violations:
        n_free = _MAX_DETAILS_BYTES - sum(detail.ByteSize() for detail in details)
        details.insert(1, _bad_request(error.violations, n_free))
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status


def status_code(error: VikingError) -> grpc.StatusCode:
    """Return the gRPC code of an error."""
    return grpc.StatusCode[error.code]


def _bad_request(violations: Sequence[Violation], n_free: int) -> error_details_pb2.BadRequest:
    found = (
        error_details_pb2.BadRequest.FieldViolation(
            field=_cut(violation.field, _MAX_METADATA_BYTES),
            description=_cut(violation.description, _MAX_DESCRIPTION_BYTES),
            reason=violation.reason,
        )
        for violation in violations
    )
    kept: list[error_details_pb2.BadRequest.FieldViolation] = []
    n_free -= 128  # for the line that counts the rest
    for violation in found:
        n_free -= violation.ByteSize() + 4
        if n_free < 0 and kept:
            break
        kept.append(violation)
    n_left = len(violations) - len(kept)
    if n_left:
        rest = f"there are {n_left} more violations, which do not fit into this answer"
        kept.append(error_details_pb2.BadRequest.FieldViolation(description=rest, reason="MORE_VIOLATIONS"))
    return error_details_pb2.BadRequest(field_violations=kept)


def _duration(seconds: float) -> duration_pb2.Duration:
    whole, rest = divmod(round(seconds * 1_000_000_000), 1_000_000_000)
    return duration_pb2.Duration(seconds=whole, nanos=rest)


def _cut(text: str, n_bytes: int) -> str:
    """Return the text, cut and marked where it is longer than so many bytes; what UTF-8 cannot hold becomes `?`."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= n_bytes:
        return encoded.decode()
    return encoded[: n_bytes - 3].decode(errors="ignore") + "..."
