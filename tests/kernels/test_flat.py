"""Scores, hotness, conditions and flat searches equal their definitions, ties and empties included."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log1p
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import conditions as oracle_conditions
from tests.oracle import flat, scores
from tests.oracle.model import Conditions, Context, Question, Row, World
from viking_kernels import arrays, scan
from viking_kernels.hotness import hotness
from viking_kernels.mask import mask_nodes
from viking_kernels.score import score_range

from . import trees
from .driver import make_pool, ranking, slots_of
from .trees import NOW_US, build, condition_arrays, few, make_conditions, make_layout, make_question, make_world

NOTHING = arrays.frozen(np.empty(0, np.int32))


@few
@given(trees.seeds, trees.sizes)
def test_own_scores(seed: int, n: int) -> None:
    random = Random(seed)
    world, question = make_world(seed, n), make_question(random.getrandbits(32))
    snapshot = build(world)
    n_rows = len(snapshot.rows.level)
    lo = random.randint(0, n_rows)
    hi = random.randint(lo, n_rows)
    out = np.full(hi - lo, np.nan, np.float32)
    score_range(snapshot.rows, trees.question_arrays(question), lo, hi, out)
    rows = [row for path in snapshot.paths for row in world[path].rows]
    assert out.tolist() == [scores.own(row, question) for row in rows[lo:hi]]


@few
@given(trees.seeds, trees.sizes, st.sampled_from([0.1, 1.0, 7.3]))
def test_lexical_scores_saturate(seed: int, n: int, saturation: float) -> None:
    world, question = make_world(seed, n), replace(make_question(seed), saturation=saturation)
    snapshot = build(world)
    out = np.full(len(snapshot.rows.level), np.nan, np.float32)
    score_range(snapshot.rows, trees.question_arrays(question), 0, len(out), out)
    rows = [row for path in snapshot.paths for row in world[path].rows]
    np.testing.assert_allclose(out, np.array([scores.own(row, question) for row in rows], np.float32), atol=1e-6)


@pytest.mark.parametrize("dim", [1, 3, 15, 16, 17, 64, 96, 384])
def test_own_scores_of_unit_vectors_of_any_length(dim: int) -> None:
    random = np.random.default_rng(dim)
    vectors = random.normal(size=(9, dim)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = trees.frozen(trees.row_arrays([(0, Row(2, tuple(vector))) for vector in vectors], dim))
    out = np.empty(9, np.float32)
    score_range(rows, trees.question_arrays(Question(tuple(vectors[4]))), 0, 9, out)
    np.testing.assert_allclose(out, vectors.astype(np.float64) @ vectors[4].astype(np.float64), atol=1e-6)


def test_equal_vectors_have_equal_scores() -> None:
    vector = np.random.default_rng(1).normal(size=383).astype(np.float32)
    rows = trees.frozen(trees.row_arrays([(0, Row(2, tuple(vector)))] * 7, 383))
    out = np.empty(7, np.float32)
    score_range(rows, trees.question_arrays(Question(tuple(vector[::-1]))), 0, 7, out)
    assert len(set(out.tolist())) == 1


@few
@given(
    st.lists(
        st.tuples(st.integers(-5, 2**31 - 1), st.integers(0, 2**52) | st.just(0)),
        max_size=20,
    ),
    st.integers(0, 2**52),
)
def test_hotness(values: list[tuple[int, int]], now_us: int) -> None:
    out = np.full(len(values), np.nan, np.float32)
    hotness(trees.int32(count for count, _ in values), trees.int64(time for _, time in values), now_us, out)
    expected = [scores.hotness(count, time, now_us) for count, time in values]
    np.testing.assert_allclose(out, np.array(expected, np.float32), rtol=1e-5, atol=1e-30)


def test_hotness_is_a_sigmoid_of_a_logarithm() -> None:
    counts = [0, 1, 7, 1000]
    out = np.empty(4, np.float32)
    hotness(trees.int32(counts), trees.int64([NOW_US] * 4), NOW_US, out)
    np.testing.assert_allclose(out, [1 / (1 + exp(-log1p(count))) for count in counts], rtol=1e-6)


@few
@given(trees.seeds, trees.sizes)
def test_conditions(seed: int, n: int) -> None:
    world = make_world(seed, n)
    conditions = make_conditions(seed + 1, world)
    snapshot = build(world, make_layout(seed + 2, world))
    nodes = arrays.frozen(np.arange(len(snapshot.paths), dtype=np.int32)[::-1])
    out = np.full(len(nodes), 9, np.uint8)
    mask_nodes(snapshot.tree, condition_arrays(snapshot, conditions), nodes, out)
    matching = {snapshot.paths[node] for node in nodes[out == 1]}
    assert set(out.tolist()) <= {0, 1}
    assert matching == {path for path in world if oracle_conditions.may_match(world, path, conditions)}


def case(seed: int, n: int) -> tuple[World, Question, Conditions, trees.Snapshot]:
    """Make what a flat search takes."""
    world = make_world(seed, n)
    snapshot = build(world, make_layout(seed + 3, world))
    return world, make_question(seed + 1), make_conditions(seed + 2, world), snapshot


@few
@given(trees.seeds, trees.sizes, st.sampled_from([0, 1, 3, 1000]), st.sampled_from([0, 1, 4, 1000]))
def test_whole_scope_is_scanned(seed: int, n: int, k: int, k_directories: int) -> None:
    world, question, conditions, snapshot = case(seed, n)
    expected = flat.scan_nodes(world, question, conditions, k, k_directories)
    matches, directories = make_pool(k), make_pool(k_directories)
    counts = np.zeros(scan.N_SCAN_COUNTS, np.int64)
    n_rows = scan.scan_nodes(
        snapshot.tree,
        snapshot.rows,
        snapshot.sketches,
        trees.question_arrays(question),
        condition_arrays(snapshot, conditions),
        0,
        1,
        NOTHING,
        0,
        1,
        matches,
        directories,
        counts,
    )
    assert ranking(matches, snapshot.paths) == expected.matches
    assert ranking(directories, snapshot.paths) == expected.directories
    assert n_rows == expected.n_rows
    assert counts.tolist() == [expected.n_rows, expected.n_matched, expected.n_filtered]


@few
@given(trees.seeds, trees.sizes)
def test_match_carries_its_best_row_and_its_parts(seed: int, n: int) -> None:
    world, question, conditions, snapshot = case(seed, n)
    matches = make_pool(1000)
    arguments = trees.question_arrays(question), condition_arrays(snapshot, conditions)
    counts = np.zeros(scan.N_SCAN_COUNTS, np.int64)
    here = snapshot.tree, snapshot.rows, snapshot.sketches, *arguments
    scan.scan_nodes(*here, 0, 1, NOTHING, 0, 1, matches, make_pool(0), counts)
    for slot in slots_of(matches):
        context = world[snapshot.paths[matches.node[slot]]]
        first = int(snapshot.tree.row_lo[matches.node[slot]])
        row = context.rows[matches.row[slot] - first]
        parts = matches.parts[slot]
        assert row.level in conditions.levels
        equal = [other for other in context.rows if other.level in conditions.levels]
        equal = [other for other in equal if scores.own(other, question) == matches.score[slot]]
        assert equal[0] is row
        assert parts[arrays.PART_DENSE] == scores.dot(row.vector, question.vector)
        if question.lexical_weight and question.directory_weight:
            assert parts[arrays.PART_LEXICAL] == scores.lexical(row, question)
        assert parts[arrays.PART_OWN] == parts[arrays.PART_RELEVANCE] == matches.score[slot]
        assert np.isnan([parts[arrays.PART_PARENT], parts[arrays.PART_HOTNESS]]).all()


@few
@given(trees.seeds, trees.sizes, st.sampled_from([1, 3, 1000]))
def test_candidates_are_rescored_and_fresh_nodes_join_them(seed: int, n: int, k: int) -> None:
    world, question, conditions, snapshot = case(seed, n)
    random = Random(seed)
    candidates = [node for node in range(len(snapshot.paths)) if random.random() < 0.5]
    random.shuffle(candidates)
    n_base, n_nodes = len(snapshot.tree.child_lo) - 1, len(snapshot.paths)
    first_fresh = random.choice([0, n_base, (n_base + n_nodes) // 2, n_nodes])
    scored = [node for node in candidates if node < n_base] + list(range(max(first_fresh, n_base), n_nodes))
    looked_at = {snapshot.paths[node] for node in scored}
    # contexts that nobody looks at have no rows to find; they still hide what is below them
    seen = {path: context if path in looked_at else replace(context, rows=()) for path, context in world.items()}
    expected = flat.scan_nodes(seen, question, conditions, k, k)
    matches, directories = make_pool(k), make_pool(k)
    scan.scan_nodes(
        snapshot.tree,
        snapshot.rows,
        snapshot.sketches,
        trees.question_arrays(question),
        condition_arrays(snapshot, conditions),
        0,
        0,
        arrays.frozen(trees.int32(candidates)),
        first_fresh,
        1,
        matches,
        directories,
        np.zeros(scan.N_SCAN_COUNTS, np.int64),
    )
    assert ranking(matches, snapshot.paths) == expected.matches
    assert ranking(directories, snapshot.paths) == expected.directories


@few
@given(trees.seeds, trees.sizes, st.sampled_from([1, 2, 10, 1000]))
def test_rows_are_ranked_before_they_are_collapsed(seed: int, n: int, k: int) -> None:
    world, question, conditions, snapshot = case(seed, n)
    best = make_pool(k)
    scan.scan_nodes(
        snapshot.tree,
        snapshot.rows,
        snapshot.sketches,
        trees.question_arrays(question),
        condition_arrays(snapshot, conditions),
        1,
        1,
        NOTHING,
        0,
        1,
        best,
        make_pool(0),
        np.zeros(scan.N_SCAN_COUNTS, np.int64),
    )
    found = [
        (float(best.score[slot]), snapshot.paths[best.node[slot]], int(snapshot.rows.level[best.row[slot]]))
        for slot in slots_of(best)
    ]
    assert found == flat.scan_rows(world, question, conditions, k)


@few
@given(trees.seeds, trees.sizes, st.sampled_from([1, 2, 10, 1000]))
def test_postings_find_the_best_base_nodes(seed: int, n: int, k: int) -> None:
    world, question, conditions, snapshot = case(seed, n)
    asked = trees.question_arrays(question)
    layout = make_layout(seed + 3, world)
    base = {
        path: replace(context, rows=()) if path in layout.fresh | layout.replaced else context
        for path, context in world.items()
    }
    postings = snapshot.postings
    tops = [postings.weight[postings.lo[t]] if postings.lo[t] < postings.lo[t + 1] else 0.0 for t in asked.term]
    term_order = np.argsort(-asked.weight * np.array(tops, np.float32), kind="stable").astype(np.int64)
    best = make_pool(k)
    n_read = scan.search_postings(
        snapshot.tree,
        snapshot.rows,
        postings,
        asked,
        condition_arrays(snapshot, conditions),
        term_order,
        best,
        np.zeros(scan.N_SCAN_COUNTS, np.int64),
    )
    assert ranking(best, snapshot.paths) == flat.search_terms(base, question, conditions, k)
    assert n_read <= sum(postings.lo[t + 1] - postings.lo[t] for t in asked.term)
    assert added_up(snapshot, asked, condition_arrays(snapshot, conditions), term_order, k) == ranking(
        best, snapshot.paths
    )


def added_up(snapshot: Any, asked: Any, conditions: Any, term_order: Any, k: int) -> Any:
    """Search by adding up all postings; the sums must be taken back."""
    best = make_pool(k)
    total = np.zeros(len(snapshot.rows.node), np.float32)
    n_postings = sum(snapshot.postings.lo[t + 1] - snapshot.postings.lo[t] for t in asked.term)
    touched = np.empty(n_postings, np.int32)
    arguments = snapshot.tree, snapshot.rows, snapshot.postings, asked, conditions, term_order, total, touched, best
    assert scan.add_up_postings(*arguments) == n_postings
    assert not total.any()
    return ranking(best, snapshot.paths)


@settings(few, max_examples=150)
@given(trees.seeds, st.integers(1, 80), st.integers(1, 6))
def test_postings_of_many_terms_skip_nothing_that_ranks(seed: int, n: int, k: int) -> None:
    """Rich rows and few places: bounds cut, the worst place changes, the better of two rows replaces the other."""
    random = Random(seed)
    density = random.choice([0.2, 0.4, 0.8])
    world: World = {(): Context(is_directory=True)}
    for i in range(n):
        is_directory = random.random() < 0.6
        rows = [
            Row(
                level,
                (0.0,) * trees.DIM,
                {t: random.randint(1, 15) / 16 for t in range(6) if random.random() < density},
            )
            for level in ((0, 1) if is_directory else (2,))
        ]
        world[f"n{i:02}",] = Context(is_directory=is_directory, rows=tuple(rows))
    snapshot = build(world)
    question = Question((0.0,) * trees.DIM, {t: random.choice([1, 2, 16]) / 16 for t in range(6)}, 1.0, 1.0)
    conditions = Conditions(now_us=NOW_US)
    best = make_pool(k)
    counts = np.zeros(scan.N_SCAN_COUNTS, np.int64)
    asked = trees.question_arrays(question)
    tops = [max([row.terms.get(t, 0.0) for c in world.values() for row in c.rows], default=0.0) for t in range(6)]
    term_order = np.argsort(-asked.weight * np.array(tops, np.float32), kind="stable").astype(np.int64)
    arguments = snapshot.tree, snapshot.rows, snapshot.postings, asked, condition_arrays(snapshot, conditions)
    scan.search_postings(*arguments, term_order, best, counts)
    assert ranking(best, snapshot.paths) == flat.search_terms(world, question, conditions, k)
    assert counts[scan.SCAN_ROWS] <= sum(bool(row.terms) for context in world.values() for row in context.rows)
    assert added_up(snapshot, asked, arguments[4], term_order, k) == ranking(best, snapshot.paths)


def test_postings_stop_early() -> None:
    """A thousand files have a common term, one has it twice as strong: the others need not be read."""
    world = make_world(0, 0)
    for i in range(1000):
        world[f"f{i:04}",] = replace(
            make_world(0, 0)[()],
            is_directory=False,
            rows=(Row(2, (0.0,) * trees.DIM, {0: 0.875 if i == 700 else 0.25}),),
        )
    snapshot = build(world)
    best = make_pool(1)
    question = Question((0.0,) * trees.DIM, {0: 0.5}, 1.0)
    n_read = scan.search_postings(
        snapshot.tree,
        snapshot.rows,
        snapshot.postings,
        trees.question_arrays(question),
        condition_arrays(snapshot, Conditions(now_us=NOW_US)),
        np.zeros(1, np.int64),
        best,
        np.zeros(scan.N_SCAN_COUNTS, np.int64),
    )
    assert ranking(best, snapshot.paths) == [(0.4375, ("f0700",))]
    assert n_read == 1


def test_plain_arrays_may_be_read_only_or_not() -> None:
    """The arrays of groups must be read-only (see `arrays.frozen`); arrays that are arguments may be either."""
    _, _, conditions, snapshot = case(5, 20)
    nodes = np.arange(len(snapshot.paths), dtype=np.int32)
    found = []
    for given_nodes in (nodes, arrays.frozen(nodes)):
        out = np.empty(len(nodes), np.uint8)
        mask_nodes(snapshot.tree, condition_arrays(snapshot, conditions), given_nodes, out)
        found.append(out.tolist())
    assert found[0] == found[1]
    assert any(found[0])


def test_frozen_is_a_read_only_view() -> None:
    array = np.zeros((2, 3))
    view = arrays.frozen(array)
    assert not view.flags.writeable
    assert view.base is array
    assert arrays.frozen(array.T).flags.c_contiguous
