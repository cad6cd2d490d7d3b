"""Read a Retrieve request into the domain's terms; what cannot be read becomes a violation with its field path."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from viking_rpc.domain.context import ContextType, Level
from viking_rpc.domain.query import (
    Filter,
    Grouping,
    Mode,
    Profile,
    Query,
    RerankMode,
    RerankScope,
    RetrieveOptions,
    RetrieveRequest,
    Scope,
    TraceLevel,
    View,
)
from viking_rpc.errors import Violation
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.server.validate import (
    DEFAULT_FILTER,
    DEFAULT_OPTIONS,
    DEFAULT_SCOPE,
    MAX_LIMIT,
    MAX_TAGS,
    MAX_VALUES,
    check_count,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp
    from numpy.typing import NDArray

    from viking_rpc.pb.v1 import context_pb2

E = TypeVar("E", bound=IntEnum)

DEFAULT_LIMIT: Final = 10

_NUMBERS: Final = (
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
# Years 1 to 9999, which is what a Timestamp may hold; and the range of a Duration.
_MIN_SECONDS: Final = -62_135_596_800
_MAX_SECONDS: Final = 253_402_300_799
_MAX_DURATION_S: Final = 315_576_000_000
_NANOS: Final = 1_000_000_000
#: Options in more bytes have fields that this server does not know.
_MAX_REMEMBERED_BYTES: Final = 256
_LENGTH_DELIMITED_FIELD_1: Final = 0x0A


def read_request(message: pb.RetrieveRequest, found: list[Violation]) -> RetrieveRequest:
    """Read a request; its defaults are filled in and its limit is lowered to the greatest one.

    Args:
        message: as it was received.
        found: receives what cannot be read; the request then holds a default in that place and must not be run.
    """
    return RetrieveRequest(
        query=read_query(message.query, found),
        scope=read_scope(message.scope, found) if message.HasField("scope") else DEFAULT_SCOPE,
        filter=read_filter(message.filter, found) if message.HasField("filter") else DEFAULT_FILTER,
        limit=read_limit(message.limit, DEFAULT_LIMIT, "limit", found),
        view=read_enum(View, message.view, View.ABSTRACT, "view", found),
        mode=read_enum(Mode, message.mode, Mode.THINKING, "mode", found),
        options=_read_options(message.options, found) if message.HasField("options") else DEFAULT_OPTIONS,
        trace_level=read_enum(TraceLevel, message.trace_level, TraceLevel.STATS, "trace_level", found),
        min_revision=message.min_revision,
        grouping=read_grouping(message.grouping) if message.HasField("grouping") else None,
        page_token=message.page_token,
    )


def read_grouping(message: pb.Grouping) -> Grouping:
    """Read how matches belong together."""
    return Grouping(message.max_per_group, message.depth)


def read_query(message: pb.Query, found: list[Violation]) -> Query:
    """Read a query."""
    form = message.WhichOneof("input")
    if form == "vector":
        vector = read_vector(message.vector, "query.vector", found)
        return Query(vector=vector, lexical_text=message.lexical_text)
    # An empty text or URI is no form at all for the domain; the violation can name the field that was meant.
    if form and not getattr(message, form):
        found.append(Violation(f"query.{form}", "must not be empty", "EMPTY_QUERY"))
    return Query(text=message.text, like_uri=message.like_uri, lexical_text=message.lexical_text)


def read_vector(message: context_pb2.Vector, field: str, found: list[Violation]) -> NDArray[np.float32] | None:
    """Read a vector in either form.

    Returns:
        float32[n], read-only, not checked for its length or its numbers; None when it cannot be read.
    """
    packed = message.packed
    values = message.values
    n = len(values)
    if bool(packed) == bool(n):
        description = "has both forms, packed and values" if n else "is empty: set packed or values"
        found.append(Violation(field, description, "AMBIGUOUS_VECTOR" if n else "EMPTY_VECTOR"))
        return None
    if packed:
        if len(packed) % 4:
            description = f"has {len(packed)} bytes, which is not a multiple of 4"
            found.append(Violation(f"{field}.packed", description, "INVALID_VECTOR"))
            return None
        return np.frombuffer(packed, "<f4")
    return _read_values(message, n)


def _read_values(message: context_pb2.Vector, n: int) -> NDArray[np.float32]:
    """Return what `np.fromiter(message.values, np.float32, n)` does, ten times as fast.

    On the wire the values are the same little-endian floats as `packed`, behind one tag and a length.
    """
    encoded = message.SerializeToString()
    start = len(encoded) - 4 * n
    if encoded[0] == _LENGTH_DELIMITED_FIELD_1 and _read_varint(encoded, 1) == (4 * n, start):
        return np.frombuffer(encoded, "<f4", offset=start)
    return np.fromiter(message.values, np.float32, n)  # fields of a newer client stand behind the values


def _read_varint(encoded: bytes, i: int) -> tuple[int, int]:
    """Return the number that begins at a position, and the position behind it."""
    value = shift = 0
    while True:
        byte = encoded[i]
        i += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, i
        shift += 7


def read_scope(message: context_pb2.Scope, found: list[Violation]) -> Scope:
    """Read a scope."""
    types = _read_enums(ContextType, message.types, "scope.types", found)
    return Scope(target_uris=tuple(message.target_uris), types=types)


def read_filter(message: context_pb2.Filter, found: list[Violation], field: str = "filter") -> Filter:
    """Read a filter; `field` is where it stands in the request."""

    def read(name: str) -> int | None:
        return read_time(getattr(message, name), f"{field}.{name}", found) if message.HasField(name) else None

    found += check_count(f"{field}.levels", message.levels, MAX_VALUES)
    numbers = message.levels[:MAX_VALUES]
    levels = {number - 1 for number in numbers if 1 <= number <= len(Level)}
    for i, number in enumerate(numbers):
        if not 1 <= number <= len(Level):
            found.append(_unknown_value(f"{field}.levels[{i}]", number))
    return Filter(
        tags=read_tags(message.tags),
        levels=frozenset(Level(level) for level in levels),
        updated_since_us=read("updated_since"),
        updated_before_us=read("updated_before"),
        created_since_us=read("created_since"),
        created_before_us=read("created_before"),
        exclude_uris=tuple(message.exclude_uris),
    )


def _read_options(message: pb.RetrieveOptions, found: list[Violation]) -> RetrieveOptions:
    """Read options; callers send the same few again and again, so that their bytes are remembered."""
    encoded = message.SerializeToString()
    read = _options_of if len(encoded) <= _MAX_REMEMBERED_BYTES else _options_of.__wrapped__
    options, violations = read(encoded)
    found += violations
    return options


@lru_cache(maxsize=1024)
def _options_of(encoded: bytes) -> tuple[RetrieveOptions, tuple[Violation, ...]]:
    """Return options that came as bytes, and what is wrong; DEFAULT_OPTIONS itself where they say no more."""
    message = pb.RetrieveOptions.FromString(encoded)
    found: list[Violation] = []
    values: dict[str, Any] = {name: getattr(message, name) for name in _NUMBERS if message.HasField(name)}
    if message.HasField("time_budget"):
        values["time_budget_s"] = _read_duration(message.time_budget, "options.time_budget", found)
    mode = message.rerank_mode
    if mode:
        values["rerank_mode"] = read_enum(RerankMode, mode, RerankMode.PREFER, "options.rerank_mode", found)
    options = RetrieveOptions(
        profile=read_enum(Profile, message.profile, Profile.BALANCED, "options.profile", found),
        score_gte=message.score_gte,
        rerank_scope=read_enum(RerankScope, message.rerank_scope, RerankScope.FINAL, "options.rerank_scope", found),
        **values,
    )
    return DEFAULT_OPTIONS if options == DEFAULT_OPTIONS else options, tuple(found)


def read_limit(number: int, default: int, field: str, found: list[Violation]) -> int:
    """Read how much is wanted at most: 0 means the default, more than the contract allows means that."""
    if number < 0:
        found.append(Violation(field, f"{number} is negative", "OUT_OF_RANGE"))
        return default
    return min(number, MAX_LIMIT) or default


def read_enum(enum: type[E], number: int, default: E, field: str, found: list[Violation]) -> E:
    """Read an enum; 0 means the default, a number that the contract does not know is a violation."""
    if number == 0:
        return default
    try:
        return enum(number)
    except ValueError:
        found.append(_unknown_value(field, number))
        return default


def _read_enums(enum: type[E], numbers: Sequence[int], field: str, found: list[Violation]) -> frozenset[E]:
    """Read a set of values; unspecified is none."""
    known = {int(value) for value in enum}
    found += check_count(field, numbers, MAX_VALUES)
    values = list(numbers[:MAX_VALUES])
    found += [_unknown_value(f"{field}[{i}]", number) for i, number in enumerate(values) if number not in known]
    return frozenset(enum(number) for number in values if number in known)


def read_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Read tags, one more than there may be at the most: that many are refused, and the rest costs time."""
    return dict(islice(tags.items(), MAX_TAGS + 1)) if tags else {}


def read_time(message: Timestamp, field: str, found: list[Violation]) -> int | None:
    """Read a time as microseconds since the epoch, rounded up: a bound then parts the same microseconds."""
    if not _MIN_SECONDS <= message.seconds <= _MAX_SECONDS or not 0 <= message.nanos < _NANOS:
        found.append(Violation(field, "is not a time between the years 1 and 9999", "INVALID_TIME"))
        return None
    return message.seconds * 1_000_000 + -(-message.nanos // 1000)


def _read_duration(message: Duration, field: str, found: list[Violation]) -> float | None:
    seconds, nanos = message.seconds, message.nanos
    is_mixed = (seconds > 0 > nanos) or (seconds < 0 < nanos)
    if abs(seconds) > _MAX_DURATION_S or abs(nanos) >= _NANOS or is_mixed:
        found.append(Violation(field, "is not a valid duration", "INVALID_DURATION"))
        return None
    return seconds + nanos / _NANOS


def _unknown_value(field: str, number: int) -> Violation:
    what = "must not be unspecified" if number == 0 else f"{number} is not a known value"
    return Violation(field, what, "UNKNOWN_VALUE")
