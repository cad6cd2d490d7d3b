"""The flat search over a scope: exact where few rows are allowed, approximate and rescored exactly where many are.

Each owner is searched in its own best way and all meet in the same pools, so a user's hundred memories beside a hundred
thousand shared resources lose nothing. Every score that leaves here is exact; only the choice of candidates is not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from viking_kernels.arrays import Conditions, Pool, Question, frozen
from viking_kernels.mask import mask_nodes
from viking_kernels.scan import (
    N_SCAN_COUNTS,
    SCAN_FILTERED,
    SCAN_MATCHED,
    SCAN_ROWS,
    add_up_postings,
    scan_nodes,
    search_postings,
)
from viking_rpc.domain.context import Level
from viking_rpc.index.owners import subtree_rows
from viking_rpc.index.pools import make_pool
from viking_rpc.index.scopes import within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from viking_rpc.index.ann import AnnIndex
    from viking_rpc.index.owners import Owner
    from viking_rpc.index.scopes import Place
    from viking_rpc.index.snapshot import Snapshot

#: An approximate search that returned too few allowed nodes is asked for this many times more.
_ESCALATION = 4
#: Times the matches wanted that a filtered flat search must have found before it is content.
_SPARE = 4
_NO_NODES = frozen(np.empty(0, np.int32))
#: Up to so many postings are simply added up; of more, most are skipped by their bounds.
_MAX_ADDED_POSTINGS = 100_000
_DIRECTORY_LEVELS = 0b011  # bits of L0 and L1


@dataclass(frozen=True, slots=True)
class SeedParameters:
    """How a flat search chooses candidates.

    Args:
        max_exact_rows: an owner with at most this many rows in scope is scanned.
        n_candidates: candidates asked of each approximate index over files, and of the postings.
        n_directory_candidates: candidates asked of each approximate index over directories.
        is_exact: scan everything.
        is_by_row: every row is a match of its own, which CLASSIC asks for; no directories then.
    """

    max_exact_rows: int
    n_candidates: int
    n_directory_candidates: int
    is_exact: bool = False
    is_by_row: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Seeds:
    """What a flat search found.

    Args:
        matches, directories: pools, filled; read them with `best_first`.
        rows_scored: rows scored exactly.
        n_matched, n_filtered: nodes that fulfilled all conditions, and that did not, among the scored.
        path: "exact", "ann" or "exact+ann".
    """

    matches: Pool
    directories: Pool
    rows_scored: int
    n_matched: int
    n_filtered: int
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """A place divided by how its parts are searched."""

    exact: Place
    approximate: Place
    owners: tuple[Owner, ...]
    is_whole: bool  # the approximate part is whole owners and nothing in it is gone


def find_seeds(
    snapshot: Snapshot,
    place: Place,
    conditions: Conditions,
    question: Question,
    parameters: SeedParameters,
    matches: Pool,
    directories: Pool,
) -> Seeds:
    """Search a scope flat, by own score.

    Args:
        snapshot: the pinned state.
        place: where; `conditions` was made from it.
        conditions: what matches must fulfil.
        question: vector and terms.
        parameters: how.
        matches: empty pool for the best nodes that fulfil all conditions.
        directories: empty pool for the best directories, whatever the filter says; capacity 0 to go without.
    """
    counts = np.zeros(N_SCAN_COUNTS, np.int64)

    def scan(where: Conditions, *, is_whole: bool, candidates: np.ndarray, first_fresh: int) -> None:
        scan_nodes(
            snapshot.tree,
            snapshot.rows,
            snapshot.sketches,
            question,
            where,
            int(parameters.is_by_row),
            int(is_whole),
            candidates,
            first_fresh,
            int(snapshot.has_expiry),
            matches,
            directories,
            counts,
        )

    split = _split(snapshot, place, parameters)
    n_nodes = snapshot.n_nodes
    candidates = None
    if split.owners:
        approximate = within(conditions, split.approximate)
        candidates = _candidates(
            snapshot,
            split,
            approximate,
            question,
            parameters,
            len(matches.score),
            counts,
            is_flat=not len(directories.score),
        )
        if candidates is None:  # the filter leaves too little for an approximate search
            split = _Split(place, split.approximate, (), is_whole=False)
        else:
            scan(approximate, is_whole=False, candidates=candidates, first_fresh=n_nodes)
    if len(split.exact.scope_lo):
        scan(within(conditions, split.exact), is_whole=True, candidates=_NO_NODES, first_fresh=n_nodes)
    if n_nodes > snapshot.n_base:
        scan(conditions, is_whole=False, candidates=_NO_NODES, first_fresh=snapshot.n_base)
    path = "exact" if not split.owners else "exact+ann" if len(split.exact.scope_lo) else "ann"
    return Seeds(
        matches, directories, int(counts[SCAN_ROWS]), int(counts[SCAN_MATCHED]), int(counts[SCAN_FILTERED]), path
    )


def _split(snapshot: Snapshot, place: Place, parameters: SeedParameters) -> _Split:
    """Decide which owners are searched approximately; remembered with the snapshot."""
    if parameters.is_exact or not snapshot.owners or place.n_rows <= parameters.max_exact_rows:
        return _Split(place, place, (), is_whole=False)
    key = ("split", id(place), parameters.max_exact_rows)
    found: tuple[Place, _Split] | None = snapshot.memo.get(key)  # type: ignore[assignment]
    if found is None:
        # the place is kept too: were it freed, another one could get its id, and with it this split
        found = place, _divide(snapshot, _cut(snapshot, place), parameters.max_exact_rows)
        snapshot.remember(key, found)
    return found[1]


def _ranges(snapshot: Snapshot, node: int) -> Iterator[tuple[int, int, int]]:
    """Yield (depth, lo, hi), the node range of a base node's subtree at each depth."""
    lo, hi, depth = node, node + 1, int(snapshot.tree.depth[node])
    while lo < hi:
        yield depth, lo, hi
        lo, hi, depth = int(snapshot.tree.child_lo[lo]), int(snapshot.tree.child_lo[hi]), depth + 1


def _cut(snapshot: Snapshot, place: Place) -> Place:
    """Return the place with its ranges cut at the borders of owners, as those of what lies above span several."""
    borders: dict[int, set[int]] = {}
    for owner in snapshot.owners:
        for depth, lo, hi in _ranges(snapshot, owner.node):
            borders.setdefault(depth, set()).update((lo, hi))
    pointer = [0]
    ranges: list[tuple[int, int]] = []
    for depth, (first, last) in enumerate(zip(place.scope_ptr[:-1], place.scope_ptr[1:], strict=True)):
        for lo, hi in zip(place.scope_lo[first:last].tolist(), place.scope_hi[first:last].tolist(), strict=True):
            ends = [*sorted(border for border in borders.get(depth, ()) if lo < border < hi), hi]
            ranges += zip([lo, *ends], ends, strict=False)
        pointer.append(len(ranges))
    return replace(
        place,
        scope_ptr=frozen(np.array(pointer, np.int32)),
        scope_lo=frozen(np.array([lo for lo, _ in ranges], np.int32)),
        scope_hi=frozen(np.array([hi for _, hi in ranges], np.int32)),
    )


def _divide(snapshot: Snapshot, place: Place, max_exact_rows: int) -> _Split:
    """Tell the ranges of owners that have more than `max_exact_rows` rows in the place from the others."""
    large: list[Owner] = []
    inside = np.zeros(len(place.scope_lo), bool)
    n_whole = 0
    depth_of_range = np.repeat(np.arange(len(place.scope_ptr) - 1), np.diff(place.scope_ptr))
    for owner in snapshot.owners:
        of_owner = np.zeros(len(place.scope_lo), bool)
        n_rows = 0
        for depth, lo, hi in _ranges(snapshot, owner.node):
            n_rows += int(snapshot.base_row[hi] - snapshot.base_row[lo])
            of_owner |= (depth_of_range == depth) & (place.scope_lo >= lo) & (place.scope_hi <= hi)
        n_here = int((snapshot.base_row[place.scope_hi[of_owner]] - snapshot.base_row[place.scope_lo[of_owner]]).sum())
        if n_here > max_exact_rows:
            large.append(owner)
            inside |= of_owner
            n_whole += n_here == n_rows
    is_whole = n_whole == len(large) and snapshot.n_gone == 0 and not snapshot.has_expiry
    return _Split(_part(place, ~inside), _part(place, inside), tuple(large), is_whole)


def _part(place: Place, keep: np.ndarray) -> Place:
    """Return the place with some of its ranges."""
    counts = np.add.reduceat(np.append(keep, 0), place.scope_ptr[:-1]) if len(keep) else np.zeros(0, int)
    counts[place.scope_ptr[:-1] == place.scope_ptr[1:]] = 0  # reduceat gives an element for an empty slice
    pointer = np.zeros(len(place.scope_ptr), np.int32)
    np.cumsum(counts, out=pointer[1:])
    return replace(
        place,
        scope_ptr=frozen(pointer),
        scope_lo=frozen(place.scope_lo[keep]),
        scope_hi=frozen(place.scope_hi[keep]),
        fresh_included=_NO_NODES,
        fresh_excluded=_NO_NODES,
    )


def _candidates(
    snapshot: Snapshot,
    split: _Split,
    conditions: Conditions,
    question: Question,
    parameters: SeedParameters,
    n_matches: int,
    counts: np.ndarray,
    *,
    is_flat: bool,
) -> np.ndarray | None:
    """Return int32[n] nodes worth scoring; None when only a scan can tell.

    Args:
        n_matches: matches wanted.
        is_flat: directories are wanted as matches only, and every node is returned once.
    """
    found = [snapshot.replaced]
    is_filtered = not (split.is_whole and conditions.is_open)
    # what a graph finds far off is less sure: a flat answer wants spare matches, a walk repairs what its seeds miss
    n_enough = min(_SPARE * n_matches if is_flat else n_matches, parameters.n_candidates)
    n_allowed = n_enough if is_filtered else 0
    for owner in split.owners:
        if owner.files is not None and n_matches and (conditions.level_mask >> Level.DETAIL) & 1:
            nodes = _nearest(snapshot, owner.files, conditions, question, parameters.n_candidates, n_allowed)
            if nodes is None:
                return None
            found.append(nodes)
        if owner.directories is None or not parameters.n_directory_candidates:
            continue
        if is_flat and not conditions.level_mask & _DIRECTORY_LEVELS:
            continue
        if is_flat and is_filtered:
            found.append(_wanted_directories(snapshot, owner, conditions, question, parameters))
        else:
            rows = owner.directories.search(question.vector, parameters.n_directory_candidates)
            found.append(snapshot.rows.node[rows])
    if len(question.term) and question.lexical_weight > 0:
        found.append(_lexical_nodes(snapshot, conditions, question, parameters.n_candidates, counts))
        if not is_flat and parameters.n_directory_candidates:
            above = conditions._replace(level_mask=_DIRECTORY_LEVELS, is_open=1, tag_id=_NO_NODES)
            found.append(_lexical_nodes(snapshot, above, question, parameters.n_directory_candidates, counts))
    nodes = np.concatenate(found)
    return frozen(np.unique(nodes) if is_flat else nodes)


def _nearest(
    snapshot: Snapshot,
    index: AnnIndex,
    conditions: Conditions,
    question: Question,
    k: int,
    n_allowed: int,
) -> np.ndarray | None:
    """Ask an approximate index, and again for more while fewer than `n_allowed` of its nodes fulfil the conditions."""
    while True:
        nodes = snapshot.rows.node[index.search(question.vector, k)]
        if n_allowed == 0:
            return nodes
        nodes = _allowed(snapshot, conditions, nodes)
        if len(nodes) >= n_allowed:
            return nodes
        k *= _ESCALATION
        if k > len(index) // _ESCALATION:
            return None


def _wanted_directories(
    snapshot: Snapshot, owner: Owner, conditions: Conditions, question: Question, parameters: SeedParameters
) -> np.ndarray:
    """Return the nearest directories that fulfil the conditions; all of them when they are few."""
    key = ("directories", owner.node)
    every = snapshot.memo.get(key)
    if every is None:
        rows = subtree_rows(snapshot, owner.node)
        rows = rows[snapshot.rows.level[rows] != Level.DETAIL]
        every = snapshot.memo[key] = np.unique(snapshot.rows.node[rows])
    allowed = _allowed(snapshot, conditions, every)  # type: ignore[arg-type]
    if len(allowed) <= _ESCALATION * parameters.n_directory_candidates or owner.directories is None:
        return allowed
    share = len(allowed) / len(every)  # type: ignore[arg-type]
    k = min(int(parameters.n_directory_candidates / share), len(owner.directories))
    return _allowed(snapshot, conditions, snapshot.rows.node[owner.directories.search(question.vector, k)])


def _allowed(snapshot: Snapshot, conditions: Conditions, nodes: np.ndarray) -> np.ndarray:
    """Return the nodes that fulfil the conditions, levels apart."""
    is_allowed = np.empty(len(nodes), np.uint8)
    mask_nodes(snapshot.tree, conditions, nodes, is_allowed)
    return nodes[is_allowed.view(np.bool_)]


def _lexical_nodes(
    snapshot: Snapshot, conditions: Conditions, question: Question, n_wanted: int, counts: np.ndarray
) -> np.ndarray:
    """Return the base nodes with the best lexical scores."""
    postings = snapshot.postings
    known = np.flatnonzero(question.term < len(postings.lo) - 1)  # fresh terms have no postings
    first = postings.lo[question.term[known]]
    is_held = first < postings.lo[question.term[known] + 1]
    known, first = known[is_held], first[is_held]
    greatest = question.weight[known] * postings.weight[first]
    by_greatest = frozen(known[np.argsort(-greatest, kind="stable")])
    n_postings = int((postings.lo[question.term[known] + 1] - first).sum())
    pool = make_pool(n_wanted)
    arguments = (snapshot.tree, snapshot.rows, postings, question, conditions, by_greatest)
    if n_postings > _MAX_ADDED_POSTINGS:
        search_postings(*arguments, pool, counts)
    else:
        totals: list[np.ndarray] = snapshot.memo.setdefault("lexical totals", [])  # type: ignore[assignment]
        total = totals.pop() if totals else np.zeros(int(snapshot.base_row[-1]), np.float32)
        add_up_postings(*arguments, total, np.empty(n_postings, np.int32), pool)
        totals.append(total)
    return pool.node[pool.heap[: pool.size[0]]]
