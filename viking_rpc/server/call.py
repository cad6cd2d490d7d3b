"""One RPC as its handler sees it: who calls, until when, and what the access log will say of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viking_rpc.domain.identity import Identity


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """What an interceptor hands to a handler in place of the gRPC context.

    Args:
        identity: the caller, from metadata.
        start_s: when the call began, on the monotonic clock.
        deadline_s: when it ends at the latest, on the monotonic clock; the caller's deadline, the default, or the cap.
        request_id: names the call in the log and in its errors.
        facts: what the handler adds to the access log: numbers and revisions, no texts.
    """

    identity: Identity
    start_s: float
    deadline_s: float
    request_id: str
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def remaining_s(self) -> float:
        """Return the seconds until the deadline; negative after it."""
        return self.deadline_s - time.monotonic()

    @property
    def timeout_s(self) -> float:
        """Return the seconds that the call had when it began."""
        return self.deadline_s - self.start_s
