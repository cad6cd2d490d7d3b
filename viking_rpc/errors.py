"""Every error that leaves a layer on purpose: a status code, a stable reason, and the values that the message names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong with a request: where (a field path such as `options.score_threshold`) and what."""

    field: str
    description: str
    reason: str = "INVALID_VALUE"


@dataclass
class VikingError(Exception):
    """Base of all errors of this package; subclasses fix the gRPC status code by name.

    Args:
        reason: UPPER_SNAKE constant, stable, for programs.
        message: one sentence for people.
        metadata: every value that the message mentions.
        violations: all that is wrong with the request, where the error is about a request.
        retry_after_s: seconds after which a retry may help; None when it will not.
    """

    reason: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    retry_after_s: float | None = None

    code: ClassVar[str] = "INTERNAL"

    def __str__(self) -> str:
        """Return the message followed by every violation."""
        if not self.violations:
            return self.message
        details = "; ".join(f"{v.field}: {v.description}" for v in self.violations)
        return f"{self.message} ({details})"


class InvalidArgumentError(VikingError):
    """The request can never work as it stands."""

    code = "INVALID_ARGUMENT"

    @classmethod
    def of(cls, violations: Iterable[Violation]) -> InvalidArgumentError:
        """Build one error that lists every violation; its reason is theirs when they agree."""
        found = tuple(violations)
        reasons = {v.reason for v in found}
        reason = reasons.pop() if len(reasons) == 1 else "INVALID_REQUEST"
        noun = "violation" if len(found) == 1 else "violations"
        return cls(reason=reason, message=f"the request has {len(found)} {noun}", violations=found)


class NotFoundError(VikingError):
    """What the request names does not exist."""

    code = "NOT_FOUND"


class AlreadyExistsError(VikingError):
    """What the request would make exists."""

    code = "ALREADY_EXISTS"


class PermissionDeniedError(VikingError):
    """The caller may not do this, whether or not the thing exists."""

    code = "PERMISSION_DENIED"


class UnauthenticatedError(VikingError):
    """Nobody knows who the caller is."""

    code = "UNAUTHENTICATED"


class FailedPreconditionError(VikingError):
    """The state of the system does not allow the request; a retry will not help until somebody changes it."""

    code = "FAILED_PRECONDITION"


class AbortedError(VikingError):
    """A concurrent change won; read again and retry."""

    code = "ABORTED"


class ResourceExhaustedError(VikingError):
    """A limit is reached: size, rate, disk."""

    code = "RESOURCE_EXHAUSTED"


class UnavailableError(VikingError):
    """Something that the request needs does not answer now; a retry may help."""

    code = "UNAVAILABLE"


class DeadlineExceededError(VikingError):
    """The time that the caller allowed is over."""

    code = "DEADLINE_EXCEEDED"


class UnimplementedError(VikingError):
    """The contract has it, this release does not."""

    code = "UNIMPLEMENTED"


class DataLossError(VikingError):
    """Stored data is damaged beyond repair."""

    code = "DATA_LOSS"
