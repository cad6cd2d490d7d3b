"""A real server in a process of its own, for clients of any language."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

CODE = """
import pathlib, sys
from viking_rpc.config import Settings
from viking_rpc.server.app import serve
settings = Settings(data=pathlib.Path(sys.argv[1]), server={"listen": "127.0.0.1:0"})
serve(settings, lambda address: print(address, flush=True))
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a server on a new data directory; it answers NOT_READY until it has loaded, which clients try again."""
    data = tmp_path_factory.mktemp("data")
    with subprocess.Popen([sys.executable, "-c", CODE, str(data)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = process.stdout.readline().strip()
            assert found, "the server did not start"
            wait_until_ready(found)
            yield found
        finally:
            process.terminate()
            process.wait(timeout=30)


def wait_until_ready(address: str) -> None:
    """Watch the health of a server until it says SERVING."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(address) as channel:
        call = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        for answer in call:
            if answer.status == health_pb2.HealthCheckResponse.SERVING:
                break
        call.cancel()
