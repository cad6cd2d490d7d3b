"""Write a stored context as a message, with as much of it as a view shows and the caller may see."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.domain.access import can_traverse, may_read
from viking_rpc.domain.query import View
from viking_rpc.domain.uri import Uri
from viking_rpc.pb.v1 import context_pb2 as pb

if TYPE_CHECKING:
    from viking_rpc.domain.context import Context, Relation
    from viking_rpc.domain.identity import Identity

MAX_RELATIONS: Final = 5

_SCOPE_PARENT: Final = "viking:/"
#: Only above and below it may something be another's.
_OWNED_PREFIX: Final = "viking://user"


def context_message(context: Context, view: View, identity: Identity) -> pb.Context:
    """Write a context.

    Args:
        context: what the caller may read, with the texts that the view shows.
        view: texts beyond it are left out.
        identity: the caller; relations to what it may not read are left out.
    """
    parent = context.uri.rpartition("/")[0]
    fields: dict[str, Any] = {
        "uri": context.uri,
        "parent_uri": "" if parent == _SCOPE_PARENT else parent,
        "kind": context.kind,
        "type": context.type,
        "title": context.title,
        "create_time": timestamp_fields(context.create_us),
        "update_time": timestamp_fields(context.update_us),
        "active_count": context.active_count,
        "etag": context.etag,
        "child_count": context.child_count,
    }
    if context.tags:
        fields["tags"] = context.tags
    if context.expire_us:
        fields["expire_time"] = timestamp_fields(context.expire_us)
    if view >= View.ABSTRACT:
        fields["abstract"] = context.abstract
        if context.relations:
            fields["relations"] = _relations(context.relations, identity)
        if view >= View.OVERVIEW:
            fields["overview"] = context.overview
            if view >= View.FULL:
                fields["content"] = context.content
    return pb.Context(**fields)


def ancestor_message(context: Context, identity: Identity) -> pb.Context:
    """Write a directory on the way to a context; of one that the caller may only pass, no more than its place."""
    if context.uri.startswith(_OWNED_PREFIX) and not may_read(identity, Uri.from_canonical(context.uri)):
        return signpost_message(context)
    return context_message(replace(context, relations=()), View.ABSTRACT, identity)


def signpost_message(context: Context) -> pb.Context:
    """Write a directory of which the caller may see no more than that it leads on: its text tells of others."""
    parent = context.uri.rpartition("/")[0]
    return pb.Context(
        uri=context.uri,
        parent_uri="" if parent == _SCOPE_PARENT else parent,
        kind=int(context.kind),  # type: ignore[arg-type]
        type=int(context.type),  # type: ignore[arg-type]
    )


def is_visible(context: Context, identity: Identity) -> bool:
    """Return whether a listing shows a context: it may be read, or it leads to what may be."""
    if not context.uri.startswith(_OWNED_PREFIX):
        return True
    return can_traverse(identity, Uri.from_canonical(context.uri))


def timestamp_fields(time_us: int) -> dict[str, int]:
    """Return the fields of a Timestamp."""
    seconds, rest_us = divmod(time_us, 1_000_000)
    return {"seconds": seconds, "nanos": rest_us * 1000}


def _relations(relations: tuple[Relation, ...], identity: Identity) -> list[pb.Relation]:
    readable = [r for r in relations if may_read(identity, Uri.from_canonical(r.uri))]
    return [pb.Relation(uri=r.uri, reason=r.reason) for r in readable[:MAX_RELATIONS]]
