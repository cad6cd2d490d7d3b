"""Random trees and questions as plain values, and the arrays of a snapshot that holds such a tree.

All numbers are small multiples of powers of two, so that float32 and Python agree to the last bit, ties included.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from tests.oracle.model import Conditions, Context, Path, Question, Row, Rules, World, uri_of
from tests.oracle.scores import WEEK_US
from viking_kernels import arrays
from viking_kernels.sketch import sketch_rows
from viking_rpc.index.bfloat16 import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

NOW_US = 100 * WEEK_US
OLD_US = NOW_US - 3 * WEEK_US
DIM = 5
N_TERMS = 6
MAX_DEPTH = 5
NEVER = Row(level=0, vector=(8.0,) * DIM, terms=dict.fromkeys(range(N_TERMS), 0.875))  # would win if it were seen

#: Reproducible, without a deadline: the first call compiles.
few = settings(max_examples=40, derandomize=True, deadline=None, database=None)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a snapshot stores a tree: what was added, replaced and deleted since it was laid out."""

    fresh: frozenset[Path] = frozenset()  # closed under descendants
    replaced: frozenset[Path] = frozenset()  # base nodes whose rows lie behind the base rows
    gone: Mapping[Path, Context] = field(default_factory=dict)  # base or fresh, below them all is gone too


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The arrays of a tree."""

    tree: arrays.Tree
    rows: arrays.Rows
    sketches: arrays.Sketches  # of the rows that are not laid out
    postings: arrays.Postings
    paths: list[Path]  # by node

    def nodes(self, paths: Iterable[Path]) -> NDArray[np.int32]:
        """Return the ascending ids of some nodes, read-only."""
        wanted = set(paths)
        return arrays.frozen(np.array([node for node, path in enumerate(self.paths) if path in wanted], np.int32))


def make_row(random: Random, level: int, palette: Sequence[tuple[float, ...]]) -> Row:
    """Make a row; vectors repeat and may be zero."""
    terms = {term: random.choice([0.25, 0.5, 0.875]) for term in range(N_TERMS) if random.random() < 0.3}
    return Row(level, random.choice(palette), terms)


def make_context(random: Random, palette: Sequence[tuple[float, ...]], *, is_directory: bool) -> Context:
    """Make a context with or without rows."""
    levels = random.choice([(), (0,), (1,), (0, 1), (0, 1)]) if is_directory else random.choice([(), (2,), (2,), (2,)])
    return Context(
        is_directory=is_directory,
        rows=tuple(make_row(random, level, palette) for level in levels),
        type=random.randrange(4),
        create_us=random.choice([0, 5, 6]),
        update_us=random.choice([0, OLD_US, NOW_US, NOW_US - WEEK_US, NOW_US - 2 * WEEK_US, NOW_US + 1]),
        expire_us=random.choice([0] * 12 + [NOW_US - 1, NOW_US, NOW_US + 1]),
        active_count=random.choice([0, 2, 6]),
        tags=frozenset(tag for tag in range(3) if random.random() < 0.5),
    )


def make_world(seed: int, n: int, *, is_alive: bool = False) -> World:
    """Make a tree of n contexts and the root."""
    random = Random(seed)
    palette = [tuple(random.randint(-4, 4) / 8 for _ in range(DIM)) for _ in range(random.choice([2, 40]))]
    palette.append((0.0,) * DIM)
    rooted = random.random() < 0.5
    root = make_context(random, palette, is_directory=True) if rooted else Context(is_directory=True)
    world: World = {(): replace(root, expire_us=0)}
    open_directories: list[Path] = [()]
    deep = random.choice([0.2, 0.5, 0.8])
    for i in range(n):
        path = (*random.choice(open_directories), f"{random.choice('abcxyz')}{i}")
        context = make_context(random, palette, is_directory=random.random() < deep)
        world[path] = replace(context, expire_us=0) if is_alive else context
        if context.is_directory and len(path) < MAX_DEPTH:
            open_directories.append(path)
    return world


def make_layout(seed: int, world: World) -> Layout:
    """Choose what of a tree is fresh and replaced, and add deleted contexts."""
    random = Random(seed)
    fresh = {path for path in world if path and random.random() < 0.15}
    fresh = {path for path in world if any(path[:length] in fresh for length in range(1, len(path) + 1))}
    replaced = {path for path in world if path not in fresh and random.random() < 0.2}
    gone: dict[Path, Context] = {}
    for i in range(random.randrange(5)):
        places = [path for path, context in {**world, **gone}.items() if context.is_directory]
        is_directory = random.random() < 0.5
        rows = (NEVER,) if is_directory else (replace(NEVER, level=2),)
        path = (*random.choice(sorted(places)), f"g{i}")
        gone[path] = Context(is_directory=is_directory, rows=rows)
        if random.random() < 0.3 or path[:-1] in fresh:
            fresh.add(path)
    return Layout(frozenset(fresh), frozenset(replaced), gone)


def base_order(paths: Iterable[Path]) -> list[Path]:
    """Number breadth-first, siblings adjacent in name order."""
    return sorted(paths, key=lambda path: (len(path), path))


def build(world: World, layout: Layout = Layout(), dim: int = DIM) -> Snapshot:
    """Build the arrays of a tree, all read-only."""
    everything = {**world, **layout.gone}
    fresh = set(layout.fresh)
    for path in base_order(everything):
        if path and path[:-1] in fresh:
            fresh.add(path)
    base = base_order(path for path in everything if path not in fresh)
    added = base_order(fresh)[::-1]  # any order with parents first will do; this one is unlike the names'
    added.sort(key=len)
    paths = base + added
    node_of = {path: node for node, path in enumerate(paths)}
    n_base, n = len(base), len(paths)

    keys = [(len(path), path) for path in base]
    child_lo = int32([bisect_left(keys, (len(path) + 1, (*path, ""))) for path in base] + [n_base])
    head, chain_next = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    for node in range(n_base, n):
        at = node_of[paths[node][:-1]]
        if head[at] < 0:
            head[at] = node
        else:
            at = int(head[at])
            while chain_next[at] >= 0:
                at = int(chain_next[at])
            chain_next[at] = node
    for node in range(n):  # a newer snapshot shares these arrays and has added nodes that this one does not know
        if node % 3 == 0 and everything[paths[node]].is_directory and head[node] < 0:
            head[node] = n + 1
        if node % 3 == 1 and node >= n_base and chain_next[node] < 0:
            chain_next[node] = n

    rows: list[tuple[int, Row]] = []
    lo, hi = np.zeros(n, np.int32), np.zeros(n, np.int32)
    for node, path in enumerate(paths):
        lo[node] = len(rows)
        stored: Sequence[Row] = everything[path].rows
        if path in layout.replaced:
            stored = [NEVER, NEVER] if everything[path].is_directory else [replace(NEVER, level=2)]
        rows += [(node, row) for row in stored]
        hi[node] = len(rows)
        if node == n_base - 1:
            n_base_rows = len(rows)
    for path in layout.replaced:
        node = node_of[path]
        lo[node] = len(rows)
        rows += [(node, row) for row in everything[path].rows]
        hi[node] = len(rows)

    contexts = [everything[path] for path in paths]
    tie = {path: rank for rank, path in enumerate(sorted(paths, key=uri_of))}
    tag_end = np.cumsum([len(context.tags) for context in contexts])
    tree = arrays.Tree(
        parent=int32(node_of[path[:-1]] if path else -1 for path in paths),
        child_lo=child_lo,
        fresh_head=head,
        fresh_next=chain_next,
        depth=int32(len(path) for path in paths),
        row_lo=lo,
        row_hi=hi,
        is_directory=np.array([context.is_directory for context in contexts], np.uint8),
        is_gone=np.array([path in layout.gone for path in paths], np.uint8),
        type=np.array([context.type for context in contexts], np.uint8),
        create_us=int64(context.create_us for context in contexts),
        update_us=int64(context.update_us for context in contexts),
        expire_us=int64(context.expire_us for context in contexts),
        active_count=int32(context.active_count for context in contexts),
        tag_lo=int32(end - len(context.tags) for end, context in zip(tag_end, contexts, strict=True)),
        tag_hi=int32(tag_end),
        tag_id=int32(tag for context in contexts for tag in sorted(context.tags)),
        tie=int64(3 * tie[path] for path in paths),
    )
    laid_out = frozen(row_arrays(rows, dim))
    sketches = sketches_of(laid_out, n_base_rows)
    return Snapshot(frozen(tree), laid_out, sketches, frozen(posting_arrays(rows[:n_base_rows])), paths)


def row_arrays(rows: Sequence[tuple[int, Row]], dim: int) -> arrays.Rows:
    """Lay out rows of nodes."""
    term_end = np.cumsum([len(row.terms) for _, row in rows]) if rows else np.zeros(0)
    return arrays.Rows(
        vectors=np.array([row.vector for _, row in rows], np.float32).reshape(len(rows), dim),
        level=np.array([row.level for _, row in rows], np.uint8),
        node=int32(node for node, _ in rows),
        term_lo=int64(end - len(row.terms) for end, (_, row) in zip(term_end, rows, strict=True)),
        term_hi=int64(term_end),
        term_id=int32(term for _, row in rows for term in sorted(row.terms)),
        term_weight=float32(row.terms[term] for _, row in rows for term in sorted(row.terms)),
    )


def sketches_of(rows: arrays.Rows, first: int) -> arrays.Sketches:
    """Make the sketches of the rows from one on."""
    vectors = rows.vectors[first:]
    code, scale, error = np.empty(vectors.shape, np.int8), *np.empty((2, len(vectors)), np.float32)
    sketch_rows(arrays.frozen(decode(vectors)), code, scale, error)
    return frozen(arrays.Sketches(code, scale, error, first))


def posting_arrays(rows: Sequence[tuple[int, Row]]) -> arrays.Postings:
    """List rows by term, greatest weight first, then by row."""
    lists = [
        sorted((-row.terms[term], i) for i, (_, row) in enumerate(rows) if term in row.terms) for term in range(N_TERMS)
    ]
    return arrays.Postings(
        lo=int64([0, *np.cumsum([len(postings) for postings in lists])]),
        row=int32(row for postings in lists for _, row in postings),
        weight=float32(-weight for postings in lists for weight, _ in postings),
    )


def condition_arrays(snapshot: Snapshot, conditions: Conditions) -> arrays.Conditions:
    """Turn listed places into ranges of base nodes at each depth and lists of fresh nodes."""
    from tests.oracle.conditions import is_in_scope

    n_base = len(snapshot.tree.child_lo) - 1
    lo: list[int] = []
    hi: list[int] = []
    ptr = [0]
    for depth in range(max((len(path) for path in snapshot.paths), default=0) + 1):
        for node in range(n_base):
            path = snapshot.paths[node]
            if len(path) == depth and is_in_scope(path, conditions):
                if len(hi) > ptr[-1] and hi[-1] == node:
                    hi[-1] = node + 1
                else:
                    lo.append(node)
                    hi.append(node + 1)
        ptr.append(len(lo))
    fresh = range(n_base, len(snapshot.paths))
    return frozen(
        arrays.Conditions(
            scope_ptr=int32(ptr),
            scope_lo=int32(lo),
            scope_hi=int32(hi),
            fresh_included=int32(node for node in fresh if snapshot.paths[node] in conditions.included),
            fresh_excluded=int32(node for node in fresh if snapshot.paths[node] in conditions.excluded),
            tag_id=int32(sorted(conditions.tags)),
            type_mask=sum(1 << kind for kind in conditions.types),
            level_mask=sum(1 << level for level in conditions.levels),
            updated_since_us=conditions.updated[0],
            updated_before_us=conditions.updated[1],
            created_since_us=conditions.created[0],
            created_before_us=conditions.created[1],
            now_us=conditions.now_us,
            is_open=int(conditions.is_open),
        )
    )


def question_arrays(question: Question) -> arrays.Question:
    """Lay out a question."""
    terms = sorted(term for term in question.terms if term < N_TERMS)
    return frozen(
        arrays.Question(
            vector=float32(question.vector),
            term=int32(terms),
            weight=float32(question.terms[term] for term in terms),
            lexical_weight=question.lexical_weight,
            directory_weight=question.directory_weight,
            saturation=question.saturation,
        )
    )


def make_question(seed: int) -> Question:
    """Make a question; a term that no tree knows takes part in its weights."""
    random = Random(seed)
    vector = tuple(random.randint(-4, 4) / 8 for _ in range(DIM))
    terms = {term: random.choice([0.125, 0.25]) for term in range(N_TERMS + 1) if random.random() < 0.5}
    weights = [random.choice([0.0, 0.25, 0.5, 1.0]) for _ in range(2)]
    return Question(vector, terms, weights[0], weights[1])


def make_rules(seed: int, **changes: Any) -> Rules:
    """Make rules without limits."""
    random = Random(seed)
    rules = Rules(
        alpha=tuple(random.choice([0.0, 0.25, 0.5, 0.75, 1.0]) for _ in range(4)),  # type: ignore[arg-type]
        threshold=random.choice([-inf, -inf, 0.0, 0.25, 0.125]),
        is_gte=random.random() < 0.5,
        hotness_alpha=random.choice([0.0, 0.0, 0.25]),
        parallelism=random.choice([1, 2, 4, 7]),
    )
    return replace(rules, **changes)


def make_conditions(seed: int, world: World, *, is_filtered: bool = True) -> Conditions:
    """Make a scope with holes, and islands in them, and a filter."""
    random = Random(seed)
    paths = sorted(world)
    places = [path for path in paths if random.random() < 0.15]
    included = frozenset(place for place in places if random.random() < 0.5)
    conditions = Conditions(included | {()}, frozenset(set(places) - included - {()}), now_us=NOW_US)
    if random.random() < 0.3:
        conditions = replace(conditions, included=included)
    if not is_filtered:
        return replace(conditions, is_open=True)
    return replace(
        conditions,
        tags=frozenset(tag for tag in range(3) if random.random() < 0.2),
        types=frozenset(kind for kind in range(4) if random.random() < 0.8),
        levels=frozenset(random.choice([(0, 1, 2), (0, 1, 2), (2,), (0,), (1, 2), ()])),
        updated=random.choice([(0, 2**62), (0, 2**62), (OLD_US, NOW_US), (OLD_US + 1, 2**62)]),
        created=random.choice([(0, 2**62), (0, 2**62), (5, 6)]),
    )


def roots_of(seed: int, world: World, conditions: Conditions) -> list[Path]:
    """Choose searched roots: in scope, visible, none below another."""
    from tests.oracle.conditions import is_in_scope, is_visible

    random = Random(seed)
    usable = [path for path in sorted(world) if is_in_scope(path, conditions) and is_visible(world, path, conditions)]
    chosen = [()] if () in usable and random.random() < 0.4 else random.sample(usable, min(len(usable), 4))
    return [path for path in chosen if not any(path[: len(other)] == other for other in chosen if other != path)]


def int32(values: Iterable[Any]) -> NDArray[np.int32]:
    """Make an int32 array."""
    return np.array(list(values), np.int32)


def int64(values: Iterable[Any]) -> NDArray[np.int64]:
    """Make an int64 array."""
    return np.array(list(values), np.int64)


def float32(values: Iterable[Any]) -> NDArray[np.float32]:
    """Make a float32 array."""
    return np.array(list(values), np.float32)


def frozen(group: Any) -> Any:
    """Make all arrays of a group read-only."""
    return type(group)(*(arrays.frozen(part) if isinstance(part, np.ndarray) else part for part in group))


#: Seeds; everything random in a test derives from them, so that a failing example is two small numbers.
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 60)
