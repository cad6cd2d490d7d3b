"""Answers become messages and come back the same; what is too large is cut openly."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viking_rpc.client.answers import read_context, read_result
from viking_rpc.domain.context import Context, ContextType, Kind, Level, Relation
from viking_rpc.domain.identity import LOCAL, Identity, Role
from viking_rpc.domain.query import Mode, TraceLevel, View
from viking_rpc.domain.trace import (
    AnswerWarning,
    ChildScore,
    EmptyReason,
    LevelStats,
    Match,
    RetrieveResult,
    RetrieveStats,
    ScoreParts,
    StopReason,
    TraceStep,
)
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.server.convert_answer import (
    MAX_CHILD_SCORES,
    MAX_RESPONSE_BYTES,
    fit,
    parts_message,
    write_answer,
)
from viking_rpc.server.convert_context import ancestor_message, context_message, is_visible
from viking_rpc.server.encoded import EncodedContexts, EncodedFor
from viking_rpc.server.encoded_match import encode_match, encode_varint

TIMES = st.integers(1, 253_402_300_799_999_999)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
SCORES = st.floats(-1, 1, width=32)
MAYBE_SCORES = st.none() | SCORES
URIS = st.sampled_from(["viking://resources", "viking://resources/a", "viking://user/default/memories/x.md"])


def response_message(
    result: RetrieveResult, view: View, trace_level: TraceLevel, encoded: EncodedFor
) -> pb.RetrieveResponse:
    """Return an answer as its reader gets it."""
    return write_answer(result, view, trace_level, encoded).message()


def contexts() -> st.SearchStrategy[Context]:
    """Return contexts that the local user may read."""
    relations = st.lists(st.builds(Relation, URIS, TEXTS), max_size=5).map(tuple)
    return st.builds(
        Context,
        uri=URIS,
        kind=st.sampled_from(Kind),
        type=st.sampled_from(ContextType),
        title=TEXTS,
        abstract=TEXTS,
        overview=TEXTS,
        content=TEXTS,
        tags=st.dictionaries(TEXTS, TEXTS, max_size=3),
        create_us=TIMES,
        update_us=TIMES,
        expire_us=st.just(0) | TIMES,
        active_count=st.integers(0, 2**40),
        etag=TEXTS,
        child_count=st.integers(0, 2**31 - 1),
        relations=relations,
    )


@given(contexts(), st.sampled_from(View))
def test_a_context_comes_back_as_much_of_it_as_the_view_shows(context: Context, view: View) -> None:
    shown = replace(
        context,
        abstract=context.abstract if view >= View.ABSTRACT else "",
        relations=context.relations if view >= View.ABSTRACT else (),
        overview=context.overview if view >= View.OVERVIEW else "",
        content=context.content if view >= View.FULL else "",
    )
    assert read_context(context_message(context, view, LOCAL)) == shown


@pytest.mark.parametrize(
    ("uri", "parent"),
    [
        ("viking://resources", ""),
        ("viking://resources/a", "viking://resources"),
        ("viking://resources/a/b", "viking://resources/a"),
    ],
)
def test_the_parent_of_a_scope_is_empty(uri: str, parent: str) -> None:
    context = Context(uri, Kind.DIRECTORY, ContextType.RESOURCE)
    assert context_message(context, View.BASIC, LOCAL).parent_uri == parent


def test_relations_to_what_the_caller_may_not_read_are_left_out() -> None:
    uris = [f"viking://resources/{i}" for i in range(6)]
    relations = tuple(Relation(uri) for uri in ["viking://user/bob/memories/x", *uris])
    context = Context("viking://resources/a", Kind.FILE, ContextType.RESOURCE, relations=relations)
    message = context_message(context, View.ABSTRACT, Identity("acme", "alice", Role.USER))
    assert [relation.uri for relation in message.relations] == uris[:5]


def test_with_a_peer_only_that_peer_is_visible() -> None:
    identity = Identity("acme", "alice", Role.USER, "p")
    seen = [
        uri
        for uri in (
            "resources",
            "user",
            "user/bob",
            "user/alice",
            "user/alice/peers",
            "user/alice/peers/p",
            "user/alice/peers/q",
        )
        if is_visible(Context(f"viking://{uri}", Kind.DIRECTORY, ContextType.RESOURCE), identity)
    ]
    assert seen == ["resources", "user", "user/alice", "user/alice/peers", "user/alice/peers/p"]


def _with_own_etags(matches: list[Match]) -> tuple[Match, ...]:
    """Give every context an etag of its own, as a store does: two that differ never share one."""
    return tuple(m._replace(context=replace(m.context, etag=f"{i}-{m.context.etag}")) for i, m in enumerate(matches))


def results() -> st.SearchStrategy[RetrieveResult]:
    """Return answers of every shape."""
    parts = st.builds(ScoreParts, SCORES, SCORES, MAYBE_SCORES, MAYBE_SCORES, MAYBE_SCORES, MAYBE_SCORES, MAYBE_SCORES)
    shown = contexts().map(lambda c: replace(c, overview="", content=""))
    # Directories that are named by one URI are one directory: their texts agree.
    directory = Context("viking://resources", Kind.DIRECTORY, ContextType.RESOURCE, abstract="all", etag="1-1")
    match = st.builds(
        Match,
        context=shown,
        display_uri=URIS,
        level=st.sampled_from(Level),
        score=SCORES,
        parts=parts,
        ancestors=st.sampled_from([(), (directory,)]),
        step_index=st.none() | st.integers(0, 5),
    )
    child = st.builds(ChildScore, URIS, st.sampled_from(Level), SCORES, SCORES, st.booleans())
    n = st.integers(0, 1000)
    step = st.builds(
        TraceStep, n, n, URIS, MAYBE_SCORES, n, n, n, n, st.just(1.5), st.lists(child, max_size=1).map(tuple)
    )
    level = st.builds(LevelStats, n, n, n, n, st.just(2.25))
    stats = st.builds(
        RetrieveStats,
        stop_reason=st.none() | st.sampled_from(StopReason),
        n_rounds=n,
        n_expanded=n,
        rows_scored=n,
        rows_filtered=n,
        seed_path=st.sampled_from(["", "exact"]),
        embed_us=st.sampled_from([0.0, 0.5]),
        seed_us=st.sampled_from([0.0, 123.25]),
        descent_us=st.just(0.0),
        total_us=st.just(3_000_000.5),
        levels=st.lists(level, max_size=2).map(tuple),
    )
    return st.builds(
        RetrieveResult,
        matches=st.lists(match, max_size=4).map(_with_own_etags),
        revision=st.integers(0, 2**60),
        mode=st.sampled_from(Mode),
        searched_roots=st.lists(URIS, max_size=2).map(tuple),
        stats=stats,
        steps=st.lists(step, max_size=3).map(tuple),
        warnings=st.lists(st.builds(AnswerWarning, TEXTS, TEXTS), max_size=2).map(tuple),
        empty_reason=st.sampled_from(EmptyReason),
        total_matched=n,
        best_below_threshold=MAYBE_SCORES,
    )


@given(results())
def test_an_answer_comes_back_the_same(result: RetrieveResult) -> None:
    encoded = EncodedContexts()
    for _ in range(2):  # the second time from what was remembered
        message = response_message(result, View.ABSTRACT, TraceLevel.SCORES, encoded.of(LOCAL))
        assert read_result(type(message).FromString(message.SerializeToString())) == result


def match_message(match: Match, view: View, identity: Identity, *, has_steps: bool) -> pb.Match:
    """Write a match the plain way, which `encode_match` is a fast form of."""
    return pb.Match(
        context=context_message(match.context, view, identity),
        display_uri=match.display_uri,
        level=match.level + 1,  # type: ignore[arg-type]
        score=match.score,
        parts=parts_message(match.parts),
        ancestors=[ancestor_message(context, identity) for context in match.ancestors],
        step_index=match.step_index if has_steps else None,
    )


@given(results(), st.sampled_from(View), st.booleans(), st.sampled_from([0, 127, 128, 16_383, 16_384, 2**31 - 1]))
def test_the_bytes_of_a_match_are_those_of_its_message(
    result: RetrieveResult, view: View, has_steps: bool, step_index: int
) -> None:
    encoded = EncodedContexts().of(LOCAL)
    told = [match._replace(step_index=step_index) if match.step_index == 0 else match for match in result.matches]
    for match in told + told:  # the second time from what was remembered
        read = pb.RetrieveResponse.FromString(encode_match(match, view, encoded, has_steps=has_steps))
        assert read == pb.RetrieveResponse(matches=[match_message(match, view, LOCAL, has_steps=has_steps)])


@given(st.integers(1, 2**63 - 1))
def test_a_number_is_written_as_the_library_writes_it(number: int) -> None:
    assert pb.RetrieveResponse(revision=number).SerializeToString()[1:] == encode_varint(number)


@given(results(), st.integers(1, 3000))
def test_an_answer_is_cut_to_a_size_and_no_further(result: RetrieveResult, n_room: int) -> None:
    answer = write_answer(result, View.ABSTRACT, TraceLevel.SCORES, EncodedContexts().of(LOCAL))
    assert answer.n_bytes == len(answer.encode()) >= answer.message().ByteSize()  # which writes no zeros
    before, n_before = answer.message(), answer.n_bytes
    n_bytes = 4096 + n_room  # what is cut leaves room for warnings
    fit(answer, n_bytes)
    after = answer.message()
    n_steps, n_matches = len(after.steps), len(after.matches)
    assert after.steps == before.steps[:n_steps]
    assert after.matches == before.matches[:n_matches]
    n_cut = len(before.steps) - n_steps + len(before.matches) - n_matches
    assert (n_cut > 0) == (n_before > n_room and bool(before.steps or before.matches))
    assert after.ByteSize() <= n_bytes or not (n_steps or n_matches)
    assert n_matches == len(before.matches) or not n_steps
    assert len(after.warnings) == len(before.warnings) + (n_steps < len(before.steps)) + (
        n_matches < len(before.matches)
    )


@given(results())
def test_a_trace_level_tells_no_more_than_was_asked(result: RetrieveResult) -> None:
    encoded = EncodedContexts().of(LOCAL)
    for level in TraceLevel:
        message = response_message(result, View.ABSTRACT, level, encoded)
        assert message.HasField("stats") == (level >= TraceLevel.STATS)
        assert len(message.steps) == (len(result.steps) if level >= TraceLevel.STEPS else 0)
        if level < TraceLevel.SCORES:
            assert not any(step.child_scores for step in message.steps)
        if level < TraceLevel.STEPS:
            assert not any(match.HasField("step_index") for match in message.matches)


def make_result(n: int, abstract: str) -> RetrieveResult:
    """Return an answer with so many matches."""
    matches = tuple(
        Match(
            Context(f"viking://resources/{i}", Kind.FILE, ContextType.RESOURCE, abstract=abstract),
            f"viking://resources/{i}",
            Level.DETAIL,
            1.0 - i / n,
            ScoreParts(1.0, 1.0),
        )
        for i in range(n)
    )
    return RetrieveResult(matches, 1, Mode.THINKING, (), RetrieveStats())


def test_an_answer_that_is_too_large_loses_its_last_matches_with_a_warning() -> None:
    result = make_result(1000, "x" * 16_000)
    message = response_message(result, View.ABSTRACT, TraceLevel.STATS, EncodedContexts().of(LOCAL))
    assert message.ByteSize() <= MAX_RESPONSE_BYTES
    assert [w.reason for w in message.warnings] == ["RESPONSE_TRUNCATED"]
    assert 250 < len(message.matches) < 270
    assert [m.display_uri for m in message.matches] == [m.display_uri for m in result.matches[: len(message.matches)]]
    assert str(1000 - len(message.matches)) in message.warnings[0].message


def test_an_answer_that_fits_is_not_cut() -> None:
    result = make_result(1000, "x" * 2000)
    message = response_message(result, View.ABSTRACT, TraceLevel.STATS, EncodedContexts().of(LOCAL))
    assert len(message.matches) == 1000
    assert not message.warnings


def test_steps_are_cut_before_matches() -> None:
    children = tuple(
        ChildScore("viking://resources/" + "c" * 100, Level.DETAIL, 0.5, i / 900, is_kept=True) for i in range(900)
    )
    steps = tuple(TraceStep(i, i, "viking://resources", None, 0, 900, 900, 0, 1.0, children) for i in range(100))
    result = replace(make_result(10, "x"), steps=steps)
    message = response_message(result, View.ABSTRACT, TraceLevel.SCORES, EncodedContexts().of(LOCAL))
    assert message.ByteSize() <= MAX_RESPONSE_BYTES
    assert [w.reason for w in message.warnings] == ["TRACE_TRUNCATED"]
    assert len(message.matches) == 10
    assert 0 < len(message.steps) < 100


def test_of_very_many_children_the_best_are_told_with_a_warning() -> None:
    n = MAX_CHILD_SCORES + 5
    children = tuple(ChildScore(f"viking://resources/{i}", Level.DETAIL, 0.0, i / n, is_kept=False) for i in range(n))
    step = TraceStep(0, 0, "viking://resources", None, 0, n, 0, 0, 1.0, children)
    result = replace(make_result(1, "x"), steps=(step,))
    message = response_message(result, View.ABSTRACT, TraceLevel.SCORES, EncodedContexts().of(LOCAL))
    told = [child.relevance for child in message.steps[0].child_scores]
    assert told == sorted(told, reverse=True)
    assert len(told) == MAX_CHILD_SCORES
    assert math.isclose(told[0], (n - 1) / n, rel_tol=1e-6)
    assert [w.reason for w in message.warnings] == ["TRACE_TRUNCATED"]


def test_callers_share_nothing_that_was_remembered() -> None:
    relation = Relation("viking://user/bob/memories/x", "why")
    context = Context("viking://resources/a", Kind.FILE, ContextType.RESOURCE, etag="1-1", relations=(relation,))
    match = Match(context, context.uri, Level.DETAIL, 1.0, ScoreParts(1.0, 1.0))
    result = RetrieveResult((match,), 1, Mode.THINKING, (), RetrieveStats())
    encoded = EncodedContexts()
    seen = [
        len(response_message(result, View.ABSTRACT, TraceLevel.NONE, encoded.of(who)).matches[0].context.relations)
        for who in (Identity("acme", "bob", Role.USER), Identity("acme", "alice", Role.USER))
    ]
    assert seen == [1, 0]


def test_a_context_that_changed_is_written_anew() -> None:
    encoded = EncodedContexts()
    for etag, abstract in (("1-1", "old"), ("1-2", "new")):
        result = make_result(1, abstract)
        match = result.matches[0]._replace(context=replace(result.matches[0].context, etag=etag))
        result = replace(result, matches=(match,))
        message = response_message(result, View.ABSTRACT, TraceLevel.NONE, encoded.of(LOCAL))
        assert message.matches[0].context.abstract == abstract
