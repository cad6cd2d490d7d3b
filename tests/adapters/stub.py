"""An embeddings endpoint on loopback that answers as it is told, however untidily."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-never-shown-0123456789"
_HANG_S = 20.0  # only a bound: tests release hanging answers

Answer = Callable[["Stub", dict[str, Any]], "Reply"]


@dataclass(frozen=True)
class Reply:
    """What is sent: status, body, headers; `is_hanging` holds it back until the test ends, `is_cut` drops the line."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    is_hanging: bool = False
    is_cut: bool = False


@dataclass
class Stub:
    """Takes the next answer of `script` for each request, the last one again and again, and keeps the requests."""

    script: list[Answer]
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    base_url: str = ""
    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    disconnected: threading.Event = field(default_factory=threading.Event)


def vector_of(text: str, dimensions: int = 4) -> list[float]:
    """Return a vector that tells texts apart: their length and first letters."""
    codes = [float(ord(c)) for c in text[: dimensions - 1]]
    return [float(len(text)), *codes, *[0.0] * (dimensions - 1 - len(codes))]


def entries_of(body: dict[str, Any], dimensions: int = 4) -> list[dict[str, Any]]:
    return [{"index": i, "embedding": vector_of(t, dimensions)} for i, t in enumerate(body["input"])]


def ok(entries: Any) -> Reply:
    return Reply(body=json.dumps({"data": entries}).encode())


def tidy(_: Stub, body: dict[str, Any]) -> Reply:
    """Answer as a well-behaved server does."""
    return ok(entries_of(body))


def status(code: int, text: str = "", *headers: tuple[str, str]) -> Answer:
    """Answer with a status and an error in OpenAI's form."""
    return lambda _stub, _body: Reply(code, json.dumps({"error": {"message": text}}).encode(), headers)


def raw(body: bytes) -> Answer:
    return lambda _stub, _body: Reply(body=body)


def hang(_: Stub, __: dict[str, Any]) -> Reply:
    return Reply(is_hanging=True)


def cut(_: Stub, __: dict[str, Any]) -> Reply:
    return Reply(is_cut=True)


@contextmanager
def serving(*script: Answer) -> Iterator[Stub]:
    """Serve a script on a free loopback port until the block ends."""
    stub = Stub(list(script))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stub.requests.append({"path": self.path, **body})
            stub.headers.append(dict(self.headers.items()))
            answer = stub.script.pop(0) if len(stub.script) > 1 else stub.script[0]
            reply = answer(stub, body)
            stub.arrived.set()
            if reply.is_hanging:
                self.connection.settimeout(_HANG_S)
                try:
                    if self.connection.recv(1) == b"":
                        stub.disconnected.set()
                except OSError:
                    pass
                self.close_connection = True
                return
            if reply.is_cut:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    stub.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
