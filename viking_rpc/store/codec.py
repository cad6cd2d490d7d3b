"""How values of the domain lie in columns: arrays as little-endian bytes, tags and answers as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from viking_rpc.domain.context import Context, ContextType, Kind, Level, Relation, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_F32 = np.dtype("<f4")
_U64 = np.dtype("<u8")
#: Level of a row id, and the ids of a context's rows: `row_ids`.
LEVELS = 4


def etag_of(key: int, version: int) -> str:
    """Return the opaque version of a context."""
    return f"{key:x}-{version:x}"


def row_id(key: int, level: int) -> int:
    """Return the id under which a context's row of a level is stored."""
    return key * LEVELS + level


def encode_row(key: int, row: Row) -> tuple[int, bytes, bytes, bytes]:
    """Return the columns of a row: id, vector, terms, term_counts."""
    return (
        row_id(key, row.level),
        np.ascontiguousarray(row.vector, _F32).tobytes(),
        np.ascontiguousarray(row.terms, _U64).tobytes(),
        np.ascontiguousarray(row.term_counts, _F32).tobytes(),
    )


def decode_row(stored_id: int, vector: bytes, terms: bytes, term_counts: bytes) -> Row:
    """Return a row whose arrays are read-only views of the stored bytes."""
    return Row(
        level=_LEVEL_OF[stored_id % LEVELS],
        vector=np.frombuffer(vector, _F32),
        terms=np.frombuffer(terms, _U64),
        term_counts=np.frombuffer(term_counts, _F32),
    )


# IntEnum(value) costs a microsecond; a scan makes three a context.
_LEVEL_OF = {int(level): level for level in Level}
KIND_OF = {int(kind): kind for kind in Kind}
TYPE_OF = {int(type_): type_ for type_ in ContextType}


def encode_tags(tags: Mapping[str, str]) -> str:
    """Return tags as a JSON object, the empty string when there are none."""
    return json.dumps(dict(tags), ensure_ascii=False, sort_keys=True) if tags else ""


def decode_tags(stored: str) -> dict[str, str]:
    """Return what `encode_tags` was given."""
    return json.loads(stored) if stored else {}


def encode_answer(revision: int, n_deleted: int, contexts: Sequence[Context]) -> str:
    """Return what a repeated request is answered with."""
    facts = [
        [
            *(context.uri, int(context.kind), int(context.type), context.title, context.abstract, dict(context.tags)),
            *(context.create_us, context.update_us, context.expire_us, context.active_count),
            *(context.etag, context.child_count, [[relation.uri, relation.reason] for relation in context.relations]),
        ]
        for context in contexts
    ]
    return json.dumps([revision, n_deleted, facts], ensure_ascii=False, separators=(",", ":"))


def decode_answer(stored: str) -> tuple[int, int, tuple[Context, ...]]:
    """Return the revision, the number of deleted contexts and the contexts of a first answer."""
    revision, n_deleted, facts = json.loads(stored)
    return revision, n_deleted, tuple(_decode_context(fact) for fact in facts)


def _decode_context(fact: list[Any]) -> Context:
    uri, kind, type_, title, abstract, tags, created, updated, expires, count, etag, n_children, relations = fact
    return Context(
        uri=uri,
        kind=KIND_OF[kind],
        type=TYPE_OF[type_],
        title=title,
        abstract=abstract,
        tags=tags,
        create_us=created,
        update_us=updated,
        expire_us=expires,
        active_count=count,
        etag=etag,
        child_count=n_children,
        relations=decode_relations(relations),
    )


def decode_relations(pairs: Sequence[Sequence[str]]) -> tuple[Relation, ...]:
    """Return relations from (uri, reason) pairs."""
    return tuple(Relation(uri, reason) for uri, reason in pairs)
