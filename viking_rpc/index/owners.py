"""Approximate indexes per owner: one top subtree (`resources`, `agent`, each user) with enough rows to need one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.domain.context import Level
from viking_rpc.index.ann import ROWS_AT_ONCE, AnnIndex, AnnParameters
from viking_rpc.index.snapshot import ROOT, Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Owner:
    """The approximate indexes of one top subtree.

    Args:
        node: the subtree's top, a base node.
        directories: over the rows at L0 and L1; None when there are few, which are scanned exactly.
        files: over the rows at L2.
    """

    node: int
    directories: AnnIndex | None
    files: AnnIndex | None


def with_owners(snapshot: Snapshot, *, min_rows: int, parameters: AnnParameters) -> Snapshot:
    """Return the snapshot with indexes for every owner of at least `min_rows` base rows.

    Args:
        snapshot: just laid out, or updated since; only base rows are indexed.
        min_rows: below it an owner is scanned exactly.
        parameters: of the graphs.
    """
    owners = []
    for node in owner_nodes(snapshot):
        rows = subtree_rows(snapshot, node)
        if len(rows) < min_rows:
            continue
        rows = rows[_has_direction(snapshot, rows)]
        is_file = snapshot.rows.level[rows] == Level.DETAIL
        owners.append(Owner(node, *(_index(snapshot, part, parameters) for part in (rows[~is_file], rows[is_file]))))
    return replace(snapshot, owners=tuple(owners), memo={})


def owner_nodes(snapshot: Snapshot) -> list[int]:
    """Return the base nodes that may own an index: the scopes, and each user instead of `user`."""
    nodes: list[int] = []
    for top in range(int(snapshot.tree.child_lo[ROOT]), int(snapshot.tree.child_lo[ROOT + 1])):
        if snapshot.names.get(top) == "user":
            nodes.extend(range(int(snapshot.tree.child_lo[top]), int(snapshot.tree.child_lo[top + 1])))
        else:
            nodes.append(top)
    return nodes


def subtree_rows(snapshot: Snapshot, node: int) -> NDArray[np.int32]:
    """Return int32[n], the base rows of a base node's subtree: one range at each depth."""
    ranges = []
    lo, hi = node, node + 1
    while lo < hi:
        ranges.append(np.arange(snapshot.base_row[lo], snapshot.base_row[hi], dtype=np.int32))
        lo, hi = int(snapshot.tree.child_lo[lo]), int(snapshot.tree.child_lo[hi])
    return np.concatenate(ranges)


def _has_direction(snapshot: Snapshot, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return whether the vectors of some rows are other than zero, which has no direction to find it by."""
    vectors = snapshot.rows.vectors
    parts = (rows[lo : lo + ROWS_AT_ONCE] for lo in range(0, len(rows), ROWS_AT_ONCE))
    return np.concatenate([vectors[part].any(axis=1) for part in parts]) if len(rows) else np.empty(0, np.bool_)


def _index(snapshot: Snapshot, rows: NDArray[np.int32], parameters: AnnParameters) -> AnnIndex | None:
    return AnnIndex.build(snapshot.rows.vectors, rows, parameters) if len(rows) else None
