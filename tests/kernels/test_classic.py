"""The kernels answer every recorded case of the published algorithm: matches, scores, order of opening, reranker calls."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import classic
from tests.oracle.model import Conditions, Context, Path, Question, Row, World
from viking_kernels import arrays as a
from viking_kernels import frontier as f
from viking_kernels.classic import start_classic
from viking_kernels.hotness import hotness
from viking_kernels.scan import N_SCAN_COUNTS, scan_nodes

from .driver import go_on, make_frontier, make_pool, slots_of
from .trees import Layout, Snapshot, build, condition_arrays, few, float32, frozen, int32, question_arrays, seeds

NOW = datetime.now(UTC)  # the recorded ages are zero or without effect at any time
STOPS = {f.EXHAUSTED: "EXHAUSTED", f.CONVERGED: "CONVERGED", f.STAGNANT: "STAGNANT"}
TOLERANCE = 6e-5  # recorded scores have 4 decimals
LEVELS = frozenset(range(3))


def microseconds(text: str | None) -> int:
    """Convert a recorded time; 0 is unknown."""
    return int(datetime.fromisoformat(text).timestamp() * 1e6) if text else 0


def world_of(case: classic.Case) -> World:
    """Make a tree of a case's records: in two dimensions any cosine is exact."""
    world: World = {(): Context(is_directory=True)}
    for record in case["records"]:
        path: Path = tuple(record["uri"].removeprefix("viking://").split("/"))
        for length in range(1, len(path)):
            world.setdefault(path[:length], Context(is_directory=True))
        row = Row(record["level"], (record["s"], (1 - record["s"] ** 2) ** 0.5))
        before = world.get(path)
        rows = (*before.rows, row) if before else (row,)
        world[path] = Context(
            is_directory=record["level"] != 2,
            rows=tuple(sorted(rows, key=lambda row: row.level)),
            active_count=record.get("active_count") or 0,
            update_us=microseconds(record.get("updated_at")),
        )
    target = tuple(case["target"].removeprefix("viking://").split("/"))
    for length in range(1, len(target) + 1):
        world.setdefault(target[:length], Context(is_directory=True))
    return world


class Run:
    """One case on its way through the kernels."""

    def __init__(self, case: classic.Case, layout: Layout | None = None) -> None:
        """Args: layout: how the tree is stored."""
        self.case = case
        self.params = case["params"]
        self.limit = self.params["limit"]
        world = world_of(case)
        self.snapshot: Snapshot = build(world, layout or Layout(), dim=2)
        self.target: Path = tuple(case["target"].removeprefix("viking://").split("/"))
        below = frozenset(path for path in world if path[:-1] == self.target)
        self.place = Conditions(included=below, now_us=int(NOW.timestamp() * 1e6))
        self.question = question_arrays(Question((1.0, 0.0)))
        self.levels = frozenset(self.params["level"]) if self.params["level"] is not None else LEVELS
        self.n_calls = self.n_texts = self.n_matched = 0

    def conditions(self, levels: frozenset[int]) -> a.Conditions:
        """Lay out the conditions with some levels."""
        return condition_arrays(self.snapshot, self.place)._replace(level_mask=sum(1 << level for level in levels))

    def uri(self, node: int) -> str:
        """Name a node."""
        return "viking://" + "/".join(self.snapshot.paths[node])

    def shown(self, node: int, row: int) -> str:
        """Name a match as it is shown."""
        return self.uri(node) + classic.DISPLAY_SUFFIX[int(self.snapshot.rows.level[row])]

    def global_rows(self, levels: frozenset[int]) -> a.Pool:
        """Find the best rows of some levels below the target."""
        best = make_pool(max(self.limit, classic.GLOBAL_TOP_K))
        counts = np.zeros(N_SCAN_COUNTS, np.int64)
        tree, rows, sketches = self.snapshot.tree, self.snapshot.rows, self.snapshot.sketches
        here = tree, rows, sketches, self.question, self.conditions(levels)
        scan_nodes(*here, 1, 1, np.empty(0, np.int32), 0, 1, best, make_pool(0), counts)
        return best

    def rerank(self, rows: list[int], scores: list[float]) -> list[float]:
        """Ask the recorded reranker once, if there is one."""
        if self.case["rerank"] is None or not rows:
            return scores
        self.n_calls += 1
        self.n_texts += len(rows)
        return [self.case["rerank"][self.uri(int(self.snapshot.rows.node[row]))] for row in rows]

    def rules(self) -> a.Rules:
        """Make the rules of the published algorithm."""
        return frozen(
            a.Rules(
                alpha=float32([self.params["score_propagation_alpha"]] * 4),
                threshold=self.params["score_threshold"] or 0.0,
                is_gte=int(self.params["score_gte"]),
                hotness_alpha=0.0,
                parallelism=classic.PARALLELISM,
                convergence_rounds=classic.CONVERGENCE_ROUNDS,
                max_rows=0,
                is_classic=1,
                child_rows=max(2 * self.limit, classic.MIN_CHILD_ROWS),
                is_steered=int(self.case["rerank"] is not None),
                record_steps=1,
                record_children=1,
            )
        )

    def quick(self) -> list[tuple[str, float]]:
        """Search flat: cut rows, then collapse them."""
        best = self.global_rows(self.levels)
        passes = classic.threshold_of(self.params)
        shown: dict[int, tuple[str, float]] = {}
        for slot in slots_of(best):
            if passes(float(best.score[slot])):
                node = int(best.node[slot])
                shown.setdefault(node, (self.shown(node, best.row[slot]), float(best.score[slot])))
        return list(shown.values())[: self.limit]

    def thinking(
        self, *, max_rounds: int = 1 << 40, capacity: int = 1
    ) -> tuple[list[tuple[str, float]], list[str], int]:
        """Walk; return (matches, opened directories, status)."""
        best = self.global_rows(frozenset({0, 1}))
        slots = slots_of(best)
        start_row = [int(best.row[slot]) for slot in slots]
        start_own = self.rerank(start_row, [float(best.score[slot]) for slot in slots])
        pool = make_pool(self.limit)
        depth = max(len(path) for path in self.snapshot.paths)
        frontier = make_frontier(classic.PARALLELISM, len(slots) + 1, depth, capacity=capacity)
        tree, rows, rules, conditions = (
            self.snapshot.tree,
            self.snapshot.rows,
            self.rules(),
            self.conditions(self.levels),
        )
        root = self.snapshot.paths.index(self.target)
        dense = float32(best.parts[slot, a.PART_DENSE] for slot in slots)
        has_levels = int(self.params["level"] is not None)
        start_classic(
            tree,
            rows,
            conditions,
            rules,
            int32([root]),
            int32(start_row),
            float32(start_own),
            dense,
            has_levels,
            pool,
            frontier,
        )
        counted = int32(sorted(self.counted(start_row, start_own) if has_levels else []))
        arguments = (tree, rows, self.question, conditions, rules, int32([root]), counted)

        def steer(block: a.Block, at: Any) -> None:
            answers = self.rerank([int(block.row[i]) for i in at], [float(block.own[i]) for i in at])
            for i, answer in zip(at, answers, strict=True):
                block.own[i] = answer

        outcome = go_on(arguments, pool, frontier, max_rounds=max_rounds, capacity=capacity, steer=steer)
        opened = [self.uri(node) for node in outcome.frontier.step_int[: outcome[a.COUNT_EXPANDED], a.STEP_NODE]]
        self.n_matched = outcome[a.COUNT_MATCHED]
        return self.finish(pool), opened, outcome.status

    def counted(self, start_row: list[int], start_own: list[float]) -> set[int]:
        """List the nodes that have been matches since the start."""
        passes = classic.threshold_of(self.params)
        level, node = self.snapshot.rows.level, self.snapshot.rows.node
        return {
            int(node[row])
            for row, own in zip(start_row, start_own, strict=True)
            if level[row] in self.levels and passes(own)
        }

    def finish(self, pool: a.Pool) -> list[tuple[str, float]]:
        """Mix hotness after the cut and sort again."""
        weight = self.params["hotness_alpha"]
        slots = slots_of(pool)
        nodes = pool.node[slots]
        hot = np.empty(len(slots), np.float32)
        tree = self.snapshot.tree
        hotness(tree.active_count[nodes], tree.update_us[nodes], self.place.now_us, hot)
        mixed = [
            (
                self.shown(int(pool.node[slot]), int(pool.row[slot])),
                float((1 - weight) * pool.score[slot] + weight * heat),
            )
            for slot, heat in zip(slots, hot, strict=True)
        ]
        return sorted(mixed, key=lambda match: -match[1])


def assert_expected(found: list[tuple[str, float]], case: classic.Case) -> None:
    """Compare with the recorded matches."""
    expected = case["expected"]["matches"]
    assert [uri for uri, _ in found] == [uri for uri, _ in expected]
    np.testing.assert_allclose([score for _, score in found], [score for _, score in expected], atol=TOLERANCE)


CASES = list(classic.load_cases())
QUICK = [case for case in CASES if case["params"]["mode"] == "quick"]
THINKING = [case for case in CASES if case["params"]["mode"] == "thinking"]


def test_all_recorded_cases_are_here() -> None:
    assert (len(QUICK), len(THINKING)) == (53, 247)
    assert any(case["rerank"] for case in THINKING)


@pytest.mark.parametrize("case", QUICK, ids=lambda case: str(case["case"]))
def test_quick(case: classic.Case) -> None:
    assert_expected(Run(case).quick(), case)


@pytest.mark.parametrize("case", THINKING, ids=lambda case: str(case["case"]))
def test_thinking(case: classic.Case) -> None:
    run = Run(case)
    found, opened, status = run.thinking()
    assert opened == case["expected"]["expanded"]
    assert_expected(found, case)
    assert (run.n_calls, run.n_texts) == (case["rerank_calls"], case["rerank_documents"])
    assert STOPS[status] == classic.retrieve(case, NOW).stop_reason


def random_case(seed: int, n: int) -> classic.Case:
    """Make a case like the recorded ones, of deeper trees, higher thresholds and smaller limits."""
    random = Random(seed)
    target = "viking://resources/p"
    directories, records = [target], []
    cosines = random.sample(range(-900, 1000), 2 * n)
    for i in range(n):
        parent = random.choice(directories[-random.choice([1, 3, 50]) :])
        is_directory = random.random() < 0.6
        uri = f"{parent}/{'d' if is_directory else 'f'}{i:02}"
        levels = random.choice([(0,), (0, 1), (0, 1), (1,), ()]) if is_directory else (2,)
        records += [{"uri": uri, "level": level, "s": cosines.pop() / 1000} for level in levels]
        if is_directory:
            directories.append(uri)
    params = {
        "mode": "thinking",
        "limit": random.choice([1, 2, 3, 10, 100]),
        "score_threshold": random.choice([None, -1.0, 0.25, 0.5]),
        "score_gte": random.random() < 0.5,
        "score_propagation_alpha": random.choice([0.0, 0.25, 0.5, 1.0]),
        "hotness_alpha": 0.0,
        "level": random.choice([None, [0], [0, 1], [1], [2], [0, 1, 2]]),
    }
    answers = {record["uri"]: random.randint(-8, 8) / 8 for record in records}
    return {"target": target, "params": params, "rerank": random.choice([None, answers]), "records": records}


@settings(few, max_examples=150)
@given(seeds, st.integers(1, 60))
def test_random_cases_equal_the_oracle(seed: int, n: int) -> None:
    case = random_case(seed, n)
    expected = classic.retrieve(case, NOW)
    run = Run(case)
    found, opened, status = run.thinking()
    assert opened == expected.expanded
    assert [uri for uri, _ in found] == [uri for uri, _ in expected.matches]
    np.testing.assert_allclose([score for _, score in found], [score for _, score in expected.matches], atol=1e-6)
    assert STOPS[status] == expected.stop_reason
    assert (run.n_calls, run.n_texts) == (expected.rerank_calls, expected.rerank_documents)
    if len(found) < case["params"]["limit"]:
        assert run.n_matched == len(found)


@pytest.mark.parametrize("case", THINKING[::10], ids=lambda case: str(case["case"]))
def test_slices_and_room_change_nothing(case: classic.Case) -> None:
    assert Run(case).thinking(max_rounds=1) == Run(case).thinking(capacity=1024)


@pytest.mark.parametrize("case", THINKING[5::10], ids=lambda case: str(case["case"]))
def test_fresh_nodes_and_replaced_rows_change_nothing(case: classic.Case) -> None:
    paths = sorted(world_of(case))
    fresh = {path for path in paths if len(path) > 2 and hash_of(path[:3]) % 3 == 0}
    layout = Layout(frozenset(fresh), frozenset())
    found, opened, status = Run(case, layout).thinking()
    assert (found, opened, status) == Run(case).thinking()


def hash_of(path: Path) -> int:
    """Return the same number for the same path in every run."""
    return sum(map(ord, "/".join(path)))
