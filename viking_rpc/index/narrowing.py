"""Narrow a place to the few nodes of rare types and what lies above them, so that no search looks at all the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from viking_kernels.arrays import frozen
from viking_rpc.index.scopes import within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from viking_kernels.arrays import Conditions
    from viking_rpc.domain.context import ContextType
    from viking_rpc.index.scopes import Place
    from viking_rpc.index.snapshot import Snapshot

#: More nodes than these are left to the search, which finds the best of them sooner than their ranges are written down.
MAX_NODES: Final = 1024


def narrow(
    snapshot: Snapshot, place: Place, conditions: Conditions, types: Iterable[ContextType], min_rows: int
) -> tuple[Place, Conditions]:
    """Return a place without what cannot lead to a context of some types, where there are few of these.

    What is found stays the same: the nodes of the types are all in it, with the directories above them. Remembered with
    the snapshot.

    Args:
        snapshot: the pinned state.
        place, conditions: where, and what matches must fulfil; returned as they are when there is nothing to gain.
        types: context types that may be returned; none: all.
        min_rows: smaller places are searched as fast as they are narrowed.
    """
    wanted = tuple(sorted(int(kind) for kind in types))
    if not wanted or place.n_rows <= min_rows:
        return place, conditions
    key = ("narrow", id(place), wanted)
    found: tuple[Place, Place] | None = snapshot.memo.get(key)  # type: ignore[assignment]
    if found is None:
        # the place is kept too: were it freed, another one could get its id
        found = place, _narrow(snapshot, place, np.array(wanted, np.uint8))
        snapshot.remember(key, found)
    return found[1], conditions if found[1] is place else within(conditions, found[1])


def _narrow(snapshot: Snapshot, place: Place, wanted: NDArray[np.uint8]) -> Place:
    nodes = _nodes_of(snapshot, place, wanted)
    if nodes is None:
        return place
    kept = _with_ancestors(snapshot, nodes)
    depth_of = snapshot.tree.depth[kept]
    pointer, lows, highs = [0], [], []
    for depth in range(len(place.scope_ptr) - 1):
        lo, hi = _runs(_inside(place, depth, kept[depth_of == depth]))
        lows.append(lo)
        highs.append(hi)
        pointer.append(pointer[-1] + len(lo))
    lo = np.concatenate([*lows, np.empty(0, np.int32)])
    hi = np.concatenate([*highs, np.empty(0, np.int32)])
    is_kept = np.isin(place.roots, kept) | (place.roots >= snapshot.n_base)
    return replace(
        place,
        roots=frozen(place.roots[is_kept]),
        scope_ptr=frozen(np.array(pointer, np.int32)),
        scope_lo=frozen(lo.astype(np.int32)),
        scope_hi=frozen(hi.astype(np.int32)),
        n_rows=int((snapshot.base_row[hi] - snapshot.base_row[lo]).sum()),
        has_others=_has_rows(snapshot, place, wanted),
    )


def _nodes_of(snapshot: Snapshot, place: Place, wanted: NDArray[np.uint8]) -> NDArray[np.int64] | None:
    """Return the nodes of some types: base ones in the place, and all fresh ones; None when they are many."""
    tree, n_base = snapshot.tree, snapshot.n_base
    found = []
    n_found = 0
    for lo, hi in [*_ranges(place), (n_base, snapshot.n_nodes)]:
        nodes = lo + np.flatnonzero(_is_of(tree.type[lo:hi], wanted) & (tree.is_gone[lo:hi] == 0))
        n_found += len(nodes)
        if n_found > MAX_NODES:
            return None
        found.append(nodes)
    return np.concatenate(found)


def _is_of(kinds: NDArray[np.uint8], wanted: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which types are wanted: one comparison for each, which is faster than a look-up for one or two."""
    is_wanted: NDArray[np.bool_] = kinds == wanted[0]
    for kind in wanted[1:]:
        is_wanted |= kinds == kind
    return is_wanted


def _with_ancestors(snapshot: Snapshot, nodes: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return base nodes, ascending: the given ones, and all that lies above them and above fresh ones."""
    parent = snapshot.columns.parent
    found: set[int] = set()
    for node in nodes.tolist():
        while node >= 0 and node not in found:
            found.add(node)
            node = parent[node]  # noqa: PLW2901 - climbs
    return np.array(sorted(node for node in found if node < snapshot.n_base), np.int32)


def _inside(place: Place, depth: int, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return those of some nodes of one depth that the place holds."""
    first, last = int(place.scope_ptr[depth]), int(place.scope_ptr[depth + 1])
    if first == last:
        return nodes[:0]
    at = first + np.searchsorted(place.scope_hi[first:last], nodes, side="right")
    is_below = at < last
    return nodes[is_below & (place.scope_lo[np.minimum(at, last - 1)] <= nodes)]


def _runs(nodes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return ascending nodes as half-open ranges."""
    if not len(nodes):
        return nodes, nodes
    is_first = np.diff(nodes, prepend=nodes[0] - 2) != 1
    is_last = np.append(is_first[1:], True)
    return nodes[is_first], nodes[is_last] + 1


def _ranges(place: Place) -> Iterable[tuple[int, int]]:
    return zip(place.scope_lo.tolist(), place.scope_hi.tolist(), strict=True)


def _has_rows(snapshot: Snapshot, place: Place, wanted: NDArray[np.uint8]) -> bool:
    """Return whether the place surely holds something of another type that could be scored."""
    tree = snapshot.tree
    return not snapshot.has_expiry and any(
        bool(
            (
                ~_is_of(tree.type[lo:hi], wanted)
                & (tree.is_gone[lo:hi] == 0)
                & (tree.row_lo[lo:hi] < tree.row_hi[lo:hi])
            ).any()
        )
        for lo, hi in _ranges(place)
    )
