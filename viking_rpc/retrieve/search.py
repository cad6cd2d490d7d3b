"""A plan to one request for each of its queries, and their answers to one: merged by weighted reciprocal rank."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from viking_rpc.domain.access import check_targets
from viking_rpc.domain.query import Query, RerankMode, RetrieveRequest, Scope, View
from viking_rpc.domain.rerank import MAX_TEXTS, SKIPPED
from viking_rpc.domain.search import QueryResult, SearchMatch, SearchResult
from viking_rpc.domain.trace import AnswerWarning, EmptyReason, RetrieveResult, RetrieveStats
from viking_rpc.domain.uri import check_uri
from viking_rpc.errors import VikingError, Violation
from viking_rpc.retrieve.paging import make_group_of, thin
from viking_rpc.retrieve.profiles import resolve_parameters
from viking_rpc.retrieve.resolve import resolve_place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.plan import QueryPlan, TypedQuery
    from viking_rpc.domain.query import Profile, RetrieveOptions
    from viking_rpc.domain.search import MergeOptions, SearchRequest
    from viking_rpc.domain.trace import Match
    from viking_rpc.domain.uri import Uri
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.profiles import Parameters

_ANY_QUERY = Query(text="-")


def requests_of(
    request: SearchRequest, plan: QueryPlan, presets: Mapping[Profile, Parameters]
) -> tuple[RetrieveRequest, ...]:
    """Return the request of each query of a plan, in its order.

    A query's own targets stand in place of the request's, its type in place of the request's types. Budgets are divided
    evenly, so that no query waits for what another leaves; every query may use all of the time. Texts longer than an
    abstract are left to whoever has merged the answers.

    Args:
        request: whose plan it is.
        plan: what is searched.
        presets: the operator's parameters by profile, whose budgets hold where the request has none.
    """
    options = _shares(request.options, len(plan.queries), resolve_parameters(request.options, presets))
    return tuple(
        RetrieveRequest(
            query=Query(text=query.query),
            scope=_scope_of(query, request.effective_scope),
            filter=request.filter,
            limit=request.limit,
            view=min(request.view, View.ABSTRACT),
            mode=request.mode,
            options=options[i],
            trace_level=request.trace_level,
            grouping=request.grouping,
        )
        for i, query in enumerate(plan.queries)
    )


def _scope_of(query: TypedQuery, scope: Scope) -> Scope:
    types = scope.types
    if query.type is not None and (not types or query.type in types):
        types = frozenset({query.type})
    return Scope(query.target_uris or scope.target_uris, types)


def _shares(options: RetrieveOptions, n: int, parameters: Parameters) -> list[RetrieveOptions]:
    """Return the options of each of n queries."""
    rows, texts = parameters.max_scored_rows, options.max_rerank_documents
    of_rows = [max(1, part) if rows else 0 for part in _parts(rows, n)]  # 0 rows would be no budget at all
    of_texts = _parts(MAX_TEXTS if texts is None else texts, n)
    return [
        replace(
            options,
            max_scored_rows=n_rows,
            max_rerank_documents=n_texts,
            rerank_mode=options.rerank_mode if n_texts or texts == 0 else RerankMode.OFF,  # `tell_unranked` tells of it
        )
        for n_rows, n_texts in zip(of_rows, of_texts, strict=True)
    ]


def _parts(budget: int, n: int) -> list[int]:
    """Return a budget divided by n; the first parts, which matter most, get what is left over."""
    return [budget // n + (i < budget % n) for i in range(n)]


def tell_unranked(request: SearchRequest, results: Sequence[RetrieveResult]) -> list[RetrieveResult]:
    """Add a warning to the answers of queries that got no text of a budget which is not 0.

    Args:
        request: would have been reranked.
        results: one for each query, in the plan's order.
    """
    budget = MAX_TEXTS if request.options.max_rerank_documents is None else request.options.max_rerank_documents
    text = f"nothing was reranked: {budget} texts are too few for {len(results)} queries"
    return [
        replace(result, warnings=(*result.warnings, AnswerWarning(SKIPPED, text))) if budget and not part else result
        for result, part in zip(results, _parts(budget, len(results)), strict=True)
    ]


class _Ranked(NamedTuple):
    """A context as one query found it."""

    rank: int
    weight: float
    query_index: int
    match: Match


def merge_results(
    request: SearchRequest, plan: QueryPlan, results: Sequence[RetrieveResult], revision: int
) -> SearchResult:
    """Merge the answers of a plan's queries.

    Args:
        request: as it was asked; its `merge`, `grouping` and `limit` are used.
        plan: whose queries were run; at least one.
        results: one for each query, in the plan's order, all of one state.
        revision: of that state.

    Returns:
        One match for each context, by merged score, ties by URI. How the plan came about is the caller's to add.
    """
    found: dict[str, list[_Ranked]] = {}
    for i, (query, result) in enumerate(zip(plan.queries, results, strict=True)):
        weight = request.merge.weight_of(query.priority)
        for rank, match in enumerate(result.matches, 1):
            found.setdefault(match.context.uri, []).append(_Ranked(rank, weight, i, match))
    merged = sorted(
        (_merge(ranked, request.merge) for ranked in found.values()),
        key=lambda one: (-one.match.score, one.match.context.uri),
    )
    n_found = len(merged)
    if request.grouping is not None:
        roots = tuple(dict.fromkeys(root for result in results for root in result.searched_roots))
        group_of = make_group_of(request.grouping, roots)
        merged = thin(merged, lambda one: group_of(one.match.context.uri), request.grouping.max_per_group)
    matches = tuple(merged[: request.limit])
    return SearchResult(
        matches=matches,
        plan=plan,
        plan_status=None,
        query_results=tuple(map(_query_result, results)),
        revision=revision,
        empty_reason=EmptyReason.NONE if matches else _why_empty(results),
        total_matched=n_found,
    )


def _merge(ranked: Sequence[_Ranked], how: MergeOptions) -> SearchMatch:
    score = sum(one.weight / (how.rrf_k + one.rank) for one in ranked)
    best = min(ranked, key=lambda one: (one.rank, -one.weight, one.query_index))
    return SearchMatch(best.match._replace(score=score, step_index=None), tuple(one.query_index for one in ranked))


def _query_result(result: RetrieveResult) -> QueryResult:
    return QueryResult(
        uris=tuple(match.context.uri for match in result.matches),
        searched_roots=result.searched_roots,
        stats=result.stats,
        steps=result.steps,
        warnings=result.warnings,
        empty_reason=result.empty_reason,
    )


def _why_empty(results: Sequence[RetrieveResult]) -> EmptyReason:
    """Return the reason of the query that came furthest: one whose matches were cut found more than nothing."""
    reasons = {result.empty_reason for result in results}
    return next(
        (reason for reason in (EmptyReason.BELOW_THRESHOLD, EmptyReason.FILTERED_OUT) if reason in reasons),
        EmptyReason.NO_CONTEXTS,
    )


def failed_result(request: RetrieveRequest, revision: int, warning: AnswerWarning) -> RetrieveResult:
    """Return the answer of a query that could not be run, beside others that could."""
    return RetrieveResult(
        matches=(),
        revision=revision,
        mode=request.mode,
        searched_roots=(),
        stats=RetrieveStats(),
        warnings=(warning,),
        empty_reason=EmptyReason.NO_CONTEXTS,
    )


def skipped_result(plan: QueryPlan, revision: int) -> SearchResult:
    """Return the answer to a task for which nothing needs to be looked up."""
    return SearchResult((), plan, None, (), revision, empty_reason=EmptyReason.PLAN_SKIPPED)


def keep_usable_targets(
    plan: QueryPlan, scope: Scope, snapshot: Snapshot, identity: Identity, now_us: int
) -> tuple[QueryPlan, tuple[AnswerWarning, ...]]:
    """Drop the targets that a planner proposed and that cannot be searched, or lie outside of what was asked for.

    A query that loses all of them looks where the request looks. Of a caller's own plan such a target is an error.

    Args:
        plan: as the planner made it.
        scope: of the request.
        snapshot, identity, now_us: what exists, who asks, and when.

    Returns:
        The plan, and a warning where something was dropped.
    """
    wanted, _ = check_targets(scope.target_uris, identity, now_us)
    dropped: list[str] = []
    queries = []
    for query in plan.queries:
        kept = tuple(uri for uri in query.target_uris if _is_usable(uri, wanted, snapshot, identity, now_us))
        dropped += (uri for uri in query.target_uris if uri not in kept)
        queries.append(replace(query, target_uris=kept) if kept != query.target_uris else query)
    if not dropped:
        return plan, ()
    text = f"{len(dropped)} targets that the planner proposed cannot be searched, and were dropped"
    return replace(plan, queries=tuple(queries)), (AnswerWarning("PLAN_TARGET_DROPPED", text),)


def _is_usable(text: str, wanted: Sequence[Uri], snapshot: Snapshot, identity: Identity, now_us: int) -> bool:
    parsed = check_uri(text, identity, now_us)
    if isinstance(parsed, Violation) or not (not wanted or any(parsed.uri.is_under(uri) for uri in wanted)):
        return False
    try:
        resolve_place(snapshot, RetrieveRequest(_ANY_QUERY, Scope((text,))), identity, now_us)
    except VikingError:
        return False
    return True
