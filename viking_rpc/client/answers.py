"""Read answers into domain types; what a newer server says beyond them is passed over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from viking_rpc.client.errors import to_refusal
from viking_rpc.domain.context import Context, ContextType, Kind, Level, Relation
from viking_rpc.domain.plan import DEFAULT_PRIORITY, PlanResult, PlanStatus, QueryPlan, TypedQuery
from viking_rpc.domain.query import Mode
from viking_rpc.domain.statistics import LevelLatency, RetrievalStats
from viking_rpc.domain.trace import (
    AnswerWarning,
    ChildScore,
    EmptyReason,
    LevelStats,
    Match,
    RetrieveResult,
    RetrieveStats,
    ScoreParts,
    StopReason,
    ThresholdSpace,
    TraceStep,
)
from viking_rpc.pb.v1 import admin_service_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import IntEnum

    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.message import Message
    from google.protobuf.timestamp_pb2 import Timestamp

    from viking_rpc.errors import VikingError
    from viking_rpc.pb.v1 import context_pb2, context_service_pb2, retrieval_service_pb2

E = TypeVar("E", bound="IntEnum")
D = TypeVar("D")


class Written(NamedTuple):
    """What was written, with the new etags and without texts, and the first revision that has it."""

    contexts: tuple[Context, ...]
    revision: int


class Deleted(NamedTuple):
    """How many contexts were removed, subtrees counted, and the first revision without them."""

    n_deleted: int
    revision: int


class Moved(NamedTuple):
    """How many contexts were renamed, the subtree counted, and the first revision with the new URIs."""

    n_moved: int
    revision: int


class Imported(NamedTuple):
    """What became of one batch of an import: `error` says why it was refused as a whole, None that it is durable."""

    sequence: int
    n_upserted: int
    revision: int
    error: VikingError | None = None


class Page(NamedTuple):
    """A page of children; an empty token says that it is the last."""

    contexts: tuple[Context, ...]
    next_page_token: str
    revision: int


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Facts about a server and what the caller may read of its store; empty names mean: none configured."""

    server_version: str
    embedder: str
    dimensions: int
    data_model: str
    index_engine: str
    index_state: str
    revision: int
    checkpoint_revision: int
    n_directories: int
    n_files: int
    n_rows: int
    n_pending_rows: int
    contexts_by_type: Mapping[str, int]
    rows_by_level: Mapping[str, int]
    database_bytes: int
    start_us: int
    settings: Mapping[str, str]
    warnings: tuple[AnswerWarning, ...] = ()
    planner: str = ""

    @property
    def n_contexts(self) -> int:
        """Return the number of directories and files."""
        return self.n_directories + self.n_files


def read_result(message: retrieval_service_pb2.RetrieveResponse) -> RetrieveResult:
    """Read an answer."""
    return RetrieveResult(
        matches=tuple(read_match(match) for match in message.matches),
        revision=message.revision,
        mode=read_enum(Mode, message.mode, Mode.THINKING),
        searched_roots=tuple(message.searched_roots),
        stats=read_stats(message.stats),
        steps=tuple(read_step(step) for step in message.steps),
        warnings=tuple(map(read_warning, message.warnings)),
        empty_reason=read_enum(EmptyReason, message.empty_reason, EmptyReason.NONE),
        total_matched=message.total_matched,
        best_below_threshold=optional(message, "best_below_threshold"),
        threshold_space=read_enum(ThresholdSpace, message.threshold_space, None),
        has_more=bool(message.next_page_token),
        next_page_token=message.next_page_token,
    )


def read_step(message: retrieval_service_pb2.TraceStep) -> TraceStep:
    """Read a step."""
    return TraceStep(
        index=message.index,
        round=message.round,
        uri=message.uri,
        score=optional(message, "score"),
        depth=message.depth,
        n_scored=message.children_scored,
        n_kept=message.children_kept,
        n_queued=message.children_queued,
        duration_us=read_duration_us(message.duration),
        child_scores=tuple(
            ChildScore(c.uri, read_level(c.level), c.own, c.relevance, c.kept) for c in message.child_scores
        ),
    )


def read_context(message: context_pb2.Context) -> Context:
    """Read a context."""
    return Context(
        uri=message.uri,
        kind=read_enum(Kind, message.kind, Kind.FILE),
        type=read_enum(ContextType, message.type, ContextType.RESOURCE),
        title=message.title,
        abstract=message.abstract,
        overview=message.overview,
        content=message.content,
        tags=dict(message.tags),
        create_us=_read_time_us(message.create_time),
        update_us=_read_time_us(message.update_time),
        expire_us=_read_time_us(message.expire_time),
        active_count=message.active_count,
        etag=message.etag,
        child_count=message.child_count,
        relations=tuple(Relation(r.uri, r.reason) for r in message.relations),
    )


def read_page(message: context_service_pb2.ListContextsResponse) -> Page:
    """Read a page of children."""
    return Page(tuple(map(read_context, message.contexts)), message.next_page_token, message.revision)


def read_written(message: context_service_pb2.UpsertContextsResponse) -> Written:
    """Read what was written."""
    return Written(tuple(map(read_context, message.contexts)), message.revision)


def read_imported(message: context_service_pb2.ImportContextsResponse) -> Imported:
    """Read what became of a batch."""
    error = to_refusal(message.error) if message.HasField("error") else None
    return Imported(message.sequence, message.upserted_count, message.revision, error)


def read_info(message: admin_service_pb2.GetStoreInfoResponse) -> ServerInfo:
    """Read the facts of a server."""
    state = admin_service_pb2.IndexState.DESCRIPTOR.values_by_number.get(message.index_state)
    return ServerInfo(
        server_version=message.server_version,
        embedder=message.embedder,
        dimensions=message.dimensions,
        data_model=message.data_model_id,
        index_engine=message.index_engine,
        index_state="" if state is None else state.name.removeprefix("INDEX_STATE_"),
        revision=message.revision,
        checkpoint_revision=message.checkpoint_revision,
        n_directories=message.directory_count,
        n_files=message.file_count,
        n_rows=message.row_count,
        n_pending_rows=message.pending_row_count,
        contexts_by_type={k.removeprefix("CONTEXT_TYPE_"): n for k, n in message.contexts_by_type.items()},
        rows_by_level={k.removeprefix("LEVEL_"): n for k, n in message.rows_by_level.items()},
        database_bytes=message.database_bytes,
        start_us=_read_time_us(message.start_time),
        settings=dict(message.settings),
        warnings=tuple(map(read_warning, message.warnings)),
        planner=message.planner,
    )


def read_retrieval_stats(message: admin_service_pb2.GetRetrievalStatsResponse) -> RetrievalStats:
    """Read what a server has answered so far."""
    return RetrievalStats(
        n_queries=message.total_queries,
        n_results=message.total_results,
        n_zero_results=message.zero_result_queries,
        queries_by_type={k.removeprefix("CONTEXT_TYPE_"): n for k, n in message.queries_by_type.items()},
        avg_score=message.avg_score,
        max_score=optional(message, "max_score"),
        min_score=optional(message, "min_score"),
        n_rerank_attempted=message.rerank_attempted,
        n_rerank_used=message.rerank_used,
        n_rerank_fallback=message.rerank_fallback,
        n_rerank_partial=message.rerank_partial,
        avg_latency_us=read_duration_us(message.avg_latency),
        max_latency_us=read_duration_us(message.max_latency),
        levels=tuple(
            LevelLatency(
                depth=level.depth,
                n_expanded=level.directories_expanded,
                p50_us=read_duration_us(level.p50),
                p95_us=read_duration_us(level.p95),
                p99_us=read_duration_us(level.p99),
            )
            for level in message.levels
        ),
    )


def read_plan_result(message: retrieval_service_pb2.PlanResponse) -> PlanResult:
    """Read a plan and how it came about."""
    status = read_enum(PlanStatus, message.status, PlanStatus.PLANNED)
    return PlanResult(read_plan(message.plan), status, tuple(map(read_warning, message.warnings)))


def read_plan(message: retrieval_service_pb2.QueryPlan) -> QueryPlan:
    """Read a plan."""
    return QueryPlan(
        queries=tuple(
            TypedQuery(
                query=query.query,
                type=read_enum(ContextType, query.type, None),
                intent=query.intent,
                priority=query.priority or DEFAULT_PRIORITY,
                target_uris=tuple(query.target_uris),
            )
            for query in message.queries
        ),
        reasoning=message.reasoning,
        session_context=message.session_context,
    )


def read_match(message: retrieval_service_pb2.Match) -> Match:
    """Read a match."""
    return Match(
        context=read_context(message.context),
        display_uri=message.display_uri,
        level=read_level(message.level),
        score=message.score,
        parts=read_parts(message.parts),
        ancestors=tuple(map(read_context, message.ancestors)),
        step_index=message.step_index if message.HasField("step_index") else None,
    )


def read_parts(parts: retrieval_service_pb2.ScoreParts) -> ScoreParts:
    """Read where a score comes from."""
    return ScoreParts(
        own=parts.own,
        relevance=parts.relevance,
        dense=optional(parts, "dense"),
        lexical=optional(parts, "lexical"),
        parent=optional(parts, "parent"),
        rerank=optional(parts, "rerank"),
        hotness=optional(parts, "hotness"),
    )


def read_stats(message: retrieval_service_pb2.RetrieveStats) -> RetrieveStats:
    """Read what a retrieval cost."""
    return RetrieveStats(
        stop_reason=read_enum(StopReason, message.stop_reason, None),
        n_rounds=message.rounds,
        n_expanded=message.directories_expanded,
        rows_scored=message.rows_scored,
        rows_filtered=message.rows_filtered,
        seed_path=message.seed_path,
        embed_us=read_duration_us(message.embed_duration),
        seed_us=read_duration_us(message.seed_duration),
        descent_us=read_duration_us(message.descent_duration),
        total_us=read_duration_us(message.total_duration),
        n_rerank_calls=message.rerank_calls,
        n_reranked=message.rerank_documents,
        rerank_us=read_duration_us(message.rerank_duration),
        levels=tuple(
            LevelStats(
                level.depth,
                level.directories_expanded,
                level.rows_scored,
                level.rows_kept,
                read_duration_us(level.duration),
            )
            for level in message.levels
        ),
    )


def read_warning(message: Any) -> AnswerWarning:
    """Read a warning."""
    return AnswerWarning(message.reason, message.message)


def optional(message: Message, name: str) -> float | None:
    """Return a field's value, None where it is not set."""
    return getattr(message, name) if message.HasField(name) else None


def read_enum(enum: type[E], number: int, default: D) -> E | D:
    """Return the value of a number, the default for one that is not known here."""
    try:
        return enum(number)
    except ValueError:
        return default


def read_level(number: int) -> Level:
    """Return the level of a number of the contract."""
    return read_enum(Level, number - 1, Level.DETAIL)


def _read_time_us(message: Timestamp) -> int:
    return message.seconds * 1_000_000 + message.nanos // 1000


def read_duration_us(message: Duration) -> float:
    """Return a duration in microseconds."""
    return message.seconds * 1e6 + message.nanos / 1e3
