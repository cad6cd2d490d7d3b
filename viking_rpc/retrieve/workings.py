"""What a retrieval worked with and wrote down, for whoever explains its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from viking_kernels.arrays import (
    CHILD_ROW,
    CHILD_STEP,
    COUNT_CHILDREN,
    COUNT_EXPANDED,
    STEP_NODE,
    STEP_ROUND,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from viking_kernels.arrays import Conditions, Frontier, Question, Rules


class Record(NamedTuple):
    """Copies of what a descent recorded: the directories that it opened, and every row that it scored in them."""

    step_node: NDArray[np.int64]  # [n_steps], in the order of opening
    step_round: NDArray[np.int64]  # [n_steps]
    step_score: NDArray[np.float32]  # [n_steps], NaN: none
    child_step: NDArray[np.int64]  # [n_rows], rising
    child_row: NDArray[np.int64]  # [n_rows]
    child_score: NDArray[np.float32]  # [n_rows, 2]: own, relevance


class Workings(NamedTuple):
    """What a retrieval worked with.

    Args:
        question, conditions, rules: as the kernels read them.
        roots: int32[n_roots], ascending: the searched roots that exist.
        known: nodes that were candidates without being anybody's scored child: found by the global search, and roots.
        is_complete: QUICK: whether every row was scored; true of a descent, whose record says what it scored.
        ranked: int32[n]: the candidates that were kept and pass the threshold, best first, before any rerank.
        record: None in QUICK.
        like_node: the context whose vector asks; -1 for none.
        rerank_score_of_row: what a reranker said.
    """

    question: Question
    conditions: Conditions
    rules: Rules
    roots: NDArray[np.int32]
    known: frozenset[int]
    is_complete: bool
    ranked: NDArray[np.int32]
    record: Record | None
    like_node: int
    rerank_score_of_row: Mapping[int, float]


def read_record(frontier: Frontier) -> Record:
    """Copy what a walk recorded into its frontier."""
    n_steps, n_rows = int(frontier.counters[COUNT_EXPANDED]), int(frontier.counters[COUNT_CHILDREN])
    return Record(
        step_node=frontier.step_int[:n_steps, STEP_NODE].copy(),
        step_round=frontier.step_int[:n_steps, STEP_ROUND].copy(),
        step_score=frontier.step_score[:n_steps].copy(),
        child_step=frontier.child_int[:n_rows, CHILD_STEP].copy(),
        child_row=frontier.child_int[:n_rows, CHILD_ROW].copy(),
        child_score=frontier.child_score[:n_rows].copy(),
    )


def rank_of(workings: Workings, node: int) -> int:
    """Return a node's place among the candidates that were kept, from 1; 0 when it is none of them."""
    ranked = [one for one in workings.ranked.tolist() if one != workings.like_node]
    return ranked.index(node) + 1 if node in ranked else 0
