"""Ways through a tree's arrays."""

from __future__ import annotations

from viking_kernels._jit import device


@device
def _visible_fresh(tree, child):
    """Return the child, -1 if this snapshot does not have it."""
    return child if child < tree.parent.shape[0] else -1


@device
def first_child(tree, node):
    """Return the first child of a directory, gone ones included; -1 without children."""
    if node + 1 < tree.child_lo.shape[0] and tree.child_lo[node] < tree.child_lo[node + 1]:
        return tree.child_lo[node]
    return _visible_fresh(tree, tree.fresh_head[node])


@device
def next_child(tree, node, child):
    """Return the child that follows another: base children in name order, then the fresh chain; -1 at the end."""
    n_base = tree.child_lo.shape[0] - 1
    if child >= n_base:
        return _visible_fresh(tree, tree.fresh_next[child])
    if child + 1 < tree.child_lo[node + 1]:
        return child + 1
    return _visible_fresh(tree, tree.fresh_head[node])
