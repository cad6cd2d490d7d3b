"""Two binary heaps over arrays: the bounded pool of candidates, and the frontier's queue of directories."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import device
from viking_kernels.arrays import (
    COUNT_HEAP,
    PART_DENSE,
    PART_HOTNESS,
    PART_LEXICAL,
    PART_OWN,
    PART_PARENT,
    PART_RELEVANCE,
)


@device
def _is_worse(pool, a, b):
    """Return whether slot a ranks behind slot b: lower score, or equal score and later order."""
    if pool.score[a] != pool.score[b]:
        return pool.score[a] < pool.score[b]
    return pool.order[a] > pool.order[b]


@device
def _sift(pool, i):
    """Restore the heap around position i, whose slot may be better or worse than before."""
    heap = pool.heap
    size = pool.size[0]
    slot = heap[i]
    while i > 0 and _is_worse(pool, slot, heap[(i - 1) >> 1]):
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _is_worse(pool, heap[child + 1], heap[child]):
            child += 1
        if not _is_worse(pool, heap[child], slot):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = slot


@device
def _write(pool, slot, score, row, step, dense, lexical, own, parent, relevance):
    """Fill a slot with a score and where it comes from."""
    pool.score[slot] = score
    pool.row[slot] = row
    pool.step[slot] = step
    pool.parts[slot, PART_DENSE] = dense
    pool.parts[slot, PART_LEXICAL] = lexical
    pool.parts[slot, PART_OWN] = own
    pool.parts[slot, PART_PARENT] = parent
    pool.parts[slot, PART_RELEVANCE] = relevance


@device
def pool_admits(pool, score, order):
    """Return whether a new entry of this score and order would get a place."""
    size = pool.size[0]
    if size < pool.score.shape[0]:
        return True
    if size == 0:
        return False
    worst = pool.heap[0]
    return score > pool.score[worst] or (score == pool.score[worst] and order < pool.order[worst])


@device
def pool_add(pool, score, order, node, row, step, dense, lexical, own, parent, relevance, hotness):
    """Put a node that the pool does not hold into it, in place of the worst entry when it is full.

    The caller has asked `pool_admits`. `parent` is NaN when no parent's score was mixed in.
    """
    size = pool.size[0]
    position = 0
    slot = pool.heap[0]
    if size < pool.score.shape[0]:
        position = size
        slot = np.int32(size)
        pool.heap[size] = slot
        pool.size[0] = size + 1
    pool.order[slot] = order
    pool.node[slot] = node
    pool.parts[slot, PART_HOTNESS] = hotness
    _write(pool, slot, score, row, step, dense, lexical, own, parent, relevance)
    _sift(pool, position)


@device
def pool_find(pool, node):
    """Return the heap position of a node, -1 when the pool lacks it; linear, for the few nodes that can come twice."""
    for i in range(pool.size[0]):
        if pool.node[pool.heap[i]] == node:
            return i
    return -1


@device
def pool_raise(pool, position, score, row, step, dense, lexical, own, parent):
    """Give the entry at a heap position a higher score, found by another row; it keeps its order."""
    _write(pool, pool.heap[position], score, row, step, dense, lexical, own, parent, score)
    _sift(pool, position)


@device
def _goes_first(tie, score_a, node_a, score_b, node_b):
    """Return whether directory a is expanded before b: no score (NaN) first, then the higher score, then by URI."""
    if np.isnan(score_a):
        return not np.isnan(score_b) or tie[node_a] < tie[node_b]
    if np.isnan(score_b):
        return False
    if score_a != score_b:
        return score_a > score_b
    return tie[node_a] < tie[node_b]


@device
def heap_push(tie, frontier, score, node):
    """Queue a directory; the caller has made room. `tie` is the tree's."""
    i = frontier.counters[COUNT_HEAP]
    frontier.counters[COUNT_HEAP] = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if not _goes_first(tie, score, node, frontier.heap_score[parent], frontier.heap_node[parent]):
            break
        frontier.heap_score[i] = frontier.heap_score[parent]
        frontier.heap_node[i] = frontier.heap_node[parent]
        i = parent
    frontier.heap_score[i] = score
    frontier.heap_node[i] = node


@device
def heap_pop(tie, frontier):
    """Take the directory that goes first: (score, node). The heap must not be empty."""
    top_score = frontier.heap_score[0]
    top_node = frontier.heap_node[0]
    size = frontier.counters[COUNT_HEAP] - 1
    frontier.counters[COUNT_HEAP] = size
    score = frontier.heap_score[size]
    node = frontier.heap_node[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and _goes_first(
            tie,
            frontier.heap_score[child + 1],
            frontier.heap_node[child + 1],
            frontier.heap_score[child],
            frontier.heap_node[child],
        ):
            child += 1
        if not _goes_first(tie, frontier.heap_score[child], frontier.heap_node[child], score, node):
            break
        frontier.heap_score[i] = frontier.heap_score[child]
        frontier.heap_node[i] = frontier.heap_node[child]
        i = child
    frontier.heap_score[i] = score
    frontier.heap_node[i] = node
    return top_score, top_node
