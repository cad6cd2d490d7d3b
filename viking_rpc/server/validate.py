"""Hold a request against the contract's limits and the caller's rights: everything wrong is told at once."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from viking_rpc.domain.access import check_targets, denial, denied, may_read, select_roots
from viking_rpc.domain.query import Filter, Mode, Profile, RerankMode, RetrieveOptions, Scope
from viking_rpc.domain.uri import Uri, check_uri
from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError, PermissionDeniedError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sized

    from numpy.typing import NDArray

    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.query import Query, RetrieveRequest

MAX_QUERY_BYTES: Final = 8 * 1024
MAX_LIMIT: Final = 1000
MAX_TARGETS: Final = 64
#: Types or levels in a list, repeats included.
MAX_VALUES: Final = 64
MAX_GROUP_DEPTH: Final = 32
MAX_TAGS: Final = 32
MAX_TAG_KEY_BYTES: Final = 64
MAX_TAG_VALUE_BYTES: Final = 256

# What most requests leave out; nothing is wrong with these, so that they need no look.
DEFAULT_SCOPE: Final = Scope()
DEFAULT_FILTER: Final = Filter()
DEFAULT_OPTIONS: Final = RetrieveOptions()

_FRACTIONS: Final = ("score_propagation_alpha", "hotness_alpha", "lexical_weight")
_COUNTS: Final = (
    ("global_top_k", 0, 1000),
    ("leaf_seeds", 0, 1000),
    ("parallelism", 1, 64),
    ("convergence_rounds", 0, 1000),
    ("max_scored_rows", 0, 2**31 - 1),
    ("max_rerank_documents", 0, 1000),
)


def check_request(
    request: RetrieveRequest,
    identity: Identity,
    now_us: int,
    *,
    dimensions: int,
    timeout_s: float | None = None,
    found: Iterable[Violation] = (),
) -> None:
    """Refuse a request that cannot be answered; nothing here depends on what exists.

    Args:
        request: in the domain's terms.
        identity: the caller.
        now_us: the server's time for path variables, microseconds since the epoch, UTC.
        dimensions: length of the store's vectors.
        timeout_s: the call's deadline, which a time budget must be shorter than; None: there is none.
        found: what is wrong already, from reading the message.

    Raises:
        InvalidArgumentError: all violations, by field path.
        PermissionDeniedError: all URIs that the caller may not read.
        FailedPreconditionError: DIMENSION_MISMATCH, a ready vector is of another model.
    """
    # what a request leaves out is not looked at: this runs for every one of them
    query = request.query
    violations = list(found)
    is_query_read = not violations or not any(violation.field.startswith("query") for violation in violations)
    violations += check_query(query) if is_query_read else _check_lexical_text(query)
    if not 1 <= request.limit <= MAX_LIMIT:
        violations.append(Violation("limit", f"{request.limit} is not in [1, {MAX_LIMIT}]", "OUT_OF_RANGE"))
    if request.min_revision < 0:
        violations.append(Violation("min_revision", f"{request.min_revision} is negative", "OUT_OF_RANGE"))
    if request.options is not DEFAULT_OPTIONS:
        violations += check_options(request.options, timeout_s)
        violations += _check_required_rerank(request)
    if request.grouping is not None or request.page_token:
        violations += _check_parts(request)
    if request.filter is not DEFAULT_FILTER:
        violations += check_filter(request.filter, identity, now_us)
    targets = request.scope.target_uris
    uris: tuple[Uri, ...] = ()
    if targets:
        violations += check_count("scope.target_uris", targets, MAX_TARGETS)
        uris, invalid = check_targets(targets[:MAX_TARGETS], identity, now_us)
        violations += invalid
    like = _read_like(query, identity, now_us) if query.like_uri else None
    if isinstance(like, Violation):
        violations.append(like)
    if violations:
        raise InvalidArgumentError.of(violations)
    denials: list[Violation] = []
    if isinstance(like, Uri) and not may_read(identity, like):
        denials.append(denial(identity, like, "read", "query.like_uri"))
    if uris:
        try:
            select_roots(uris, request.scope.types, identity)
        except PermissionDeniedError as error:
            denials += error.violations
    if denials:
        raise denied(identity, denials)
    if query.vector is not None:
        require_dimensions(query.vector, dimensions, "query.vector")


def _check_parts(request: RetrieveRequest) -> Iterator[Violation]:
    """Yield what is wrong with grouping and paging."""
    grouping, is_classic = request.grouping, request.options.profile is Profile.CLASSIC
    if grouping is not None:
        if not 1 <= grouping.max_per_group <= MAX_LIMIT:
            text = f"{grouping.max_per_group} is not in [1, {MAX_LIMIT}]"
            yield Violation("grouping.max_per_group", text, "OUT_OF_RANGE")
        if not 0 <= grouping.depth <= MAX_GROUP_DEPTH:
            yield Violation("grouping.depth", f"{grouping.depth} is not in [0, {MAX_GROUP_DEPTH}]", "OUT_OF_RANGE")
        if is_classic:
            yield Violation("grouping", "CLASSIC is the published algorithm, which has no groups", "CONTRADICTION")
    if request.page_token and is_classic:
        yield Violation(
            "page_token", "an answer of CLASSIC has one page: its limit decides what it finds", "CONTRADICTION"
        )


def _read_like(query: Query, identity: Identity, now_us: int) -> Uri | Violation:
    """Return the URI that a query names, or what is wrong with it."""
    parsed = check_uri(query.like_uri, identity, now_us, "query.like_uri")
    if isinstance(parsed, Violation):
        return parsed
    return Violation("query.like_uri", "the root is no context", "INVALID_URI") if parsed.uri.is_root else parsed.uri


def check_query(query: Query) -> Iterator[Violation]:
    """Yield what is wrong with a query: exactly one form, and each form within its limits."""
    n_forms = bool(query.text) + (query.vector is not None) + bool(query.like_uri)
    if n_forms != 1:
        message = "exactly one of text, vector and like_uri must be set"
        yield Violation("query", message, "EMPTY_QUERY" if n_forms == 0 else "AMBIGUOUS_QUERY")
        return
    if query.text:
        yield from check_text("query.text", query.text, MAX_QUERY_BYTES)
        if not query.text.strip():
            yield Violation("query.text", "holds nothing but white space", "EMPTY_QUERY")
        if query.lexical_text:
            yield Violation("query.lexical_text", "must be empty beside text, which serves both", "AMBIGUOUS_QUERY")
    if query.lexical_text:
        yield from _check_lexical_text(query)
    if query.vector is not None:
        yield from check_vector("query.vector", query.vector, allow_zero=False)


def _check_lexical_text(query: Query) -> Iterator[Violation]:
    if query.lexical_text:
        yield from check_text("query.lexical_text", query.lexical_text, MAX_QUERY_BYTES)


def check_vector(field: str, vector: NDArray[np.float32], *, allow_zero: bool) -> Iterator[Violation]:
    """Yield what is wrong with a ready vector by itself.

    Args:
        field: where it stands in the request.
        vector: float32[n].
        allow_zero: whether all zeros are meant: "nothing to compare", for a stored one.
    """
    if vector.size == 0:
        yield Violation(field, "has no numbers", "EMPTY_VECTOR")
        return
    # float64 holds the square of any float32, so that only NaN and infinity make the sum not finite.
    wide = vector.astype(np.float64)
    square = float(wide @ wide)
    if not math.isfinite(square):
        i = int(np.flatnonzero(~np.isfinite(vector))[0])
        yield Violation(field, f"number {i} is {vector[i]}, which is not finite", "NOT_FINITE")
    elif square == 0.0 and not allow_zero:
        yield Violation(field, "is all zeros, which points nowhere", "ZERO_VECTOR")


def require_dimensions(vector: NDArray[np.float32], dimensions: int, field: str) -> None:
    """Refuse a vector of another length than the store's.

    Raises:
        FailedPreconditionError: reason DIMENSION_MISMATCH, naming both.
    """
    if vector.size == dimensions:
        return
    message = f"{field} has {vector.size} numbers, the store's vectors have {dimensions}"
    metadata = {"field": field, "dimensions": str(vector.size), "stored_dimensions": str(dimensions)}
    violation = Violation(field, message, "DIMENSION_MISMATCH")
    raise FailedPreconditionError("DIMENSION_MISMATCH", message, metadata, (violation,))


def check_options(options: RetrieveOptions, timeout_s: float | None = None) -> Iterator[Violation]:
    """Yield every option that is out of its range; `timeout_s` is what a time budget must be shorter than."""
    for name in ("score_threshold", "rerank_threshold"):
        threshold = getattr(options, name)
        if threshold is not None and not math.isfinite(threshold):
            yield Violation(f"options.{name}", f"{threshold} is not finite", "NOT_FINITE")
    for name in _FRACTIONS:
        value = getattr(options, name)
        if value is not None and not 0.0 <= value <= 1.0:  # NaN is in no range
            yield Violation(f"options.{name}", f"{value:g} is not in [0, 1]", "OUT_OF_RANGE")
    for name, least, greatest in _COUNTS:
        value = getattr(options, name)
        if value is not None and not least <= value <= greatest:
            yield Violation(f"options.{name}", f"{value} is not in [{least}, {greatest}]", "OUT_OF_RANGE")
    budget_s = options.time_budget_s
    if budget_s is None:
        return
    if budget_s <= 0:
        yield Violation("options.time_budget", "must be positive", "OUT_OF_RANGE")
    elif timeout_s is not None and budget_s >= timeout_s:
        message = f"{budget_s:g} s is not shorter than the deadline, {timeout_s:.3f} s"
        yield Violation("options.time_budget", message, "OUT_OF_RANGE")


def _check_required_rerank(request: RetrieveRequest) -> Iterator[Violation]:
    """Yield why a rerank that the request requires cannot take place, whatever is configured."""
    if request.options.rerank_mode is not RerankMode.REQUIRE:
        return
    query = request.query
    reasons = {
        "QUICK reranks nothing": request.mode is Mode.QUICK,
        "the query has no text": not (query.text or query.lexical_text).strip(),
        "max_rerank_documents is 0": request.options.max_rerank_documents == 0,
    }
    for reason, holds in reasons.items():
        if holds:
            yield Violation("options.rerank_mode", f"cannot be REQUIRE: {reason}", "CONTRADICTION")


def check_filter(condition: Filter, identity: Identity, now_us: int, field: str = "filter") -> Iterator[Violation]:
    """Yield what is wrong with a filter; `field` is where it stands in the request."""
    yield from check_tags(f"{field}.tags", condition.tags)
    for name in ("updated", "created"):
        since_us, before_us = getattr(condition, f"{name}_since_us"), getattr(condition, f"{name}_before_us")
        if since_us is not None and before_us is not None and since_us > before_us:
            yield Violation(f"{field}.{name}_since", f"is after {field}.{name}_before", "EMPTY_TIME_RANGE")
    yield from check_count(f"{field}.exclude_uris", condition.exclude_uris, MAX_TARGETS)
    for i, text in enumerate(condition.exclude_uris[:MAX_TARGETS]):
        parsed = check_uri(text, identity, now_us, f"{field}.exclude_uris[{i}]")
        if isinstance(parsed, Violation):
            yield parsed


def check_tags(field: str, tags: Mapping[str, str]) -> Iterator[Violation]:
    """Yield what is wrong with the tags of a context or a filter."""
    if not tags:
        return
    if len(tags) > MAX_TAGS:
        yield Violation(field, f"has more than {MAX_TAGS} pairs", "TOO_MANY")
    for key, value in islice(tags.items(), MAX_TAGS):
        where = f"{field}[{key[:MAX_TAG_KEY_BYTES]!a}]"
        if not key:
            yield Violation(where, "a key must not be empty", "INVALID_TAG")
        yield from check_text(where, key, MAX_TAG_KEY_BYTES, what="the key")
        yield from check_text(where, value, MAX_TAG_VALUE_BYTES, what="the value")


def check_count(field: str, values: Sized, most: int, least: int = 0) -> Iterator[Violation]:
    """Yield a violation where a list is too short or too long; what is beyond `most` is to be looked at no further."""
    if len(values) > most:
        yield Violation(field, f"has {len(values)} entries, at most {most} are allowed", "TOO_MANY")
    elif len(values) < least:
        yield Violation(field, f"needs at least {least}", "REQUIRED")


def check_text(field: str, text: str, n_bytes: int, what: str = "") -> Iterator[Violation]:
    """Yield a violation where a text is longer than so many bytes of UTF-8, or cannot be written as UTF-8."""
    prefix = f"{what} " if what else ""
    try:
        length = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        message = f"{prefix}holds an unpaired surrogate at position {error.start}"
        yield Violation(field, message, "INVALID_TEXT")
        return
    if length > n_bytes:
        yield Violation(field, f"{prefix}has {length} bytes, at most {n_bytes} are allowed", "TOO_LONG")
