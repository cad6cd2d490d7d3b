"""Errors become statuses that a client can read, and never too large ones."""

from __future__ import annotations

import pytest
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from tests.server.details import detail
from viking_rpc.errors import (
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
    VikingError,
    Violation,
)
from viking_rpc.server.status import to_status

#: What a client takes by default, trailers and their names together.
CLIENT_LIMIT = 8 * 1024


def test_every_error_has_an_error_info_with_its_metadata() -> None:
    status = to_status(NotFoundError("CONTEXT_NOT_FOUND", "viking://a does not exist", {"uri": "viking://a"}))
    info = detail(status, error_details_pb2.ErrorInfo)
    assert (status.code, status.message) == (5, "viking://a does not exist")
    assert info == error_details_pb2.ErrorInfo(
        reason="CONTEXT_NOT_FOUND", domain="viking-rpc", metadata={"uri": "viking://a"}
    )
    assert detail(status, error_details_pb2.BadRequest) is None
    assert detail(status, error_details_pb2.RetryInfo) is None


def test_all_violations_are_told_in_their_order() -> None:
    error = InvalidArgumentError.of([Violation("a", "x", "X"), Violation("b.c[1]", "y", "Y")])
    found = detail(to_status(error), error_details_pb2.BadRequest)
    assert found is not None
    assert [(v.field, v.description, v.reason) for v in found.field_violations] == [
        ("a", "x", "X"),
        ("b.c[1]", "y", "Y"),
    ]


@pytest.mark.parametrize(
    ("error", "seconds", "nanos"),
    [
        (UnavailableError("X", "x"), 1, 0),
        (UnavailableError("X", "x", retry_after_s=2.5), 2, 500_000_000),
        (ResourceExhaustedError("X", "x", retry_after_s=0.1), 0, 100_000_000),
    ],
)
def test_retry_info_is_there_when_a_retry_helps(error: VikingError, seconds: int, nanos: int) -> None:
    retry = detail(to_status(error), error_details_pb2.RetryInfo)
    assert retry is not None
    assert (retry.retry_delay.seconds, retry.retry_delay.nanos) == (seconds, nanos)


def test_resource_exhausted_without_a_delay_does_not_ask_for_a_retry() -> None:
    assert detail(to_status(ResourceExhaustedError("DISK_FULL", "x")), error_details_pb2.RetryInfo) is None


def test_of_very_many_violations_the_last_one_counts_the_rest() -> None:
    error = InvalidArgumentError.of(Violation(f"contexts[{i}].uri", "is bad", "INVALID_URI") for i in range(256))
    found = detail(to_status(error), error_details_pb2.BadRequest)
    assert found is not None
    *told, rest = found.field_violations
    assert [v.field for v in told] == [f"contexts[{i}].uri" for i in range(len(told))]
    assert rest.reason == "MORE_VIOLATIONS"
    assert str(256 - len(told)) in rest.description


TEXTS = st.text(st.characters(codec="utf-8"), max_size=3000) | st.just("\ud800") | st.just("\u4e2d" * 3000)


@given(
    message=TEXTS,
    metadata=st.dictionaries(st.sampled_from(["uri", "user", "account"]), TEXTS),
    violations=st.lists(st.builds(Violation, TEXTS, TEXTS, st.just("INVALID_VALUE")), max_size=300),
)
def test_a_status_always_fits_into_a_client_s_trailers(
    message: str, metadata: dict[str, str], violations: list[Violation]
) -> None:
    status = to_status(InvalidArgumentError("X", message, metadata, tuple(violations)), "0" * 16)
    encoded = status.SerializeToString()
    n_message = sum(1 if 0x20 <= byte <= 0x7E and byte != 0x25 else 3 for byte in status.message.encode())
    assert n_message + len(encoded) * 4 / 3 < CLIENT_LIMIT - 256
    assert status_pb2.Status.FromString(encoded).details
