import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from . import retrieval_service_pb2 as _retrieval_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IndexState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INDEX_STATE_UNSPECIFIED: _ClassVar[IndexState]
    INDEX_STATE_READY: _ClassVar[IndexState]
    INDEX_STATE_MERGING: _ClassVar[IndexState]
    INDEX_STATE_REBUILDING: _ClassVar[IndexState]
INDEX_STATE_UNSPECIFIED: IndexState
INDEX_STATE_READY: IndexState
INDEX_STATE_MERGING: IndexState
INDEX_STATE_REBUILDING: IndexState

class GetStoreInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStoreInfoResponse(_message.Message):
    __slots__ = ("server_version", "dimensions", "embedder", "reranker", "planner", "index_engine", "context_count", "revision", "default_options", "directory_count", "file_count", "contexts_by_type", "row_count", "rows_by_level", "data_model_id", "index_state", "pending_row_count", "checkpoint_revision", "database_bytes", "start_time", "profile_options", "settings", "warnings")
    class ContextsByTypeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class RowsByLevelEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ProfileOptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _retrieval_service_pb2.RetrieveOptions
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_retrieval_service_pb2.RetrieveOptions, _Mapping]] = ...) -> None: ...
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    EMBEDDER_FIELD_NUMBER: _ClassVar[int]
    RERANKER_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    INDEX_ENGINE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_COUNT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_COUNT_FIELD_NUMBER: _ClassVar[int]
    FILE_COUNT_FIELD_NUMBER: _ClassVar[int]
    CONTEXTS_BY_TYPE_FIELD_NUMBER: _ClassVar[int]
    ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    ROWS_BY_LEVEL_FIELD_NUMBER: _ClassVar[int]
    DATA_MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_STATE_FIELD_NUMBER: _ClassVar[int]
    PENDING_ROW_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_REVISION_FIELD_NUMBER: _ClassVar[int]
    DATABASE_BYTES_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    PROFILE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    server_version: str
    dimensions: int
    embedder: str
    reranker: str
    planner: str
    index_engine: str
    context_count: int
    revision: int
    default_options: _retrieval_service_pb2.RetrieveOptions
    directory_count: int
    file_count: int
    contexts_by_type: _containers.ScalarMap[str, int]
    row_count: int
    rows_by_level: _containers.ScalarMap[str, int]
    data_model_id: str
    index_state: IndexState
    pending_row_count: int
    checkpoint_revision: int
    database_bytes: int
    start_time: _timestamp_pb2.Timestamp
    profile_options: _containers.MessageMap[str, _retrieval_service_pb2.RetrieveOptions]
    settings: _containers.ScalarMap[str, str]
    warnings: _containers.RepeatedCompositeFieldContainer[_retrieval_service_pb2.Warning]
    def __init__(self, server_version: _Optional[str] = ..., dimensions: _Optional[int] = ..., embedder: _Optional[str] = ..., reranker: _Optional[str] = ..., planner: _Optional[str] = ..., index_engine: _Optional[str] = ..., context_count: _Optional[int] = ..., revision: _Optional[int] = ..., default_options: _Optional[_Union[_retrieval_service_pb2.RetrieveOptions, _Mapping]] = ..., directory_count: _Optional[int] = ..., file_count: _Optional[int] = ..., contexts_by_type: _Optional[_Mapping[str, int]] = ..., row_count: _Optional[int] = ..., rows_by_level: _Optional[_Mapping[str, int]] = ..., data_model_id: _Optional[str] = ..., index_state: _Optional[_Union[IndexState, str]] = ..., pending_row_count: _Optional[int] = ..., checkpoint_revision: _Optional[int] = ..., database_bytes: _Optional[int] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., profile_options: _Optional[_Mapping[str, _retrieval_service_pb2.RetrieveOptions]] = ..., settings: _Optional[_Mapping[str, str]] = ..., warnings: _Optional[_Iterable[_Union[_retrieval_service_pb2.Warning, _Mapping]]] = ...) -> None: ...

class GetRetrievalStatsRequest(_message.Message):
    __slots__ = ("all_accounts",)
    ALL_ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    all_accounts: bool
    def __init__(self, all_accounts: bool = ...) -> None: ...

class GetRetrievalStatsResponse(_message.Message):
    __slots__ = ("total_queries", "total_results", "zero_result_queries", "zero_result_rate", "avg_results_per_query", "avg_score", "max_score", "min_score", "queries_by_type", "rerank_attempted", "rerank_used", "rerank_fallback", "rerank_partial", "avg_latency", "max_latency", "levels")
    class QueriesByTypeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TOTAL_QUERIES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_RESULTS_FIELD_NUMBER: _ClassVar[int]
    ZERO_RESULT_QUERIES_FIELD_NUMBER: _ClassVar[int]
    ZERO_RESULT_RATE_FIELD_NUMBER: _ClassVar[int]
    AVG_RESULTS_PER_QUERY_FIELD_NUMBER: _ClassVar[int]
    AVG_SCORE_FIELD_NUMBER: _ClassVar[int]
    MAX_SCORE_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    QUERIES_BY_TYPE_FIELD_NUMBER: _ClassVar[int]
    RERANK_ATTEMPTED_FIELD_NUMBER: _ClassVar[int]
    RERANK_USED_FIELD_NUMBER: _ClassVar[int]
    RERANK_FALLBACK_FIELD_NUMBER: _ClassVar[int]
    RERANK_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    AVG_LATENCY_FIELD_NUMBER: _ClassVar[int]
    MAX_LATENCY_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    total_queries: int
    total_results: int
    zero_result_queries: int
    zero_result_rate: float
    avg_results_per_query: float
    avg_score: float
    max_score: float
    min_score: float
    queries_by_type: _containers.ScalarMap[str, int]
    rerank_attempted: int
    rerank_used: int
    rerank_fallback: int
    rerank_partial: int
    avg_latency: _duration_pb2.Duration
    max_latency: _duration_pb2.Duration
    levels: _containers.RepeatedCompositeFieldContainer[LevelLatency]
    def __init__(self, total_queries: _Optional[int] = ..., total_results: _Optional[int] = ..., zero_result_queries: _Optional[int] = ..., zero_result_rate: _Optional[float] = ..., avg_results_per_query: _Optional[float] = ..., avg_score: _Optional[float] = ..., max_score: _Optional[float] = ..., min_score: _Optional[float] = ..., queries_by_type: _Optional[_Mapping[str, int]] = ..., rerank_attempted: _Optional[int] = ..., rerank_used: _Optional[int] = ..., rerank_fallback: _Optional[int] = ..., rerank_partial: _Optional[int] = ..., avg_latency: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_latency: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., levels: _Optional[_Iterable[_Union[LevelLatency, _Mapping]]] = ...) -> None: ...

class LevelLatency(_message.Message):
    __slots__ = ("depth", "directories_expanded", "p50", "p95", "p99")
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_EXPANDED_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P95_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    depth: int
    directories_expanded: int
    p50: _duration_pb2.Duration
    p95: _duration_pb2.Duration
    p99: _duration_pb2.Duration
    def __init__(self, depth: _Optional[int] = ..., directories_expanded: _Optional[int] = ..., p50: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p95: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p99: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CreateCheckpointRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CreateCheckpointResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...
