"""What a batch can ask of the database, what it answers, and the checks that need no database."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.domain.context import Context, ContextWrite, Kind, Level
from viking_rpc.domain.uri import MAX_URI_BYTES, SCHEME, SCOPES, Uri
from viking_rpc.errors import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from viking_rpc.domain.context import Row
    from viking_rpc.index.records import ChangeSet

_MAX_INT64 = 2**63 - 1
_LEVELS_OF_KIND = {Kind.DIRECTORY: (Level.ABSTRACT, Level.OVERVIEW), Kind.FILE: (Level.DETAIL,)}


@dataclass(frozen=True, slots=True, eq=False)
class Upsert:
    """Create or replace a context; `source_hash` says from which bytes it was imported."""

    write: ContextWrite
    source_hash: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a context; a directory with children needs `is_recursive`."""

    uri: str
    is_recursive: bool = False
    allow_missing: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """Rename a context with its subtree; the destination's parents are made, the destination must not exist."""

    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class Touch:
    """Raise the active count of contexts by one for each time that they are named."""

    uris: tuple[str, ...]
    allow_missing: bool = False


@dataclass(frozen=True, slots=True)
class PurgeExpired:
    """Remove contexts that are expired, with their subtrees: at most `limit` of them, the oldest first."""

    limit: int = 1000


Operation = Upsert | Delete | Move | Touch | PurgeExpired


@dataclass(frozen=True, slots=True, eq=False)
class Committed:
    """What a batch did.

    Args:
        revision: the first state in which the batch can be read; the current one when nothing changed.
        change_set: the same for the index; empty for a repeated request, and where nobody follows the account.
        contexts: what was upserted or moved, in the order of the operations, without overview and content.
        n_deleted: how many contexts Delete and PurgeExpired removed, subtrees included.
        n_moved: how many contexts the Move operations moved, subtrees included.
        is_repeat: whether this is the first answer to a request id that came again.
    """

    revision: int
    change_set: ChangeSet
    contexts: tuple[Context, ...] = ()
    n_deleted: int = 0
    n_moved: int = 0
    is_repeat: bool = False


def named(operations: Sequence[Operation]) -> Iterator[tuple[str, Operation]]:
    """Yield every operation with the field path under which its request names it: `contexts[3]`, `uris[0]`."""
    contexts, uris = count(), count()
    for operation in operations:
        match operation:
            case Upsert():
                yield f"contexts[{next(contexts)}]", operation
            case Delete():
                yield f"uris[{next(uris)}]", operation
            case Touch():
                yield "uris", operation
            case Move() | PurgeExpired():
                yield "", operation


def violations_of(operations: Sequence[Operation], dimensions: int) -> list[Violation]:
    """Return all that is wrong with a batch by itself; `dimensions` is the length of the store's vectors."""
    found: list[Violation] = []
    seen: set[str] = set()
    for path, operation in named(operations):
        match operation:
            case Upsert(write=write):
                found += _check_write(path, write, dimensions)
                if write.uri in seen:
                    found.append(Violation(f"{path}.uri", f"{write.uri} is in the batch twice", "DUPLICATE_URI"))
                seen.add(write.uri)
            case Delete(uri=uri):
                found += _check_uri(path, uri)
            case Touch(uris=uris):
                for i, uri in enumerate(uris):
                    found += _check_uri(f"{path}[{i}]", uri)
            case Move():
                found += _check_move(operation)
            case PurgeExpired(limit=limit) if limit < 1:
                found.append(Violation("limit", "must be at least 1"))
    return found


def _check_uri(path: str, uri: str) -> list[Violation]:
    """Canonical, and not the root: the whole check is made where a caller's text is parsed."""
    segments = Uri.from_canonical(uri).segments
    if uri.startswith(SCHEME) and segments and segments[0] in SCOPES and all(segments):
        return []
    return [Violation(path, f"{uri!a} is not the canonical URI of a context", "INVALID_URI")]


def _check_move(move: Move) -> list[Violation]:
    found = _check_uri("source_uri", move.source) + _check_uri("destination_uri", move.destination)
    if found:
        return found
    source, destination = Uri.from_canonical(move.source), Uri.from_canonical(move.destination)
    for path, uri in (("source_uri", source), ("destination_uri", destination)):
        if len(uri.segments) == 1:
            found.append(Violation(path, f"{uri} is a scope, which cannot be moved or replaced", "SCOPE_ROOT"))
    if destination.is_under(source):
        found.append(Violation("destination_uri", f"{destination} lies in {source} itself", "MOVE_INTO_ITSELF"))
    if len(move.destination.encode()) > MAX_URI_BYTES:
        found.append(Violation("destination_uri", f"is longer than {MAX_URI_BYTES} bytes", "INVALID_URI"))
    return found


def _check_write(path: str, write: ContextWrite, dimensions: int) -> list[Violation]:
    found = _check_uri(f"{path}.uri", write.uri)
    if not found and write.kind is Kind.FILE and len(Uri.from_canonical(write.uri).segments) == 1:
        found.append(Violation(f"{path}.kind", f"{write.uri} is a scope, which is a directory", "SCOPE_ROOT"))
    for name in ("create_us", "update_us", "expire_us", "active_count"):
        number = getattr(write, name)
        if number is not None and not 0 <= number <= _MAX_INT64:
            found.append(Violation(f"{path}.{name}", f"{number} is not between 0 and 2^63 - 1"))
    levels = [row.level for row in write.rows]
    if len(set(levels)) < len(levels):
        found.append(Violation(f"{path}.rows", "a level has two rows"))
    for i, row in enumerate(write.rows):
        found += _check_row(f"{path}.rows[{i}]", row, write.kind, dimensions)
    return found


def _check_row(path: str, row: Row, kind: Kind, dimensions: int) -> list[Violation]:
    found = []
    if row.level not in _LEVELS_OF_KIND[kind]:
        found.append(Violation(f"{path}.level", f"a {kind.name.lower()} has no row at level {int(row.level)}"))
    if row.vector.shape != (dimensions,):
        shape = "x".join(map(str, row.vector.shape))
        found.append(Violation(f"{path}.vector", f"has {shape} values, the store {dimensions}", "DIMENSION_MISMATCH"))
    elif not np.isfinite(row.vector).all():
        found.append(Violation(f"{path}.vector", "holds a value that is not finite", "NOT_FINITE"))
    if row.terms.shape != row.term_counts.shape or row.terms.ndim != 1:
        found.append(Violation(f"{path}.term_counts", "must have one value for each term"))
    return found
