from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from . import admin_service_pb2

class AdminServiceStub:
    def __init__(self, channel: Any) -> None: ...
    GetStoreInfo: Callable[..., Any]
    GetRetrievalStats: Callable[..., Any]
    CreateCheckpoint: Callable[..., Any]

class AdminServiceServicer:
    def GetStoreInfo(self, request: admin_service_pb2.GetStoreInfoRequest, context: Any) -> Awaitable[admin_service_pb2.GetStoreInfoResponse]: ...
    def GetRetrievalStats(self, request: admin_service_pb2.GetRetrievalStatsRequest, context: Any) -> Awaitable[admin_service_pb2.GetRetrievalStatsResponse]: ...
    def CreateCheckpoint(self, request: admin_service_pb2.CreateCheckpointRequest, context: Any) -> Awaitable[admin_service_pb2.CreateCheckpointResponse]: ...

def add_AdminServiceServicer_to_server(servicer: AdminServiceServicer, server: Any) -> None: ...
