"""The errors that a batch is refused with, each with the field path of what is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viking_rpc.errors import (
    AbortedError,
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    VikingError,
    Violation,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from viking_rpc.domain.context import ContextWrite


def combined(failures: Sequence[VikingError]) -> VikingError:
    """Return one error: the first, with the violations of all."""
    first = failures[0]
    if len(failures) == 1:
        return first
    violations = tuple(violation for failure in failures for violation in failure.violations)
    message = f"{first.message} (and {len(failures) - 1} more)"
    return type(first)(first.reason, message, first.metadata, violations)


def missing(path: str, uri: str) -> NotFoundError:
    """Say that nothing is there, or that it is expired."""
    message = f"{uri} does not exist"
    return NotFoundError("CONTEXT_NOT_FOUND", message, {"uri": uri}, (Violation(path, message, "CONTEXT_NOT_FOUND"),))


def exists(path: str, uri: str) -> AlreadyExistsError:
    """Say that something is there already."""
    message = f"{uri} exists"
    return AlreadyExistsError("CONTEXT_EXISTS", message, {"uri": uri}, (Violation(path, message, "CONTEXT_EXISTS"),))


def not_empty(path: str, uri: str, advice: str) -> FailedPreconditionError:
    """Say that a directory has children, which would be lost."""
    violation = Violation(path, f"{uri} has children", "DIRECTORY_NOT_EMPTY")
    return FailedPreconditionError("DIRECTORY_NOT_EMPTY", f"{uri} has children: {advice}", {"uri": uri}, (violation,))


def parent_is_file(path: str, uri: str) -> FailedPreconditionError:
    """Say that a file cannot have children."""
    message = f"{uri} is a file and cannot have children"
    violation = Violation(path, message, "PARENT_IS_FILE")
    return FailedPreconditionError("PARENT_IS_FILE", message, {"parent_uri": uri}, (violation,))


def etag_mismatch(path: str, write: ContextWrite, stored: str) -> AbortedError:
    """Say that a context is not as the writer has read it; `stored` is empty when it does not exist."""
    message = f"{write.uri} was changed by somebody else; read it again"
    metadata = {"uri": write.uri, "etag": write.etag, "stored_etag": stored}
    violation = Violation(path, f"is {write.etag}, stored is {stored or 'nothing'}", "ETAG_MISMATCH")
    return AbortedError("ETAG_MISMATCH", message, metadata, (violation,))


def not_unicode(path: str) -> InvalidArgumentError:
    """Say that a text cannot be stored as UTF-8."""
    return InvalidArgumentError.of([Violation(path, "a text holds an unpaired surrogate", "INVALID_TEXT")])
