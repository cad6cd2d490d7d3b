"""Write requests of Search, Explain and AssembleContext from domain types, and read their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viking_rpc.client import answers, requests
from viking_rpc.domain.assembly import AssembledContext, AssembledEntry, AssembleRequest, AssembleStats
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.explain import Explanation, PathStep, Verdict
from viking_rpc.domain.plan import PlanRequest, PlanStatus, QueryPlan
from viking_rpc.domain.query import Query, RetrieveRequest, Scope
from viking_rpc.domain.search import MergeOptions, QueryResult, SearchMatch, SearchRequest, SearchResult
from viking_rpc.domain.trace import EmptyReason, StopReason
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable


def as_search(task: str | PlanRequest | QueryPlan | SearchRequest, **how: Any) -> SearchRequest:
    """Return a request: the one given, or one for a task or a plan.

    Args:
        task: a text, a task with its conversation, an edited plan, or a whole request, beside which nothing is given.
        how: other fields of the request.
    """
    if isinstance(task, SearchRequest):
        if how:
            text = f"give {', '.join(how)} in the request itself"
            raise TypeError(text)
        return task
    if isinstance(task, QueryPlan):
        return SearchRequest(plan=task, **how)
    return SearchRequest(planning=PlanRequest(task) if isinstance(task, str) else task, **how)


def search_message(request: SearchRequest) -> pb.SearchRequest:
    """Write a search."""
    shared = requests.retrieve_message(
        RetrieveRequest(
            query=Query(text="-"),
            scope=request.scope or Scope(),
            filter=request.filter,
            limit=request.limit,
            view=request.view,
            mode=request.mode,
            options=request.options,
            trace_level=request.trace_level,
            grouping=request.grouping,
        )
    )
    message = pb.SearchRequest(
        scope=shared.scope if request.scope is not None else None,
        filter=shared.filter,
        limit=shared.limit,
        view=shared.view,
        mode=shared.mode,
        options=shared.options,
        trace_level=shared.trace_level,
        min_revision=request.min_revision,
        grouping=shared.grouping if request.grouping is not None else None,
    )
    if request.planning is not None:
        message.planning.CopyFrom(requests.plan_message(request.planning))
    if request.plan is not None:
        _fill_plan(message.plan, request.plan)
    if request.merge != MergeOptions():
        message.merge.rrf_k = request.merge.rrf_k
        message.merge.priority_weights.extend(request.merge.priority_weights)
    return message


def _fill_plan(message: pb.QueryPlan, plan: QueryPlan) -> None:
    message.SetInParent()  # a plan without queries is still one, for the server to object to
    message.reasoning, message.session_context = plan.reasoning, plan.session_context
    for query in plan.queries:
        message.queries.add(
            query=query.query,
            type=int(query.type or 0),
            intent=query.intent,
            priority=query.priority,
            target_uris=query.target_uris,
        )


def explain_message(request: RetrieveRequest, uri: str) -> pb.ExplainRequest:
    """Write a request to explain."""
    return pb.ExplainRequest(request=requests.retrieve_message(request), uri=uri)


def assemble_message(request: AssembleRequest) -> pb.AssembleContextRequest:
    """Write a request for the text of a prompt."""
    message = pb.AssembleContextRequest(max_tokens=request.max_tokens, exclude_uris=request.exclude_uris)
    if isinstance(request.source, SearchRequest):
        message.search.CopyFrom(search_message(request.source))
    else:
        message.retrieve.CopyFrom(requests.retrieve_message(request.source))
    return message


def read_search_result(message: pb.SearchResponse) -> SearchResult:
    """Read a merged answer."""
    return SearchResult(
        matches=tuple(SearchMatch(answers.read_match(m.match), tuple(m.query_indexes)) for m in message.matches),
        plan=answers.read_plan(message.plan),
        plan_status=answers.read_enum(PlanStatus, message.plan_status, None),
        query_results=tuple(map(_read_query_result, message.query_results)),
        revision=message.revision,
        warnings=_read_warnings(message.warnings),
        empty_reason=answers.read_enum(EmptyReason, message.empty_reason, EmptyReason.NONE),
        total_matched=message.total_matched,
        total_us=answers.read_duration_us(message.total_duration),
    )


def _read_query_result(message: pb.QueryResult) -> QueryResult:
    return QueryResult(
        uris=tuple(message.uris),
        searched_roots=tuple(message.searched_roots),
        stats=answers.read_stats(message.stats),
        steps=tuple(map(answers.read_step, message.steps)),
        warnings=_read_warnings(message.warnings),
        empty_reason=answers.read_enum(EmptyReason, message.empty_reason, EmptyReason.NONE),
    )


def read_explanation(message: pb.ExplainResponse) -> Explanation:
    """Read an explanation."""
    return Explanation(
        verdict=answers.read_enum(Verdict, message.verdict, Verdict.NOT_REACHED),
        path=tuple(map(_read_path_step, message.path)),
        summary=message.summary,
        revision=message.revision,
        rank=message.rank,
        exhaustive_rank=message.exhaustive_rank,
        blocked_uri=message.blocked_uri,
        blocked_score=answers.optional(message, "blocked_score"),
        stop_reason=answers.read_enum(StopReason, message.stop_reason, None),
        n_expanded=message.directories_expanded,
        warnings=_read_warnings(message.warnings),
    )


def _read_path_step(message: pb.PathStep) -> PathStep:
    return PathStep(
        uri=message.uri,
        parts=answers.read_parts(message.parts) if message.HasField("parts") else None,
        sibling_rank=message.sibling_rank,
        sibling_count=message.sibling_count,
        step_index=message.step_index if message.HasField("step_index") else None,
        round=message.round if message.HasField("round") else None,
    )


def read_assembled(message: pb.AssembleContextResponse) -> AssembledContext:
    """Read the text of a prompt."""
    stats = message.stats
    return AssembledContext(
        text=message.text,
        entries=tuple(
            AssembledEntry(
                uri=entry.uri,
                type=answers.read_enum(ContextType, entry.type, ContextType.RESOURCE),
                level=answers.read_level(entry.level),
                n_tokens=entry.tokens,
                is_cut=entry.is_cut,
                score=entry.score,
            )
            for entry in message.entries
        ),
        more_uris=tuple(message.more_uris),
        stats=AssembleStats(
            max_tokens=stats.max_tokens,
            used_tokens=stats.used_tokens,
            n_matched=stats.matched_count,
            n_excluded=stats.excluded_count,
            n_duplicates=stats.duplicate_count,
            n_dropped=stats.dropped_count,
            n_by_level=(stats.abstract_count, stats.overview_count, stats.detail_count),
        ),
        revision=message.revision,
        warnings=_read_warnings(message.warnings),
        empty_reason=answers.read_enum(EmptyReason, message.empty_reason, EmptyReason.NONE),
    )


def _read_warnings(messages: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(map(answers.read_warning, messages))
