"""Few contexts of a type are found without a look at all the others, and found as well."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from tests.retrieve.test_oracle import N_WORLDS, Case
from tests.retrieve.worlds import AXIS, OPERATOR, Answered, lay_out, make_account, run
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.query import Mode, Profile, Query, RetrieveOptions, RetrieveRequest, Scope
from viking_rpc.domain.trace import EmptyReason
from viking_rpc.index import narrowing
from viking_rpc.retrieve.retriever import SearchSettings

#: Every place is narrowed, however small.
ALWAYS = SearchSettings(max_exact_rows=0)
TYPES = [frozenset(some) for n in (1, 2) for some in combinations(ContextType, n)]


def ask(case: Case, types: frozenset[ContextType], mode: Mode, settings: SearchSettings | None) -> Answered:
    scope = Scope(case.fields["scope"].target_uris, types)
    request = RetrieveRequest(
        Query(vector=AXIS), mode=mode, **(case.fields | {"options": case.options, "scope": scope})
    )
    return run(case.snapshot, request, OPERATOR, settings=settings)


@pytest.mark.parametrize("mode", Mode)
def test_the_answer_is_that_of_a_look_at_everything(mode: Mode) -> None:
    n_saved = n_found = 0
    reasons = set()
    for seed in range(0, N_WORLDS, 2):
        case = Case(seed)
        types = TYPES[seed // 2 % len(TYPES)]
        expected, narrowed = ask(case, types, mode, None).result, ask(case, types, mode, ALWAYS).result
        assert [(m.score, m.context.uri, m.parts) for m in narrowed.matches] == [
            (m.score, m.context.uri, m.parts) for m in expected.matches
        ]
        assert narrowed.searched_roots == expected.searched_roots
        assert narrowed.total_matched == expected.total_matched
        assert narrowed.best_below_threshold == expected.best_below_threshold
        assert narrowed.empty_reason is expected.empty_reason
        assert narrowed.stats.rows_scored <= expected.stats.rows_scored
        n_saved += narrowed.stats.rows_scored < expected.stats.rows_scored
        n_found += len(narrowed.matches)
        reasons.add(narrowed.empty_reason)
    assert n_saved > N_WORLDS // 8
    assert n_found > N_WORLDS // 2
    assert {EmptyReason.FILTERED_OUT, EmptyReason.NO_CONTEXTS} <= reasons


def test_a_type_that_nothing_has_costs_no_look_at_anything() -> None:
    world = {
        path: replace(context, type=ContextType.MEMORY if context.type == ContextType.SKILL else context.type)
        for path, context in make_account(1, 40).items()
    }
    scope = Scope((), frozenset({ContextType.SKILL}))
    result = run(lay_out(world), identity=OPERATOR, settings=ALWAYS, scope=scope).result
    assert result.stats.rows_scored == 0
    assert result.stats.n_expanded == 0
    assert result.empty_reason is EmptyReason.FILTERED_OUT
    assert result.searched_roots == ("viking://",)


def test_many_contexts_of_a_type_are_left_to_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(2)
    types = frozenset({ContextType.RESOURCE})
    narrowed = ask(case, types, Mode.THINKING, ALWAYS).result
    monkeypatch.setattr(narrowing, "MAX_NODES", 0)
    case.snapshot.memo.clear()
    as_ever = ask(case, types, Mode.THINKING, ALWAYS).result
    assert as_ever.stats.rows_scored == ask(case, types, Mode.THINKING, None).result.stats.rows_scored
    assert as_ever.stats.rows_scored > narrowed.stats.rows_scored


def test_classic_opens_what_the_published_algorithm_opens() -> None:
    case = Case(3)
    fields = {"scope": Scope((), frozenset({ContextType.SKILL})), "options": RetrieveOptions(profile=Profile.CLASSIC)}
    usual, always = (run(case.snapshot, identity=OPERATOR, settings=one, **fields).result for one in (None, ALWAYS))
    assert always.stats.rows_scored == usual.stats.rows_scored
