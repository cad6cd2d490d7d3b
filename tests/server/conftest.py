"""A real server on a free port of this machine, and channels to it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.server.fakes import FakeClock, TableEmbedder
from viking_rpc.config import Settings
from viking_rpc.pb.v1 import admin_service_pb2_grpc, context_service_pb2_grpc, retrieval_service_pb2_grpc
from viking_rpc.server.app import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Stubs:
    """The generated stubs of one channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Make them."""
        self.retrieval = retrieval_service_pb2_grpc.RetrievalServiceStub(channel)
        self.contexts = context_service_pb2_grpc.ContextServiceStub(channel)
        self.admin = admin_service_pb2_grpc.AdminServiceStub(channel)


def make_settings(folder: Path, **server: Any) -> Settings:
    """Return the settings of a server on a free port."""
    return Settings(data=folder, server={"listen": "127.0.0.1:0", **server})


@asynccontextmanager
async def serving(settings: Settings, **parts: Any) -> AsyncIterator[Server]:
    """Run a server that takes calls."""
    parts.setdefault("embedder", TableEmbedder())
    parts.setdefault("clock", FakeClock())
    server = Server(settings, **parts)
    try:
        await server.start()
        await server.load()
        yield server
    finally:
        await server.stop(grace_s=0)


@asynccontextmanager
async def calling(server: Server) -> AsyncIterator[Stubs]:
    """Open a channel."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield Stubs(channel)


@pytest.fixture
def clock() -> FakeClock:
    """Return the server's clock."""
    return FakeClock()


@pytest.fixture
def embedder() -> TableEmbedder:
    """Return the server's embedder."""
    return TableEmbedder()


@pytest.fixture
async def server(tmp_path: Path, clock: FakeClock, embedder: TableEmbedder) -> AsyncIterator[Server]:
    """Run a server."""
    async with serving(make_settings(tmp_path), clock=clock, embedder=embedder) as running:
        yield running


@pytest.fixture
async def stubs(server: Server) -> AsyncIterator[Stubs]:
    """Open a channel to the server."""
    async with calling(server) as opened:
        yield opened
