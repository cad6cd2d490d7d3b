"""The one edge of every RPC: identity, admission, deadline, errors to status, and one access-log line."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import time
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, cast

import grpc
from google.protobuf.message import DecodeError

from viking_rpc.errors import DeadlineExceededError, InvalidArgumentError, VikingError, Violation
from viking_rpc.server.call import Call
from viking_rpc.server.identity import ACCOUNT_KEY, AUTHORIZATION_KEY, PEER_KEY, USER_KEY
from viking_rpc.server.status import DETAILS_KEY, internal_error, to_status

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

    from viking_rpc.domain.identity import Identity
    from viking_rpc.server.admission import Admission
    from viking_rpc.server.allowance import Allowance
    from viking_rpc.server.keys import CallerResolver

    Handler = grpc.RpcMethodHandler[Any, Any]

logger = logging.getLogger(__name__)

REQUEST_ID_KEY: Final = "x-request-id"

_OURS: Final = "viking.v1."
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_.:/+=-]{1,128}")
_UNREADABLE: Final = object()
_WHO: Final = (AUTHORIZATION_KEY, ACCOUNT_KEY, USER_KEY, PEER_KEY)


class Limits(NamedTuple):
    """Seconds: what a call without a deadline gets, and what any call gets at most."""

    default_deadline_s: float
    max_deadline_s: float


class Edge:
    """Wraps every handler of viking.v1; a handler gets a `Call` in place of the gRPC context, and may raise freely.

    Handlers are wrapped once, when their service registers: an interceptor of grpc.aio costs every call a chain of
    coroutines of its own.

    Args:
        resolve: says who calls, and how much more they may ask for.
        admission: counts the calls in work and refuses those over the limit.
        limits: deadlines.
        worker: what the access log calls this process; empty where there is one.
    """

    def __init__(self, resolve: CallerResolver, admission: Admission, limits: Limits, worker: str = "") -> None:
        """Remember the policies."""
        self._resolve = resolve
        self._admission = admission
        self._limits = limits
        self._worker = f" worker={worker}" if worker else ""

    def around(self, server: grpc.aio.Server) -> grpc.aio.Server:
        """Return what services register with, so that their handlers come to the server wrapped."""
        return cast("grpc.aio.Server", _Registrar(self, server))

    def wrap(self, service: str, handlers: Mapping[str, Any]) -> dict[str, Handler]:
        """Return the handlers of a service, wrapped."""
        short = service.removeprefix(_OURS)
        return {name: self._wrap(f"{short}/{name}", handler) for name, handler in handlers.items()}

    def _wrap(self, method: str, handler: Any) -> Handler:
        """Make a handler of the same shape."""
        shape = (_tolerant(handler.request_deserializer), handler.response_serializer)
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(self._unary(method, handler.unary_unary), *shape)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(self._stream(method, handler.unary_stream), *shape)
        if handler.stream_stream:
            return grpc.stream_stream_rpc_method_handler(self._stream(method, handler.stream_stream), *shape)
        return grpc.stream_unary_rpc_method_handler(self._unary(method, handler.stream_unary), *shape)

    def _unary(self, method: str, behavior: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            record = _Record(method, self._worker)
            try:
                with self._admission:
                    call, allowance = self._begin(record, context)
                    with allowance:
                        response = await behavior(_readable(request), call)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is told as a status
                record.fail(error)
                await record.abort(context)
            record.end("OK")
            return response

        return handle

    def _stream(
        self, method: str, behavior: Callable[..., AsyncGenerator[Any, None]]
    ) -> Callable[..., AsyncIterator[Any]]:
        async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            record = _Record(method, self._worker)
            try:
                with self._admission:
                    call, allowance = self._begin(record, context)
                    with allowance:
                        async with aclosing(behavior(_readable(request), call)) as responses:
                            async for response in responses:
                                yield response
            except BaseException as error:  # noqa: BLE001
                record.fail(error)
                await record.abort(context)
            record.end("OK")

        return handle

    def _begin(self, record: _Record, context: grpc.aio.ServicerContext[Any, Any]) -> tuple[Call, Allowance]:
        timeout_s = context.time_remaining()
        if timeout_s is None:
            timeout_s = self._limits.default_deadline_s
        timeout_s = min(timeout_s, self._limits.max_deadline_s)
        metadata = _metadata(context.invocation_metadata())
        record.request_id = _request_id(metadata)
        caller = self._resolve(metadata)
        call = record.call = Call(caller.identity, record.start_s, record.start_s + timeout_s, record.request_id)
        if caller.key_id:
            call.facts["key"] = caller.key_id
        return call, caller.allowance


class _Registrar:
    """Stands for a server while a service registers; generated code calls both methods with the same handlers."""

    def __init__(self, edge: Edge, server: grpc.aio.Server) -> None:
        self._edge = edge
        self._server = server

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        del handlers  # they come again, by name

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        wrapped = self._edge.wrap(service, handlers)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, wrapped),))
        self._server.add_registered_method_handlers(service, wrapped)


class _Record:
    """How one call goes, until its line is written."""

    __slots__ = ("call", "error", "method", "request_id", "start_s", "worker")

    def __init__(self, method: str, worker: str) -> None:
        self.method = method
        self.worker = worker
        self.start_s = time.monotonic()
        self.request_id = ""
        self.call: Call | None = None
        self.error: VikingError = internal_error()

    def fail(self, error: BaseException) -> None:
        """Decide what is told of an error, and write the line; what is not told goes on."""
        self.request_id = self.request_id or _new_request_id()
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
        """Write the access-log line."""
        if not logger.isEnabledFor(logging.INFO):
            return
        facts = "" if self.call is None else "".join(f" {key}={value}" for key, value in self.call.facts.items())
        logger.info(
            "rpc%s method=%s code=%s reason=%s total_ms=%.3f%s identity=%s request_id=%s",
            self.worker,
            self.method,
            code,
            reason,
            (time.monotonic() - self.start_s) * 1000,
            facts,
            "-" if self.call is None else _identity_hash(self.call.identity),
            self.request_id or "-",
        )


def _tolerant(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a reader that lets bytes through which are no message, for gRPC itself would call them INTERNAL."""

    def read(encoded: bytes) -> Any:
        try:
            return deserialize(encoded)
        except DecodeError:
            return _UNREADABLE

    return read


def _readable(request: Any) -> Any:
    """Return the request; of a stream of them each is looked at when its turn comes.

    Raises:
        InvalidArgumentError: reason MALFORMED_MESSAGE.
    """
    if hasattr(request, "__aiter__"):
        return _readable_each(request)
    if request is _UNREADABLE:
        raise InvalidArgumentError("MALFORMED_MESSAGE", "the bytes that were sent are no message of this method")
    return request


async def _readable_each(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _readable(request)


def _metadata(pairs: Any) -> Mapping[str, str]:
    """Return what a call says beside its message, text only; nobody may say twice who they are.

    Raises:
        InvalidArgumentError: reason REPEATED_METADATA.
    """
    found: dict[str, str] = {}
    for key, value in pairs or ():
        if isinstance(value, bytes):
            continue
        if key in _WHO and found.get(key, value) != value:
            raise InvalidArgumentError.of([Violation(f"metadata.{key}", "has two values", "REPEATED_METADATA")])
        found[key] = value
    return found


def _request_id(metadata: Mapping[str, str]) -> str:
    """Return the caller's own id where it can stand in a log line, else a new one."""
    given = metadata.get(REQUEST_ID_KEY, "")
    return given if given and _REQUEST_ID.fullmatch(given) else _new_request_id()


def _new_request_id() -> str:
    return os.urandom(8).hex()


@lru_cache(maxsize=4096)
def _identity_hash(identity: Identity) -> str:
    """Return who called, so that lines of one caller can be found and nobody can be read off them."""
    who = f"{identity.account}\0{identity.user}\0{identity.peer}\0{identity.role.value}"
    return hashlib.blake2b(who.encode(), digest_size=6).hexdigest()
