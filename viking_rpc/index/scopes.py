"""Compiles where a request may look, and what it filters, into the arrays that kernels check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viking_kernels.arrays import Conditions, frozen
from viking_rpc.index.snapshot import ROOT, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from viking_rpc.domain.context import ContextType, Level
    from viking_rpc.domain.query import Filter
    from viking_rpc.domain.subtrees import SearchScope, SubtreePattern
    from viking_rpc.domain.uri import Uri

_MIN_US, _MAX_US = -(1 << 62), 1 << 62
_ALL = -1  # every bit set
_NO_TAG = np.iinfo(np.int32).max
_NO_TAGS = frozen(np.empty(0, np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The nodes that a search may touch.

    Args:
        roots: int32[n_roots], ascending: the searched roots that exist.
        scope_ptr, scope_lo, scope_hi, fresh_included, fresh_excluded: see `viking_kernels.arrays.Conditions`.
        n_rows: base rows in scope, deleted ones included.
        has_others: whether rows are known to be left out that are of no wanted type (`index.narrowing`).
    """

    roots: np.ndarray
    scope_ptr: np.ndarray
    scope_lo: np.ndarray
    scope_hi: np.ndarray
    fresh_included: np.ndarray
    fresh_excluded: np.ndarray
    n_rows: int
    has_others: bool = False


def compile_place(snapshot: Snapshot, scope: SearchScope, excluded: Sequence[Uri]) -> Place:
    """Turn a scope, minus whole subtrees that the request leaves out, into node ranges.

    Args:
        snapshot: the pinned state.
        scope: searched roots and what is excluded below them.
        excluded: subtrees that the filter leaves out, roots inside them included.
    """
    left_out = {node for node in map(snapshot.find, excluded) if node >= 0}
    roots = []
    ranges: dict[int, list[tuple[int, int]]] = {}
    fresh_included, fresh_excluded = [], []
    for uri in scope.roots:
        root = snapshot.find(uri)
        if root < 0 or left_out.intersection([ROOT, *snapshot.path(root)]):
            continue
        roots.append(root)
        cuts = {*left_out, *_matches(snapshot, scope.excluded, uri, root)}
        fresh_included += [root] if root >= snapshot.n_base else []
        fresh_excluded += [node for node in cuts if node >= snapshot.n_base]
        if root < snapshot.n_base:
            _add_ranges(snapshot, root, [node for node in cuts if node < snapshot.n_base], ranges)
    return _pack(snapshot, sorted(roots), ranges, fresh_included, fresh_excluded)


def _matches(snapshot: Snapshot, patterns: Iterable[SubtreePattern], uri: Uri, root: int) -> list[int]:
    """Return the tops of the excluded subtrees strictly below a root."""
    found = []
    for pattern in patterns:
        if not pattern.reaches_below(uri):
            continue
        nodes = [root]
        for name in pattern.segments[len(uri.segments) :]:
            if name == "*":
                nodes = [
                    child for node in nodes for child in snapshot.children(node) if not snapshot.tree.is_gone[child]
                ]
            else:
                nodes = [child for child in (snapshot.child(node, name) for node in nodes) if child >= 0]
        found.extend(nodes)
    return found


def _add_ranges(snapshot: Snapshot, root: int, cuts: list[int], ranges: dict[int, list[tuple[int, int]]]) -> None:
    """Add a base root's node range at each depth, without the cut nodes and what lies below them."""
    child_lo, depth_of = snapshot.tree.child_lo, snapshot.tree.depth
    depth = int(depth_of[root])
    parts = [(root, root + 1)]
    waiting = sorted(cuts)
    while parts:
        here = [node for node in waiting if depth_of[node] == depth]
        for node in here:
            parts = [
                piece
                for lo, hi in parts
                for piece in (((lo, node), (node + 1, hi)) if lo <= node < hi else ((lo, hi),))
                if piece[0] < piece[1]
            ]
        ranges.setdefault(depth, []).extend(parts)
        parts = [(int(child_lo[lo]), int(child_lo[hi])) for lo, hi in parts if child_lo[lo] < child_lo[hi]]
        depth += 1


def _pack(
    snapshot: Snapshot,
    roots: list[int],
    ranges: dict[int, list[tuple[int, int]]],
    fresh_included: list[int],
    fresh_excluded: list[int],
) -> Place:
    n_depths = max(ranges, default=-1) + 1
    flat = [part for depth in range(n_depths) for part in sorted(ranges.get(depth, []))]
    pointer = np.zeros(n_depths + 1, np.int32)
    np.cumsum([len(ranges.get(depth, [])) for depth in range(n_depths)], out=pointer[1:])
    lo = np.array([part[0] for part in flat], np.int32)
    hi = np.array([part[1] for part in flat], np.int32)
    return Place(
        roots=frozen(np.array(roots, np.int32)),
        scope_ptr=frozen(pointer),
        scope_lo=frozen(lo),
        scope_hi=frozen(hi),
        fresh_included=frozen(np.array(sorted(fresh_included), np.int32)),
        fresh_excluded=frozen(np.array(sorted(set(fresh_excluded)), np.int32)),
        n_rows=int((snapshot.base_row[hi] - snapshot.base_row[lo]).sum()) if flat else 0,
    )


def within(conditions: Conditions, place: Place) -> Conditions:
    """Return the conditions at another place."""
    return conditions._replace(
        scope_ptr=place.scope_ptr,
        scope_lo=place.scope_lo,
        scope_hi=place.scope_hi,
        fresh_included=place.fresh_included,
        fresh_excluded=place.fresh_excluded,
    )


def bit_mask(values: Iterable[int]) -> int:
    """Return an integer with the given bits set; all bits for no values."""
    mask = 0
    for value in values:
        mask |= 1 << int(value)
    return mask or _ALL


def make_conditions(
    snapshot: Snapshot, place: Place, wanted: Filter, types: Iterable[ContextType], levels: Iterable[Level], now_us: int
) -> Conditions:
    """Join a place with the request's filter.

    Args:
        snapshot: the pinned state.
        place: where.
        wanted: conditions on nodes; its levels and excluded subtrees are not read here.
        types: context types to return; none: all.
        levels: levels to return; none: all.
        now_us: the time of the request.
    """
    tags = [snapshot.tag_ids.get(pair, _NO_TAG) for pair in wanted.tags.items()]
    type_mask = bit_mask(types)
    times = (wanted.updated_since_us, wanted.updated_before_us, wanted.created_since_us, wanted.created_before_us)
    return Conditions(
        scope_ptr=place.scope_ptr,
        scope_lo=place.scope_lo,
        scope_hi=place.scope_hi,
        fresh_included=place.fresh_included,
        fresh_excluded=place.fresh_excluded,
        tag_id=frozen(np.array(sorted(tags), np.int32)) if tags else _NO_TAGS,
        type_mask=type_mask,
        level_mask=bit_mask(levels),
        updated_since_us=_MIN_US if times[0] is None else times[0],
        updated_before_us=_MAX_US if times[1] is None else times[1],
        created_since_us=_MIN_US if times[2] is None else times[2],
        created_before_us=_MAX_US if times[3] is None else times[3],
        now_us=now_us,
        is_open=int(type_mask == _ALL and not tags and all(time is None for time in times)),
    )
