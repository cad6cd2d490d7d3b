"""Write requests from domain types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from viking_rpc.domain.query import Query, RetrieveRequest
from viking_rpc.pb.v1 import context_pb2, context_service_pb2, retrieval_service_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.timestamp_pb2 import Timestamp
    from numpy.typing import NDArray

    from viking_rpc.domain.context import ContextWrite
    from viking_rpc.domain.plan import PlanRequest
    from viking_rpc.domain.query import Filter, Grouping, RetrieveOptions, Scope, View

_NUMBERS = (
    "score_threshold",
    "score_propagation_alpha",
    "hotness_alpha",
    "lexical_weight",
    "global_top_k",
    "leaf_seeds",
    "parallelism",
    "convergence_rounds",
    "max_scored_rows",
    "max_rerank_documents",
    "rerank_threshold",
)


def as_request(query: str | NDArray[np.float32] | Query | RetrieveRequest, **how: Any) -> RetrieveRequest:
    """Return a request: the one given, or one for a text or a vector.

    Args:
        query: a text; a vector, float32[dimensions]; a query; or a whole request, beside which nothing may be given.
        how: other fields of the request.
    """
    if isinstance(query, RetrieveRequest):
        if how:
            text = f"give {', '.join(how)} in the request itself"
            raise TypeError(text)
        return query
    if isinstance(query, str):
        query = Query(text=query)
    elif not isinstance(query, Query):
        query = Query(vector=np.asarray(query, np.float32))
    return RetrieveRequest(query=query, **how)


def retrieve_message(request: RetrieveRequest) -> retrieval_service_pb2.RetrieveRequest:
    """Write a request."""
    return retrieval_service_pb2.RetrieveRequest(
        query=_query_message(request.query),
        scope=_scope_message(request.scope),
        filter=filter_message(request.filter),
        limit=request.limit,
        view=int(request.view),  # type: ignore[arg-type]
        mode=int(request.mode),  # type: ignore[arg-type]
        options=_options_message(request.options),
        trace_level=int(request.trace_level),  # type: ignore[arg-type]
        min_revision=request.min_revision,
        grouping=grouping_message(request.grouping),
        page_token=request.page_token,
    )


def grouping_message(grouping: Grouping | None) -> retrieval_service_pb2.Grouping | None:
    """Write how matches belong together."""
    if grouping is None:
        return None
    return retrieval_service_pb2.Grouping(max_per_group=grouping.max_per_group, depth=grouping.depth)


def watch_message(request: RetrieveRequest) -> retrieval_service_pb2.WatchRetrieveRequest:
    """Write a request to watch."""
    return retrieval_service_pb2.WatchRetrieveRequest(request=retrieve_message(request))


def plan_message(request: PlanRequest) -> retrieval_service_pb2.PlanRequest:
    """Write a request to plan."""
    return retrieval_service_pb2.PlanRequest(
        task=request.task,
        turns=[retrieval_service_pb2.Turn(role=turn.role, text=turn.text) for turn in request.turns],
        summary=request.summary,
        type=0 if request.type is None else int(request.type),  # type: ignore[arg-type]
        scope=_scope_message(request.scope),
        max_queries=request.max_queries,
    )


def get_message(uri: str, view: View, min_revision: int) -> context_service_pb2.GetContextRequest:
    """Write a request for one context."""
    return context_service_pb2.GetContextRequest(
        uri=uri,
        view=int(view),  # type: ignore[arg-type]
        min_revision=min_revision,
    )


def list_message(
    uri: str, wanted: Filter | None, view: View, *, page_size: int, page_token: str, min_revision: int
) -> context_service_pb2.ListContextsRequest:
    """Write a request for a page of children."""
    return context_service_pb2.ListContextsRequest(
        parent_uri=uri,
        filter=None if wanted is None else filter_message(wanted),
        view=int(view),  # type: ignore[arg-type]
        page_size=page_size,
        page_token=page_token,
        min_revision=min_revision,
    )


def upsert_message(writes: Iterable[ContextWrite], request_id: str) -> context_service_pb2.UpsertContextsRequest:
    """Write a batch."""
    contexts = [_write_message(write) for write in writes]
    return context_service_pb2.UpsertContextsRequest(contexts=contexts, request_id=request_id)


def import_message(sequence: int, writes: Iterable[ContextWrite]) -> context_service_pb2.ImportContextsRequest:
    """Write one batch of an import."""
    return context_service_pb2.ImportContextsRequest(sequence=sequence, contexts=map(_write_message, writes))


def delete_message(
    uris: Iterable[str], *, recursive: bool, allow_missing: bool
) -> context_service_pb2.DeleteContextsRequest:
    """Write a request to remove contexts."""
    return context_service_pb2.DeleteContextsRequest(uris=uris, recursive=recursive, allow_missing=allow_missing)


def _query_message(query: Query) -> retrieval_service_pb2.Query:
    message = retrieval_service_pb2.Query(lexical_text=query.lexical_text)
    # Two forms at once cannot be sent: the server must not answer one of them as if the other had not been meant.
    forms = [query.vector is not None, bool(query.like_uri), bool(query.text)]
    if sum(forms) > 1:
        text = "give exactly one of text, vector and like_uri"
        raise ValueError(text)
    if query.vector is not None:
        message.vector.CopyFrom(_vector_message(query.vector))
    elif query.like_uri:
        message.like_uri = query.like_uri
    else:
        message.text = query.text
    return message


def _vector_message(vector: NDArray[np.float32]) -> context_pb2.Vector:
    return context_pb2.Vector(packed=np.ascontiguousarray(vector, "<f4").tobytes())


def _scope_message(scope: Scope) -> context_pb2.Scope:
    types = sorted(int(kind) for kind in scope.types)
    return context_pb2.Scope(target_uris=scope.target_uris, types=types)  # type: ignore[arg-type]


def filter_message(wanted: Filter) -> context_pb2.Filter:
    """Write a filter."""
    message = context_pb2.Filter(
        tags=wanted.tags,
        levels=[int(level) + 1 for level in sorted(wanted.levels)],  # type: ignore[misc]
        exclude_uris=wanted.exclude_uris,
    )
    for name in ("updated_since", "updated_before", "created_since", "created_before"):
        time_us = getattr(wanted, f"{name}_us")
        if time_us is not None:
            _fill_time(getattr(message, name), time_us)
    return message


def _options_message(options: RetrieveOptions) -> retrieval_service_pb2.RetrieveOptions:
    values = {name: getattr(options, name) for name in _NUMBERS if getattr(options, name) is not None}
    message = retrieval_service_pb2.RetrieveOptions(
        profile=int(options.profile),  # type: ignore[arg-type]
        score_gte=options.score_gte,
        rerank_mode=0 if options.rerank_mode is None else int(options.rerank_mode),  # type: ignore[arg-type]
        rerank_scope=int(options.rerank_scope),  # type: ignore[arg-type]
        **values,
    )
    if options.time_budget_s is not None:
        budget = message.time_budget
        budget.seconds, budget.nanos = divmod(round(options.time_budget_s * 1e9), 1_000_000_000)
    return message


def _write_message(write: ContextWrite) -> context_pb2.Context:
    message = context_pb2.Context(
        uri=write.uri,
        kind=int(write.kind),  # type: ignore[arg-type]
        type=0 if write.type is None else int(write.type),  # type: ignore[arg-type]
        title=write.title,
        abstract=write.abstract,
        overview=write.overview,
        content=write.content,
        tags=write.tags,
        etag=write.etag,
    )
    for name in ("create", "update", "expire"):
        time_us = getattr(write, f"{name}_us")
        if time_us:
            _fill_time(getattr(message, f"{name}_time"), time_us)
    for relation in write.relations:
        message.relations.add(uri=relation.uri, reason=relation.reason)
    for row in write.rows:
        message.vectors.add(
            level=int(row.level) + 1,
            vector=_vector_message(row.vector),
        )
    return message


def _fill_time(message: Timestamp, time_us: int) -> None:
    message.seconds, rest_us = divmod(time_us, 1_000_000)
    message.nanos = rest_us * 1000
