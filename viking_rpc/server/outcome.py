"""How one call goes, until it is counted and told in the log; and what is told of its error."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import grpc

from viking_rpc.errors import DeadlineExceededError, VikingError
from viking_rpc.server import access_log
from viking_rpc.server.status import DETAILS_KEY, internal_error, to_status

if TYPE_CHECKING:
    from viking_rpc.domain.identity import Identity
    from viking_rpc.server.admission import Admission
    from viking_rpc.server.call import Call
    from viking_rpc.server.recording import Recorder

logger = logging.getLogger(__name__)


class Observers(NamedTuple):
    """Who hears of calls: what counts them, what lets them in, and what the log calls this process, if not alone."""

    recorder: Recorder
    admission: Admission
    worker: str


class Outcome:
    """One call from its begin to its end."""

    __slots__ = ("call", "error", "method", "observers", "request_id", "start_s")

    def __init__(self, method: str, observers: Observers) -> None:
        """Begin, without knowing who calls: `Service/Method` is all that is known of a call that is refused."""
        self.method = method
        self.observers = observers
        self.start_s = time.monotonic()
        self.request_id = ""
        self.call: Call | None = None
        self.error: VikingError = internal_error()

    def fail(self, error: BaseException) -> None:
        """Decide what is told of an error, and end the call; what is not told goes on."""
        self.request_id = self.request_id or new_request_id()
        if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
            is_late = self.call is not None and self.call.remaining_s <= 0
            self.end("DEADLINE_EXCEEDED" if is_late else "CANCELLED")
            raise error
        if isinstance(error, VikingError):
            self.error = error
        elif isinstance(error, TimeoutError):
            self.error = DeadlineExceededError("DEADLINE_EXCEEDED", "the call did not end within its deadline")
        else:
            logger.error("rpc_failed method=%s request_id=%s", self.method, self.request_id, exc_info=error)
            if not isinstance(error, Exception):
                raise error
        self.end(self.error.code, self.error.reason)

    async def abort(self, context: grpc.aio.ServicerContext[Any, Any]) -> NoReturn:
        """End the call with the status of its error."""
        status = to_status(self.error, self.request_id)
        trailers = ((DETAILS_KEY, status.SerializeToString()),)
        await context.abort(grpc.StatusCode[self.error.code], status.message, trailers)

    def end(self, code: str, reason: str = "-") -> None:
        """Count the call, and tell the log."""
        duration_s = time.monotonic() - self.start_s
        recorder, admission, worker = self.observers
        recorder.call_ends(self.method, code, reason, duration_s, admission.n_in_flight)
        if not access_log.is_wanted():
            return
        call = self.call
        facts: dict[str, object] = {"worker": worker} if worker else {}
        facts["method"] = self.method
        facts["code"] = code
        facts["reason"] = reason
        facts["total_ms"] = round(duration_s * 1000, 3)
        if call is not None:
            facts.update(call.facts)
        facts["identity"] = "-" if call is None else _identity_hash(call.identity)
        facts["request_id"] = self.request_id or "-"
        access_log.write(facts)


def new_request_id() -> str:
    """Return a name for a call that brings none."""
    return os.urandom(8).hex()


@lru_cache(maxsize=4096)
def _identity_hash(identity: Identity) -> str:
    """Return who called, so that lines of one caller can be found and nobody can be read off them."""
    who = f"{identity.account}\0{identity.user}\0{identity.peer}\0{identity.role.value}"
    return hashlib.blake2b(who.encode(), digest_size=6).hexdigest()
