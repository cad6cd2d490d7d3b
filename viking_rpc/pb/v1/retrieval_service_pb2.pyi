import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from . import context_pb2 as _context_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RetrieveMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RETRIEVE_MODE_UNSPECIFIED: _ClassVar[RetrieveMode]
    RETRIEVE_MODE_QUICK: _ClassVar[RetrieveMode]
    RETRIEVE_MODE_THINKING: _ClassVar[RetrieveMode]

class Profile(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROFILE_UNSPECIFIED: _ClassVar[Profile]
    PROFILE_BALANCED: _ClassVar[Profile]
    PROFILE_CLASSIC: _ClassVar[Profile]
    PROFILE_EXHAUSTIVE: _ClassVar[Profile]

class RerankMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RERANK_MODE_UNSPECIFIED: _ClassVar[RerankMode]
    RERANK_MODE_OFF: _ClassVar[RerankMode]
    RERANK_MODE_PREFER: _ClassVar[RerankMode]
    RERANK_MODE_REQUIRE: _ClassVar[RerankMode]

class RerankScope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RERANK_SCOPE_UNSPECIFIED: _ClassVar[RerankScope]
    RERANK_SCOPE_FINAL: _ClassVar[RerankScope]
    RERANK_SCOPE_EACH_LEVEL: _ClassVar[RerankScope]

class TraceLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRACE_LEVEL_UNSPECIFIED: _ClassVar[TraceLevel]
    TRACE_LEVEL_NONE: _ClassVar[TraceLevel]
    TRACE_LEVEL_STATS: _ClassVar[TraceLevel]
    TRACE_LEVEL_STEPS: _ClassVar[TraceLevel]
    TRACE_LEVEL_SCORES: _ClassVar[TraceLevel]

class ThresholdSpace(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    THRESHOLD_SPACE_UNSPECIFIED: _ClassVar[ThresholdSpace]
    THRESHOLD_SPACE_RELEVANCE: _ClassVar[ThresholdSpace]
    THRESHOLD_SPACE_RERANK: _ClassVar[ThresholdSpace]

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_REASON_UNSPECIFIED: _ClassVar[StopReason]
    STOP_REASON_EXHAUSTED: _ClassVar[StopReason]
    STOP_REASON_CONVERGED: _ClassVar[StopReason]
    STOP_REASON_STAGNANT: _ClassVar[StopReason]
    STOP_REASON_BUDGET: _ClassVar[StopReason]
    STOP_REASON_TIME: _ClassVar[StopReason]

class EmptyReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EMPTY_REASON_UNSPECIFIED: _ClassVar[EmptyReason]
    EMPTY_REASON_NO_CONTEXTS: _ClassVar[EmptyReason]
    EMPTY_REASON_FILTERED_OUT: _ClassVar[EmptyReason]
    EMPTY_REASON_BELOW_THRESHOLD: _ClassVar[EmptyReason]
    EMPTY_REASON_PLAN_SKIPPED: _ClassVar[EmptyReason]

class PlanStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLAN_STATUS_UNSPECIFIED: _ClassVar[PlanStatus]
    PLAN_STATUS_PLANNED: _ClassVar[PlanStatus]
    PLAN_STATUS_SKIPPED: _ClassVar[PlanStatus]
    PLAN_STATUS_FALLBACK: _ClassVar[PlanStatus]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_RETURNED: _ClassVar[Verdict]
    VERDICT_OUTRANKED: _ClassVar[Verdict]
    VERDICT_BELOW_THRESHOLD: _ClassVar[Verdict]
    VERDICT_NOT_REACHED: _ClassVar[Verdict]
    VERDICT_FILTERED_OUT: _ClassVar[Verdict]
    VERDICT_OUT_OF_SCOPE: _ClassVar[Verdict]
    VERDICT_NOT_INDEXED: _ClassVar[Verdict]
RETRIEVE_MODE_UNSPECIFIED: RetrieveMode
RETRIEVE_MODE_QUICK: RetrieveMode
RETRIEVE_MODE_THINKING: RetrieveMode
PROFILE_UNSPECIFIED: Profile
PROFILE_BALANCED: Profile
PROFILE_CLASSIC: Profile
PROFILE_EXHAUSTIVE: Profile
RERANK_MODE_UNSPECIFIED: RerankMode
RERANK_MODE_OFF: RerankMode
RERANK_MODE_PREFER: RerankMode
RERANK_MODE_REQUIRE: RerankMode
RERANK_SCOPE_UNSPECIFIED: RerankScope
RERANK_SCOPE_FINAL: RerankScope
RERANK_SCOPE_EACH_LEVEL: RerankScope
TRACE_LEVEL_UNSPECIFIED: TraceLevel
TRACE_LEVEL_NONE: TraceLevel
TRACE_LEVEL_STATS: TraceLevel
TRACE_LEVEL_STEPS: TraceLevel
TRACE_LEVEL_SCORES: TraceLevel
THRESHOLD_SPACE_UNSPECIFIED: ThresholdSpace
THRESHOLD_SPACE_RELEVANCE: ThresholdSpace
THRESHOLD_SPACE_RERANK: ThresholdSpace
STOP_REASON_UNSPECIFIED: StopReason
STOP_REASON_EXHAUSTED: StopReason
STOP_REASON_CONVERGED: StopReason
STOP_REASON_STAGNANT: StopReason
STOP_REASON_BUDGET: StopReason
STOP_REASON_TIME: StopReason
EMPTY_REASON_UNSPECIFIED: EmptyReason
EMPTY_REASON_NO_CONTEXTS: EmptyReason
EMPTY_REASON_FILTERED_OUT: EmptyReason
EMPTY_REASON_BELOW_THRESHOLD: EmptyReason
EMPTY_REASON_PLAN_SKIPPED: EmptyReason
PLAN_STATUS_UNSPECIFIED: PlanStatus
PLAN_STATUS_PLANNED: PlanStatus
PLAN_STATUS_SKIPPED: PlanStatus
PLAN_STATUS_FALLBACK: PlanStatus
VERDICT_UNSPECIFIED: Verdict
VERDICT_RETURNED: Verdict
VERDICT_OUTRANKED: Verdict
VERDICT_BELOW_THRESHOLD: Verdict
VERDICT_NOT_REACHED: Verdict
VERDICT_FILTERED_OUT: Verdict
VERDICT_OUT_OF_SCOPE: Verdict
VERDICT_NOT_INDEXED: Verdict

class Query(_message.Message):
    __slots__ = ("text", "vector", "like_uri", "lexical_text")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    LIKE_URI_FIELD_NUMBER: _ClassVar[int]
    LEXICAL_TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    vector: _context_pb2.Vector
    like_uri: str
    lexical_text: str
    def __init__(self, text: _Optional[str] = ..., vector: _Optional[_Union[_context_pb2.Vector, _Mapping]] = ..., like_uri: _Optional[str] = ..., lexical_text: _Optional[str] = ...) -> None: ...

class RetrieveOptions(_message.Message):
    __slots__ = ("profile", "score_threshold", "score_gte", "score_propagation_alpha", "hotness_alpha", "lexical_weight", "global_top_k", "parallelism", "convergence_rounds", "max_scored_rows", "rerank_mode", "rerank_scope", "max_rerank_documents", "time_budget", "leaf_seeds", "rerank_threshold")
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SCORE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    SCORE_GTE_FIELD_NUMBER: _ClassVar[int]
    SCORE_PROPAGATION_ALPHA_FIELD_NUMBER: _ClassVar[int]
    HOTNESS_ALPHA_FIELD_NUMBER: _ClassVar[int]
    LEXICAL_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_TOP_K_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    CONVERGENCE_ROUNDS_FIELD_NUMBER: _ClassVar[int]
    MAX_SCORED_ROWS_FIELD_NUMBER: _ClassVar[int]
    RERANK_MODE_FIELD_NUMBER: _ClassVar[int]
    RERANK_SCOPE_FIELD_NUMBER: _ClassVar[int]
    MAX_RERANK_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    TIME_BUDGET_FIELD_NUMBER: _ClassVar[int]
    LEAF_SEEDS_FIELD_NUMBER: _ClassVar[int]
    RERANK_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    profile: Profile
    score_threshold: float
    score_gte: bool
    score_propagation_alpha: float
    hotness_alpha: float
    lexical_weight: float
    global_top_k: int
    parallelism: int
    convergence_rounds: int
    max_scored_rows: int
    rerank_mode: RerankMode
    rerank_scope: RerankScope
    max_rerank_documents: int
    time_budget: _duration_pb2.Duration
    leaf_seeds: int
    rerank_threshold: float
    def __init__(self, profile: _Optional[_Union[Profile, str]] = ..., score_threshold: _Optional[float] = ..., score_gte: bool = ..., score_propagation_alpha: _Optional[float] = ..., hotness_alpha: _Optional[float] = ..., lexical_weight: _Optional[float] = ..., global_top_k: _Optional[int] = ..., parallelism: _Optional[int] = ..., convergence_rounds: _Optional[int] = ..., max_scored_rows: _Optional[int] = ..., rerank_mode: _Optional[_Union[RerankMode, str]] = ..., rerank_scope: _Optional[_Union[RerankScope, str]] = ..., max_rerank_documents: _Optional[int] = ..., time_budget: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., leaf_seeds: _Optional[int] = ..., rerank_threshold: _Optional[float] = ...) -> None: ...

class RetrieveRequest(_message.Message):
    __slots__ = ("query", "scope", "filter", "limit", "view", "mode", "options", "trace_level", "min_revision", "grouping", "page_token")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    TRACE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    GROUPING_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    query: Query
    scope: _context_pb2.Scope
    filter: _context_pb2.Filter
    limit: int
    view: _context_pb2.ContextView
    mode: RetrieveMode
    options: RetrieveOptions
    trace_level: TraceLevel
    min_revision: int
    grouping: Grouping
    page_token: str
    def __init__(self, query: _Optional[_Union[Query, _Mapping]] = ..., scope: _Optional[_Union[_context_pb2.Scope, _Mapping]] = ..., filter: _Optional[_Union[_context_pb2.Filter, _Mapping]] = ..., limit: _Optional[int] = ..., view: _Optional[_Union[_context_pb2.ContextView, str]] = ..., mode: _Optional[_Union[RetrieveMode, str]] = ..., options: _Optional[_Union[RetrieveOptions, _Mapping]] = ..., trace_level: _Optional[_Union[TraceLevel, str]] = ..., min_revision: _Optional[int] = ..., grouping: _Optional[_Union[Grouping, _Mapping]] = ..., page_token: _Optional[str] = ...) -> None: ...

class Grouping(_message.Message):
    __slots__ = ("max_per_group", "depth")
    MAX_PER_GROUP_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    max_per_group: int
    depth: int
    def __init__(self, max_per_group: _Optional[int] = ..., depth: _Optional[int] = ...) -> None: ...

class RetrieveResponse(_message.Message):
    __slots__ = ("matches", "revision", "mode", "searched_roots", "stats", "steps", "warnings", "empty_reason", "total_matched", "best_below_threshold", "threshold_space", "next_page_token")
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SEARCHED_ROOTS_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    EMPTY_REASON_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MATCHED_FIELD_NUMBER: _ClassVar[int]
    BEST_BELOW_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_SPACE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    matches: _containers.RepeatedCompositeFieldContainer[Match]
    revision: int
    mode: RetrieveMode
    searched_roots: _containers.RepeatedScalarFieldContainer[str]
    stats: RetrieveStats
    steps: _containers.RepeatedCompositeFieldContainer[TraceStep]
    warnings: _containers.RepeatedCompositeFieldContainer[Warning]
    empty_reason: EmptyReason
    total_matched: int
    best_below_threshold: float
    threshold_space: ThresholdSpace
    next_page_token: str
    def __init__(self, matches: _Optional[_Iterable[_Union[Match, _Mapping]]] = ..., revision: _Optional[int] = ..., mode: _Optional[_Union[RetrieveMode, str]] = ..., searched_roots: _Optional[_Iterable[str]] = ..., stats: _Optional[_Union[RetrieveStats, _Mapping]] = ..., steps: _Optional[_Iterable[_Union[TraceStep, _Mapping]]] = ..., warnings: _Optional[_Iterable[_Union[Warning, _Mapping]]] = ..., empty_reason: _Optional[_Union[EmptyReason, str]] = ..., total_matched: _Optional[int] = ..., best_below_threshold: _Optional[float] = ..., threshold_space: _Optional[_Union[ThresholdSpace, str]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Match(_message.Message):
    __slots__ = ("context", "display_uri", "level", "score", "parts", "ancestors", "step_index")
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_URI_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    ANCESTORS_FIELD_NUMBER: _ClassVar[int]
    STEP_INDEX_FIELD_NUMBER: _ClassVar[int]
    context: _context_pb2.Context
    display_uri: str
    level: _context_pb2.Level
    score: float
    parts: ScoreParts
    ancestors: _containers.RepeatedCompositeFieldContainer[_context_pb2.Context]
    step_index: int
    def __init__(self, context: _Optional[_Union[_context_pb2.Context, _Mapping]] = ..., display_uri: _Optional[str] = ..., level: _Optional[_Union[_context_pb2.Level, str]] = ..., score: _Optional[float] = ..., parts: _Optional[_Union[ScoreParts, _Mapping]] = ..., ancestors: _Optional[_Iterable[_Union[_context_pb2.Context, _Mapping]]] = ..., step_index: _Optional[int] = ...) -> None: ...

class ScoreParts(_message.Message):
    __slots__ = ("dense", "lexical", "own", "parent", "relevance", "rerank", "hotness")
    DENSE_FIELD_NUMBER: _ClassVar[int]
    LEXICAL_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    RERANK_FIELD_NUMBER: _ClassVar[int]
    HOTNESS_FIELD_NUMBER: _ClassVar[int]
    dense: float
    lexical: float
    own: float
    parent: float
    relevance: float
    rerank: float
    hotness: float
    def __init__(self, dense: _Optional[float] = ..., lexical: _Optional[float] = ..., own: _Optional[float] = ..., parent: _Optional[float] = ..., relevance: _Optional[float] = ..., rerank: _Optional[float] = ..., hotness: _Optional[float] = ...) -> None: ...

class TraceStep(_message.Message):
    __slots__ = ("index", "round", "uri", "score", "depth", "children_scored", "children_kept", "children_queued", "child_scores", "duration")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_SCORED_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_KEPT_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_QUEUED_FIELD_NUMBER: _ClassVar[int]
    CHILD_SCORES_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    index: int
    round: int
    uri: str
    score: float
    depth: int
    children_scored: int
    children_kept: int
    children_queued: int
    child_scores: _containers.RepeatedCompositeFieldContainer[ChildScore]
    duration: _duration_pb2.Duration
    def __init__(self, index: _Optional[int] = ..., round: _Optional[int] = ..., uri: _Optional[str] = ..., score: _Optional[float] = ..., depth: _Optional[int] = ..., children_scored: _Optional[int] = ..., children_kept: _Optional[int] = ..., children_queued: _Optional[int] = ..., child_scores: _Optional[_Iterable[_Union[ChildScore, _Mapping]]] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ChildScore(_message.Message):
    __slots__ = ("uri", "level", "own", "relevance", "kept")
    URI_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    uri: str
    level: _context_pb2.Level
    own: float
    relevance: float
    kept: bool
    def __init__(self, uri: _Optional[str] = ..., level: _Optional[_Union[_context_pb2.Level, str]] = ..., own: _Optional[float] = ..., relevance: _Optional[float] = ..., kept: bool = ...) -> None: ...

class RetrieveStats(_message.Message):
    __slots__ = ("stop_reason", "rounds", "directories_expanded", "rows_scored", "seed_path", "rerank_calls", "rerank_documents", "embed_duration", "seed_duration", "descent_duration", "rerank_duration", "total_duration", "levels", "rows_filtered")
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_EXPANDED_FIELD_NUMBER: _ClassVar[int]
    ROWS_SCORED_FIELD_NUMBER: _ClassVar[int]
    SEED_PATH_FIELD_NUMBER: _ClassVar[int]
    RERANK_CALLS_FIELD_NUMBER: _ClassVar[int]
    RERANK_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    EMBED_DURATION_FIELD_NUMBER: _ClassVar[int]
    SEED_DURATION_FIELD_NUMBER: _ClassVar[int]
    DESCENT_DURATION_FIELD_NUMBER: _ClassVar[int]
    RERANK_DURATION_FIELD_NUMBER: _ClassVar[int]
    TOTAL_DURATION_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FILTERED_FIELD_NUMBER: _ClassVar[int]
    stop_reason: StopReason
    rounds: int
    directories_expanded: int
    rows_scored: int
    seed_path: str
    rerank_calls: int
    rerank_documents: int
    embed_duration: _duration_pb2.Duration
    seed_duration: _duration_pb2.Duration
    descent_duration: _duration_pb2.Duration
    rerank_duration: _duration_pb2.Duration
    total_duration: _duration_pb2.Duration
    levels: _containers.RepeatedCompositeFieldContainer[LevelStats]
    rows_filtered: int
    def __init__(self, stop_reason: _Optional[_Union[StopReason, str]] = ..., rounds: _Optional[int] = ..., directories_expanded: _Optional[int] = ..., rows_scored: _Optional[int] = ..., seed_path: _Optional[str] = ..., rerank_calls: _Optional[int] = ..., rerank_documents: _Optional[int] = ..., embed_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., seed_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., descent_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., rerank_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., total_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., levels: _Optional[_Iterable[_Union[LevelStats, _Mapping]]] = ..., rows_filtered: _Optional[int] = ...) -> None: ...

class LevelStats(_message.Message):
    __slots__ = ("depth", "directories_expanded", "rows_scored", "rows_kept", "duration")
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_EXPANDED_FIELD_NUMBER: _ClassVar[int]
    ROWS_SCORED_FIELD_NUMBER: _ClassVar[int]
    ROWS_KEPT_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    depth: int
    directories_expanded: int
    rows_scored: int
    rows_kept: int
    duration: _duration_pb2.Duration
    def __init__(self, depth: _Optional[int] = ..., directories_expanded: _Optional[int] = ..., rows_scored: _Optional[int] = ..., rows_kept: _Optional[int] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Warning(_message.Message):
    __slots__ = ("reason", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class WatchRetrieveRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: RetrieveRequest
    def __init__(self, request: _Optional[_Union[RetrieveRequest, _Mapping]] = ...) -> None: ...

class WatchRetrieveResponse(_message.Message):
    __slots__ = ("step", "result")
    STEP_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    step: TraceStep
    result: RetrieveResponse
    def __init__(self, step: _Optional[_Union[TraceStep, _Mapping]] = ..., result: _Optional[_Union[RetrieveResponse, _Mapping]] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("task", "turns", "summary", "type", "scope", "max_queries")
    TASK_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    MAX_QUERIES_FIELD_NUMBER: _ClassVar[int]
    task: str
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    summary: str
    type: _context_pb2.ContextType
    scope: _context_pb2.Scope
    max_queries: int
    def __init__(self, task: _Optional[str] = ..., turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., summary: _Optional[str] = ..., type: _Optional[_Union[_context_pb2.ContextType, str]] = ..., scope: _Optional[_Union[_context_pb2.Scope, _Mapping]] = ..., max_queries: _Optional[int] = ...) -> None: ...

class Turn(_message.Message):
    __slots__ = ("role", "text")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    role: str
    text: str
    def __init__(self, role: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("plan", "status", "warnings")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    plan: QueryPlan
    status: PlanStatus
    warnings: _containers.RepeatedCompositeFieldContainer[Warning]
    def __init__(self, plan: _Optional[_Union[QueryPlan, _Mapping]] = ..., status: _Optional[_Union[PlanStatus, str]] = ..., warnings: _Optional[_Iterable[_Union[Warning, _Mapping]]] = ...) -> None: ...

class QueryPlan(_message.Message):
    __slots__ = ("queries", "reasoning", "session_context")
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    SESSION_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    queries: _containers.RepeatedCompositeFieldContainer[TypedQuery]
    reasoning: str
    session_context: str
    def __init__(self, queries: _Optional[_Iterable[_Union[TypedQuery, _Mapping]]] = ..., reasoning: _Optional[str] = ..., session_context: _Optional[str] = ...) -> None: ...

class TypedQuery(_message.Message):
    __slots__ = ("query", "type", "intent", "priority", "target_uris")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    INTENT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TARGET_URIS_FIELD_NUMBER: _ClassVar[int]
    query: str
    type: _context_pb2.ContextType
    intent: str
    priority: int
    target_uris: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, query: _Optional[str] = ..., type: _Optional[_Union[_context_pb2.ContextType, str]] = ..., intent: _Optional[str] = ..., priority: _Optional[int] = ..., target_uris: _Optional[_Iterable[str]] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("planning", "plan", "scope", "filter", "limit", "view", "mode", "options", "trace_level", "min_revision", "merge", "grouping")
    PLANNING_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    TRACE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MIN_REVISION_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    GROUPING_FIELD_NUMBER: _ClassVar[int]
    planning: PlanRequest
    plan: QueryPlan
    scope: _context_pb2.Scope
    filter: _context_pb2.Filter
    limit: int
    view: _context_pb2.ContextView
    mode: RetrieveMode
    options: RetrieveOptions
    trace_level: TraceLevel
    min_revision: int
    merge: MergeOptions
    grouping: Grouping
    def __init__(self, planning: _Optional[_Union[PlanRequest, _Mapping]] = ..., plan: _Optional[_Union[QueryPlan, _Mapping]] = ..., scope: _Optional[_Union[_context_pb2.Scope, _Mapping]] = ..., filter: _Optional[_Union[_context_pb2.Filter, _Mapping]] = ..., limit: _Optional[int] = ..., view: _Optional[_Union[_context_pb2.ContextView, str]] = ..., mode: _Optional[_Union[RetrieveMode, str]] = ..., options: _Optional[_Union[RetrieveOptions, _Mapping]] = ..., trace_level: _Optional[_Union[TraceLevel, str]] = ..., min_revision: _Optional[int] = ..., merge: _Optional[_Union[MergeOptions, _Mapping]] = ..., grouping: _Optional[_Union[Grouping, _Mapping]] = ...) -> None: ...

class MergeOptions(_message.Message):
    __slots__ = ("rrf_k", "priority_weights")
    RRF_K_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    rrf_k: int
    priority_weights: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, rrf_k: _Optional[int] = ..., priority_weights: _Optional[_Iterable[float]] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("matches", "memories", "resources", "skills", "plan", "plan_status", "query_results", "revision", "warnings", "empty_reason", "total_matched", "total_duration")
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    SKILLS_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    PLAN_STATUS_FIELD_NUMBER: _ClassVar[int]
    QUERY_RESULTS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    EMPTY_REASON_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MATCHED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_DURATION_FIELD_NUMBER: _ClassVar[int]
    matches: _containers.RepeatedCompositeFieldContainer[SearchMatch]
    memories: _containers.RepeatedScalarFieldContainer[int]
    resources: _containers.RepeatedScalarFieldContainer[int]
    skills: _containers.RepeatedScalarFieldContainer[int]
    plan: QueryPlan
    plan_status: PlanStatus
    query_results: _containers.RepeatedCompositeFieldContainer[QueryResult]
    revision: int
    warnings: _containers.RepeatedCompositeFieldContainer[Warning]
    empty_reason: EmptyReason
    total_matched: int
    total_duration: _duration_pb2.Duration
    def __init__(self, matches: _Optional[_Iterable[_Union[SearchMatch, _Mapping]]] = ..., memories: _Optional[_Iterable[int]] = ..., resources: _Optional[_Iterable[int]] = ..., skills: _Optional[_Iterable[int]] = ..., plan: _Optional[_Union[QueryPlan, _Mapping]] = ..., plan_status: _Optional[_Union[PlanStatus, str]] = ..., query_results: _Optional[_Iterable[_Union[QueryResult, _Mapping]]] = ..., revision: _Optional[int] = ..., warnings: _Optional[_Iterable[_Union[Warning, _Mapping]]] = ..., empty_reason: _Optional[_Union[EmptyReason, str]] = ..., total_matched: _Optional[int] = ..., total_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SearchMatch(_message.Message):
    __slots__ = ("match", "query_indexes")
    MATCH_FIELD_NUMBER: _ClassVar[int]
    QUERY_INDEXES_FIELD_NUMBER: _ClassVar[int]
    match: Match
    query_indexes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, match: _Optional[_Union[Match, _Mapping]] = ..., query_indexes: _Optional[_Iterable[int]] = ...) -> None: ...

class QueryResult(_message.Message):
    __slots__ = ("uris", "searched_roots", "stats", "steps", "warnings", "empty_reason")
    URIS_FIELD_NUMBER: _ClassVar[int]
    SEARCHED_ROOTS_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    EMPTY_REASON_FIELD_NUMBER: _ClassVar[int]
    uris: _containers.RepeatedScalarFieldContainer[str]
    searched_roots: _containers.RepeatedScalarFieldContainer[str]
    stats: RetrieveStats
    steps: _containers.RepeatedCompositeFieldContainer[TraceStep]
    warnings: _containers.RepeatedCompositeFieldContainer[Warning]
    empty_reason: EmptyReason
    def __init__(self, uris: _Optional[_Iterable[str]] = ..., searched_roots: _Optional[_Iterable[str]] = ..., stats: _Optional[_Union[RetrieveStats, _Mapping]] = ..., steps: _Optional[_Iterable[_Union[TraceStep, _Mapping]]] = ..., warnings: _Optional[_Iterable[_Union[Warning, _Mapping]]] = ..., empty_reason: _Optional[_Union[EmptyReason, str]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("request", "uri")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    request: RetrieveRequest
    uri: str
    def __init__(self, request: _Optional[_Union[RetrieveRequest, _Mapping]] = ..., uri: _Optional[str] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("verdict", "path", "exhaustive_rank", "summary", "revision", "blocked_uri", "blocked_score", "stop_reason", "directories_expanded", "rank", "warnings")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    EXHAUSTIVE_RANK_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_URI_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_SCORE_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    DIRECTORIES_EXPANDED_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    path: _containers.RepeatedCompositeFieldContainer[PathStep]
    exhaustive_rank: int
    summary: str
    revision: int
    blocked_uri: str
    blocked_score: float
    stop_reason: StopReason
    directories_expanded: int
    rank: int
    warnings: _containers.RepeatedCompositeFieldContainer[Warning]
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., path: _Optional[_Iterable[_Union[PathStep, _Mapping]]] = ..., exhaustive_rank: _Optional[int] = ..., summary: _Optional[str] = ..., revision: _Optional[int] = ..., blocked_uri: _Optional[str] = ..., blocked_score: _Optional[float] = ..., stop_reason: _Optional[_Union[StopReason, str]] = ..., directories_expanded: _Optional[int] = ..., rank: _Optional[int] = ..., warnings: _Optional[_Iterable[_Union[Warning, _Mapping]]] = ...) -> None: ...

class PathStep(_message.Message):
    __slots__ = ("uri", "parts", "expanded", "sibling_rank", "sibling_count", "step_index", "round")
    URI_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    EXPANDED_FIELD_NUMBER: _ClassVar[int]
    SIBLING_RANK_FIELD_NUMBER: _ClassVar[int]
    SIBLING_COUNT_FIELD_NUMBER: _ClassVar[int]
    STEP_INDEX_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    uri: str
    parts: ScoreParts
    expanded: bool
    sibling_rank: int
    sibling_count: int
    step_index: int
    round: int
    def __init__(self, uri: _Optional[str] = ..., parts: _Optional[_Union[ScoreParts, _Mapping]] = ..., expanded: bool = ..., sibling_rank: _Optional[int] = ..., sibling_count: _Optional[int] = ..., step_index: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class AssembleContextRequest(_message.Message):
    __slots__ = ("retrieve", "search", "max_tokens", "exclude_uris")
    RETRIEVE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_URIS_FIELD_NUMBER: _ClassVar[int]
    retrieve: RetrieveRequest
    search: SearchRequest
    max_tokens: int
    exclude_uris: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, retrieve: _Optional[_Union[RetrieveRequest, _Mapping]] = ..., search: _Optional[_Union[SearchRequest, _Mapping]] = ..., max_tokens: _Optional[int] = ..., exclude_uris: _Optional[_Iterable[str]] = ...) -> None: ...

class AssembleContextResponse(_message.Message):
    __slots__ = ("text", "entries", "more_uris", "stats", "warnings", "empty_reason", "revision")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    MORE_URIS_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    EMPTY_REASON_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    text: str
    entries: _containers.RepeatedCompositeFieldContainer[AssembledEntry]
    more_uris: _containers.RepeatedScalarFieldContainer[str]
    stats: AssembleStats
    warnings: _containers.RepeatedCompositeFieldContainer[Warning]
    empty_reason: EmptyReason
    revision: int
    def __init__(self, text: _Optional[str] = ..., entries: _Optional[_Iterable[_Union[AssembledEntry, _Mapping]]] = ..., more_uris: _Optional[_Iterable[str]] = ..., stats: _Optional[_Union[AssembleStats, _Mapping]] = ..., warnings: _Optional[_Iterable[_Union[Warning, _Mapping]]] = ..., empty_reason: _Optional[_Union[EmptyReason, str]] = ..., revision: _Optional[int] = ...) -> None: ...

class AssembledEntry(_message.Message):
    __slots__ = ("uri", "level", "tokens", "is_cut", "score", "type")
    URI_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    IS_CUT_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    uri: str
    level: _context_pb2.Level
    tokens: int
    is_cut: bool
    score: float
    type: _context_pb2.ContextType
    def __init__(self, uri: _Optional[str] = ..., level: _Optional[_Union[_context_pb2.Level, str]] = ..., tokens: _Optional[int] = ..., is_cut: bool = ..., score: _Optional[float] = ..., type: _Optional[_Union[_context_pb2.ContextType, str]] = ...) -> None: ...

class AssembleStats(_message.Message):
    __slots__ = ("max_tokens", "used_tokens", "matched_count", "excluded_count", "duplicate_count", "dropped_count", "abstract_count", "overview_count", "detail_count")
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    USED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_COUNT_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_COUNT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_COUNT_FIELD_NUMBER: _ClassVar[int]
    ABSTRACT_COUNT_FIELD_NUMBER: _ClassVar[int]
    OVERVIEW_COUNT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_COUNT_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    used_tokens: int
    matched_count: int
    excluded_count: int
    duplicate_count: int
    dropped_count: int
    abstract_count: int
    overview_count: int
    detail_count: int
    def __init__(self, max_tokens: _Optional[int] = ..., used_tokens: _Optional[int] = ..., matched_count: _Optional[int] = ..., excluded_count: _Optional[int] = ..., duplicate_count: _Optional[int] = ..., dropped_count: _Optional[int] = ..., abstract_count: _Optional[int] = ..., overview_count: _Optional[int] = ..., detail_count: _Optional[int] = ...) -> None: ...
