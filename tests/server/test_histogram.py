"""Percentiles from buckets, against percentiles of the durations themselves."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from viking_rpc.server.histogram import (
    LAST,
    LEAST_US,
    MAX_RATIO,
    N_BUCKETS,
    PER_DOUBLING,
    bucket_of,
    cumulated,
    percentile_us,
    upper_us,
)

DURATIONS = st.lists(st.floats(0, upper_us(LAST - 1)), min_size=1, max_size=60)
SHARES = st.floats(0.001, 1.0)


def counted(durations: list[float]) -> np.ndarray:
    return np.bincount([bucket_of(one) for one in durations], minlength=N_BUCKETS).astype(np.int64)


def true_percentile(durations: list[float], share: float) -> float:
    """Return the least duration that so large a share does not exceed."""
    ordered = sorted(durations)
    return next(one for i, one in enumerate(ordered) if i + 1 >= share * len(ordered))


@given(DURATIONS, SHARES)
@example([1.0, 2.0], 0.5)
@example([LEAST_US], 1.0)
def test_a_percentile_is_off_by_no_more_than_it_says(durations: list[float], share: float) -> None:
    told, true = percentile_us(counted(durations), share), true_percentile(durations, share)
    if true <= LEAST_US:
        assert abs(told - true) <= LEAST_US / 2
    else:
        assert true / MAX_RATIO / 1.000001 <= told <= true * MAX_RATIO * 1.000001
    assert MAX_RATIO < 1.0911


@given(DURATIONS, DURATIONS, SHARES)
def test_counts_of_two_processes_add_up(some: list[float], others: list[float], share: float) -> None:
    assert percentile_us(counted(some) + counted(others), share) == percentile_us(counted(some + others), share)


@given(st.floats(0, 1e9))
def test_a_duration_lies_in_its_bucket(duration: float) -> None:
    bucket = bucket_of(duration)
    assert duration <= upper_us(bucket) * 1.000001
    assert bucket == 0 or duration > upper_us(bucket - 1) / 1.000001


@pytest.mark.parametrize(
    ("duration", "bucket"), [(0.0, 0), (-1.0, 0), (math.nan, 0), (LEAST_US, 0), (1000.0, 40), (1e12, LAST)]
)
def test_edges(duration: float, bucket: int) -> None:
    assert bucket_of(duration) == bucket


def test_nothing_and_what_takes_too_long() -> None:
    assert percentile_us(np.zeros(N_BUCKETS, np.int64), 0.5) == 0.0
    assert percentile_us(counted([1e12]), 0.5) == upper_us(LAST - 1)


@given(DURATIONS)
def test_bounds_for_prometheus_count_what_is_at_most_as_long(durations: list[float]) -> None:
    told = cumulated(counted(durations))
    assert told[-1] == (math.inf, len(durations))
    bounds = [bound for bound, _ in told[:-1]]
    assert 0.001 in bounds
    assert all(after == pytest.approx(2 * before) for before, after in itertools.pairwise(bounds))
    for bound, n in told[:-1]:
        at_most = sum(one <= bound * 1e6 * 0.999999 for one in durations)
        assert at_most <= n <= sum(one <= bound * 1e6 * 1.000001 for one in durations)
    assert PER_DOUBLING == 4
