"""Reranking one retrieval: whose order counts, what is asked, how it steers, and what comes of no answer."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.trees import NOW_US, few
from tests.retrieve.worlds import AXIS, NO_TERMS, OPERATOR, lay_out, make_account
from viking_rpc.domain.context import ContextType, Kind, Level, Row
from viking_rpc.domain.query import Profile, Query, RerankScope, RetrieveOptions, RetrieveRequest, Scope, TraceLevel
from viking_rpc.domain.rerank import ERROR, PARTIAL, TIMEOUT, RerankAnswer
from viking_rpc.domain.trace import AnswerWarning, EmptyReason, RetrieveResult, StopReason, ThresholdSpace
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.records import NodeRecord
from viking_rpc.retrieve.reranked import RerankedRetrieval
from viking_rpc.retrieve.retriever import Retrieval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from viking_rpc.index.snapshot import Snapshot

PLAIN = RetrieveOptions(score_propagation_alpha=1.0, lexical_weight=0.0)
FAULT = AnswerWarning(ERROR, "it is broken")


def row(level: Level, cosine: float) -> Row:
    """Make a row with this cosine to the axis."""
    vector = np.zeros(len(AXIS), np.float32)
    vector[:2] = cosine, math.sqrt(1 - cosine * cosine)
    return Row(level, vector, *NO_TERMS)


def tree(directories: Iterable[tuple[float, Sequence[float]]], **facts: Any) -> Snapshot:
    """Build directories under viking://resources, each with the cosines of its abstract and of its files."""
    records = [NodeRecord(1, 0, "resources", Kind.DIRECTORY, ContextType.RESOURCE)]
    for d, (own, files) in enumerate(directories):
        directory = len(records) + 1
        rows = (row(Level.ABSTRACT, own),)
        records.append(NodeRecord(directory, 1, f"d{d:02}", Kind.DIRECTORY, ContextType.RESOURCE, rows=rows))
        for f, cosine in enumerate(files):
            rows = (row(Level.DETAIL, cosine),)
            name = f"f{f:02}"
            records.append(
                NodeRecord(len(records) + 1, directory, name, Kind.FILE, ContextType.RESOURCE, rows=rows, **facts)
            )
    return build_snapshot(records, revision=1, dimensions=len(AXIS))


class Asked:
    """Plays the reranker: scores by short URI, and writes down what it was asked, call by call."""

    def __init__(self, score_of: Callable[[str], float], fault: AnswerWarning | None = None) -> None:
        self.score_of, self.fault = score_of, fault
        self.calls: list[list[str]] = []

    def answer(self, snapshot: Snapshot, rows: np.ndarray) -> RerankAnswer:
        """Score the rows; NaN is no score."""
        uris = [snapshot.uri(int(snapshot.rows.node[one])).removeprefix("viking://resources/") for one in rows]
        self.calls.append(uris)
        scores = np.array([self.score_of(uri) for uri in uris], np.float32)
        return RerankAnswer(scores, 1, len(uris), self.fault if np.isnan(scores).any() else None)

    @property
    def n_texts(self) -> int:
        """Count the texts."""
        return sum(map(len, self.calls))


def run(
    snapshot: Snapshot, asked: Asked, *, limit: int = 10, options: RetrieveOptions = PLAIN, **fields: Any
) -> RetrieveResult:
    """Run a reranked retrieval."""
    request = RetrieveRequest(Query(vector=AXIS), limit=limit, options=options, **fields)
    retrieval = RerankedRetrieval(snapshot, request, OPERATOR, vector=AXIS, now_us=NOW_US)
    while not retrieval.advance():
        if retrieval.wanted is not None:
            retrieval.supply(asked.answer(snapshot, retrieval.wanted))
    return retrieval.result()


def names(result: RetrieveResult) -> list[str]:
    """Return the short URIs of the matches."""
    return [match.context.uri.removeprefix("viking://resources/") for match in result.matches]


def hundred() -> Snapshot:
    """One directory of a hundred files, better and better."""
    return tree([(0.0, [(i + 1) / 200 for i in range(100)])])


def test_the_first_n_are_reranked_and_the_rest_follow_in_vector_order() -> None:
    """Users: issues/2880. 100 candidates, 20 texts: ranks 1 to 20 are those of the vectors, in the reranker's order."""
    asked = Asked(lambda uri: -float(uri[-2:]))
    result = run(hundred(), asked, limit=100, options=replace(PLAIN, max_rerank_documents=20))
    assert (len(asked.calls), asked.n_texts) == (1, 20)
    assert names(result)[:20] == [f"d00/f{i:02}" for i in range(80, 100)]
    assert names(result)[20:] == [f"d00/f{i:02}" for i in range(79, -1, -1)]
    assert [match.parts.rerank is None for match in result.matches] == [False] * 20 + [True] * 80
    assert [match.score for match in result.matches[:2]] == [-80.0, -81.0]
    assert result.matches[20].score == result.matches[20].parts.relevance
    assert (result.stats.n_rerank_calls, result.stats.n_reranked) == (1, 20)


def test_more_is_reranked_than_wanted() -> None:
    """What vectors rank 64th may be the best match; 65th is not asked about."""
    snapshot = hundred()
    assert names(run(snapshot, Asked(lambda uri: float(uri == "d00/f36")), limit=3))[0] == "d00/f36"
    asked = Asked(lambda uri: float(uri == "d00/f35"))
    assert names(run(snapshot, asked, limit=3)) == ["d00/f99", "d00/f98", "d00/f97"]
    assert asked.n_texts == 64


def test_equal_scores_of_the_reranker_stay_in_vector_order() -> None:
    assert names(run(hundred(), Asked(lambda _: 0.5), limit=3)) == ["d00/f99", "d00/f98", "d00/f97"]


@pytest.mark.parametrize("scope", list(RerankScope))
def test_budget_of_texts(scope: RerankScope) -> None:
    """Users: issues/4948. 20 directories of 20 files, 20 texts: no more are sent, FINAL in one call."""
    random = Random(1)
    snapshot = tree((random.random(), [random.random() for _ in range(20)]) for _ in range(20))
    asked = Asked(lambda _: random.random())
    run(snapshot, asked, options=replace(PLAIN, rerank_scope=scope, max_rerank_documents=20))
    assert asked.n_texts == 20
    assert len(asked.calls) == 1 if scope is RerankScope.FINAL else len(asked.calls) <= 4
    texts = [uri for call in asked.calls for uri in call]
    assert len(texts) == len(set(texts))


def test_the_threshold_of_the_reranker_is_on_its_own_scale() -> None:
    """Users: pull/3000, issues/4224. Scores -0.2, -3 and -9, a threshold of -8: the first two, and the scale is told."""
    logits = {"d00/f00": -0.2, "d00/f01": -3.0, "d00/f02": -9.0, "d00": -20.0}
    snapshot = tree([(0.1, [0.5, 0.6, 0.7])])
    result = run(snapshot, Asked(logits.__getitem__), options=replace(PLAIN, rerank_threshold=-8.0))
    assert names(result) == ["d00/f00", "d00/f01"]
    assert (result.threshold_space, result.best_below_threshold) == (ThresholdSpace.RERANK, -9.0)
    assert result.total_matched == 2
    strict, inclusive = (replace(PLAIN, rerank_threshold=-3.0, score_gte=gte) for gte in (False, True))
    assert names(run(snapshot, Asked(logits.__getitem__), options=strict)) == ["d00/f00"]
    assert names(run(snapshot, Asked(logits.__getitem__), options=inclusive)) == ["d00/f00", "d00/f01"]
    nothing = run(snapshot, Asked(logits.__getitem__), options=replace(PLAIN, rerank_threshold=5.0))
    assert (nothing.matches, nothing.empty_reason) == ((), EmptyReason.BELOW_THRESHOLD)
    assert nothing.best_below_threshold == np.float32(-0.2)


def test_the_threshold_on_relevance_comes_before_the_rerank() -> None:
    """Users: pull/4730. It cuts by relevance, whatever the reranker would say; both scores are told."""
    snapshot = tree([(0.1, [0.5, 0.6, 0.7])])
    asked = Asked(lambda uri: 9.0 - float(uri[-1]))
    result = run(snapshot, asked, options=replace(PLAIN, score_threshold=0.55))
    assert asked.calls == [["d00/f02", "d00/f01"]]
    assert names(result) == ["d00/f01", "d00/f02"]
    assert result.threshold_space is ThresholdSpace.RELEVANCE
    first = result.matches[0]
    assert (first.score, first.parts.rerank) == (8.0, 8.0)
    assert first.parts.relevance == pytest.approx(0.6)


def test_hotness_stays_out_of_the_rerankers_scale() -> None:
    """Users: pull/1770, pull/4730. It mixes into what vectors rank, and never into a reranker's score."""
    snapshot = tree([(0.1, [0.5, 0.6, 0.7])], update_us=NOW_US, active_count=1000)
    options = replace(PLAIN, hotness_alpha=0.5, max_rerank_documents=2)
    result = run(snapshot, Asked(lambda uri: 3.0 + float(uri[-1])), options=options)
    assert names(result) == ["d00/f02", "d00/f01", "d00/f00", "d00"]
    assert [match.parts.hotness is None for match in result.matches[:3]] == [True, True, False]
    assert [match.score for match in result.matches[:2]] == [5.0, 4.0]
    assert result.matches[2].score > result.matches[2].parts.relevance


@pytest.mark.parametrize("reason", [ERROR, TIMEOUT])
def test_without_any_answer_the_order_is_that_of_the_vectors(reason: str) -> None:
    snapshot = hundred()
    asked = Asked(lambda _: math.nan, AnswerWarning(reason, "it is broken"))
    result = run(snapshot, asked, limit=5, options=replace(PLAIN, rerank_threshold=3.0))
    assert names(result) == [f"d00/f{i}" for i in range(99, 94, -1)]
    assert [warning.reason for warning in result.warnings] == [reason]
    assert result.threshold_space is None


def test_with_a_part_of_the_answer_the_rest_follows_in_vector_order() -> None:
    asked = Asked(lambda uri: float(uri[-2:]) if int(uri[-2:]) % 2 == 0 else math.nan, AnswerWarning(PARTIAL, "half"))
    result = run(hundred(), asked, limit=4, options=replace(PLAIN, max_rerank_documents=4))
    assert names(result) == ["d00/f98", "d00/f96", "d00/f99", "d00/f97"]
    assert [warning.reason for warning in result.warnings] == [PARTIAL]


def test_out_of_time_nothing_is_asked() -> None:
    request = RetrieveRequest(Query(vector=AXIS), options=PLAIN)
    retrieval = RerankedRetrieval(hundred(), request, OPERATOR, vector=AXIS, now_us=NOW_US)
    retrieval.stop(StopReason.TIME)
    assert retrieval.is_done
    assert {warning.reason for warning in retrieval.result().warnings} == {"TIME_BUDGET", TIMEOUT}
    assert retrieval.result().stats.n_reranked == 0


def test_a_wait_that_is_given_up_ends_with_what_there_is() -> None:
    request = RetrieveRequest(Query(vector=AXIS), limit=2, options=PLAIN)
    retrieval = RerankedRetrieval(hundred(), request, OPERATOR, vector=AXIS, now_us=NOW_US)
    while retrieval.wanted is None:
        retrieval.advance()
    assert retrieval.stop_reason is StopReason.EXHAUSTED
    retrieval.stop(StopReason.TIME)
    result = retrieval.result()
    assert names(result) == ["d00/f99", "d00/f98"]
    assert (result.stats.stop_reason, [w.reason for w in result.warnings]) == (StopReason.EXHAUSTED, [TIMEOUT])


# -- at each level


def deep() -> Snapshot:
    """Forty directories of twenty files; vectors like the first ones, and know nothing of the last one's files."""
    return tree((0.9 - d / 100, [0.05 * (d == 39) + f / 1000 for f in range(20)]) for d in range(40))


def test_at_each_level_the_reranker_decides_what_is_opened_first() -> None:
    options = RetrieveOptions(lexical_weight=0.0, rerank_scope=RerankScope.EACH_LEVEL, leaf_seeds=0, parallelism=1)
    asked = Asked(lambda uri: 10.0 if uri.startswith("d09") else 1.0)
    result = run(deep(), asked, options=options, trace_level=TraceLevel.STEPS)
    unmoved = run(deep(), Asked(lambda _: 0.0), options=options, trace_level=TraceLevel.STEPS)
    # directories without a score go before all others
    opened, before = ([step.uri for step in one.steps if step.score is not None] for one in (result, unmoved))
    assert (opened[0], before[0]) == ("viking://resources/d09", "viking://resources/d00")
    assert names(result)[0].startswith("d09")
    assert asked.calls[0][0] == "d00"  # the starting points come first, the best of them first
    assert asked.n_texts <= 64


def test_a_steered_descent_keeps_a_part_of_its_budget_for_the_best_candidates() -> None:
    options = replace(PLAIN, rerank_scope=RerankScope.EACH_LEVEL, max_rerank_documents=30)
    asked = Asked(lambda _: 1.0)
    result = run(deep(), asked, limit=10, options=options)
    assert asked.n_texts <= 30
    assert all(match.parts.rerank == 1.0 for match in result.matches)


def test_a_reranker_that_breaks_on_the_way_steers_no_more() -> None:
    options = replace(PLAIN, rerank_scope=RerankScope.EACH_LEVEL)
    asked = Asked(lambda _: math.nan, FAULT)
    result = run(deep(), asked, options=options)
    assert len(asked.calls) == 1
    assert names(result) == names(plain(deep(), PLAIN))
    assert result.warnings == (FAULT,)


def plain(snapshot: Snapshot, options: RetrieveOptions, limit: int = 10) -> RetrieveResult:
    """Run a retrieval that nothing reranks."""
    request = RetrieveRequest(Query(vector=AXIS), limit=limit, options=options)
    retrieval = Retrieval(snapshot, request, OPERATOR, vector=AXIS, now_us=NOW_US)
    while not retrieval.advance():
        pass
    return retrieval.result()


@few
@given(st.integers(0, 2**32), st.sampled_from(list(RerankScope)), st.sampled_from([0, 1, 7, 64]), st.integers(1, 20))
def test_no_reranker_changes_a_relevance(seed: int, scope: RerankScope, n_texts: int, limit: int) -> None:
    """Every match has the relevance that it has without a reranker; asked rows stay within the budget."""
    snapshot = lay_out(make_account(seed, 40))
    random = Random(seed)
    options = RetrieveOptions(profile=Profile.EXHAUSTIVE)
    everything = {m.context.uri: m.parts.relevance for m in plain(snapshot, options, limit=1000).matches}
    asked = Asked(lambda _: random.choice([math.nan, random.random(), 1.0]), AnswerWarning(PARTIAL, "some"))
    reranked = replace(options, rerank_scope=scope, max_rerank_documents=n_texts)
    result = run(snapshot, asked, limit=limit, options=reranked)
    assert asked.n_texts <= n_texts
    assert len(result.matches) == min(limit, len(everything))
    assert all(everything[match.context.uri] == match.parts.relevance for match in result.matches)
    scores = [match.parts.rerank for match in result.matches]
    n_reranked = sum(score is not None for score in scores)
    assert all(score is not None for score in scores[:n_reranked])
    assert scores[:n_reranked] == sorted(scores[:n_reranked], key=lambda score: -(score or 0))
    others = [match.score for match in result.matches[n_reranked:]]
    assert others == sorted(others, reverse=True)


# -- CLASSIC


def classic(**changes: Any) -> RetrieveOptions:
    """Return the options of CLASSIC, reranked at each level."""
    return RetrieveOptions(profile=Profile.CLASSIC, rerank_scope=RerankScope.EACH_LEVEL, **changes)


def test_classic_with_too_few_texts_goes_by_vectors_as_a_whole() -> None:
    """Rows with the reranker's score and rows without one are never compared."""
    asked = Asked(lambda _: 7.0)
    result = run(deep(), asked, options=classic(max_rerank_documents=15))
    assert asked.n_texts <= 15
    assert [warning.reason for warning in result.warnings] == [PARTIAL]
    assert set(names(result)) == set(names(plain(deep(), RetrieveOptions(profile=Profile.CLASSIC))))
    assert all(match.parts.relevance <= 1.0 for match in result.matches)


def test_classic_with_texts_enough_is_on_the_rerankers_scale() -> None:
    asked = Asked(lambda uri: 5.0 + len(uri))
    scope = Scope(target_uris=("viking://resources",))
    result = run(tree([(0.5, [0.1, 0.2])]), asked, options=classic(score_threshold=5.0), scope=scope)
    assert asked.calls == [["d00"], ["d00/f01", "d00/f00"], ["d00"]]
    assert [(match.score, match.parts.rerank) for match in result.matches] == [(12.0, 12.0), (12.0, 12.0), (8.0, 8.0)]
    assert (result.threshold_space, result.warnings) == (ThresholdSpace.RERANK, ())


def test_classic_without_an_answer_is_classic() -> None:
    result = run(deep(), Asked(lambda _: math.nan, FAULT), options=classic(max_rerank_documents=1000))
    assert names(result) == names(plain(deep(), RetrieveOptions(profile=Profile.CLASSIC)))
    assert result.warnings == (FAULT,)


@pytest.mark.parametrize("n_answered", [0, 1, 2, 3, 100])
def test_steps_of_a_walk_that_is_given_up_are_never_told(n_answered: int) -> None:
    """Whoever watches sees each opened directory of the answer once, in order, whenever the answers stop coming."""
    options = classic(max_rerank_documents=1000)
    request = RetrieveRequest(Query(vector=AXIS), options=options, trace_level=TraceLevel.STEPS)
    snapshot = deep()
    retrieval = RerankedRetrieval(snapshot, request, OPERATOR, vector=AXIS, now_us=NOW_US)
    told = []
    n_calls = 0
    is_done = False
    while not is_done:
        is_done = retrieval.advance(1)
        told += retrieval.new_steps()
        if retrieval.wanted is not None:
            score = float("nan") if n_calls >= n_answered else 0.5
            retrieval.supply(Asked(lambda _, score=score: score).answer(snapshot, retrieval.wanted))
            n_calls += 1
    assert n_calls > 1 or n_answered < 100
    untimed = [[replace(step, duration_us=0.0) for step in steps] for steps in (told, retrieval.result().steps)]
    assert untimed[0] == untimed[1]
    assert len(told) > 2
