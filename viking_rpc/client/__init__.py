"""A thin Python client: domain types in and out, one channel, the shipped deadlines and retries, rich errors."""

from viking_rpc.client.aio import AsyncClient, connect_async
from viking_rpc.client.answers import Deleted, Imported, Moved, Page, ServerInfo, Written
from viking_rpc.client.channel import Tls
from viking_rpc.client.sync import Client, connect

__all__ = [
    "AsyncClient",
    "Client",
    "Deleted",
    "Imported",
    "Moved",
    "Page",
    "ServerInfo",
    "Tls",
    "Written",
    "connect",
    "connect_async",
]
