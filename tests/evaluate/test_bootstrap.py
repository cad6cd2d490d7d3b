"""Resamples are what drawing rows one by one gives, paired over columns, and the same for the same seed."""

from __future__ import annotations

import numpy as np

from viking_rpc.evaluate.bootstrap import Estimate, estimate, resampled_means


def test_resamples_are_means_of_drawn_rows() -> None:
    values = np.random.default_rng(1).random((7, 3))
    found = resampled_means(values, n_resamples=5, seed=3)
    drawn = np.random.default_rng(3).integers(0, 7, (5, 7))
    assert np.allclose(found, values[drawn].mean(axis=1))


def test_a_difference_of_equal_columns_is_nothing_in_every_resample() -> None:
    one = np.random.default_rng(1).random(40)
    found = resampled_means(np.stack([one, one + 0.25], axis=1), n_resamples=100)
    assert np.allclose(found[:, 1] - found[:, 0], 0.25)


def test_resamples_repeat_by_seed() -> None:
    values = np.random.default_rng(1).random((30, 2))
    assert np.array_equal(resampled_means(values, seed=(4, 1)), resampled_means(values, seed=(4, 1)))
    assert not np.array_equal(resampled_means(values, seed=(4, 1)), resampled_means(values, seed=(4, 2)))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(2)
    n_held = 0
    for i in range(200):
        values = rng.random((60, 1))
        found = estimate(values.mean(), resampled_means(values, n_resamples=400, seed=i)[:, 0])
        n_held += found.low <= 0.5 <= found.high
    assert 178 <= n_held <= 198  # 95 % of 200, three deviations and the few queries' shortfall


def test_an_estimate_that_may_be_nothing_is_noise() -> None:
    assert Estimate(0.1, -0.01, 0.2).is_noise
    assert Estimate(0.1, 0.0, 0.2).is_noise
    assert not Estimate(0.1, 0.01, 0.2).is_noise
    assert not Estimate(-0.1, -0.2, -0.01).is_noise
