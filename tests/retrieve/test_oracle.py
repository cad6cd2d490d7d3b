"""The whole pipeline against naive searches over 200 random accounts: same matches, scores, counts and reasons."""

from __future__ import annotations

from random import Random

import pytest

from tests.kernels.trees import NOW_US, OLD_US
from tests.oracle import model
from tests.oracle.conditions import is_in_scope, is_visible
from tests.oracle.flat import ranked, scan_nodes
from tests.oracle.scores import passes
from tests.oracle.walk import Walk, exhaustive
from tests.retrieve.worlds import AXIS, OPERATOR, Answered, grow, lay_out, make_account, run, uri_text
from viking_rpc.domain.context import ContextType, Level
from viking_rpc.domain.query import Filter, Mode, Profile, Query, RetrieveOptions, RetrieveRequest, Scope, TraceLevel
from viking_rpc.domain.trace import EmptyReason, StopReason

N_WORLDS = 200
QUESTION = model.Question(tuple(AXIS.tolist()))
ALL_TYPES = frozenset(map(int, ContextType))


class Case:
    """One random account and request, and what the oracle reads of it."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.seed = seed
        self.world = make_account(seed, 40)
        places = sorted(path for path in self.world if path)
        visible = [p for p in places if is_visible(self.world, p, model.Conditions(now_us=NOW_US))]
        targets = random.sample(visible, random.randrange(4)) if random.random() < 0.7 else []
        excluded = random.sample(places, random.randrange(3))
        roots = targets or [()]
        # a root inside another one is the other's, unless it is a session that only its own name opens
        kept = [r for r in dict.fromkeys(roots) if not any(_holds(other, r) for other in roots if other != r)]
        sessions = {("user", "me", "sessions"), ("user", "you", "sessions")} & set(self.world)
        hidden = {session for session in sessions if not any(root[:3] == session for root in kept)}
        levels = random.choice([(), (), (0, 1), (2,), (0,), (1, 2)])
        types = frozenset(random.sample(sorted(ContextType), 2)) if random.random() < 0.3 else frozenset()
        tags = frozenset(tag for tag in range(4) if random.random() < 0.1)
        updated = random.choice([(None, None), (None, None), (OLD_US, NOW_US), (OLD_US + 1, None)])
        created = random.choice([(None, None), (None, None), (5, 6)])
        is_filtered = random.random() < 0.6
        if not is_filtered:
            types, tags, updated, created = frozenset(), frozenset(), (None, None), (None, None)
        self.roots = [r for r in kept if not any(r[: len(out)] == out for out in excluded)]
        self.conditions = model.Conditions(
            included=frozenset(self.roots),
            excluded=frozenset(set(excluded) | hidden),
            tags=tags,
            types=frozenset(map(int, types)) or ALL_TYPES,
            levels=frozenset(levels) or frozenset(range(3)),
            updated=(updated[0] or -(2**62), updated[1] or 2**62),
            created=(created[0] or -(2**62), created[1] or 2**62),
            now_us=NOW_US,
        )
        self.everything = model.Conditions(included=frozenset(kept), excluded=frozenset(hidden))
        alpha = random.choice([0.0, 0.25, 0.5, 0.75, 1.0])
        threshold = random.choice([None, None, 0.0, 0.125, 0.25, 0.6])
        self.rules = model.Rules(
            alpha=(alpha,) * 4,
            threshold=float("-inf") if threshold is None else threshold,
            is_gte=random.random() < 0.5,
            hotness_alpha=random.choice([0.0, 0.0, 0.25]),
        )
        self.limit = random.choice([1, 5, 20, 200])
        self.options = RetrieveOptions(
            score_threshold=threshold,
            score_gte=self.rules.is_gte,
            score_propagation_alpha=alpha,
            hotness_alpha=self.rules.hotness_alpha,
            lexical_weight=0.0,
            global_top_k=random.choice([None, 0, 3]),
            leaf_seeds=random.choice([None, 0, 3]),
            parallelism=random.choice([1, 4, 7]),
            convergence_rounds=0,
        )
        self.fields = {
            "scope": Scope(tuple(map(uri_text, targets)), types),
            "filter": Filter(
                tags={f"tag{tag}": "x" for tag in tags},
                levels=frozenset(map(Level, levels)),
                updated_since_us=updated[0],
                updated_before_us=updated[1],
                created_since_us=created[0],
                created_before_us=created[1],
                exclude_uris=tuple(map(uri_text, excluded)),
            ),
            "limit": self.limit,
        }
        self.snapshot = grow(seed, self.world) if seed % 3 else lay_out(self.world)
        self.walk: Walk = exhaustive(self.world, QUESTION, self.conditions, self.rules, self.roots)

    def run(self, mode: Mode = Mode.THINKING, **changes: object) -> Answered:
        request = RetrieveRequest(
            query=Query(vector=AXIS), mode=mode, **(self.fields | {"options": self.options} | changes)
        )
        return run(self.snapshot, request, OPERATOR)


def _holds(other: model.Path, root: model.Path) -> bool:
    if root[: len(other)] != other:
        return False
    is_session = root[:1] == ("user",) and root[2:3] == ("sessions",)
    return not is_session or len(other) > 2


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [Case(seed) for seed in range(N_WORLDS)]


def expected_reason(case: Case, *, n_found: int, n_cut: int) -> EmptyReason:
    if n_found:
        return EmptyReason.NONE
    if n_cut:
        return EmptyReason.BELOW_THRESHOLD
    is_held = any(
        context.rows and is_visible(case.world, path, case.conditions) and is_in_scope(path, case.everything)
        for path, context in case.world.items()
    )
    return EmptyReason.FILTERED_OUT if is_held else EmptyReason.NO_CONTEXTS


def test_descent_with_open_budgets_finds_what_recursion_finds(cases: list[Case]) -> None:
    for case in cases:
        answered = case.run()
        result = answered.result
        assert answered.ranking == [(score, uri_text(path)) for score, path in case.walk.top(case.limit)]
        assert result.stats.stop_reason is StopReason.EXHAUSTED
        assert result.total_matched == len(case.walk.found)
        assert result.best_below_threshold == (max(case.walk.cut.values()) if case.walk.cut else None)
        assert result.empty_reason is expected_reason(case, n_found=len(case.walk.found), n_cut=len(case.walk.cut))


def test_exhaustive_equals_open_balanced(cases: list[Case]) -> None:
    for case in cases:
        options = RetrieveOptions(
            **{
                **{name: getattr(case.options, name) for name in case.options.__dataclass_fields__},
                "profile": Profile.EXHAUSTIVE,
                "convergence_rounds": None,
            }
        )
        assert case.run(options=options).ranking == case.run().ranking


def test_quick_finds_what_a_flat_scan_finds(cases: list[Case]) -> None:
    for case in cases:
        result = (answered := case.run(Mode.QUICK)).result
        matches = scan_nodes(case.world, QUESTION, case.conditions, len(case.world), 0).matches
        passing = [entry for entry in matches if passes(entry[0], case.rules)]
        cut = [score for score, _ in matches if not passes(score, case.rules)]
        expected = [(score, uri_text(path)) for score, path in ranked(passing, case.limit)]
        assert answered.ranking == expected
        assert result.total_matched == len(passing)
        assert result.best_below_threshold == (max(cut) if cut else None)
        assert result.empty_reason is expected_reason(case, n_found=len(passing), n_cut=len(cut))
        assert result.stats.stop_reason is None
        assert result.stats.seed_path == "exact"


def test_a_grown_tree_answers_as_one_laid_out_at_once(cases: list[Case]) -> None:
    """With the defaults' early stop, too: the same steps, whatever is fresh; alpha is given, as its fit is a layout's."""
    options = RetrieveOptions(score_propagation_alpha=0.5)
    for case in cases:
        if case.seed % 3 == 0:
            continue
        request = RetrieveRequest(Query(vector=AXIS), trace_level=TraceLevel.STEPS, options=options, **case.fields)
        grown, whole = run(case.snapshot, request), run(lay_out(case.world), request)
        assert grown.ranking == whole.ranking
        assert [(step.uri, step.score, step.n_kept) for step in grown.result.steps] == [
            (step.uri, step.score, step.n_kept) for step in whole.result.steps
        ]
        assert grown.result.stats.stop_reason is whole.result.stats.stop_reason


def test_the_cases_cover_what_they_should(cases: list[Case]) -> None:
    reasons = {case.run().result.empty_reason for case in cases}
    assert reasons == {EmptyReason.NONE, EmptyReason.NO_CONTEXTS, EmptyReason.FILTERED_OUT, EmptyReason.BELOW_THRESHOLD}
    assert sum(len(case.roots) > 1 for case in cases) > 20
    assert sum(bool(case.walk.cut) for case in cases) > 20
    assert sum(not case.roots for case in cases) > 0
    assert sum(len({score for score, _ in case.walk.top(200)}) < len(case.walk.top(200)) for case in cases) > 50


def test_repeats_are_identical(cases: list[Case]) -> None:
    case = max(cases, key=lambda case: len(case.walk.found) - len(set(case.walk.found.values())))
    for mode in Mode:
        first = case.run(mode, trace_level=TraceLevel.SCORES).result
        for _ in range(100):
            again = case.run(mode, trace_level=TraceLevel.SCORES).result
            assert again.matches == first.matches
            assert [(s.uri, s.score, s.round, s.child_scores) for s in again.steps] == [
                (s.uri, s.score, s.round, s.child_scores) for s in first.steps
            ]


def test_the_answer_is_consistent_in_itself(cases: list[Case]) -> None:
    for case in cases:
        result = case.run(trace_level=TraceLevel.SCORES, options=RetrieveOptions(lexical_weight=0.0)).result
        stats, steps = result.stats, result.steps
        assert [step.index for step in steps] == list(range(stats.n_expanded))
        assert [step.round for step in steps] == sorted(step.round for step in steps)
        assert stats.n_rounds == (steps[-1].round + 1 if steps else 0)
        assert len({step.uri for step in steps}) == len(steps)
        for level in stats.levels:
            here = [step for step in steps if step.depth == level.depth]
            assert (level.n_expanded, level.n_rows, level.n_kept) == (
                len(here),
                sum(step.n_scored for step in here),
                sum(step.n_kept for step in here),
            )
        assert sum(level.n_expanded for level in stats.levels) == stats.n_expanded
        assert stats.rows_scored >= sum(level.n_rows for level in stats.levels)
        for step in steps:
            assert len(step.child_scores) <= step.n_scored
            assert sum(child.is_kept for child in step.child_scores) == step.n_kept
        for match in result.matches:
            parent, _, _ = match.context.uri.rpartition("/")
            assert [above.uri for above in match.ancestors] == [
                match.context.uri[:i] for i, c in enumerate(match.context.uri) if c == "/" and i > len("viking://")
            ]
            if match.step_index is not None:
                step = steps[match.step_index]
                assert step.uri == (parent if len(parent) > len("viking://") else "viking://")
                kept = [child for child in step.child_scores if child.uri == match.context.uri and child.is_kept]
                assert [(child.level, child.own, child.relevance) for child in kept] == [
                    (match.level, match.parts.own, match.parts.relevance)
                ]
                assert match.parts.parent == step.score


def test_thinking_finds_no_less_than_quick(cases: list[Case]) -> None:
    """Whatever QUICK has in its top, the descent has seen too, when it takes as many leaf seeds."""
    for case in cases:
        open_limit = {"limit": 200, "filter": case.fields["filter"]}
        options = RetrieveOptions(lexical_weight=0.0, leaf_seeds=case.limit, convergence_rounds=1)
        quick = {uri for _, uri in case.run(Mode.QUICK, options=options).ranking}
        thinking = {uri for _, uri in case.run(options=options, **open_limit).ranking}
        assert quick <= thinking
