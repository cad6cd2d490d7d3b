"""Any message and any bytes are refused with a proper status or succeed: never INTERNAL, never a crash, never a hang.

VIKING_FUZZ_S=3600 (`make fuzz`) looks for so many seconds in all, with new examples each time.
"""

from __future__ import annotations

import logging
import random
import re
import socket
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from tests.exploring import BUDGET_S, explore
from tests.server.background import Background, in_background
from tests.server.conftest import make_settings
from tests.server.details import detail
from tests.server.messages import METHODS, URIS, damaged, message_class, messages
from viking_rpc.pb.v1 import context_pb2, context_service_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.protobuf.descriptor import MethodDescriptor

#: What a server may say to nonsense; the status of a hang is DEADLINE_EXCEEDED without details, which is none of these.
CODES = {
    "OK", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "FAILED_PRECONDITION", "ABORTED",
    "UNIMPLEMENTED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED",
}  # fmt: skip
#: Of the server's own; a call that takes longer than the client's time hangs.
DEADLINE_S, PATIENCE_S = 1.0, 20.0
SHARE = 0.9 / (2 * len(METHODS))
by_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


class _Errors(logging.Handler):
    """Keeps what a server logs as an error: an exception that nobody foresaw."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.texts.append(self.format(record))

    def require_none(self) -> None:
        """Refuse what was kept, once."""
        texts, self.texts = self.texts, []
        assert not texts, "\n".join(texts)


@pytest.fixture(scope="module")
def errors() -> Iterator[_Errors]:
    """Return what is logged as an error."""
    handler = _Errors()
    logging.getLogger("viking_rpc").addHandler(handler)
    yield handler
    logging.getLogger("viking_rpc").removeHandler(handler)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, errors: _Errors) -> Iterator[Background]:
    """Run a server with a small tree."""
    limits = {"default_deadline_s": DEADLINE_S, "max_deadline_s": DEADLINE_S}
    with in_background(make_settings(tmp_path_factory.mktemp("fuzz"), **limits)) as server:
        contexts = [
            context_pb2.Context(uri=uri, content="where is the manual", tags={"a": "x"}, title="x")
            for uri in (*URIS[2:4], "viking://agent/skills/s", "viking://resources/c/d/e.md")
        ]
        write = context_service_pb2.UpsertContextsRequest(contexts=contexts)
        assert call(server, METHODS_BY_NAME["UpsertContexts"], [write.SerializeToString()]) == "OK"
        yield server
        errors.require_none()
        assert server.server.runner.admission.n_in_flight == 0


METHODS_BY_NAME = {method.name: method for method in METHODS}


def call(
    running: Background, method: MethodDescriptor, sent: Sequence[bytes], metadata: Sequence[tuple[str, Any]] = ()
) -> str:
    """Send bytes; return the name of the status, which carries what every status must."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    channel, options = running.channel, {"timeout": PATIENCE_S, "metadata": tuple(metadata)}
    try:
        if method.client_streaming:
            for answer in channel.stream_stream(path)(iter(sent), **options):
                refused = context_service_pb2.ImportContextsResponse.FromString(answer)
                assert refused.error.code not in {2, 13}, refused.error  # UNKNOWN, INTERNAL
        elif method.server_streaming:
            for _ in channel.unary_stream(path)(sent[0], **options):
                pass
        else:
            channel.unary_unary(path)(sent[0], **options)
    except grpc.RpcError as error:
        return check_status(error)
    return "OK"


def check_status(error: Any) -> str:
    """Hold an error against what every one of them must carry."""
    name: str = error.code().name
    assert name in CODES, (name, error.details())
    trailers = dict(error.trailing_metadata() or ())
    assert "grpc-status-details-bin" in trailers, (name, error.details())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    info = detail(status, error_details_pb2.ErrorInfo)
    assert info is not None
    assert info.domain == "viking-rpc"
    assert re.fullmatch(r"[A-Z][A-Z0-9_]{1,62}", info.reason)
    bad = detail(status, error_details_pb2.BadRequest)
    if name == "INVALID_ARGUMENT" and info.reason != "MALFORMED_MESSAGE":
        assert bad is not None
        assert all(one.reason and one.description for one in bad.field_violations)
    if name == "RESOURCE_EXHAUSTED":
        assert detail(status, error_details_pb2.RetryInfo) is not None
    for packed in status.details:
        assert isinstance(packed, any_pb2.Any)
    return name


def drawn_call(method: MethodDescriptor) -> st.SearchStrategy[list[bytes]]:
    """Return what one call of a method sends: a message, or a stream of a few."""
    one = messages(method.input_type).map(lambda message: message.SerializeToString())
    return st.lists(one, min_size=1, max_size=3) if method.client_streaming else st.lists(one, min_size=1, max_size=1)


@by_method
def test_any_message_is_refused_or_succeeds(running: Background, method: MethodDescriptor, errors: _Errors) -> None:
    @given(sent=drawn_call(method))
    def check(sent: list[bytes]) -> None:
        call(running, method, sent)
        errors.require_none()

    explore(check, 40, SHARE)


@by_method
def test_any_bytes_are_refused_or_succeed(running: Background, method: MethodDescriptor, errors: _Errors) -> None:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        (encoded, *rest) = data.draw(drawn_call(method))
        sent = [data.draw(damaged(encoded)), *rest]
        try:
            message_class(method.input_type).FromString(sent[0])
        except Exception:  # noqa: BLE001 - whatever a parser says: it is no message
            assert call(running, method, sent) == "INVALID_ARGUMENT"
        else:
            call(running, method, sent)
        errors.require_none()

    explore(check, 25, SHARE)


def test_any_metadata_is_refused_or_means_nothing(running: Background) -> None:
    printable = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=300)
    keys = ["viking-peer", "viking-user", "viking-account", "authorization", "x-request-id", "x-other"]
    pairs = st.one_of(
        st.tuples(st.sampled_from(keys), st.one_of(printable, st.sampled_from(["default", "p", "", "..", "Bearer x"]))),
        st.tuples(st.sampled_from(["x-bin", "viking-peer-bin", "grpc-status-details-bin"]), st.binary(max_size=50)),
    )

    @given(st.lists(pairs, max_size=4))
    def check(metadata: list[tuple[str, Any]]) -> None:
        assert call(running, METHODS_BY_NAME["GetStoreInfo"], [b""], metadata) in {
            "OK", "INVALID_ARGUMENT", "PERMISSION_DENIED", "DEADLINE_EXCEEDED",
        }  # fmt: skip

    explore(check, 60, 0.05)


def test_a_socket_that_sends_anything_hurts_nobody(running: Background) -> None:
    choose = random.Random(1)
    host, _, port = running.server.address.rpartition(":")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for i in range(int(BUDGET_S) or 20):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as raw:
            sent = choose.randbytes(choose.randrange(1, 4000))
            raw.sendall(preface + sent if i % 2 else sent)
    assert call(running, METHODS_BY_NAME["GetStoreInfo"], [b""]) == "OK"
