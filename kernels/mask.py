"""Which nodes may be seen and which may match: place (scope and access), expiry, and the request's filter."""

from __future__ import annotations

from viking_kernels._jit import NONE, RO_I32_1D, U8_1D, device, kernel
from viking_kernels.arrays import CONDITIONS, TREE


@device
def is_listed(values, value):
    """Return whether an ascending array holds a value."""
    lo = 0
    hi = values.shape[0]
    while lo < hi:
        middle = (lo + hi) >> 1
        if values[middle] < value:
            lo = middle + 1
        else:
            hi = middle
    return lo < values.shape[0] and values[lo] == value


@device
def is_in_scope(tree, node, conditions):
    """Return whether a node lies in an allowed subtree and neither it nor a fresh ancestor is gone or expired.

    Base ancestors are not looked at: a base node below a deleted one is marked itself, and one below an expired
    directory is never reached by a walk; flat searches check it with `is_expired_above`.
    """
    n_base = tree.child_lo.shape[0] - 1
    while node >= n_base:
        if is_listed(conditions.fresh_excluded, node):
            return False
        if is_listed(conditions.fresh_included, node):
            return True
        node = tree.parent[node]
        if node < 0:
            return False
    depth = tree.depth[node]
    if depth + 1 >= conditions.scope_ptr.shape[0]:
        return False
    lo = conditions.scope_ptr[depth]
    hi = conditions.scope_ptr[depth + 1]
    while lo < hi:
        middle = (lo + hi) >> 1
        if conditions.scope_hi[middle] <= node:
            lo = middle + 1
        else:
            hi = middle
    return lo < conditions.scope_ptr[depth + 1] and conditions.scope_lo[lo] <= node


@device
def is_visible(tree, node, now_us):
    """Return whether a node itself is neither deleted nor expired."""
    if tree.is_gone[node]:
        return False
    expire_us = tree.expire_us[node]
    return expire_us == 0 or expire_us > now_us


@device
def is_expired_above(tree, node, now_us):
    """Return whether an ancestor of the node is expired, which hides the whole subtree."""
    node = tree.parent[node]
    while node >= 0:
        expire_us = tree.expire_us[node]
        if expire_us != 0 and expire_us <= now_us:
            return True
        node = tree.parent[node]
    return False


@device
def is_wanted(tree, node, conditions):
    """Return whether a node fulfils the filter; place and levels are checked elsewhere."""
    if conditions.is_open:
        return True
    if not (conditions.type_mask >> tree.type[node]) & 1:
        return False
    update_us = tree.update_us[node]
    if update_us < conditions.updated_since_us or update_us >= conditions.updated_before_us:
        return False
    create_us = tree.create_us[node]
    if create_us < conditions.created_since_us or create_us >= conditions.created_before_us:
        return False
    position = tree.tag_lo[node]
    end = tree.tag_hi[node]
    for i in range(conditions.tag_id.shape[0]):
        while position < end and tree.tag_id[position] < conditions.tag_id[i]:
            position += 1
        if position >= end or tree.tag_id[position] != conditions.tag_id[i]:
            return False
    return True


@kernel(NONE(TREE, CONDITIONS, RO_I32_1D, U8_1D))
def mask_nodes(tree, conditions, nodes, out):
    """Check nodes against all conditions but levels.

    Args:
        nodes: int32[n].
        out: uint8[n], written; 1 where the node may match.
    """
    for i in range(nodes.shape[0]):
        node = nodes[i]
        out[i] = (
            is_visible(tree, node, conditions.now_us)
            and is_in_scope(tree, node, conditions)
            and not is_expired_above(tree, node, conditions.now_us)
            and is_wanted(tree, node, conditions)
        )
