"""What the index is built from: one record per stored context, without its long texts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from viking_rpc.domain.context import Relation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from viking_rpc.domain.context import ContextType, Kind, Row

#: The key of the root `viking://` itself, which is never stored and has no record.
ROOT_KEY = 0


@dataclass(frozen=True, slots=True, eq=False)
class NodeRecord:
    """A context as the index needs it.

    Args:
        key: the context's stable number in the store, > 0; survives a move.
        parent_key: its parent directory's key, `ROOT_KEY` for `resources`, `user`, `agent`.
        name: the last segment of its URI.
        version: rises with each write of this context; the etag is made of it.
        relations: in their stored order.
        rows: at most one per level.
    """

    key: int
    parent_key: int
    name: str
    kind: Kind
    type: ContextType
    title: str = ""
    abstract: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    create_us: int = 0
    update_us: int = 0
    expire_us: int = 0
    active_count: int = 0
    version: int = 1
    relations: tuple[Relation, ...] = ()
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ChangeSet:
    """What one committed batch changed, in terms of the index.

    `upserted` holds every context that was made or replaced (parents that were made included, parents first);
    `deleted_keys` holds every context that is gone, whole subtrees spelled out. A context that only moved is among
    `upserted` with its new place; what lies below it is not told. `touched` holds (key, new active count) of what was
    touched and nothing else.
    """

    revision: int
    upserted: tuple[NodeRecord, ...] = ()
    deleted_keys: tuple[int, ...] = ()
    touched: tuple[tuple[int, int], ...] = ()


def merged(changes: Sequence[ChangeSet]) -> ChangeSet:
    """Return one change set that leads where several lead one after another.

    Args:
        changes: at least one, of ascending revisions without a gap.
    """
    if len(changes) == 1:
        return changes[0]
    upserted: dict[int, NodeRecord] = {}
    deleted: dict[int, None] = {}  # keys are never used again, so a deletion is the last word
    touched: dict[int, int] = {}
    for one in changes:
        for record in one.upserted:
            upserted[record.key] = record
            touched.pop(record.key, None)
        touched.update(one.touched)
        for key in one.deleted_keys:
            upserted.pop(key, None)
            touched.pop(key, None)
            deleted[key] = None
    return ChangeSet(changes[-1].revision, tuple(upserted.values()), tuple(deleted), tuple(touched.items()))


def encode_relations(relations: Sequence[Relation]) -> bytes:
    """Return relations as the text that a snapshot keeps of a node; empty when there are none."""
    if not relations:
        return b""
    return json.dumps([[link.uri, link.reason] for link in relations], ensure_ascii=False).encode()


def decode_relations(stored: bytes) -> tuple[Relation, ...]:
    """Return what `encode_relations` was given."""
    return tuple(Relation(uri, reason) for uri, reason in json.loads(stored)) if stored else ()
