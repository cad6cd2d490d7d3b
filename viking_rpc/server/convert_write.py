"""Read contexts that a caller wants to write; what is wrong becomes a violation with its field path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.domain.context import ContextType, ContextWrite, Kind, Level, Relation
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.uri import Uri, check_uri
from viking_rpc.errors import Violation
from viking_rpc.server.convert_request import read_tags, read_time, read_vector
from viking_rpc.server.validate import MAX_VALUES, check_count, check_tags, check_text, check_vector

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.pb.v1 import context_pb2 as pb

MAX_RELATIONS: Final = 32
_MAX_BYTES: Final = {"abstract": 16 * 1024, "overview": 128 * 1024, "content": 1024 * 1024, "title": 1024, "etag": 256}
_MAX_REASON_BYTES: Final = 1024
_LEVELS: Final = {
    Kind.DIRECTORY: {Level.ABSTRACT: "abstract", Level.OVERVIEW: "overview"},
    Kind.FILE: {Level.DETAIL: "content"},
}


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A context to write, before its rows are made.

    Args:
        uri: canonical.
        kind: None when the stored context decides: a directory stays one, everything else becomes a file.
        vectors: by level, float32[n] of any length, finite.
        fields: of the ContextWrite, `uri`, `kind` and `rows` left out.
    """

    field: str
    uri: Uri
    kind: Kind | None
    vectors: Mapping[Level, NDArray[np.float32]]
    fields: Mapping[str, Any]

    def write(self, kind: Kind) -> ContextWrite:
        """Return the write for a kind, without rows."""
        return ContextWrite(uri=str(self.uri), kind=kind, **self.fields)


def read_draft(
    message: pb.Context, field: str, identity: Identity, now_us: int, found: list[Violation]
) -> Draft | None:
    """Read a context to write.

    Args:
        message: as it was received.
        field: where it stands in the request.
        identity: the caller; times are taken from administrators only, who import.
        now_us: the server's time for path variables.
        found: receives what is wrong.

    Returns:
        None when its URI cannot be read.
    """
    uri = read_context_uri(message.uri, f"{field}.uri", identity, now_us, found)
    kind = _read(Kind, message.kind, f"{field}.kind", found)
    type_ = _read(ContextType, message.type, f"{field}.type", found)
    for name, n_bytes in _MAX_BYTES.items():
        found += check_text(f"{field}.{name}", getattr(message, name), n_bytes)
    found += check_tags(f"{field}.tags", read_tags(message.tags))
    vectors = _read_vectors(message, field, found)
    if kind is not None:
        found += check_kind(
            kind, field, vectors, has_overview=bool(message.overview), has_content=bool(message.content)
        )
    fields = {
        "type": type_,
        "title": message.title,
        "abstract": message.abstract,
        "overview": message.overview,
        "content": message.content,
        "tags": read_tags(message.tags),
        "etag": message.etag,
        "relations": _read_relations(message, field, identity, now_us, found),
        **_read_times(message, field, identity, found),
    }
    return None if uri is None else Draft(field, uri, kind, vectors, fields)


def check_kind(
    kind: Kind, field: str, levels: Mapping[Level, object], *, has_overview: bool, has_content: bool
) -> list[Violation]:
    """Return what does not go together with a kind: texts and vectors of the other one's levels."""
    found = []
    if kind is Kind.FILE and has_overview:
        found.append(Violation(f"{field}.overview", "a file has no overview", "WRONG_KIND"))
    if kind is Kind.DIRECTORY and has_content:
        found.append(Violation(f"{field}.content", "a directory has no content", "WRONG_KIND"))
    for level in levels:
        if level not in _LEVELS[kind]:
            text = f"a {kind.name.lower()} has no vector at level {level.name}"
            found.append(Violation(f"{field}.vectors", text, "WRONG_KIND"))
    return found


def read_context_uri(text: str, field: str, identity: Identity, now_us: int, found: list[Violation]) -> Uri | None:
    """Read the URI of a context to change: no display URI, which names a part of one, and not the root."""
    if not text:
        found.append(Violation(field, "must be set", "REQUIRED"))
        return None
    parsed = check_uri(text, identity, now_us, field)
    if isinstance(parsed, Violation):
        found.append(parsed)
    elif parsed.uri.is_root:
        found.append(Violation(field, "the root is no context", "INVALID_URI"))
    elif parsed.level is not None:
        found.append(Violation(field, f"names a level of {parsed.uri}, not a context", "INVALID_URI"))
    else:
        return parsed.uri
    return None


def _read(enum: Any, number: int, field: str, found: list[Violation]) -> Any:
    if number == 0:
        return None
    try:
        return enum(number)
    except ValueError:
        found.append(Violation(field, f"{number} is not a known value", "UNKNOWN_VALUE"))
        return None


def _read_vectors(message: pb.Context, field: str, found: list[Violation]) -> dict[Level, NDArray[np.float32]]:
    vectors: dict[Level, NDArray[np.float32]] = {}
    found += check_count(f"{field}.vectors", message.vectors, MAX_VALUES)
    for i, entry in enumerate(message.vectors[:MAX_VALUES]):
        where = f"{field}.vectors[{i}]"
        if not 1 <= entry.level <= len(Level):
            text = "must be set" if entry.level == 0 else f"{entry.level} is not a known value"
            found.append(Violation(f"{where}.level", text, "UNKNOWN_VALUE"))
            continue
        level = Level(entry.level - 1)
        if level in vectors:
            found.append(Violation(f"{where}.level", f"{level.name} has a vector already", "DUPLICATE_LEVEL"))
            continue
        vector = read_vector(entry.vector, f"{where}.vector", found)
        if vector is not None:
            found += check_vector(f"{where}.vector", vector, allow_zero=True)
            vectors[level] = vector
    return vectors


def _read_relations(
    message: pb.Context, field: str, identity: Identity, now_us: int, found: list[Violation]
) -> tuple[Relation, ...]:
    found += check_count(f"{field}.relations", message.relations, MAX_RELATIONS)
    relations = []
    for i, entry in enumerate(message.relations[:MAX_RELATIONS]):
        where = f"{field}.relations[{i}]"
        found += check_text(f"{where}.reason", entry.reason, _MAX_REASON_BYTES)
        uri = read_context_uri(entry.uri, f"{where}.uri", identity, now_us, found)
        if uri is not None:
            relations.append(Relation(str(uri), entry.reason))
    return tuple(relations)


def _read_times(message: pb.Context, field: str, identity: Identity, found: list[Violation]) -> dict[str, int]:
    times: dict[str, int] = {}
    names = ["expire"] if identity.role is Role.USER else ["expire", "create", "update"]
    for name in names:
        if not message.HasField(f"{name}_time"):
            continue
        where = f"{field}.{name}_time"
        time_us = read_time(getattr(message, f"{name}_time"), where, found)
        if time_us is not None and time_us <= 0:
            found.append(Violation(where, "must lie after 1970-01-01", "INVALID_TIME"))
        elif time_us is not None:
            times[f"{name}_us"] = time_us
    return times
