"""The descent, twice: by recursion over everything, and best first in rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.oracle.conditions import is_alive, is_in_scope, is_wanted
from tests.oracle.flat import Ranking, ranked
from tests.oracle.model import Conditions, Context, Path, Question, Rules, World, children_of, uri_of
from tests.oracle.scores import hotness, mix, own, passes

if TYPE_CHECKING:
    from collections.abc import Sequence

Score = float | None


@dataclass(slots=True)
class Step:
    """One expanded directory."""

    directory: Path
    round: int
    n_scored: int
    n_kept: int
    n_queued: int
    score: Score


@dataclass(slots=True)
class Walk:
    """What a walk has found and done."""

    found: dict[Path, float] = field(default_factory=dict)  # every match, by score
    steps: list[Step] = field(default_factory=list)
    n_rows: int = 0
    n_filtered: int = 0
    cut: dict[Path, float] = field(default_factory=dict)  # what the threshold cut, by relevance
    stop: str = ""

    def top(self, k: int) -> Ranking:
        """Rank the matches and cut."""
        return ranked([(score, path) for path, score in self.found.items()], k)


class Walker:
    """The parts that both ways of walking share."""

    def __init__(self, world: World, question: Question, conditions: Conditions, rules: Rules) -> None:
        """Begin with nothing found."""
        self.world = world
        self.question = question
        self.conditions = conditions
        self.rules = rules
        self.walk = Walk()

    def best(self, path: Path, levels: frozenset[int] = frozenset(range(3))) -> Score:
        """Take the best own score of a node's rows of some levels."""
        return max((own(row, self.question) for row in self.world[path].rows if row.level in levels), default=None)

    def hand_down(self, path: Path, parent: Score) -> Score:
        """Return what a directory hands down to its children."""
        best = self.best(path)
        return parent if best is None else mix(best, parent, self.rules.alpha[self.world[path].type])

    def keep(self, path: Path, parent: Score, *, is_counted: bool = True) -> bool:
        """Take a node as a match if it is one; return whether it is."""
        context = self.world[path]
        best = self.best(path, self.conditions.levels)
        if best is None or not is_wanted(context, self.conditions):
            self.walk.n_filtered += is_counted and bool(context.rows)
            return False
        relevance = mix(best, parent, self.rules.alpha[context.type])
        if not passes(relevance, self.rules):
            if path not in self.walk.found:
                self.walk.cut.setdefault(path, relevance)
            return False
        self.walk.found.setdefault(path, self.score(context, relevance))
        return True

    def score(self, context: Context, relevance: float) -> float:
        """Mix hotness into a relevance."""
        hot = hotness(context.active_count, context.update_us, self.conditions.now_us)
        return (1 - self.rules.hotness_alpha) * relevance + self.rules.hotness_alpha * hot

    def ways(self, directory: Path) -> list[Path]:
        """List the children that are alive and in scope."""
        return [
            child
            for child in children_of(self.world, directory)
            if is_alive(self.world[child], self.conditions) and is_in_scope(child, self.conditions)
        ]


def exhaustive(world: World, question: Question, conditions: Conditions, rules: Rules, roots: Sequence[Path]) -> Walk:
    """Visit everything below the roots by recursion."""
    walker = Walker(world, question, conditions, rules)

    def visit(path: Path, parent: Score) -> None:
        if is_in_scope(path, conditions):
            walker.keep(path, parent)
        if world[path].is_directory:
            handed = walker.hand_down(path, parent)
            for child in walker.ways(path):
                visit(child, handed)

    for root in roots:
        visit(root, None)
    return walker.walk


def best_first(
    world: World,
    question: Question,
    conditions: Conditions,
    rules: Rules,
    roots: Sequence[Path],
    seeds: Sequence[Path],
    k: int,
) -> Walk:
    """Open the best directories first, `parallelism` a round, until a rule says stop."""
    walker = Walker(world, question, conditions, rules)
    walk = walker.walk
    heap: list[tuple[Path, Score]] = []
    known: dict[Path, Score] = {}  # what the ancestors of seeds hand down; each is scored once

    def handed(path: Path) -> Score:
        if path not in known:
            parent = handed(path[:-1]) if path not in roots and path else None
            walk.n_rows += len(world[path].rows)
            known[path] = walker.hand_down(path, parent)
        return known[path]

    for path in [*roots, *seeds]:
        parent = handed(path[:-1]) if path in seeds else None
        walk.n_rows += len(world[path].rows)
        if is_in_scope(path, conditions):
            walker.keep(path, parent, is_counted=False)
        if world[path].is_directory:
            heap.append((path, walker.hand_down(path, parent)))
        elif path not in roots:
            heap.append((path[:-1], parent))
    opened: set[Path] = set()
    n_stable = n_rounds = 0
    while True:
        heap.sort(key=lambda entry: (entry[1] is not None, -(entry[1] or 0.0), uri_of(entry[0])))
        now: list[tuple[Path, Score]] = []
        while heap and len(now) < rules.parallelism:
            path, score = heap.pop(0)
            if path not in opened:
                opened.add(path)
                now.append((path, score))
        if not now:
            walk.stop = "EXHAUSTED"
            return walk
        before = {path for _, path in walk.top(k)}
        for directory, score in now:
            alive = [child for child in children_of(world, directory) if is_alive(world[child], conditions)]
            n_scored = sum(len(world[child].rows) for child in alive)
            if rules.max_rows and walk.n_rows + n_scored > rules.max_rows:
                walk.stop = "BUDGET"
                return walk
            walk.n_rows += n_scored
            n_kept = n_queued = 0
            for child in walker.ways(directory):
                n_kept += walker.keep(child, score)
                if world[child].is_directory:
                    heap.append((child, walker.hand_down(child, score)))
                    n_queued += 1
            walk.steps.append(Step(directory, n_rounds, n_scored, n_kept, n_queued, score))
        n_rounds += 1
        after = {path for _, path in walk.top(k)}
        n_stable = n_stable + 1 if after == before and len(after) == k else 0
        if rules.convergence_rounds and n_stable >= rules.convergence_rounds:
            walk.stop = "CONVERGED"
            return walk
