"""Gives directories the words of what lies below them, so that a query's rare word leads down from the top.

A directory's row holds its own terms, and the square root of how often each term occurs in all files and abstracts
below: a large directory has every word, and the root lets it not outweigh a small one that is about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.domain.context import Level
from viking_rpc.index.gathering import positions
from viking_rpc.index.lexicon import RowCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

#: Entries that are sorted together; siblings are not divided, but many of them are not sorted either.
_MAX_ENTRIES = 1 << 20
_TERM_BITS = 32
_TERM_MASK = (1 << _TERM_BITS) - 1


def add_subtrees(
    counts: RowCounts,
    level: NDArray[np.uint8],
    row_lo: NDArray[np.int32],
    parent: NDArray[np.int32],
    depth: NDArray[np.int32],
) -> RowCounts:
    """Add the terms of subtrees to the last row of each directory, its overview if it has one.

    Goes up depth by depth; time and memory are about linear in the entries that result.

    Args:
        counts: of the rows themselves, in node order.
        level: uint8[n_rows].
        row_lo: int32[n_nodes + 1], a node's rows are `[row_lo[node], row_lo[node + 1])`, levels ascending.
        parent: int32[n_nodes], ascending, -1 for the root.
        depth: int32[n_nodes], ascending.

    Returns:
        The counts of all rows, terms ascending in the rows that were added to.
    """
    key, count = _below(counts, level, row_lo, parent, depth)
    first = np.searchsorted(key, np.arange(len(row_lo), dtype=np.int64) << _TERM_BITS)  # of each node
    size = np.diff(first)
    nodes = np.flatnonzero((size > 0) & (np.diff(row_lo) > 0))
    targets = row_lo[nodes + 1].astype(np.int64) - 1
    return _merge(counts, targets, (first[nodes], size[nodes]), key, count)


def _below(
    counts: RowCounts,
    level: NDArray[np.uint8],
    row_lo: NDArray[np.int32],
    parent: NDArray[np.int32],
    depth: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return int64[n] keys (node, term), each once, and float32[n], how often the term occurs below the node."""
    first = np.searchsorted(depth, np.arange(int(depth[-1]) + 2))
    is_told = level != Level.OVERVIEW  # an overview repeats the abstracts of what it lists
    parts: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
    key, count = np.empty(0, np.int64), np.empty(0, np.float32)  # below the nodes of one depth
    for d in range(int(depth[-1]), 0, -1):
        lo, hi = int(first[d]), int(first[d + 1])
        at = np.searchsorted(key, np.arange(lo, hi + 1, dtype=np.int64) << _TERM_BITS)
        own_at = counts.offset[row_lo[lo : hi + 1]]
        found = [
            _to_parents(counts, is_told, row_lo, parent, (lo + i, lo + j), key[at[i] : at[j]], count[at[i] : at[j]])
            for i, j in _families(parent[lo:hi], np.diff(at) + np.diff(own_at))
        ]
        key = np.concatenate([keys for keys, _ in found])
        count = np.concatenate([sums for _, sums in found])
        parts.append((key, count))
    parts.reverse()  # shallow first: keys ascend
    return (
        np.concatenate([keys for keys, _ in parts]) if parts else key,
        np.concatenate([sums for _, sums in parts]) if parts else count,
    )


def _families(parent: NDArray[np.int32], size: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges of the nodes of one depth, siblings together, of about `_MAX_ENTRIES` entries each."""
    ends = np.concatenate([[0], np.flatnonzero(np.diff(parent, append=-1)) + 1])
    for lo, hi in _shares(np.diff(np.cumsum(np.append(0, size))[ends])):
        yield int(ends[lo]), int(ends[hi])


def _to_parents(
    counts: RowCounts,
    is_told: NDArray[np.bool_],
    row_lo: NDArray[np.int32],
    parent: NDArray[np.int32],
    nodes: tuple[int, int],
    key: NDArray[np.int64],
    count: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Sum up, for the parents of a range of nodes, the nodes' own terms and what is known to lie below the nodes."""
    first, last = int(row_lo[nodes[0]]), int(row_lo[nodes[1]])
    lo, hi = int(counts.offset[first]), int(counts.offset[last])
    if parent[nodes[0]] == parent[nodes[1] - 1] and hi - lo + len(key) > _MAX_ENTRIES:
        return _to_one_parent(counts, is_told, (first, last), int(parent[nodes[0]]), key, count)
    n_rows = np.diff(row_lo[nodes[0] : nodes[1] + 1])
    parent_of_row = np.repeat(parent[nodes[0] : nodes[1]], n_rows)
    n_terms = np.diff(counts.offset[first : last + 1])
    own = np.repeat(is_told[first:last], n_terms)
    above = np.concatenate([np.repeat(parent_of_row, n_terms)[own], parent[key >> _TERM_BITS]]).astype(np.int64)
    term = np.concatenate([counts.term_id[lo:hi][own].astype(np.int64), key & _TERM_MASK])
    return _add_up((above << _TERM_BITS) | term, np.concatenate([counts.count[lo:hi][own], count]))


def _to_one_parent(
    counts: RowCounts,
    is_told: NDArray[np.bool_],
    rows: tuple[int, int],
    parent: int,
    key: NDArray[np.int64],
    count: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Do the same for siblings that are many: a sum for each term there is takes less than sorting them all."""
    lo, hi = int(counts.offset[rows[0]]), int(counts.offset[rows[1]])
    own = np.repeat(is_told[rows[0] : rows[1]], np.diff(counts.offset[rows[0] : rows[1] + 1]))
    total = np.zeros(int(counts.term_id.max(initial=-1)) + 1)
    for at in range(0, hi - lo, _MAX_ENTRIES):
        told = own[at : at + _MAX_ENTRIES]
        part = slice(lo + at, min(lo + at + _MAX_ENTRIES, hi))
        total += np.bincount(counts.term_id[part][told], counts.count[part][told], len(total))
    for at in range(0, len(key), _MAX_ENTRIES):
        part = slice(at, at + _MAX_ENTRIES)
        total += np.bincount(key[part] & _TERM_MASK, count[part], len(total))
    term = np.flatnonzero(total)
    return (parent << _TERM_BITS) | term, total[term].astype(np.float32)


def _add_up(key: NDArray[np.int64], count: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the keys ascending, each once, with the sums of their counts."""
    if not len(key):
        return key, count
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    return key[first], np.add.reduceat(count[order], first)


def _merge(
    counts: RowCounts,
    targets: NDArray[np.int64],
    runs: tuple[NDArray[np.int64], NDArray[np.int64]],
    key: NDArray[np.int64],
    count: NDArray[np.float32],
) -> RowCounts:
    """Add to some rows the roots of counts, terms ascending then; the other rows are copied as they are.

    Args:
        counts: of all rows.
        targets: int64[n], rows, ascending.
        runs: int64[n] each, where a target's entries begin, and how many there are.
        key, count: the entries, a term in the lower half of each key.
    """
    n_terms = np.diff(counts.offset)
    is_target = np.zeros(len(n_terms), bool)
    is_target[targets] = True
    first, size = runs
    merged: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = []
    for lo, hi in _shares(size + n_terms[targets]):
        rows = targets[lo:hi]
        own, below = positions(counts.offset[rows], n_terms[rows]), positions(first[lo:hi], size[lo:hi])
        row = np.concatenate([np.repeat(rows, n_terms[rows]), np.repeat(rows, size[lo:hi])])
        added = _add_up(
            (row << _TERM_BITS) | np.concatenate([counts.term_id[own], key[below] & _TERM_MASK]),
            np.concatenate([counts.count[own], np.sqrt(count[below])]),
        )
        n_terms[rows] = np.bincount(np.searchsorted(rows, added[0] >> _TERM_BITS), minlength=len(rows))
        merged.append(((added[0] & _TERM_MASK).astype(np.int32), added[1]))
    offset = np.zeros(len(n_terms) + 1, np.int64)
    np.cumsum(n_terms, out=offset[1:])
    term_id, summed = np.empty(offset[-1], np.int32), np.empty(offset[-1], np.float32)
    is_new, is_old = np.repeat(is_target, n_terms), np.repeat(is_target, np.diff(counts.offset))
    for out, parts, whole in ((term_id, 0, counts.term_id), (summed, 1, counts.count)):
        out[is_new] = np.concatenate([part[parts] for part in merged]) if merged else 0
        out[~is_new] = whole[~is_old]
    return RowCounts(offset, term_id, summed)


def _shares(size: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield half-open ranges that are all of them, of about `_MAX_ENTRIES` entries each."""
    share = np.cumsum(size) // _MAX_ENTRIES
    lo = 0
    for end in (np.flatnonzero(np.diff(share, append=-1)) + 1).tolist():
        yield lo, end
        lo = end
