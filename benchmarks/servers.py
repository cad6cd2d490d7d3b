"""Server processes for measurements: ours on a data directory, and an echo server of the same kind.

    python -m benchmarks.servers viking DATA_DIRECTORY
    python -m benchmarks.servers echo FILE_WITH_A_RESPONSE

Each prints its address and serves until its standard input ends. The echo server is what any answer costs at least: the
same grpc.aio stack and messages, the request parsed, a canned response of the same size serialised, nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from viking_rpc.config import load_settings
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1 import retrieval_service_pb2_grpc
from viking_rpc.server.app import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


class EchoService(retrieval_service_pb2_grpc.RetrievalServiceServicer):
    """Answers every Retrieve with one response."""

    def __init__(self, response: pb.RetrieveResponse) -> None:
        """Remember the response."""
        self._response = response

    async def Retrieve(self, request: pb.RetrieveRequest, context: object) -> pb.RetrieveResponse:  # noqa: N802
        """Return the response."""
        del request, context
        return self._response


async def _serve_echo(path: Path) -> None:
    server = grpc.aio.server()
    response = pb.RetrieveResponse.FromString(path.read_bytes())
    retrieval_service_pb2_grpc.add_RetrievalServiceServicer_to_server(EchoService(response), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(None)


async def _serve_viking(folder: Path) -> None:
    server = Server(load_settings({"data": str(folder), "server.listen": "127.0.0.1:0"}))
    address = await server.start()
    await server.load()
    print(address, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop()


@contextlib.contextmanager
def running(kind: str, argument: Path) -> Iterator[str]:
    """Run a server process and yield its address; it ends with the block."""
    with started(kind, argument) as (address, _):
        yield address


@contextlib.contextmanager
def started(kind: str, argument: Path) -> Iterator[tuple[str, int]]:
    """Run a server process and yield its address, which it tells when it serves, and its process id."""
    command = [sys.executable, "-m", "benchmarks.servers", kind, str(argument)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                message = f"the {kind} server did not start"
                raise RuntimeError(message)
            yield address, process.pid
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=30)


if __name__ == "__main__":
    asyncio.run(_serve_echo(Path(sys.argv[2])) if sys.argv[1] == "echo" else _serve_viking(Path(sys.argv[2])))
