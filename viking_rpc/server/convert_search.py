"""Read a Search request, and write its answer, cut openly where it would be larger than clients take."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from viking_rpc.domain.access import check_targets, denied, select_roots
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import (
    LAST_PRIORITY,
    MAX_NOTE_BYTES,
    MAX_QUERIES,
    MAX_QUERY_BYTES,
    QueryPlan,
    TypedQuery,
)
from viking_rpc.domain.query import Scope, TraceLevel
from viking_rpc.domain.search import MAX_RRF_K, MAX_WEIGHT, N_PRIORITIES, MergeOptions, SearchRequest
from viking_rpc.domain.trace import RetrieveResult, RetrieveStats
from viking_rpc.errors import InvalidArgumentError, PermissionDeniedError, Violation
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.server.convert_answer import (
    MAX_RESPONSE_BYTES,
    fill_duration,
    fill_stats,
    fit,
    step_message,
    write_answer,
)
from viking_rpc.server.convert_request import read_enum
from viking_rpc.server.planning import check_plan_request, fill_plan, read_plan_request
from viking_rpc.server.validate import MAX_TARGETS, check_count, check_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.search import QueryResult, SearchResult
    from viking_rpc.server.encoded import EncodedFor

    ReadShared = Callable[[pb.RetrieveRequest], RetrieveRequest]

R = TypeVar("R")

_SHARED_FIELDS: Final = ("scope", "filter", "options", "grouping")
#: Of an answer, what the URIs of the queries' own matches may take; and what the matches may at least.
_MAX_URI_BYTES: Final = 1024 * 1024
_MIN_MATCH_BYTES: Final = 2 * 1024 * 1024


class Findings:
    """What is wrong with a request and what is forbidden of it, gathered from several checks."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.violations: list[Violation] = []
        self.denials: list[Violation] = []

    def of(self, check: Callable[[], R]) -> R | None:
        """Run a check and keep what it refuses; return its result, None when it has none."""
        try:
            return check()
        except InvalidArgumentError as error:
            self.violations += error.violations
        except PermissionDeniedError as error:
            self.denials += error.violations
        return None

    def refuse(self, identity: Identity, prefix: str = "") -> None:
        """Raise what was found: what is wrong comes before what is forbidden.

        Args:
            identity: the caller.
            prefix: the path to the request in the message that was sent.

        Raises:
            InvalidArgumentError, PermissionDeniedError: with everything, by field path.
        """
        if self.violations:
            raise InvalidArgumentError.of(replace(one, field=prefix + one.field) for one in self.violations)
        if self.denials:
            raise denied(identity, [replace(one, field=prefix + one.field) for one in self.denials])


def read_search(
    message: pb.SearchRequest, identity: Identity, now_us: int, read_shared: ReadShared, prefix: str = ""
) -> SearchRequest:
    """Read and check a request; nothing here depends on what exists.

    Args:
        message: as it was received.
        identity: the caller.
        now_us: the server's time for path variables, microseconds since the epoch, UTC.
        read_shared: reads and checks a retrieval with what all queries share.
        prefix: the path to the request in the message that was sent.

    Raises:
        InvalidArgumentError: all violations, by field path.
        PermissionDeniedError: all targets that the caller may not read.
    """
    findings = Findings()
    how = findings.of(lambda: read_shared(_shared_message(message)))
    found = findings.violations
    source = message.WhichOneof("source")
    planning = plan = None
    if source is None:
        found.append(Violation("source", "exactly one of planning and plan must be set", "REQUIRED"))
    elif source == "planning":
        unread: list[Violation] = []
        planning = read_plan_request(message.planning, unread)
        asked = planning
        findings.of(lambda: check_plan_request(asked, identity, now_us, unread, "planning."))
    else:
        types = how.scope.types if how is not None else frozenset[ContextType]()
        plan = _read_plan(message.plan, types, identity, now_us, findings)
    merge = _read_merge(message.merge, found) if message.HasField("merge") else MergeOptions()
    findings.refuse(identity, prefix)
    if how is None:  # refused already
        raise InvalidArgumentError.of(found)
    scope = how.scope if message.HasField("scope") else None
    if planning is not None and scope is not None and planning.scope == Scope():
        planning = replace(planning, scope=scope)  # the planner may know where its queries will look
    return SearchRequest(
        planning=planning,
        plan=plan,
        scope=scope,
        filter=how.filter,
        limit=how.limit,
        view=how.view,
        mode=how.mode,
        options=how.options,
        trace_level=how.trace_level,
        min_revision=how.min_revision,
        merge=merge,
        grouping=how.grouping,
    )


def _shared_message(message: pb.SearchRequest) -> pb.RetrieveRequest:
    """Return a retrieval with what all queries share, and a query with which nothing is wrong."""
    shared = pb.RetrieveRequest(
        query=pb.Query(text="-"),
        limit=message.limit,
        view=message.view,
        mode=message.mode,
        trace_level=message.trace_level,
        min_revision=message.min_revision,
    )
    for name in _SHARED_FIELDS:
        if message.HasField(name):
            getattr(shared, name).CopyFrom(getattr(message, name))
    return shared


def _read_plan(
    message: pb.QueryPlan, types: frozenset[ContextType], identity: Identity, now_us: int, findings: Findings
) -> QueryPlan:
    found = findings.violations
    found += check_count("plan.queries", message.queries, MAX_QUERIES, least=1)
    for name in ("reasoning", "session_context"):
        found += check_text(f"plan.{name}", getattr(message, name), MAX_NOTE_BYTES)
    queries = []
    for i, one in enumerate(message.queries[:MAX_QUERIES]):
        field = f"plan.queries[{i}]"
        kind = read_enum(ContextType, one.type, ContextType.RESOURCE, f"{field}.type", found) if one.type else None
        query = TypedQuery(one.query, kind, one.intent, one.priority, tuple(one.target_uris))
        found += _check_query(query, field, types)
        targets, invalid = check_targets(query.target_uris[:MAX_TARGETS], identity, now_us, f"{field}.target_uris")
        found += invalid
        if not invalid and targets:
            wanted = frozenset() if kind is None else frozenset({kind})
            findings.of(lambda t=targets, w=wanted, f=field: select_roots(t, w, identity, f"{f}.target_uris"))  # type: ignore[misc]
        queries.append(query)
    return QueryPlan(tuple(queries), message.reasoning, message.session_context)


def _check_query(query: TypedQuery, field: str, types: frozenset[ContextType]) -> Iterator[Violation]:
    if not query.query.strip():
        what = "holds nothing but white space" if query.query else "must not be empty"
        yield Violation(f"{field}.query", what, "EMPTY_QUERY")
    yield from check_text(f"{field}.query", query.query, MAX_QUERY_BYTES)
    yield from check_text(f"{field}.intent", query.intent, MAX_NOTE_BYTES)
    if not 0 <= query.priority <= LAST_PRIORITY:
        yield Violation(f"{field}.priority", f"{query.priority} is not in [0, {LAST_PRIORITY}]", "OUT_OF_RANGE")
    if query.type is not None and types and query.type not in types:
        yield Violation(f"{field}.type", f"{query.type.name} is not among scope.types", "CONTRADICTION")
    yield from check_count(f"{field}.target_uris", query.target_uris, MAX_TARGETS)


def _read_merge(message: pb.MergeOptions, found: list[Violation]) -> MergeOptions:
    options = MergeOptions()
    if message.HasField("rrf_k"):
        if not 0 <= message.rrf_k <= MAX_RRF_K:
            found.append(Violation("merge.rrf_k", f"{message.rrf_k} is not in [0, {MAX_RRF_K}]", "OUT_OF_RANGE"))
        options = replace(options, rrf_k=message.rrf_k)
    weights = tuple(message.priority_weights)
    if not weights:
        return options
    field = "merge.priority_weights"
    if len(weights) != N_PRIORITIES:
        text = f"has {len(weights)} numbers: give {N_PRIORITIES}, one for each priority"
        found.append(Violation(field, text, "WRONG_COUNT"))
        return options
    for i, weight in enumerate(weights):
        if not math.isfinite(weight) or not 0 <= weight <= MAX_WEIGHT:
            found.append(Violation(f"{field}[{i}]", f"{weight:g} is not in [0, {MAX_WEIGHT:g}]", "OUT_OF_RANGE"))
    if not any(weights):
        found.append(Violation(field, "must not all be 0", "OUT_OF_RANGE"))
    return replace(options, priority_weights=weights)


def search_response(result: SearchResult, request: SearchRequest, encoded: EncodedFor) -> pb.SearchResponse:
    """Write the merged answer.

    Args:
        result: the answer.
        request: as it was asked: its view and its trace level.
        encoded: writes contexts for the caller.

    Returns:
        A message of at most MAX_RESPONSE_BYTES: of a larger one first the queries' URIs and steps, then matches are cut
        at the end, each with a Warning.
    """
    response = pb.SearchResponse(
        plan_status=int(result.plan_status or 0),  # type: ignore[arg-type]
        revision=result.revision,
        empty_reason=int(result.empty_reason),  # type: ignore[arg-type]
        total_matched=result.total_matched,
    )
    fill_plan(response.plan, result.plan)
    fill_duration(response.total_duration, result.total_us)
    for warning in result.warnings:
        response.warnings.add(reason=warning.reason, message=warning.message)
    _add_query_results(response, result.query_results, request.trace_level)
    inner = RetrieveResult(
        tuple(one.match for one in result.matches), result.revision, request.mode, (), RetrieveStats()
    )
    written = write_answer(inner, request.view, TraceLevel.NONE, encoded)
    n_indexes = len(result.matches) * (3 + MAX_QUERIES + 8)
    room = MAX_RESPONSE_BYTES - response.ByteSize() - n_indexes
    if written.n_bytes > room:
        fit(written, room)
    told = written.message()
    cut: Any = told.warnings
    response.warnings.MergeFrom(cut)
    for i, (match, one) in enumerate(zip(told.matches, result.matches, strict=False)):
        response.matches.add(match=match, query_indexes=one.query_indexes)
        group = {ContextType.MEMORY: response.memories, ContextType.SKILL: response.skills}
        group.get(one.match.context.type, response.resources).append(i)
    return response


def _add_query_results(response: pb.SearchResponse, results: tuple[QueryResult, ...], level: TraceLevel) -> None:
    """Write where each answer comes from, within what leaves room for the matches."""
    uri_bytes, n_left_out = 0, 0
    for result in results:
        message = response.query_results.add(
            searched_roots=result.searched_roots,
            empty_reason=int(result.empty_reason),
        )
        for uri in result.uris:
            uri_bytes += len(uri.encode()) + 3
            if uri_bytes > _MAX_URI_BYTES:
                n_left_out += 1
            else:
                message.uris.append(uri)
        if level >= TraceLevel.STATS:
            fill_stats(message.stats, result.stats)
        for warning in result.warnings:
            message.warnings.add(reason=warning.reason, message=warning.message)
    if n_left_out:
        text = f"the last {n_left_out} URIs of the queries' own matches were left out"
        response.warnings.add(reason="TRACE_TRUNCATED", message=text)
    if level >= TraceLevel.STEPS:
        _add_steps(response, results, with_scores=level >= TraceLevel.SCORES)


def _add_steps(response: pb.SearchResponse, results: tuple[QueryResult, ...], *, with_scores: bool) -> None:
    """Write the steps of each query, as many as its share of the room allows."""
    n_bytes = (MAX_RESPONSE_BYTES - _MIN_MATCH_BYTES - response.ByteSize()) // max(1, len(results))
    for i, result in enumerate(results):
        room = n_bytes
        for n, step in enumerate(result.steps):
            message = step_message(step, with_scores=with_scores)
            room -= message.ByteSize() + 4
            if room < 0:
                text = f"the last {len(result.steps) - n} steps were left out to keep the answer small"
                response.query_results[i].warnings.add(reason="TRACE_TRUNCATED", message=text)
                break
            response.query_results[i].steps.append(message)
