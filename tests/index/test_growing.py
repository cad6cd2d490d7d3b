"""Arrays that grow: older states keep what they had, whoever goes on from them."""

from __future__ import annotations

import numpy as np
import pytest

from viking_rpc.index.growing import Growing


def test_older_views_keep_what_they_had() -> None:
    growing = Growing.of(np.arange(3))
    for view in [growing.view(), *(growing.append(np.array([i]), i) for i in range(3, 3000))]:
        assert np.array_equal(view, np.arange(len(view)))
        assert not view.flags.writeable


def test_two_states_that_follow_the_same_one_do_not_meet() -> None:
    """An update that failed half-way leaves entries behind; the next one starts where the state before it ended."""
    growing = Growing.of(np.arange(3))
    base = growing.append(np.array([3]), 3)
    failed = growing.append(np.array([7, 8]), 4)
    following = growing.append(np.array([4]), 4)
    assert growing.append(np.array([5]), 5).tolist() == [0, 1, 2, 3, 4, 5]
    assert (base.tolist(), failed.tolist(), following.tolist()) == ([0, 1, 2, 3], [0, 1, 2, 3, 7, 8], [0, 1, 2, 3, 4])


@pytest.mark.parametrize("n", [0, 1])
def test_a_read_only_buffer_is_left_alone(n: int) -> None:
    loaded = np.arange(3)
    loaded.flags.writeable = False
    growing = Growing.of(loaded)
    assert growing.append(np.arange(n), 3).tolist() == [0, 1, 2, *range(n)]
