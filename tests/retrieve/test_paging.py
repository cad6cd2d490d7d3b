"""Pages and groups of matches: together the pages are the one long answer, and no group has more than was asked for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.trees import NOW_US
from tests.retrieve.test_oracle import Case
from tests.retrieve.worlds import AXIS, OPERATOR, vector_row
from viking_rpc.domain.context import ContextType, Kind
from viking_rpc.domain.query import Grouping, Mode, Page, Profile, Query, RetrieveOptions, RetrieveRequest, Scope
from viking_rpc.domain.trace import EmptyReason, RetrieveResult
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.records import ChangeSet, NodeRecord
from viking_rpc.index.update import apply_changes
from viking_rpc.retrieve.paging import CUT, MOVED, make_group_of, thin
from viking_rpc.retrieve.retriever import Retrieval

if TYPE_CHECKING:
    from viking_rpc.index.snapshot import Snapshot

EVERYTHING = RetrieveOptions(profile=Profile.EXHAUSTIVE, lexical_weight=0.0)


def answer(snapshot: Snapshot, request: RetrieveRequest) -> RetrieveResult:
    retrieval = Retrieval(snapshot, request, OPERATOR, vector=AXIS, now_us=NOW_US)
    while not retrieval.advance():
        pass
    return retrieval.result()


def uris(result: RetrieveResult) -> list[str]:
    return [match.context.uri for match in result.matches]


def pages(snapshot: Snapshot, request: RetrieveRequest) -> list[RetrieveResult]:
    found = [answer(snapshot, request)]
    while found[-1].has_more:
        told = found[-1]
        page = Page(uris(told)[-1], told.n_before + len(told.matches), told.revision)
        found.append(answer(snapshot, replace(request, page=page)))
    return found


def tree(scores: dict[str, list[float]]) -> Snapshot:
    """Return directories, which have no rows, with files of these own scores."""
    records = [NodeRecord(1, 0, "resources", Kind.DIRECTORY, ContextType.RESOURCE)]
    for name, own in scores.items():
        parent = len(records) + 1
        records.append(NodeRecord(parent, 1, name, Kind.DIRECTORY, ContextType.RESOURCE))
        records += (file(parent + 1 + i, parent, f"{i:03}.md", value) for i, value in enumerate(own))
    return build_snapshot(records, revision=1, dimensions=len(AXIS))


def file(key: int, parent: int, name: str, own: float) -> NodeRecord:
    vector = [own, (1 - own**2) ** 0.5, *([0.0] * (len(AXIS) - 2))]
    return NodeRecord(key, parent, name, Kind.FILE, ContextType.RESOURCE, rows=(vector_row(2, vector),))


@pytest.mark.parametrize("mode", Mode)
def test_pages_together_are_the_one_long_answer(mode: Mode) -> None:
    """Users: letta issues/405. Whatever is asked, ties included: nothing repeats, nothing is missing."""
    n_pages = 0
    for seed in range(0, 90, 3):
        case = Case(seed)
        options = replace(case.options, global_top_k=None, leaf_seeds=None)
        fields = case.fields | {"options": options}
        long = answer(case.snapshot, RetrieveRequest(Query(vector=AXIS), mode=mode, **(fields | {"limit": 1000})))
        for limit in (1, 7):
            found = pages(case.snapshot, RetrieveRequest(Query(vector=AXIS), mode=mode, **(fields | {"limit": limit})))
            assert [uri for page in found for uri in uris(page)] == uris(long)
            assert not any(warning for page in found for warning in page.warnings)
            n_pages = max(n_pages, len(found))
    assert n_pages > 20


def test_two_of_each_source() -> None:
    """Users: issues/3942. Five matches under one source, three under another, two of each wanted."""
    snapshot = tree({"a": [0.9, 0.89, 0.88, 0.87, 0.86], "b": [0.8, 0.79, 0.78]})
    request = RetrieveRequest(Query(vector=AXIS), limit=4, options=EVERYTHING)
    r = "viking://resources"
    assert uris(answer(snapshot, request)) == [f"{r}/a/{i:03}.md" for i in range(4)]
    expected = [f"{r}/a/000.md", f"{r}/a/001.md", f"{r}/b/000.md", f"{r}/b/001.md"]
    for grouping, scope in ((Grouping(2), Scope()), (Grouping(2, 1), Scope((r,))), (Grouping(2, 2), Scope())):
        result = answer(snapshot, replace(request, grouping=grouping, scope=scope))
        assert uris(result) == expected
        assert not result.has_more
        assert result.total_matched == 8


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("grouping", [Grouping(1), Grouping(2), Grouping(1, 2), Grouping(3, 3)])
def test_groups_are_the_best_of_each_in_order(mode: Mode, grouping: Grouping) -> None:
    for seed in range(0, 45, 3):
        case = Case(seed)
        fields = case.fields | {"options": case.options, "limit": 5}
        request = RetrieveRequest(Query(vector=AXIS), mode=mode, **fields)
        long = answer(case.snapshot, replace(request, limit=1000))
        group_of = make_group_of(grouping, long.searched_roots)
        expected = thin(uris(long), group_of, grouping.max_per_group)
        found = pages(case.snapshot, replace(request, grouping=grouping))
        assert [uri for page in found for uri in uris(page)] == expected


@given(st.lists(st.sampled_from("abcd")), st.integers(1, 4))
def test_thinning_keeps_the_first_of_each_group(items: list[str], n: int) -> None:
    kept = thin(items, str, n)
    assert Counter(kept) == {item: min(n, count) for item, count in Counter(items).items()}
    assert thin(kept, str, n) == kept


def test_one_source_that_fills_all_candidates_is_told() -> None:
    snapshot = tree({"a": [0.9 - i / 1000 for i in range(600)], "b": [0.1]})
    request = RetrieveRequest(Query(vector=AXIS), limit=4, options=EVERYTHING, grouping=Grouping(1))
    result = answer(snapshot, request)
    assert uris(result) == ["viking://resources/a/000.md"]
    assert [warning.reason for warning in result.warnings] == [CUT]


def test_a_page_of_another_state_says_so_and_goes_on() -> None:
    snapshot = tree({"a": [0.9, 0.8, 0.7, 0.6]})
    request = RetrieveRequest(Query(vector=AXIS), limit=2, options=EVERYTHING)
    first = answer(snapshot, request)
    page = Page(uris(first)[-1], 2, first.revision)
    written = apply_changes(snapshot, ChangeSet(2, (file(50, 2, "new.md", 0.95),), ()))
    second = answer(written, replace(request, page=page))
    assert uris(second) == ["viking://resources/a/002.md", "viking://resources/a/003.md"]
    assert [warning.reason for warning in second.warnings] == [MOVED]
    without = apply_changes(snapshot, ChangeSet(2, (), (4,)))  # the last one that was told is gone
    assert uris(answer(without, replace(request, page=page))) == ["viking://resources/a/003.md"]


def test_a_page_behind_the_last_one_is_empty_for_no_other_reason() -> None:
    snapshot = tree({"a": [0.9, 0.8]})
    request = RetrieveRequest(
        Query(vector=AXIS), limit=2, options=EVERYTHING, page=Page("viking://resources/a/001.md", 2, 1)
    )
    result = answer(snapshot, request)
    assert (result.matches, result.empty_reason, result.has_more) == ((), EmptyReason.NONE, False)
