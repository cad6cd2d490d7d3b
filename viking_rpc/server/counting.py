"""Count what a caller may read in one state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from viking_kernels.mask import mask_nodes
from viking_rpc.domain.access import readable_roots
from viking_rpc.domain.context import ContextType, Level
from viking_rpc.domain.query import Filter
from viking_rpc.index.scopes import compile_place, make_conditions

if TYPE_CHECKING:
    from viking_rpc.domain.identity import Identity
    from viking_rpc.index.snapshot import Snapshot


class Visible(NamedTuple):
    """Contexts and rows that a caller may read; types and levels without any are absent."""

    n_directories: int
    n_files: int
    n_rows: int
    by_type: dict[ContextType, int]
    rows_by_level: dict[Level, int]


def count_visible(snapshot: Snapshot, identity: Identity, now_us: int) -> Visible:
    """Count; costs one pass over the nodes.

    Args:
        snapshot: the state.
        identity: the caller.
        now_us: what is expired by then is not counted.
    """
    place = compile_place(snapshot, readable_roots(identity), ())
    conditions = make_conditions(snapshot, place, Filter(), (), (), now_us)
    tree, rows = snapshot.tree, snapshot.rows
    nodes = np.arange(1, snapshot.n_nodes, dtype=np.int32)  # without the root, which is no context
    is_seen = np.zeros(snapshot.n_nodes, np.uint8)
    mask_nodes(tree, conditions, nodes, is_seen[1:])
    seen = np.flatnonzero(is_seen)
    n_directories = int(tree.is_directory[seen].sum())
    types = np.bincount(tree.type[seen], minlength=len(ContextType) + 1)
    # A row that was replaced still lies in the arrays; a node names those that count.
    row = np.arange(snapshot.n_rows)
    holder = rows.node
    is_current = (row >= tree.row_lo[holder]) & (row < tree.row_hi[holder])
    levels = np.bincount(rows.level[(is_seen[holder] != 0) & is_current], minlength=len(Level))
    return Visible(
        n_directories=n_directories,
        n_files=len(seen) - n_directories,
        n_rows=int(levels.sum()),
        by_type={kind: int(types[kind]) for kind in ContextType if types[kind]},
        rows_by_level={level: int(levels[level]) for level in Level if levels[level]},
    )
