import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_KIND_UNSPECIFIED: _ClassVar[NodeKind]
    NODE_KIND_DIRECTORY: _ClassVar[NodeKind]
    NODE_KIND_FILE: _ClassVar[NodeKind]

class Level(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEVEL_UNSPECIFIED: _ClassVar[Level]
    LEVEL_ABSTRACT: _ClassVar[Level]
    LEVEL_OVERVIEW: _ClassVar[Level]
    LEVEL_DETAIL: _ClassVar[Level]

class ContextType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTEXT_TYPE_UNSPECIFIED: _ClassVar[ContextType]
    CONTEXT_TYPE_RESOURCE: _ClassVar[ContextType]
    CONTEXT_TYPE_MEMORY: _ClassVar[ContextType]
    CONTEXT_TYPE_SKILL: _ClassVar[ContextType]

class ContextView(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONTEXT_VIEW_UNSPECIFIED: _ClassVar[ContextView]
    CONTEXT_VIEW_BASIC: _ClassVar[ContextView]
    CONTEXT_VIEW_ABSTRACT: _ClassVar[ContextView]
    CONTEXT_VIEW_OVERVIEW: _ClassVar[ContextView]
    CONTEXT_VIEW_FULL: _ClassVar[ContextView]
NODE_KIND_UNSPECIFIED: NodeKind
NODE_KIND_DIRECTORY: NodeKind
NODE_KIND_FILE: NodeKind
LEVEL_UNSPECIFIED: Level
LEVEL_ABSTRACT: Level
LEVEL_OVERVIEW: Level
LEVEL_DETAIL: Level
CONTEXT_TYPE_UNSPECIFIED: ContextType
CONTEXT_TYPE_RESOURCE: ContextType
CONTEXT_TYPE_MEMORY: ContextType
CONTEXT_TYPE_SKILL: ContextType
CONTEXT_VIEW_UNSPECIFIED: ContextView
CONTEXT_VIEW_BASIC: ContextView
CONTEXT_VIEW_ABSTRACT: ContextView
CONTEXT_VIEW_OVERVIEW: ContextView
CONTEXT_VIEW_FULL: ContextView

class Context(_message.Message):
    __slots__ = ("uri", "parent_uri", "kind", "type", "abstract", "overview", "content", "title", "tags", "create_time", "update_time", "expire_time", "active_count", "etag", "child_count", "vectors", "relations")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    URI_FIELD_NUMBER: _ClassVar[int]
    PARENT_URI_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ABSTRACT_FIELD_NUMBER: _ClassVar[int]
    OVERVIEW_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CHILD_COUNT_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    RELATIONS_FIELD_NUMBER: _ClassVar[int]
    uri: str
    parent_uri: str
    kind: NodeKind
    type: ContextType
    abstract: str
    overview: str
    content: str
    title: str
    tags: _containers.ScalarMap[str, str]
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    active_count: int
    etag: str
    child_count: int
    vectors: _containers.RepeatedCompositeFieldContainer[LevelVector]
    relations: _containers.RepeatedCompositeFieldContainer[Relation]
    def __init__(self, uri: _Optional[str] = ..., parent_uri: _Optional[str] = ..., kind: _Optional[_Union[NodeKind, str]] = ..., type: _Optional[_Union[ContextType, str]] = ..., abstract: _Optional[str] = ..., overview: _Optional[str] = ..., content: _Optional[str] = ..., title: _Optional[str] = ..., tags: _Optional[_Mapping[str, str]] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., active_count: _Optional[int] = ..., etag: _Optional[str] = ..., child_count: _Optional[int] = ..., vectors: _Optional[_Iterable[_Union[LevelVector, _Mapping]]] = ..., relations: _Optional[_Iterable[_Union[Relation, _Mapping]]] = ...) -> None: ...

class LevelVector(_message.Message):
    __slots__ = ("level", "vector")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    level: Level
    vector: Vector
    def __init__(self, level: _Optional[_Union[Level, str]] = ..., vector: _Optional[_Union[Vector, _Mapping]] = ...) -> None: ...

class Vector(_message.Message):
    __slots__ = ("values", "packed")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    packed: bytes
    def __init__(self, values: _Optional[_Iterable[float]] = ..., packed: _Optional[bytes] = ...) -> None: ...

class Relation(_message.Message):
    __slots__ = ("uri", "reason")
    URI_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    uri: str
    reason: str
    def __init__(self, uri: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Scope(_message.Message):
    __slots__ = ("target_uris", "types")
    TARGET_URIS_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    target_uris: _containers.RepeatedScalarFieldContainer[str]
    types: _containers.RepeatedScalarFieldContainer[ContextType]
    def __init__(self, target_uris: _Optional[_Iterable[str]] = ..., types: _Optional[_Iterable[_Union[ContextType, str]]] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("tags", "levels", "updated_since", "updated_before", "created_since", "created_before", "exclude_uris")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TAGS_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_SINCE_FIELD_NUMBER: _ClassVar[int]
    UPDATED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    CREATED_SINCE_FIELD_NUMBER: _ClassVar[int]
    CREATED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_URIS_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.ScalarMap[str, str]
    levels: _containers.RepeatedScalarFieldContainer[Level]
    updated_since: _timestamp_pb2.Timestamp
    updated_before: _timestamp_pb2.Timestamp
    created_since: _timestamp_pb2.Timestamp
    created_before: _timestamp_pb2.Timestamp
    exclude_uris: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tags: _Optional[_Mapping[str, str]] = ..., levels: _Optional[_Iterable[_Union[Level, str]]] = ..., updated_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., exclude_uris: _Optional[_Iterable[str]] = ...) -> None: ...
