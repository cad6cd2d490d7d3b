"""The one edge of every RPC: identity, admission, deadline, errors to status, and one access-log line."""

from __future__ import annotations

import re
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import grpc
from google.protobuf.message import DecodeError

from viking_rpc.errors import InvalidArgumentError, Violation
from viking_rpc.server.call import Call
from viking_rpc.server.identity import ACCOUNT_KEY, AUTHORIZATION_KEY, PEER_KEY, USER_KEY
from viking_rpc.server.outcome import Observers, Outcome, new_request_id

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

    from viking_rpc.server.admission import Admission
    from viking_rpc.server.allowance import Allowance
    from viking_rpc.server.keys import CallerResolver
    from viking_rpc.server.recording import Recorder

    Handler = grpc.RpcMethodHandler[Any, Any]

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
        recorder: counts the calls.
        worker: what the access log calls this process; empty where there is one.
    """

    def __init__(
        self, resolve: CallerResolver, admission: Admission, limits: Limits, recorder: Recorder, worker: str = ""
    ) -> None:
        """Remember the policies."""
        self._resolve = resolve
        self._admission = admission
        self._limits = limits
        self._recorder = recorder
        self._observers = Observers(recorder, admission, worker)

    def around(self, server: grpc.aio.Server) -> grpc.aio.Server:
        """Return what services register with, so that their handlers come to the server wrapped."""
        return cast("grpc.aio.Server", _Registrar(self, server))

    def wrap(self, service: str, handlers: Mapping[str, Any]) -> dict[str, Handler]:
        """Return the handlers of a service, wrapped."""
        short = service.removeprefix(_OURS)
        return {name: self._wrap(f"{short}/{name}", handler) for name, handler in handlers.items()}

    def _wrap(self, method: str, handler: Any) -> Handler:
        """Make a handler of the same shape."""
        shape = (_tolerant(handler.request_deserializer), _letting_bytes_through(handler.response_serializer))
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(self._unary(method, handler.unary_unary), *shape)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(self._stream(method, handler.unary_stream), *shape)
        if handler.stream_stream:
            return grpc.stream_stream_rpc_method_handler(self._stream(method, handler.stream_stream), *shape)
        return grpc.stream_unary_rpc_method_handler(self._unary(method, handler.stream_unary), *shape)

    def _unary(self, method: str, behavior: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            outcome = Outcome(method, self._observers)
            try:
                with self._admission:
                    call, allowance = self._begin(outcome, context)
                    with allowance:
                        response = await behavior(_readable(request), call)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is told as a status
                outcome.fail(error)
                await outcome.abort(context)
            outcome.end("OK")
            return response

        return handle

    def _stream(
        self, method: str, behavior: Callable[..., AsyncGenerator[Any, None]]
    ) -> Callable[..., AsyncIterator[Any]]:
        async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
            outcome = Outcome(method, self._observers)
            try:
                with self._admission:
                    call, allowance = self._begin(outcome, context)
                    with allowance:
                        async with aclosing(behavior(_readable(request), call)) as responses:
                            async for response in responses:
                                yield response
            except BaseException as error:  # noqa: BLE001
                outcome.fail(error)
                await outcome.abort(context)
            outcome.end("OK")

        return handle

    def _begin(self, outcome: Outcome, context: grpc.aio.ServicerContext[Any, Any]) -> tuple[Call, Allowance]:
        self._recorder.call_begins(self._admission.n_in_flight)
        timeout_s = context.time_remaining()
        if timeout_s is None:
            timeout_s = self._limits.default_deadline_s
        timeout_s = min(timeout_s, self._limits.max_deadline_s)
        metadata = _metadata(context.invocation_metadata())
        outcome.request_id = _request_id(metadata)
        caller = self._resolve(metadata)
        call = outcome.call = Call(caller.identity, outcome.start_s, outcome.start_s + timeout_s, outcome.request_id)
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


def _tolerant(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a reader that lets bytes through which are no message, for gRPC itself would call them INTERNAL."""

    def read(encoded: bytes) -> Any:
        try:
            return deserialize(encoded)
        except DecodeError:
            return _UNREADABLE

    return read


def _letting_bytes_through(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Return a writer of responses; a handler that has the bytes of one already returns them in its place."""

    def write(response: Any) -> bytes:
        return response if type(response) is bytes else serialize(response)

    return write


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
    return given if given and _REQUEST_ID.fullmatch(given) else new_request_id()
