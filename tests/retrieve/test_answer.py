"""What an answer says: small trees that isolate one rule each."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.kernels.trees import NOW_US
from tests.oracle.model import Context, Path, Row, World
from tests.retrieve.worlds import ME, OPERATOR, lay_out, run
from viking_rpc.domain.context import Level
from viking_rpc.domain.query import Filter, Mode, Profile, Query, RetrieveOptions, RetrieveRequest, Scope, TraceLevel
from viking_rpc.domain.trace import EmptyReason, StopReason
from viking_rpc.domain.uri import display_uri
from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, PermissionDeniedError
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.records import ChangeSet
from viking_rpc.index.update import apply_changes
from viking_rpc.retrieve import frontier
from viking_rpc.retrieve.retriever import Retrieval

if TYPE_CHECKING:
    from viking_rpc.index.snapshot import Snapshot

P = ("resources", "p")
TARGET = "viking://resources/p"
DENSE = RetrieveOptions(lexical_weight=0.0)


def vector(s: float) -> tuple[float, ...]:
    """Make a vector whose cosine with the query is s."""
    return (s, sqrt(1 - s * s), 0.0, 0.0, 0.0)


def file(s: float, **facts: object) -> Context:
    return Context(is_directory=False, rows=(Row(2, vector(s)),), **facts)  # type: ignore[arg-type]


def directory(*scores: float, **facts: object) -> Context:
    rows = tuple(Row(level, vector(s)) for level, s in enumerate(scores))
    return Context(is_directory=True, rows=rows, **facts)  # type: ignore[arg-type]


def tree(contexts: dict[str, Context]) -> World:
    """Make a world of contexts by their paths below the target; the directories above are made."""
    world: World = {}
    for path, context in contexts.items():
        segments: Path = (*P, *(path.split("/") if path else ()))
        for length in range(len(segments)):
            world.setdefault(segments[:length], directory())
        world[segments] = context
    return world


def account(contexts: dict[str, Context]) -> Snapshot:
    return lay_out(tree(contexts))


def uris(answered: object) -> list[str]:
    return [uri.removeprefix(f"{TARGET}/") for _, uri in answered.ranking]  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", list(Mode))
def test_an_empty_store_has_no_contexts(mode: Mode) -> None:
    snapshot = build_snapshot([], revision=0, dimensions=5)
    result = run(snapshot, mode=mode, identity=ME).result
    assert (result.matches, result.empty_reason, result.total_matched) == ((), EmptyReason.NO_CONTEXTS, 0)


def test_a_missing_target_is_not_found_and_all_are_named() -> None:
    snapshot = account({"a.md": file(0.5)})
    with pytest.raises(NotFoundError, match=r"resources/x/y.*resources/z/z") as caught:
        run(snapshot, scope=Scope(("viking://resources/x/y", TARGET, "viking://resources/z/z")))
    assert caught.value.reason == "CONTEXT_NOT_FOUND"


@pytest.mark.parametrize("missing", ["viking://resources/nothing", "viking://resources/p/nothing/there"])
def test_permission_comes_before_existence(missing: str) -> None:
    snapshot = account({"a.md": file(0.5)})
    with pytest.raises(PermissionDeniedError):
        run(snapshot, identity=ME, scope=Scope((missing, "viking://user/you/memories")))


def test_all_bad_uris_are_told() -> None:
    snapshot = account({"a.md": file(0.5)})
    with pytest.raises(InvalidArgumentError) as caught:
        run(snapshot, scope=Scope(("ftp://x", TARGET, "viking://x")), filter=Filter(exclude_uris=("nope",)))
    assert [v.field for v in caught.value.violations] == [
        "scope.target_uris[0]",
        "scope.target_uris[2]",
        "filter.exclude_uris[0]",
    ]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_match_names_the_uri_of_its_level(mode: Mode) -> None:
    contexts = {"a.md": file(0.9), "d": directory(0.8, 0.1), "e": directory(0.1, 0.7)}
    matches = run(account(contexts), mode=mode, scope=Scope((TARGET,))).result.matches
    assert {m.level for m in matches} == set(Level)
    assert [m.display_uri for m in matches] == [display_uri(m.context.uri, m.level) for m in matches]


@pytest.mark.parametrize("mode", list(Mode))
def test_an_expired_target_does_not_exist(mode: Mode) -> None:
    """Also when an earlier request, before it expired, has looked there."""
    snapshot = account({"d/e/a.md": file(0.5), "d": directory(0.5, expire_us=NOW_US + 10), "b.md": file(0.4)})
    for scope in (Scope((f"{TARGET}/d",)), Scope((f"{TARGET}/d/e",)), Scope((f"{TARGET}/d/e/a.md",))):
        assert run(snapshot, scope=scope, mode=mode, now_us=NOW_US + 9).result.matches
        with pytest.raises(NotFoundError):
            run(snapshot, scope=scope, mode=mode, now_us=NOW_US + 10)
    both = Scope((TARGET,))
    assert "d" in uris(run(snapshot, scope=both, mode=mode, now_us=NOW_US + 9))
    assert uris(run(snapshot, scope=both, mode=mode, now_us=NOW_US + 10)) == ["b.md"]


@pytest.mark.parametrize("mode", list(Mode))
def test_an_expired_home_is_empty(mode: Mode) -> None:
    world = {
        (): directory(),
        ("user",): directory(),
        ("user", "me"): directory(0.9, expire_us=NOW_US),
        ("user", "me", "a.md"): file(0.9),
    }
    result = run(lay_out(world), identity=ME, mode=mode).result
    assert (result.matches, result.empty_reason) == ((), EmptyReason.NO_CONTEXTS)


def test_like_uri_asks_with_a_stored_vector() -> None:
    world = tree({"a.md": file(0.5), "b.md": file(0.5), "d": directory(0.1, 0.9), "d/c.md": file(0.9)})
    snapshot = lay_out(world | {("user",): directory(), ("user", "you"): directory(0.5)})
    options = {"options": DENSE, "identity": ME, "mode": Mode.QUICK}
    assert uris(run(snapshot, query=Query(like_uri=f"{TARGET}/a.md"), **options))[0] == "b.md"
    assert uris(run(snapshot, query=Query(like_uri=f"{TARGET}/d"), **options))[:2] == ["a.md", "b.md"]
    assert uris(run(snapshot, query=Query(like_uri=f"{TARGET}/d/.overview.md"), **options))[0] == "d/c.md"
    for hidden in ("viking://user/you", f"{TARGET}/nothing"):
        with pytest.raises(NotFoundError):
            run(snapshot, query=Query(like_uri=hidden), **options)
    with pytest.raises(InvalidArgumentError, match="no vector"):
        run(snapshot, query=Query(like_uri="viking://resources"), **options)


def test_a_vector_of_another_length_names_both() -> None:
    with pytest.raises(FailedPreconditionError, match=r"7 dimensions, the store 5") as caught:
        run(account({"a.md": file(0.5)}), query=Query(vector=np.ones(7, np.float32)))
    assert caught.value.reason == "DIMENSION_MISMATCH"


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("length", [8, 0.1, 1e30, 1e-30])
def test_a_query_vector_may_have_any_length(mode: Mode, length: float) -> None:
    snapshot = account({"a.md": file(0.75), "b.md": file(0.25)})
    query = Query(vector=np.array([length, 0, 0, 0, 0], np.float32))
    assert run(snapshot, query=query, mode=mode).ranking == run(snapshot, mode=mode).ranking


def test_a_stored_zero_vector_scores_zero() -> None:
    zero = Context(is_directory=False, rows=(Row(2, (0.0,) * 5),))
    snapshot = account({"a.md": zero, "b.md": file(0.5)})
    assert run(snapshot, options=DENSE).ranking == [(0.5, f"{TARGET}/b.md"), (0.0, f"{TARGET}/a.md")]


def test_the_threshold_is_strict_unless_told() -> None:
    snapshot = account({"a.md": file(0.5), "b.md": file(0.75)})
    for mode in Mode:
        strict = RetrieveOptions(lexical_weight=0.0, score_threshold=0.5)
        assert uris(run(snapshot, options=strict, mode=mode)) == ["b.md"]
        inclusive = RetrieveOptions(lexical_weight=0.0, score_threshold=0.5, score_gte=True)
        assert uris(run(snapshot, options=inclusive, mode=mode)) == ["b.md", "a.md"]


def test_a_threshold_above_everything_says_the_best() -> None:
    snapshot = account({f"{i:02}.md": file(i / 32) for i in range(30)})
    for mode in Mode:
        options = RetrieveOptions(lexical_weight=0.0, score_threshold=0.95)
        result = run(snapshot, options=options, mode=mode, limit=3).result
        assert result.empty_reason is EmptyReason.BELOW_THRESHOLD
        assert (result.best_below_threshold, result.total_matched) == (29 / 32, 0)


def test_relevance_is_cut_and_score_carries_hotness() -> None:
    """Row 21 of what users met: the cut is on relevance, so a score may lie below the threshold."""
    snapshot = account({"a.md": file(0.8)})
    options = RetrieveOptions(lexical_weight=0.0, score_threshold=0.75, hotness_alpha=0.5)
    match = run(snapshot, options=options).result.matches[0]
    assert (match.parts.relevance, match.score) == pytest.approx((0.8, 0.4))


def test_leaves_are_reached_under_directories_that_look_wrong() -> None:
    """Rows 11 and 88: details that no summary above them tells."""
    contexts = {f"d{i % 6}/f{i:02}.md": file(0.5 + i * 0.4 / 29) for i in range(30)}
    contexts |= {f"d{i}": directory(0.0, 0.0) for i in range(6)}
    result = run(account(contexts), options=DENSE, limit=30).result
    assert result.matches[0].context.uri == f"{TARGET}/d5/f29.md"
    assert {match.context.uri for match in result.matches} == {f"{TARGET}/{path}" for path in contexts if "/" in path}


def test_the_best_of_five_thousand_files_is_found() -> None:
    """Row 38."""
    contexts = {f"f{i:04}.md": file(0.99 if i == 4321 else 0.1 + (i % 97) / 200) for i in range(5000)}
    for mode in Mode:
        assert uris(run(account(contexts), options=DENSE, mode=mode))[0] == "f4321.md"


def test_excluded_subtrees_take_no_places() -> None:
    """Row 37: whole segments, and other contexts move up."""
    contexts = {f"archive/{i}.md": file(0.9) for i in range(50)}
    contexts |= {f"archive2/{i}.md": file(0.5) for i in range(5)} | {f"{i}.md": file(0.4) for i in range(5)}
    wanted = Filter(exclude_uris=(f"{TARGET}/archive",))
    for mode in Mode:
        found = uris(run(account(contexts), filter=wanted, mode=mode, options=DENSE))
        assert len(found) == 10
        assert all(not uri.startswith("archive/") for uri in found)
    for mode in Mode:
        result = run(account(contexts), filter=Filter(exclude_uris=(TARGET,)), mode=mode).result
        assert result.empty_reason is EmptyReason.FILTERED_OUT


def test_a_deleted_subtree_leaves_nothing() -> None:
    """Rows 34 and 77: fewer than the limit remain, and none of what is gone."""
    snapshot = account({f"d/{i}.md": file(0.9) for i in range(7)} | {f"{i}.md": file(0.5) for i in range(3)})
    gone = [node for node in range(snapshot.n_nodes) if f"{snapshot.uri(node)}/".startswith(f"{TARGET}/d/")]
    after = apply_changes(snapshot, ChangeSet(2, deleted_keys=tuple(snapshot.key[gone].tolist())))
    for mode in Mode:
        assert len(run(snapshot, mode=mode).ranking) == 10
        assert uris(run(after, mode=mode)) == ["0.md", "1.md", "2.md"]
    with pytest.raises(NotFoundError):
        run(after, scope=Scope((f"{TARGET}/d",)))


def test_tags_must_all_match() -> None:
    snapshot = account({"a.md": file(0.9, tags=frozenset({1})), "b.md": file(0.5, tags=frozenset({1, 2}))})
    for mode in Mode:
        assert uris(run(snapshot, filter=Filter(tags={"tag1": "x", "tag2": "x"}), mode=mode)) == ["b.md"]
        result = run(snapshot, filter=Filter(tags={"tag1": "x", "unknown": "x"}), mode=mode).result
        assert result.empty_reason is EmptyReason.FILTERED_OUT
        result = run(snapshot, filter=Filter(tags={"tag7": "x"}), mode=mode, scope=Scope((f"{TARGET}/a.md",))).result
        assert result.empty_reason is EmptyReason.FILTERED_OUT


def test_budgets_stop_and_say_so() -> None:
    contexts = {f"d{i}/f{j}.md": file(0.5 + j / 64) for i in range(20) for j in range(5)}
    contexts |= {f"d{i}": directory(i / 64) for i in range(20)}
    snapshot = account(contexts)
    result = run(snapshot, options=RetrieveOptions(lexical_weight=0.0, max_scored_rows=40)).result
    assert result.stats.stop_reason is StopReason.BUDGET
    retrieval = run(snapshot, options=RetrieveOptions(convergence_rounds=1), limit=1, max_rounds=1).retrieval
    assert retrieval.stop_reason is StopReason.CONVERGED


def test_time_that_is_over_leaves_the_best_so_far() -> None:
    snapshot = account({f"d{i}/f.md": file(0.5) for i in range(9)})
    query = Query(vector=np.eye(1, 5, dtype=np.float32)[0])
    retrieval = Retrieval(snapshot, RetrieveRequest(query), OPERATOR, vector=query.vector, now_us=NOW_US)
    retrieval.stop(StopReason.TIME)
    result = retrieval.result()
    assert [warning.reason for warning in result.warnings] == ["TIME_BUDGET"]
    assert result.stats.stop_reason is StopReason.TIME
    assert len(result.matches) == 9


def test_steps_are_told_once_while_it_runs() -> None:
    snapshot = account({f"d{i}/e/f.md": file(0.5) for i in range(30)})
    query = Query(vector=np.eye(1, 5, dtype=np.float32)[0])
    request = RetrieveRequest(query, trace_level=TraceLevel.STEPS, options=RetrieveOptions(convergence_rounds=0))
    retrieval = Retrieval(snapshot, request, OPERATOR, vector=query.vector, now_us=NOW_US)
    told = []
    while not retrieval.advance(max_rounds=1):
        told.extend(retrieval.new_steps())
    told.extend(retrieval.new_steps())
    assert [step.uri for step in told] == [step.uri for step in retrieval.result().steps]
    assert len(told) == 63  # the root, its scope, the target, 30 directories and one in each


def test_one_request_leaves_nothing_behind_for_the_next() -> None:
    """Row 39."""
    snapshot = account({f"{i}.md": file(i / 16) for i in range(10)})
    before = run(snapshot, options=DENSE).ranking
    run(snapshot, options=RetrieveOptions(profile=Profile.CLASSIC, score_threshold=0.5), limit=1)
    assert run(snapshot, options=DENSE).ranking == before


@pytest.mark.parametrize("mode", list(Mode))
def test_an_answer_can_be_taken_again(mode: Mode) -> None:
    """The arrays behind it went to the next retrieval, once."""
    snapshot = account({f"{i}.md": file(i / 16) for i in range(10)})
    first = run(snapshot, mode=mode, trace_level=TraceLevel.STEPS)
    before = first.result
    run(snapshot, mode=mode, limit=3)
    assert first.retrieval.result() is before
    assert first.retrieval.new_steps() == ()
    assert len({id(scratch) for scratch in frontier._free}) == len(frontier._free) > 0


def test_a_threshold_over_a_large_flat_answer_counts_all() -> None:
    contexts = {f"f{i:04}.md": file(0.25 if i % 2 else 0.5 + (i % 64) / 256) for i in range(3000)}
    options = RetrieveOptions(lexical_weight=0.0, score_threshold=0.4)
    result = run(account(contexts), mode=Mode.QUICK, options=options, limit=5).result
    assert (len(result.matches), result.total_matched, result.best_below_threshold) == (5, 1500, 0.25)
