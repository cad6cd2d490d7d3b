"""Requests are held against the contract: every violation, by its field path, at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from google.protobuf import duration_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.server.fakes import START_US
from viking_rpc.domain.identity import LOCAL, Identity, Role
from viking_rpc.domain.query import Filter, Profile, Query, RetrieveOptions, RetrieveRequest, Scope
from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError, PermissionDeniedError, Violation
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.server.convert_request import read_request, read_vector
from viking_rpc.server.validate import DEFAULT_OPTIONS, check_request

ALICE = Identity("acme", "alice", Role.USER)
QUERY = Query(text="x")


def violations(request: RetrieveRequest, identity: Identity = LOCAL, timeout_s: float | None = None) -> dict[str, str]:
    """Return the reason of each violation by its field."""
    with pytest.raises(InvalidArgumentError) as caught:
        check_request(request, identity, START_US, dimensions=2, timeout_s=timeout_s)
    return {violation.field: violation.reason for violation in caught.value.violations}


@pytest.mark.parametrize(
    ("query", "field", "reason"),
    [
        (Query(), "query", "EMPTY_QUERY"),
        (Query(text=" \t\n\u3000"), "query.text", "EMPTY_QUERY"),
        (Query(text="a" * 8193), "query.text", "TOO_LONG"),
        (Query(text="\u4e2d" * 2731), "query.text", "TOO_LONG"),
        (Query(text="a\ud800"), "query.text", "INVALID_TEXT"),
        (Query(text="a", lexical_text="b"), "query.lexical_text", "AMBIGUOUS_QUERY"),
        (Query(text="a", like_uri="viking://resources/a"), "query", "AMBIGUOUS_QUERY"),
        (Query(vector=np.array([0, 0], np.float32)), "query.vector", "ZERO_VECTOR"),
        (Query(vector=np.array([np.nan, 0], np.float32)), "query.vector", "NOT_FINITE"),
        (Query(vector=np.array([1, -np.inf], np.float32)), "query.vector", "NOT_FINITE"),
        (Query(vector=np.empty(0, np.float32)), "query.vector", "EMPTY_VECTOR"),
        (Query(vector=np.ones(2, np.float32), lexical_text="a" * 8193), "query.lexical_text", "TOO_LONG"),
        (Query(like_uri="http://x"), "query.like_uri", "INVALID_URI"),
        (Query(like_uri="viking://"), "query.like_uri", "INVALID_URI"),
    ],
)
def test_a_bad_query_is_named(query: Query, field: str, reason: str) -> None:
    assert violations(RetrieveRequest(query=query)) == {field: reason}


@pytest.mark.parametrize(
    "query",
    [
        Query(text="a" * 8192),
        Query(text="\u4e2d\U0001f600 NUL \x00"),
        Query(vector=np.array([1e-30, 0], np.float32)),
        Query(vector=np.array([3e38, 3e38], np.float32), lexical_text="words"),
        Query(like_uri="viking://~/memories/x.md"),
    ],
)
def test_a_good_query_passes(query: Query) -> None:
    check_request(RetrieveRequest(query=query), LOCAL, START_US, dimensions=2)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"score_threshold": math.nan}, "score_threshold"),
        ({"score_threshold": math.inf}, "score_threshold"),
        ({"score_propagation_alpha": 1.01}, "score_propagation_alpha"),
        ({"score_propagation_alpha": math.nan}, "score_propagation_alpha"),
        ({"hotness_alpha": -0.1}, "hotness_alpha"),
        ({"lexical_weight": 2.0}, "lexical_weight"),
        ({"global_top_k": -1}, "global_top_k"),
        ({"global_top_k": 1001}, "global_top_k"),
        ({"leaf_seeds": 1001}, "leaf_seeds"),
        ({"parallelism": 0}, "parallelism"),
        ({"parallelism": 65}, "parallelism"),
        ({"convergence_rounds": -1}, "convergence_rounds"),
        ({"max_scored_rows": -1}, "max_scored_rows"),
        ({"time_budget_s": 0.0}, "time_budget"),
        ({"time_budget_s": -1.0}, "time_budget"),
        ({"time_budget_s": 2.0}, "time_budget"),
    ],
)
def test_an_option_out_of_its_range_is_named(options: dict[str, Any], field: str) -> None:
    request = RetrieveRequest(query=QUERY, options=RetrieveOptions(**options))
    assert list(violations(request, timeout_s=2.0)) == [f"options.{field}"]


def test_options_at_the_ends_of_their_ranges_pass() -> None:
    for options in (
        RetrieveOptions(Profile.CLASSIC, -11.0, False, 0.0, 0.0, 0.0, 0, 0, 1, 0, 0, 0.001),  # noqa: FBT003
        RetrieveOptions(Profile.EXHAUSTIVE, 9e30, True, 1.0, 1.0, 1.0, 1000, 1000, 64, 1000, 2**31 - 1, 1.9),  # noqa: FBT003
    ):
        check_request(RetrieveRequest(query=QUERY, options=options), LOCAL, START_US, dimensions=2, timeout_s=2.0)


def test_everything_wrong_is_told_at_once() -> None:
    request = RetrieveRequest(
        query=Query(text=""),
        scope=Scope(target_uris=("viking://resources/a", "resources/a", "viking://temp/x")),
        filter=Filter(
            tags={"": "x", "k" * 65: "y", "z": "v" * 257},
            updated_since_us=5,
            updated_before_us=4,
            exclude_uris=("viking://resources/a/../b",),
        ),
        limit=0,
        options=RetrieveOptions(hotness_alpha=7.0, max_rerank_documents=1001, rerank_threshold=math.inf),
        min_revision=-1,
    )
    assert violations(request) == {
        "query": "EMPTY_QUERY",
        "limit": "OUT_OF_RANGE",
        "min_revision": "OUT_OF_RANGE",
        "options.hotness_alpha": "OUT_OF_RANGE",
        "options.max_rerank_documents": "OUT_OF_RANGE",
        "options.rerank_threshold": "NOT_FINITE",
        "filter.tags['']": "INVALID_TAG",
        f"filter.tags['{'k' * 64}']": "TOO_LONG",
        "filter.tags['z']": "TOO_LONG",
        "filter.updated_since": "EMPTY_TIME_RANGE",
        "filter.exclude_uris[0]": "INVALID_URI",
        "scope.target_uris[1]": "INVALID_URI",
        "scope.target_uris[2]": "INVALID_URI",
    }


def test_lists_have_limits() -> None:
    many = tuple(f"viking://resources/{i}" for i in range(65))
    request = RetrieveRequest(
        query=QUERY,
        scope=Scope(target_uris=many),
        filter=Filter(tags={str(i): "" for i in range(33)}, exclude_uris=many),
    )
    assert violations(request) == {
        "scope.target_uris": "TOO_MANY",
        "filter.tags": "TOO_MANY",
        "filter.exclude_uris": "TOO_MANY",
    }


def test_all_uris_of_others_are_refused_by_uri_alone() -> None:
    request = RetrieveRequest(
        query=Query(like_uri="viking://user/carol/memories/x.md"),
        scope=Scope(target_uris=("viking://resources/a", "viking://user/bob/memories", "viking://user/acme")),
    )
    with pytest.raises(PermissionDeniedError) as caught:
        check_request(request, ALICE, START_US, dimensions=2)
    fields = [violation.field for violation in caught.value.violations]
    assert fields == ["query.like_uri", "scope.target_uris[1]", "scope.target_uris[2]"]


def test_what_is_wrong_comes_before_what_is_forbidden() -> None:
    request = RetrieveRequest(query=QUERY, scope=Scope(target_uris=("viking://user/bob", "nonsense")))
    assert violations(request, ALICE) == {"scope.target_uris[1]": "INVALID_URI"}


def test_a_vector_of_another_model_names_both_lengths() -> None:
    request = RetrieveRequest(query=Query(vector=np.ones(3, np.float32)))
    with pytest.raises(FailedPreconditionError) as caught:
        check_request(request, LOCAL, START_US, dimensions=2)
    assert caught.value.reason == "DIMENSION_MISMATCH"
    assert caught.value.metadata == {"field": "query.vector", "dimensions": "3", "stored_dimensions": "2"}


# --- reading messages


def test_defaults_are_filled_in() -> None:
    found: list[Violation] = []
    read = read_request(pb.RetrieveRequest(query=pb.Query(text="x")), found)
    assert not found
    expected = RetrieveRequest(query=read.query)
    for name in ("scope", "filter", "limit", "view", "mode", "options", "trace_level", "min_revision"):
        assert getattr(read, name) == getattr(expected, name)


@pytest.mark.parametrize(("sent", "read"), [(0, 10), (1, 1), (1000, 1000), (1001, 1000), (2**31 - 1, 1000)])
def test_limit_is_lowered(sent: int, read: int) -> None:
    found: list[Violation] = []
    assert read_request(pb.RetrieveRequest(query=pb.Query(text="x"), limit=sent), found).limit == read
    assert not found


def test_unset_options_are_none_and_set_zeros_are_zeros() -> None:
    message = pb.RetrieveRequest(
        query=pb.Query(text="x"),
        options=pb.RetrieveOptions(
            score_threshold=0, hotness_alpha=0.5, time_budget=duration_pb2.Duration(nanos=250_000_000)
        ),
    )
    options = read_request(message, []).options
    assert options == RetrieveOptions(score_threshold=0.0, hotness_alpha=0.5, time_budget_s=0.25)


def test_options_that_come_again_are_the_same_and_as_wrong() -> None:
    unknown = b"\xfa\x07\xac\x02" + bytes(300)  # a field of a newer client, too long to be remembered with
    bad = pb.RetrieveOptions(profile=77, rerank_scope=78, leaf_seeds=5)  # type: ignore[arg-type]
    for tail in (b"", unknown):
        sent = pb.RetrieveRequest(options=pb.RetrieveOptions.FromString(bad.SerializeToString() + tail))
        for _ in range(2):
            found: list[Violation] = []
            assert read_request(sent, found).options == RetrieveOptions(leaf_seeds=5)
            assert [v.field for v in found] == ["options.profile", "options.rerank_scope"]


def test_options_that_say_no_more_than_the_defaults_are_the_defaults() -> None:
    said = pb.RetrieveRequest(options=pb.RetrieveOptions(profile=pb.PROFILE_BALANCED))
    assert read_request(said, []).options is DEFAULT_OPTIONS
    for other in ({"leaf_seeds": 0}, {"score_gte": True}, {"time_budget": {"nanos": 1}}):
        more = pb.RetrieveRequest(options=pb.RetrieveOptions(**other))  # type: ignore[arg-type]
        assert read_request(more, []).options != DEFAULT_OPTIONS


def test_what_cannot_be_read_is_told() -> None:
    found: list[Violation] = []
    message = pb.RetrieveRequest(
        query=pb.Query(vector=context_pb2.Vector()),
        scope=context_pb2.Scope(types=[1, 0, 9]),
        filter=context_pb2.Filter(levels=[0, 1, 7], updated_since=timestamp_pb2.Timestamp(nanos=-1)),
        limit=-1,
        view=99,
        mode=99,
        options=pb.RetrieveOptions(
            profile=99,
            rerank_mode=99,
            rerank_scope=99,
            time_budget=duration_pb2.Duration(seconds=1, nanos=-1),
        ),
        trace_level=99,
    )
    read_request(message, found)
    assert {violation.field: violation.reason for violation in found} == {
        "query.vector": "EMPTY_VECTOR",
        "scope.types[1]": "UNKNOWN_VALUE",
        "scope.types[2]": "UNKNOWN_VALUE",
        "filter.levels[0]": "UNKNOWN_VALUE",
        "filter.levels[2]": "UNKNOWN_VALUE",
        "filter.updated_since": "INVALID_TIME",
        "limit": "OUT_OF_RANGE",
        "view": "UNKNOWN_VALUE",
        "mode": "UNKNOWN_VALUE",
        "options.profile": "UNKNOWN_VALUE",
        "options.rerank_mode": "UNKNOWN_VALUE",
        "options.rerank_scope": "UNKNOWN_VALUE",
        "options.time_budget": "INVALID_DURATION",
        "trace_level": "UNKNOWN_VALUE",
    }


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (context_pb2.Vector(values=[1], packed=b"\0\0\0\0"), "AMBIGUOUS_VECTOR"),
        (context_pb2.Vector(packed=b"\0\0\0"), "INVALID_VECTOR"),
        (context_pb2.Vector(), "EMPTY_VECTOR"),
    ],
)
def test_a_vector_has_exactly_one_form(vector: context_pb2.Vector, reason: str) -> None:
    found: list[Violation] = []
    assert read_vector(vector, "v", found) is None
    assert [violation.reason for violation in found] == [reason]


@given(arrays.arrays(np.float32, st.integers(1, 600), elements=st.floats(width=32)), st.booleans())
def test_both_forms_of_a_vector_give_the_same_numbers(vector: np.ndarray, is_extended: bool) -> None:
    values = context_pb2.Vector(values=vector.tolist())
    packed = context_pb2.Vector(packed=vector.astype("<f4").tobytes())
    if is_extended:  # a field of a newer client, which is kept behind the known ones
        values.MergeFromString(b"\x7a\x06viking")
    for message in (values, packed):
        np.testing.assert_array_equal(read_vector(message, "v", []), vector)


@given(st.integers(0, 2**40), st.integers(0, 999))
def test_a_bound_parts_the_same_microseconds_as_its_nanoseconds(time_us: int, rest_ns: int) -> None:
    bound = timestamp_pb2.Timestamp()
    bound.FromNanoseconds(time_us * 1000 + rest_ns)
    message = pb.RetrieveRequest(query=pb.Query(text="x"), filter=context_pb2.Filter(updated_since=bound))
    since_us = read_request(message, []).filter.updated_since_us
    assert since_us is not None
    for stored_us in (time_us - 1, time_us, time_us + 1):
        assert (stored_us >= since_us) == (stored_us * 1000 >= time_us * 1000 + rest_ns)
