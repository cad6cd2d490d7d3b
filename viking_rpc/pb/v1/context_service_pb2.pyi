from google.rpc import status_pb2 as _status_pb2
from . import context_pb2 as _context_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetContextRequest(_message.Message):
    __slots__ = ("uri", "view", "min_revision")
    URI_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    uri: str
    view: _context_pb2.ContextView
    min_revision: int
    def __init__(self, uri: _Optional[str] = ..., view: _Optional[_Union[_context_pb2.ContextView, str]] = ..., min_revision: _Optional[int] = ...) -> None: ...

class GetContextResponse(_message.Message):
    __slots__ = ("context", "revision")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    context: _context_pb2.Context
    revision: int
    def __init__(self, context: _Optional[_Union[_context_pb2.Context, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class ListContextsRequest(_message.Message):
    __slots__ = ("parent_uri", "page_size", "page_token", "filter", "view", "min_revision")
    PARENT_URI_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    parent_uri: str
    page_size: int
    page_token: str
    filter: _context_pb2.Filter
    view: _context_pb2.ContextView
    min_revision: int
    def __init__(self, parent_uri: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., filter: _Optional[_Union[_context_pb2.Filter, _Mapping]] = ..., view: _Optional[_Union[_context_pb2.ContextView, str]] = ..., min_revision: _Optional[int] = ...) -> None: ...

class ListContextsResponse(_message.Message):
    __slots__ = ("contexts", "next_page_token", "revision")
    CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    contexts: _containers.RepeatedCompositeFieldContainer[_context_pb2.Context]
    next_page_token: str
    revision: int
    def __init__(self, contexts: _Optional[_Iterable[_Union[_context_pb2.Context, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class UpsertContextsRequest(_message.Message):
    __slots__ = ("contexts", "request_id")
    CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    contexts: _containers.RepeatedCompositeFieldContainer[_context_pb2.Context]
    request_id: str
    def __init__(self, contexts: _Optional[_Iterable[_Union[_context_pb2.Context, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class UpsertContextsResponse(_message.Message):
    __slots__ = ("contexts", "revision")
    CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    contexts: _containers.RepeatedCompositeFieldContainer[_context_pb2.Context]
    revision: int
    def __init__(self, contexts: _Optional[_Iterable[_Union[_context_pb2.Context, _Mapping]]] = ..., revision: _Optional[int] = ...) -> None: ...

class ImportContextsRequest(_message.Message):
    __slots__ = ("sequence", "contexts")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    contexts: _containers.RepeatedCompositeFieldContainer[_context_pb2.Context]
    def __init__(self, sequence: _Optional[int] = ..., contexts: _Optional[_Iterable[_Union[_context_pb2.Context, _Mapping]]] = ...) -> None: ...

class ImportContextsResponse(_message.Message):
    __slots__ = ("sequence", "upserted_count", "error", "revision")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    UPSERTED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    upserted_count: int
    error: _status_pb2.Status
    revision: int
    def __init__(self, sequence: _Optional[int] = ..., upserted_count: _Optional[int] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class DeleteContextsRequest(_message.Message):
    __slots__ = ("uris", "recursive", "allow_missing")
    URIS_FIELD_NUMBER: _ClassVar[int]
    RECURSIVE_FIELD_NUMBER: _ClassVar[int]
    ALLOW_MISSING_FIELD_NUMBER: _ClassVar[int]
    uris: _containers.RepeatedScalarFieldContainer[str]
    recursive: bool
    allow_missing: bool
    def __init__(self, uris: _Optional[_Iterable[str]] = ..., recursive: bool = ..., allow_missing: bool = ...) -> None: ...

class DeleteContextsResponse(_message.Message):
    __slots__ = ("deleted_count", "revision")
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    deleted_count: int
    revision: int
    def __init__(self, deleted_count: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class MoveContextRequest(_message.Message):
    __slots__ = ("source_uri", "destination_uri")
    SOURCE_URI_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_URI_FIELD_NUMBER: _ClassVar[int]
    source_uri: str
    destination_uri: str
    def __init__(self, source_uri: _Optional[str] = ..., destination_uri: _Optional[str] = ...) -> None: ...

class MoveContextResponse(_message.Message):
    __slots__ = ("moved_count", "revision")
    MOVED_COUNT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    moved_count: int
    revision: int
    def __init__(self, moved_count: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class TouchContextsRequest(_message.Message):
    __slots__ = ("uris",)
    URIS_FIELD_NUMBER: _ClassVar[int]
    uris: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, uris: _Optional[_Iterable[str]] = ...) -> None: ...

class TouchContextsResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...
