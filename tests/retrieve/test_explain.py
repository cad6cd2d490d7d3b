"""Explanations over random accounts: the answer's own numbers along the path, and a verdict that the answer bears out."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.kernels.trees import NOW_US
from tests.retrieve.worlds import AXIS, ME, OPERATOR, grow, lay_out, make_account, uri_text
from viking_rpc.domain.context import Level
from viking_rpc.domain.explain import Explanation, Verdict
from viking_rpc.domain.query import Filter, Mode, Profile, Query, RetrieveOptions, RetrieveRequest, Scope
from viking_rpc.domain.trace import Match, ScoreParts, StopReason
from viking_rpc.domain.uri import Uri
from viking_rpc.errors import NotFoundError
from viking_rpc.retrieve.explain import Explainer, exhaustive, traced
from viking_rpc.retrieve.path_scores import PathScores
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.retrieve.workings import Workings, rank_of

if TYPE_CHECKING:
    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.index.snapshot import Snapshot

SEEDS = range(14)
NARROW = RetrieveOptions(global_top_k=0, leaf_seeds=0, parallelism=1, convergence_rounds=1)
PROFILES = [
    RetrieveOptions(),
    NARROW,
    RetrieveOptions(hotness_alpha=0.25, score_propagation_alpha=0.5),
    RetrieveOptions(profile=Profile.CLASSIC, score_propagation_alpha=0.5),
]


class Asked:
    """A request that was run with everything recorded."""

    def __init__(self, snapshot: Snapshot, request: RetrieveRequest, identity: Identity = OPERATOR) -> None:
        self.snapshot, self.request, self.identity = snapshot, traced(request), identity
        retrieval = self._run(self.request)
        self.workings: Workings = retrieval.workings()
        self.result: RetrieveResult = retrieval.result()
        self._everything: Workings | None = None

    def _run(self, request: RetrieveRequest) -> Retrieval:
        vector = request.query.vector
        retrieval = Retrieval(self.snapshot, request, self.identity, vector=vector, now_us=NOW_US)
        while not retrieval.advance():
            pass
        return retrieval

    def exhaustive_rank(self, uri: str) -> int:
        """Return a context's rank when all is searched."""
        if self._everything is None:
            self._everything = self._run(exhaustive(self.request, self.snapshot)).workings()
        return rank_of(self._everything, self.snapshot.find(Uri.from_canonical(uri)))

    def explain(self, uri: str) -> Explanation:
        """Explain one context."""
        asked = (self.snapshot, self.request, self.identity, NOW_US, Uri.from_canonical(uri))
        return Explainer(*asked, self.workings, self.result).explain(self.exhaustive_rank(uri))


def ask(snapshot: Snapshot, identity: Identity = OPERATOR, **fields: Any) -> Asked:
    """Ask along the axis."""
    fields.setdefault("query", Query(vector=AXIS))
    return Asked(snapshot, RetrieveRequest(**fields), identity)


def close(one: ScoreParts | None, other: ScoreParts) -> None:
    """Hold two sets of parts against each other."""
    assert one is not None
    for name in ("own", "relevance", "dense", "lexical", "parent", "hotness"):
        ours, theirs = getattr(one, name), getattr(other, name)
        assert (ours is None) == (theirs is None), name
        assert ours is None or ours == pytest.approx(theirs, abs=1e-6), name


@pytest.mark.parametrize("options", PROFILES[:3])
@pytest.mark.parametrize("mode", Mode)
def test_scores_along_the_path_are_the_answers(mode: Mode, options: RetrieveOptions) -> None:
    """users.md 55 (issue 43): what an explanation says of a score is what the answer says, with and without its record."""
    n_checked = 0
    for seed in SEEDS:
        snapshot = grow(seed, make_account(seed, 40), has_words=True)
        levels = Random(seed).choice([frozenset(), frozenset({Level.DETAIL}), frozenset({Level.ABSTRACT})])
        query = Query(vector=AXIS, lexical_text="apple ERR-4711" if seed % 2 else "")
        asked = ask(snapshot, query=query, limit=200, mode=mode, options=options, filter=Filter(levels=levels))
        for match in asked.result.matches:
            node = snapshot.find(Uri.from_canonical(match.context.uri))
            for record in (asked.workings.record, None):
                workings = asked.workings._replace(record=record)
                scores = PathScores(snapshot, asked.request, workings)
                close(scores.along(snapshot.path(node), 0)[-1].parts, match.parts)
            n_checked += 1
    assert n_checked > 100


@pytest.mark.parametrize("options", PROFILES)
@pytest.mark.parametrize("mode", Mode)
def test_verdicts_are_borne_out_by_the_answer(mode: Mode, options: RetrieveOptions) -> None:
    seen = set()
    for seed in SEEDS:
        snapshot = lay_out(make_account(seed, 40))
        random = Random(seed)
        threshold = random.choice([None, 0.25])
        excluded = (uri_text(("resources",)),) if random.random() < 0.2 else ()
        asked = ask(
            snapshot,
            limit=random.choice([1, 3, 200]),
            mode=mode,
            options=replace(options, score_threshold=threshold),
            filter=Filter(
                exclude_uris=excluded, levels=frozenset({Level.DETAIL}) if random.random() < 0.3 else frozenset()
            ),
        )
        returned = {match.context.uri: rank for rank, match in enumerate(asked.result.matches, 1)}
        for node in range(1, snapshot.n_nodes):
            uri = snapshot.uri(node)
            told = asked.explain(uri)
            seen.add(told.verdict)
            assert (told.verdict is Verdict.RETURNED) == (uri in returned)
            assert told.rank == returned.get(uri, 0)
            last = told.path[-1]
            assert last.uri == uri
            if told.verdict is Verdict.BELOW_THRESHOLD:
                assert last.parts is not None
                cut = 0.0 if threshold is None else threshold
                assert last.parts.relevance <= cut
            if told.verdict is Verdict.OUTRANKED and mode is Mode.THINKING and options.hotness_alpha is None:
                assert last.parts is not None
                assert last.parts.relevance <= asked.result.matches[-1].score + 1e-6
            if told.verdict is Verdict.NOT_INDEXED:
                assert last.parts is None
            if told.verdict is Verdict.NOT_REACHED:
                assert told.blocked_uri
                assert uri.startswith(f"{told.blocked_uri}/")
                way = {step.uri: step for step in told.path}
                assert options.profile is Profile.CLASSIC or not way[told.blocked_uri].is_expanded
            if told.verdict in {Verdict.NOT_INDEXED, Verdict.FILTERED_OUT, Verdict.OUT_OF_SCOPE}:
                assert told.exhaustive_rank == 0
            assert told.summary.endswith(".")
            assert "\n" not in told.summary
    expected = {Verdict.RETURNED, Verdict.OUTRANKED, Verdict.BELOW_THRESHOLD, Verdict.FILTERED_OUT, Verdict.NOT_INDEXED}
    assert expected <= seen
    if options == NARROW and mode is Mode.THINKING:
        assert Verdict.NOT_REACHED in seen


@pytest.mark.parametrize("seed", range(10))
def test_the_exhaustive_rank_is_that_of_a_search_of_everything(seed: int) -> None:
    snapshot = grow(seed, make_account(seed, 40))
    asked = ask(snapshot, limit=2, options=NARROW)
    everything = ask(snapshot, limit=1000, options=RetrieveOptions(profile=Profile.EXHAUSTIVE)).result.matches
    rank_of_uri = {match.context.uri: rank for rank, match in enumerate(everything, 1)}
    for node in range(1, snapshot.n_nodes):
        uri = snapshot.uri(node)
        if not snapshot.tree.is_gone[node] and snapshot.find(Uri.from_canonical(uri)) == node:
            assert asked.explain(uri).exhaustive_rank == rank_of_uri.get(uri, 0)


def test_steps_say_when_a_directory_was_opened() -> None:
    for seed in range(10):
        asked = ask(lay_out(make_account(seed, 40)), limit=3)
        step_of = {step.uri: step for step in asked.result.steps}
        for match in asked.result.matches:
            for on_the_way in asked.explain(match.context.uri).path:
                step = step_of.get(on_the_way.uri)
                assert on_the_way.is_expanded == (step is not None)
                if step is not None:
                    assert (on_the_way.step_index, on_the_way.round) == (step.index, step.round)


def test_siblings_are_ranked_by_relevance() -> None:
    for seed in range(10):
        snapshot = lay_out(make_account(seed, 40))
        asked = ask(snapshot, limit=1000, options=RetrieveOptions(profile=Profile.EXHAUSTIVE))
        families: dict[str, list[Match]] = {}
        for match in asked.result.matches:
            families.setdefault(match.context.uri.rpartition("/")[0], []).append(match)
        for family in families.values():
            told = [asked.explain(match.context.uri).path[-1] for match in family]
            assert [step.sibling_rank for step in told] == list(range(1, len(family) + 1))
            assert {step.sibling_count for step in told} == {len(family)}


def test_what_is_not_searched_is_out_of_scope() -> None:
    snapshot = lay_out(make_account(3, 40))
    mine = next(snapshot.uri(n) for n in range(snapshot.n_nodes) if snapshot.uri(n).startswith("viking://user/me/"))
    told = ask(snapshot, ME, scope=Scope(("viking://resources",))).explain(mine)
    assert told.verdict is Verdict.OUT_OF_SCOPE
    assert "viking://resources" in told.summary
    assert told.path[0].uri == "viking://user/me"
    assert all(step.parts is None or step.parts.parent is None for step in told.path)


def test_a_row_budget_blocks_the_way_and_is_named() -> None:
    snapshot = lay_out(make_account(5, 40))
    options = RetrieveOptions(global_top_k=0, leaf_seeds=0, parallelism=1, max_scored_rows=1)
    asked = ask(snapshot, options=options)
    assert asked.result.stats.stop_reason is StopReason.BUDGET
    told = [asked.explain(snapshot.uri(node)) for node in range(1, snapshot.n_nodes)]
    blocked = [one for one in told if one.verdict is Verdict.NOT_REACHED]
    assert blocked
    assert all("the budget of rows was spent" in one.summary for one in blocked)


def test_what_does_not_exist_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        ask(lay_out(make_account(1, 40))).explain("viking://resources/nothing/here")
