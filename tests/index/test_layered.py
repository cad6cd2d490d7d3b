"""Dictionaries in two layers: as if copied, whatever was updated when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from viking_rpc.index.layered import Layered
from viking_rpc.index.records import ChangeSet, NodeRecord, merged

CHANGES = st.lists(st.dictionaries(st.integers(0, 400), st.integers(0, 9), max_size=90), max_size=12)


@given(st.dictionaries(st.integers(0, 400), st.integers(0, 9), max_size=50), CHANGES)
def test_every_state_equals_a_copied_dictionary(first: dict[int, int], changes: list[dict[int, int]]) -> None:
    states = [(Layered(first), dict(first))]
    for change in changes:
        layered, copied = states[-1]
        states.append((layered.updated(change), copied | change))
    for layered, copied in states:  # the older ones too
        assert {key: layered.get(key) for key in layered} == copied
        assert len(layered) == len(copied) == len(list(layered))
        assert all((key in layered) == (key in copied) for key in range(401))
        assert layered.get(401) is None
        assert layered.get(401, 7) == 7


def record(key: int, count: int = 0) -> NodeRecord:
    return NodeRecord(key, 0, f"n{key}", 2, 1, active_count=count)  # type: ignore[arg-type]


def test_change_sets_merge_to_their_last_word() -> None:
    one = merged(
        [
            ChangeSet(4, (record(1), record(2), record(3)), (9,), ((7, 1), (8, 1))),
            ChangeSet(5, (record(7, 5),), (2,), ((8, 2), (1, 3))),
            ChangeSet(6, (record(3, 4),), (8,), ((7, 6),)),
        ]
    )
    assert one.revision == 6
    assert [(r.key, r.active_count) for r in one.upserted] == [(1, 0), (3, 4), (7, 5)]
    assert set(one.deleted_keys) == {9, 2, 8}
    assert dict(one.touched) == {1: 3, 7: 6}
