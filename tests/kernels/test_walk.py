"""The walk equals its oracle: what it finds, in which order it opens directories, what it counts, when it stops."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.model import Conditions, Context, Path, Question, Row, Rules, World
from tests.oracle.walk import Walk, best_first, exhaustive
from viking_kernels import arrays as a
from viking_kernels import frontier as f

from . import trees
from .driver import Outcome, descend, ranking, slots_of
from .trees import NOW_US, build, few, make_conditions, make_layout, make_question, make_rules, make_world, roots_of

STOPS = {f.EXHAUSTED: "EXHAUSTED", f.CONVERGED: "CONVERGED", f.BUDGET: "BUDGET"}


class Case:
    """One random tree with everything that a walk takes; seeds are nodes that a walk from the roots can reach."""

    def __init__(self, seed: int, n: int, **rules: object) -> None:
        """Args: rules: changes of the random rules."""
        random = Random(seed)
        self.world = make_world(random.getrandbits(32), n)
        self.layout = make_layout(random.getrandbits(32), self.world)
        self.snapshot = build(self.world, self.layout)
        self.question = make_question(random.getrandbits(32))
        self.conditions = make_conditions(random.getrandbits(32), self.world, is_filtered=random.random() < 0.5)
        self.rules = make_rules(random.getrandbits(32), **rules)
        self.roots = sorted(roots_of(random.getrandbits(32), self.world, self.conditions), key=self.node)
        everything = replace(self.conditions, is_open=True, levels=frozenset(range(3)))
        reached = exhaustive(self.world, self.question, everything, Rules(), self.roots).found
        usable = sorted(reached.keys() - set(self.roots))
        self.seeds = sorted(random.sample(usable, min(len(usable), random.randrange(6))), key=self.node)

    def node(self, path: Path) -> int:
        """Return a path's id."""
        return self.snapshot.paths.index(path)

    def descend(self, k: int = 1000, *, with_seeds: bool = True, **options: object) -> Outcome:
        """Walk."""
        given_seeds = self.seeds if with_seeds else []
        return descend(
            self.snapshot,
            self.question,
            self.conditions,
            self.rules,
            self.roots,
            given_seeds,
            k,
            **options,  # type: ignore[arg-type]
        )

    def best_first(self, k: int = 1000, *, with_seeds: bool = True) -> Walk:
        """Walk naively."""
        given_seeds = self.seeds if with_seeds else []
        return best_first(self.world, self.question, self.conditions, self.rules, self.roots, given_seeds, k)

    def exhaustive(self) -> Walk:
        """Visit everything."""
        return exhaustive(self.world, self.question, self.conditions, self.rules, self.roots)


def assert_same(outcome: Outcome, walk: Walk, case: Case, k: int) -> None:
    """Compare all that a walk tells."""
    paths = case.snapshot.paths
    assert STOPS[outcome.status] == walk.stop
    assert ranking(outcome.pool, paths) == walk.top(k)
    assert outcome.steps(paths) == walk.steps
    assert outcome[a.COUNT_EXPANDED] == len(walk.steps)
    assert outcome[a.COUNT_ROWS] == walk.n_rows
    assert outcome[a.COUNT_MATCHED] == len(walk.found)
    assert outcome[a.COUNT_FILTERED] == walk.n_filtered
    assert outcome[a.COUNT_CUT] == len(walk.cut)
    assert outcome.frontier.best_cut[0] == max(walk.cut.values(), default=-np.inf)


# 200 trees; every budget is open
@settings(few, max_examples=200)
@given(trees.seeds, trees.sizes, st.sampled_from([1, 5, 1000]))
def test_open_walk_equals_the_exhaustive_search(seed: int, n: int, k: int) -> None:
    case = Case(seed, n)
    outcome, walk = case.descend(k, with_seeds=False), case.exhaustive()
    assert outcome.status == f.EXHAUSTED
    assert ranking(outcome.pool, case.snapshot.paths) == walk.top(k)
    assert outcome[a.COUNT_MATCHED] == len(walk.found)
    assert outcome[a.COUNT_CUT] == len(walk.cut)
    assert outcome.frontier.best_cut[0] == max(walk.cut.values(), default=-np.inf)


@few
@given(trees.seeds, trees.sizes, st.sampled_from([1, 5, 1000]))
def test_seeds_do_not_change_an_open_walk(seed: int, n: int, k: int) -> None:
    case = Case(seed, n)
    outcome, walk = case.descend(k), case.exhaustive()
    assert ranking(outcome.pool, case.snapshot.paths) == walk.top(k)
    assert outcome[a.COUNT_MATCHED] == len(walk.found)
    assert outcome[a.COUNT_CUT] == len(walk.cut)


@few
@given(trees.seeds, trees.sizes, st.sampled_from([1, 5, 1000]))
def test_steps_and_counts_of_an_open_walk(seed: int, n: int, k: int) -> None:
    case = Case(seed, n)
    assert_same(case.descend(k), case.best_first(k), case, k)


@few
@given(trees.seeds, trees.sizes, st.sampled_from([1, 3]), st.sampled_from([1, 2, 3]))
def test_convergence(seed: int, n: int, k: int, n_rounds: int) -> None:
    case = Case(seed, n, convergence_rounds=n_rounds, parallelism=1)
    assert_same(case.descend(k), case.best_first(k), case, k)


@few
@given(trees.seeds, trees.sizes, st.integers(1, 60))
def test_row_budget(seed: int, n: int, max_rows: int) -> None:
    case = Case(seed, n, max_rows=max_rows)
    # rows of deleted and expired children count when a directory asks whether it may be opened: go without them
    case.world = {path: replace(context, expire_us=0) for path, context in case.world.items()}
    case.snapshot = build(case.world)
    case.seeds.sort(key=case.node)
    outcome = case.descend(5)
    assert_same(outcome, case.best_first(5), case, 5)
    at_start = case.best_first(5).n_rows - sum(step.n_scored for step in case.best_first(5).steps)
    assert outcome[a.COUNT_ROWS] <= max(max_rows, at_start)


@few
@given(trees.seeds, trees.sizes, st.integers(1, 40))
def test_row_budget_is_never_exceeded(seed: int, n: int, max_rows: int) -> None:
    case = Case(seed, n, max_rows=max_rows)
    outcome = case.descend(5)
    scored_by_steps = int(outcome.frontier.level_int[:, a.LEVEL_ROWS].sum())
    assert outcome[a.COUNT_ROWS] <= max(max_rows, outcome[a.COUNT_ROWS] - scored_by_steps)


@few
@given(trees.seeds, trees.sizes, st.integers(1, 3), st.sampled_from([0, 1, 2]))
def test_slices_and_room_change_nothing(seed: int, n: int, max_rounds: int, n_stable: int) -> None:
    case = Case(seed, n, convergence_rounds=n_stable)
    whole = case.descend(3, capacity=1024)
    sliced = case.descend(3, max_rounds=max_rounds, capacity=1)
    assert whole.n_calls == 1
    assert sliced.status == whole.status
    assert slots_of(sliced.pool) == slots_of(whole.pool)
    for ours, theirs in zip(sliced.pool, whole.pool, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    counters = [i for i in range(a.N_COUNTERS) if i != a.COUNT_NEEDED]
    assert sliced.frontier.counters[counters].tolist() == whole.frontier.counters[counters].tolist()
    assert sliced.steps(case.snapshot.paths) == whole.steps(case.snapshot.paths)
    n_children = whole[a.COUNT_CHILDREN]
    assert (sliced.frontier.child_int[:n_children] == whole.frontier.child_int[:n_children]).all()
    assert (sliced.frontier.child_score[:n_children] == whole.frontier.child_score[:n_children]).all()


@few
@given(trees.seeds, trees.sizes)
def test_recording_changes_nothing(seed: int, n: int) -> None:
    case = Case(seed, n)
    recorded, plain = case.descend(5), case.descend(5, record=False)
    assert plain.frontier.step_int.shape == (0, a.N_STEP_INTS)
    assert ranking(plain.pool, case.snapshot.paths) == ranking(recorded.pool, case.snapshot.paths)
    assert plain[a.COUNT_EXPANDED] == recorded[a.COUNT_EXPANDED]


@few
@given(trees.seeds, trees.sizes)
def test_levels_and_children_add_up(seed: int, n: int) -> None:
    case = Case(seed, n)
    outcome = case.descend(5)
    steps, levels = outcome.steps(case.snapshot.paths), outcome.frontier.level_int
    for depth in range(len(levels)):
        here = [step for step in steps if depth_of(step.directory, case.roots) == depth]
        assert levels[depth, a.LEVEL_EXPANDED] == len(here)
        assert levels[depth, a.LEVEL_ROWS] == sum(step.n_scored for step in here)
        assert levels[depth, a.LEVEL_KEPT] == sum(step.n_kept for step in here)
    children = outcome.frontier.child_int[: outcome[a.COUNT_CHILDREN]]
    for i, step in enumerate(steps):
        assert children[children[:, a.CHILD_STEP] == i, a.CHILD_KEPT].sum() == step.n_kept
    if case.conditions.included == {()} and not case.conditions.excluded:
        assert len(children) == sum(step.n_scored for step in steps)


def depth_of(path: Path, roots: list[Path]) -> int:
    """Return the depth below the searched root."""
    return next(len(path) - len(root) for root in roots if path[: len(root)] == root)


@few
@given(trees.seeds, trees.sizes, st.sampled_from([0, 1]))
def test_fresh_replaced_and_deleted_nodes_equal_a_tree_laid_out_anew(seed: int, n: int, n_stable: int) -> None:
    case = Case(seed, n, convergence_rounds=n_stable)
    changed = case.descend(4)
    paths = case.snapshot.paths
    case.snapshot = build(case.world)
    anew = case.descend(4)
    assert ranking(changed.pool, paths) == ranking(anew.pool, case.snapshot.paths)
    assert changed.steps(paths) == anew.steps(case.snapshot.paths)
    assert changed.status == anew.status


@few
@given(trees.seeds, trees.sizes)
def test_match_carries_where_its_score_comes_from(seed: int, n: int) -> None:
    case = Case(seed, n)
    outcome = case.descend()
    steps = outcome.steps(case.snapshot.paths)
    for slot in slots_of(outcome.pool):
        path, step = case.snapshot.paths[outcome.pool.node[slot]], outcome.pool.step[slot]
        _, _, own, parent, relevance, hot = (float(part) for part in outcome.pool.parts[slot])
        alpha = case.rules.alpha[case.world[path].type]
        assert relevance == (own if np.isnan(parent) else alpha * own + (1 - alpha) * parent)
        if step >= 0:
            assert steps[step].directory == path[:-1]
            assert parent == steps[step].score or (np.isnan(parent) and steps[step].score is None)
        else:
            assert path in case.roots + case.seeds
        weight = case.rules.hotness_alpha
        assert outcome.pool.score[slot] == ((1 - weight) * relevance + weight * hot if weight else relevance)


@few
@given(trees.seeds, trees.sizes, st.sampled_from([1, 5, 1000]))
def test_another_order_of_the_queue_changes_no_relevance(seed: int, n: int, k: int) -> None:
    """A reranker steers by the order of opening; a walk that is not stopped still equals the exhaustive search."""
    case = Case(seed, n)
    random = Random(seed)

    def reorder(frontier: a.Frontier) -> None:
        size = int(frontier.counters[a.COUNT_HEAP])
        scores = frontier.heap_score[:size].tolist()
        random.shuffle(scores)
        ranked = sorted(
            zip(scores, frontier.heap_node[:size].tolist(), strict=True),
            key=lambda entry: (entry[0] == entry[0], -entry[0], case.snapshot.tree.tie[entry[1]]),
        )
        for i, (score, node) in enumerate(ranked):
            frontier.heap_score[i], frontier.heap_node[i] = score, node

    outcome, walk = case.descend(k, reorder=reorder, max_rounds=1), case.exhaustive()
    assert outcome.status == f.EXHAUSTED
    assert ranking(outcome.pool, case.snapshot.paths) == walk.top(k)
    assert outcome[a.COUNT_MATCHED] == len(walk.found)
    assert {step.directory: step.score for step in outcome.steps(case.snapshot.paths)} == {
        step.directory: step.score for step in case.best_first(k).steps
    }


def leaf(score: float) -> Context:
    """Make a file with a score."""
    return Context(is_directory=False, rows=(Row(2, (score, 0.0, 0.0, 0.0, 0.0)),))


def folder(*scores: float) -> Context:
    """Make a directory with scores of levels 0 and 1."""
    rows = tuple(Row(level, (score, 0.0, 0.0, 0.0, 0.0)) for level, score in enumerate(scores))
    return Context(is_directory=True, rows=rows)


ASKED = Question((1.0, 0.0, 0.0, 0.0, 0.0))
HERE = Conditions(now_us=NOW_US)


def found(
    world: World, rules: Rules, roots: list[Path], seeds: list[Path] | None = None, k: int = 9
) -> list[tuple[float, str]]:
    """Walk and list (score, URI)."""
    snapshot = build(world)
    pool = descend(snapshot, ASKED, HERE, rules, roots, seeds, k).pool
    return [(score, "/".join(path)) for score, path in ranking(pool, snapshot.paths)]


def test_directory_without_rows_hands_its_parents_score_down() -> None:
    world = {(): folder(), ("a",): folder(0.5), ("a", "b"): folder(), ("a", "b", "c"): leaf(0.25)}
    assert found(world, Rules(), [()]) == [(0.5, "a"), (0.375, "a/b/c")]


def test_directory_is_as_good_as_its_best_row() -> None:
    world = {(): folder(), ("a",): folder(0.25, 0.75), ("a", "b"): leaf(0.25)}
    assert found(world, Rules(), [()]) == [(0.75, "a"), (0.5, "a/b")]


def test_threshold_does_not_stop_the_way_down() -> None:
    world = {(): folder(), ("a",): folder(-0.5), ("a", "b"): leaf(1.0)}
    assert found(world, Rules(threshold=0.0), [()]) == [(0.25, "a/b")]


def test_threshold_is_a_float32_like_the_scores() -> None:
    world = {(): folder(), ("a",): leaf(0.7)}
    assert [uri for _, uri in found(world, Rules(threshold=0.7, is_gte=True), [()])] == ["a"]
    assert found(world, Rules(threshold=0.7), [()]) == []


def test_equal_scores_go_by_uri_whatever_the_depth() -> None:
    world = {(): folder(), ("b",): leaf(0.5), ("a",): folder(), ("a", "z"): leaf(0.5), ("c",): leaf(0.5)}
    assert [uri for _, uri in found(world, Rules(), [()])] == ["a/z", "b", "c"]
    assert [uri for _, uri in found(world, Rules(), [()], k=2)] == ["a/z", "b"]


def test_file_may_be_a_searched_root() -> None:
    """Its directory is outside the search: it must not be opened, nor the file counted twice."""
    world = {(): folder(), ("a",): folder(0.5), ("a", "b"): leaf(1.0), ("a", "c"): leaf(1.0)}
    snapshot = build(world)
    conditions = replace(HERE, included=frozenset({("a", "b")}))
    outcome = descend(snapshot, ASKED, conditions, Rules(), [("a", "b")])
    assert ranking(outcome.pool, snapshot.paths) == [(1.0, ("a", "b"))]
    assert outcome[a.COUNT_MATCHED] == 1
    assert outcome[a.COUNT_EXPANDED] == 0


def test_seed_below_a_deep_path_is_mixed_along_it() -> None:
    path: Path = ()
    world = {(): folder()}
    for i in range(4):
        path = (*path, f"d{i}")
        world[path] = folder(0.5 if i % 2 else 1.0)
    world[*path, "f"] = leaf(1.0)
    plain = found(world, Rules(), [()])
    assert plain == found(world, Rules(), [()], [(*path, "f")])
    assert {uri: score for score, uri in plain}["d0/d1/d2/d3/f"] == 0.84375


def test_seeds_on_many_paths_share_a_small_memory() -> None:
    """More directories than the memory of relevances has places: what it forgets is computed again."""
    n = 2 * a.N_MEMO + 10
    world: World = {(): folder()}
    for i in range(n):
        world[f"d{i:03}",] = folder((i % 9) / 8)
        world[f"d{i:03}", "f"] = leaf((i % 5) / 4)
    files = [(f"d{i:03}", "f") for i in range(n)]
    assert found(world, Rules(), [()], files, 2000) == found(world, Rules(), [()], k=2000)


@pytest.mark.parametrize("parallelism", [1, 4, 50])
def test_round_opens_the_best_directories_together(parallelism: int) -> None:
    world: World = {(): folder()} | {(f"d{i}",): folder((9 - i) / 16) for i in range(9)}
    outcome = descend(build(world), ASKED, HERE, Rules(parallelism=parallelism), [()])
    assert outcome[a.COUNT_ROUNDS] == 1 + -(-9 // parallelism)
    opened = [step.directory for step in outcome.steps(base_paths(world))]
    assert opened == [(), *((f"d{i}",) for i in range(9))]


def base_paths(world: World) -> list[Path]:
    """List paths by node."""
    return build(world).paths
