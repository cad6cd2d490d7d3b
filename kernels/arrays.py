"""The arrays that kernels share, grouped by what they index; all of a snapshot's arrays are read-only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from viking_kernels._jit import (
    F32_1D,
    F32_2D,
    F64,
    I32_1D,
    I64,
    I64_1D,
    I64_2D,
    RO_F32_1D,
    RO_F32_2D,
    RO_I8_2D,
    RO_I32_1D,
    RO_I64_1D,
    RO_U8_1D,
    RO_U16_2D,
    offer_instead,
    tuple_type,
)

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]
UInt8 = NDArray[np.uint8]
Float32 = NDArray[np.float32]


class Tree(NamedTuple):
    """The shape and the attributes of a tree, indexed by node.

    Nodes `[0, n_base)` are numbered breadth-first with siblings adjacent in name order, so the children of base node i
    are `[child_lo[i], child_lo[i + 1])`, and those of the range `[lo, hi)` are `[child_lo[lo], child_lo[hi])`. Later
    nodes are fresh: each hangs in its parent's chain `fresh_head[parent] -> fresh_next[...] -> -1`.
    """

    parent: Int32  # [n_nodes], -1 for the root
    child_lo: Int32  # [n_base + 1]
    fresh_head: Int32  # [n_nodes]
    fresh_next: Int32  # [n_nodes]
    depth: Int32  # [n_nodes], 0 for the root
    row_lo: Int32  # [n_nodes]; a node's rows are [row_lo, row_hi)
    row_hi: Int32  # [n_nodes]
    is_directory: UInt8  # [n_nodes]
    is_gone: UInt8  # [n_nodes], 1 when deleted; the children of such a node are gone too
    type: UInt8  # [n_nodes], ContextType
    create_us: Int64  # [n_nodes]
    update_us: Int64  # [n_nodes], 0: unknown
    expire_us: Int64  # [n_nodes], 0: never
    active_count: Int32  # [n_nodes]
    tag_lo: Int32  # [n_nodes]; a node's tags are tag_id[tag_lo:tag_hi], ascending
    tag_hi: Int32  # [n_nodes]
    tag_id: Int32  # [n_tags]
    tie: Int64  # [n_nodes], order of the URIs: equal scores go by it


class Rows(NamedTuple):
    """The scored rows, indexed by row; base rows lie in node order, so a directory's children are one read."""

    vectors: Float32  # [n_rows, dim], unit length or zero; or uint16: bfloat16, the upper halves of float32
    level: UInt8  # [n_rows], 0 to 2
    node: Int32  # [n_rows]
    term_lo: Int64  # [n_rows]; a row's terms are term_id[term_lo:term_hi], ascending
    term_hi: Int64  # [n_rows]
    term_id: Int32  # [n_terms_of_all_rows]
    term_weight: Float32  # [n_terms_of_all_rows], in [0, 1): BM25's saturated frequency


class Sketches(NamedTuple):
    """The fresh rows again, each in a byte per value; row r is entry `r - first`, base rows have none."""

    code: Int8  # [n, dim]; a row is nearly scale * code
    scale: Float32  # [n]
    error: Float32  # [n], at most how far the row is from that
    first: int


class Postings(NamedTuple):
    """The base rows by term: the rows of term t are `row[lo[t]:lo[t + 1]]`, greatest weight first, then by row."""

    lo: Int64  # [n_terms + 1]
    row: Int32  # [n_postings]
    weight: Float32  # [n_postings], the term's weight in that row


class Conditions(NamedTuple):
    """What a node must fulfil to be a match: place (scope and access in one) and the filter.

    At each depth d the allowed base nodes are the disjoint ascending ranges i in `[scope_ptr[d], scope_ptr[d + 1])`,
    `scope_lo[i] <= node < scope_hi[i]`. A fresh node is allowed when climbing from it meets an included fresh node
    before an excluded one, or else ends at an allowed base node.
    """

    scope_ptr: Int32  # [max_depth + 2]
    scope_lo: Int32
    scope_hi: Int32
    fresh_included: Int32
    fresh_excluded: Int32
    tag_id: Int32  # all must be present, ascending
    type_mask: int  # bit t set: type t allowed
    level_mask: int  # bit l set: level l allowed
    updated_since_us: int
    updated_before_us: int
    created_since_us: int
    created_before_us: int
    now_us: int  # contexts that expire at or before it are invisible
    is_open: int  # 1: only place and expiry restrict; attributes need not be read


class Question(NamedTuple):
    """What is asked: a unit vector and the weights of its terms.

    A row's lexical score is s / (s + saturation), where s sums `weight` times the row's weight over the terms that both
    have; it depends on no other row and lies in [0, 1). Saturation 0: s itself.
    """

    vector: Float32  # [dim]
    term: Int32  # [n_terms of the query that the account knows], ascending
    weight: Float32  # the same, how much each term tells (idf)
    lexical_weight: float  # of lexical against dense in the own score of a file's row, in [0, 1]
    directory_weight: float  # the same for a directory's rows
    saturation: float  # the sum that gives a lexical score of one half


class Rules(NamedTuple):
    """How a walk goes; one loop serves all profiles. 0 switches a limit off."""

    alpha: Float32  # [4], weight of the own score against the parent's, by context type
    threshold: float  # -inf: no cut
    is_gte: int  # 1: `>=` passes, 0: `>`
    hotness_alpha: float
    parallelism: int
    convergence_rounds: int
    max_rows: int
    is_classic: int  # 1: the published algorithm with its peculiarities, see walk.py
    child_rows: int  # CLASSIC: rows of a directory's children that are seen, best own score first
    is_steered: int  # 1: a reranker orders the queue; CLASSIC: it gives own scores, block by block
    record_steps: int
    record_children: int


class Pool(NamedTuple):
    """A bounded set of candidates, at most one per node; `heap` is a binary heap of slots with the worst on top."""

    heap: Int32  # [k]; the first `size` are slots
    score: Float32  # [k]; this and the rest by slot
    order: Int64  # [k], equal scores: the lower is the better
    node: Int32  # [k]
    row: Int32  # [k]
    step: Int32  # [k], -1: found by the global search
    parts: Float32  # [k, N_PARTS], see PART_*
    size: Int64  # [1]


PART_DENSE, PART_LEXICAL, PART_OWN, PART_PARENT, PART_RELEVANCE, PART_HOTNESS = range(6)
N_PARTS = 6


class Block(NamedTuple):
    """The scored rows of one directory's children: what a round fetches and what a reranker may change."""

    row: Int32  # [capacity]
    own: Float32  # [capacity]
    dense: Float32  # [capacity]
    lexical: Float32  # [capacity]
    order: Int64  # [capacity], CLASSIC: the rows that are seen, best own score first


class Frontier(NamedTuple):
    """What one walk has open and has done; the caller grows it when a kernel asks for room.

    `heap_*` is a binary heap of directories, best score first, NaN (no score) before all. `seen_node` is an
    open-addressing hash set of expanded directories. `round_*` are the directories of the current round. `step_*` has
    one entry per expanded directory, `child_*` one per scored row, both only when recorded.
    """

    heap_score: Float32  # [heap capacity]
    heap_node: Int32  # [heap capacity]
    seen_node: Int32  # [power of two], -1: empty
    round_score: Float32  # [parallelism]
    round_node: Int32  # [parallelism]
    memo_score: Float32  # [N_MEMO], relevance of directories on seeds' paths
    memo_node: Int32  # [N_MEMO], -1: empty; CLASSIC: the candidates of the start, in order
    path: Int32  # [max depth + 2], scratch
    step_int: Int64  # [steps, N_STEP_INTS], see STEP_*
    step_score: Float32  # [steps], NaN: none
    child_int: Int64  # [children, N_CHILD_INTS], see CHILD_*
    child_score: Float32  # [children, 2]: own, relevance
    level_int: Int64  # [max depth + 2, N_LEVEL_INTS], by depth below the searched roots, see LEVEL_*
    counters: Int64  # [N_COUNTERS], see COUNT_*
    best_cut: Float32  # [1], the best relevance that the threshold cut; -inf: none


N_MEMO = 256
STEP_NODE, STEP_ROUND, STEP_SCORED, STEP_KEPT, STEP_QUEUED, STEP_CYCLES = range(6)
N_STEP_INTS = 6
CHILD_STEP, CHILD_ROW, CHILD_KEPT = range(3)
N_CHILD_INTS = 3
LEVEL_EXPANDED, LEVEL_ROWS, LEVEL_KEPT, LEVEL_CYCLES = range(4)
N_LEVEL_INTS = 4
(
    COUNT_HEAP,
    COUNT_SEEN,
    COUNT_EXPANDED,
    COUNT_CHILDREN,
    COUNT_ROUNDS,
    COUNT_ROWS,
    COUNT_MATCHED,
    COUNT_FILTERED,
    COUNT_CUT,
    COUNT_STABLE_ROUNDS,
    COUNT_STAGNANT_ROUNDS,
    COUNT_LAST_MATCHED,
    COUNT_CHANGED,
    COUNT_ROUND_SIZE,
    COUNT_ROUND_NEXT,
    COUNT_ORDER,
    COUNT_NEEDED,
    COUNT_BLOCK,
) = range(18)
N_COUNTERS = 18


TREE = tuple_type(
    Tree,
    parent=RO_I32_1D,
    child_lo=RO_I32_1D,
    fresh_head=RO_I32_1D,
    fresh_next=RO_I32_1D,
    depth=RO_I32_1D,
    row_lo=RO_I32_1D,
    row_hi=RO_I32_1D,
    is_directory=RO_U8_1D,
    is_gone=RO_U8_1D,
    type=RO_U8_1D,
    create_us=RO_I64_1D,
    update_us=RO_I64_1D,
    expire_us=RO_I64_1D,
    active_count=RO_I32_1D,
    tag_lo=RO_I32_1D,
    tag_hi=RO_I32_1D,
    tag_id=RO_I32_1D,
    tie=RO_I64_1D,
)
_ROW_COLUMNS = {
    "level": RO_U8_1D,
    "node": RO_I32_1D,
    "term_lo": RO_I64_1D,
    "term_hi": RO_I64_1D,
    "term_id": RO_I32_1D,
    "term_weight": RO_F32_1D,
}
ROWS = tuple_type(Rows, vectors=RO_F32_2D, **_ROW_COLUMNS)
offer_instead(ROWS, tuple_type(Rows, vectors=RO_U16_2D, **_ROW_COLUMNS))
SKETCHES = tuple_type(Sketches, code=RO_I8_2D, scale=RO_F32_1D, error=RO_F32_1D, first=I64)
POSTINGS = tuple_type(Postings, lo=RO_I64_1D, row=RO_I32_1D, weight=RO_F32_1D)
CONDITIONS = tuple_type(
    Conditions,
    scope_ptr=RO_I32_1D,
    scope_lo=RO_I32_1D,
    scope_hi=RO_I32_1D,
    fresh_included=RO_I32_1D,
    fresh_excluded=RO_I32_1D,
    tag_id=RO_I32_1D,
    type_mask=I64,
    level_mask=I64,
    updated_since_us=I64,
    updated_before_us=I64,
    created_since_us=I64,
    created_before_us=I64,
    now_us=I64,
    is_open=I64,
)
QUESTION = tuple_type(
    Question,
    vector=RO_F32_1D,
    term=RO_I32_1D,
    weight=RO_F32_1D,
    lexical_weight=F64,
    directory_weight=F64,
    saturation=F64,
)
RULES = tuple_type(
    Rules,
    alpha=RO_F32_1D,
    threshold=F64,
    is_gte=I64,
    hotness_alpha=F64,
    parallelism=I64,
    convergence_rounds=I64,
    max_rows=I64,
    is_classic=I64,
    child_rows=I64,
    is_steered=I64,
    record_steps=I64,
    record_children=I64,
)
POOL = tuple_type(
    Pool, heap=I32_1D, score=F32_1D, order=I64_1D, node=I32_1D, row=I32_1D, step=I32_1D, parts=F32_2D, size=I64_1D
)
BLOCK = tuple_type(Block, row=I32_1D, own=F32_1D, dense=F32_1D, lexical=F32_1D, order=I64_1D)
FRONTIER = tuple_type(
    Frontier,
    heap_score=F32_1D,
    heap_node=I32_1D,
    seen_node=I32_1D,
    round_score=F32_1D,
    round_node=I32_1D,
    memo_score=F32_1D,
    memo_node=I32_1D,
    path=I32_1D,
    step_int=I64_2D,
    step_score=F32_1D,
    child_int=I64_2D,
    child_score=F32_2D,
    level_int=I64_2D,
    counters=I64_1D,
    best_cut=F32_1D,
)


def frozen(array: NDArray) -> NDArray:  # type: ignore[type-arg]
    """Return a read-only C-contiguous view of an array, as the snapshot tuples need it."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
