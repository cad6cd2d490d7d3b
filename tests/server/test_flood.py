"""More calls at once than a server can take: every one is answered or refused by it, none is dropped on the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import grpc

from tests.server.conftest import Stubs
from viking_rpc.pb.v1 import admin_service_pb2 as pb

if TYPE_CHECKING:
    from viking_rpc.server.app import Server

N_CONNECTIONS = 10
N_CALLS = 200


async def test_a_flood_is_answered_to_the_last_call(server: Server) -> None:
    codes: Counter[str] = Counter()

    async def call(stubs: Stubs) -> None:
        try:
            await stubs.admin.GetStoreInfo(pb.GetStoreInfoRequest(), timeout=60)
        except grpc.aio.AioRpcError as error:
            codes[error.code().name] += 1
        else:
            codes["OK"] += 1

    async with AsyncExitStack() as stack:
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(server.address, options=options))
            for _ in range(N_CONNECTIONS)
        ]
        await asyncio.gather(*(channel.channel_ready() for channel in channels))
        await asyncio.gather(*(call(Stubs(channel)) for channel in channels for _ in range(N_CALLS)))
    assert codes.total() == N_CONNECTIONS * N_CALLS
    assert codes["OK"]
    assert set(codes) <= {"OK", "RESOURCE_EXHAUSTED"}
