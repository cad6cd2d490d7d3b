"""The scores along a path of the tree: what the descent saw where it went, and what it would have seen elsewhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from viking_kernels.arrays import frozen
from viking_kernels.hotness import hotness
from viking_kernels.mask import mask_nodes
from viking_kernels.score import score_range
from viking_rpc.domain.context import Level
from viking_rpc.domain.query import Mode
from viking_rpc.domain.trace import ScoreParts
from viking_rpc.index.snapshot import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from viking_kernels.arrays import Question
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.workings import Workings

_ALL_LEVELS = -1


class NodeScore(NamedTuple):
    """A node on a path: its parts (None: nothing to score), its place among its siblings, and when it was opened."""

    parts: ScoreParts | None
    relevance: float | None  # by which it would be queued: a directory without rows has its parent's
    sibling_rank: int
    sibling_count: int
    step: int  # -1: not opened


class PathScores:
    """Scores nodes of one snapshot as one retrieval did."""

    def __init__(self, snapshot: Snapshot, request: RetrieveRequest, workings: Workings) -> None:
        """Index what was recorded of a request."""
        self._snapshot = snapshot
        self._has_words = bool(request.query.text or request.query.lexical_text)
        self._is_flat = request.mode is Mode.QUICK
        self._workings = workings
        record = workings.record
        self._step_of = {} if record is None else {node: i for i, node in enumerate(record.step_node.tolist())}

    def step_of(self, node: int) -> int:
        """Return the step that opened a directory, -1 when none did."""
        return self._step_of.get(node, -1)

    def was_scored(self, node: int) -> bool:
        """Return whether the retrieval looked at a node's own scores as a candidate."""
        workings, record = self._workings, self._workings.record
        if node in workings.known or record is None:
            return node in workings.known or workings.is_complete
        lo, hi = int(self._snapshot.tree.row_lo[node]), int(self._snapshot.tree.row_hi[node])
        return bool(((record.child_row >= lo) & (record.child_row < hi)).any())

    def along(self, path: Sequence[int], root: int) -> list[NodeScore]:
        """Score the nodes of a path.

        Args:
            path: from below the top of the tree down to the node in question, which is scored by the levels that the
                request allows; directories on the way by all their rows.
            root: the searched root on the path; -1: none, and every node stands for itself, as it does in QUICK.

        Returns:
            One for each node. From the root on, relevance is mixed down the path; above it, it is the own score.
        """
        scores: list[NodeScore] = []
        parent: float | None = None
        is_below = False
        for node in path:
            is_last = node == path[-1]
            scored = self._score(node, parent if is_below and not self._is_flat else None, is_last=is_last)
            scores.append(scored)
            is_below = is_below or root in {node, ROOT}
            parent = scored.relevance
        return scores

    def _score(self, node: int, parent: float | None, *, is_last: bool) -> NodeScore:
        """Score a node and its siblings under a parent's relevance."""
        step = self.step_of(node)
        mask = self._workings.conditions.level_mask if is_last else _ALL_LEVELS
        best = self._best_rows([node], mask)
        if not best:
            return NodeScore(None, self._queued(step, parent), 0, 0, step)
        row, own = best[node]
        family = self._family(node)
        own, relevance = family.get(row, (own, self._mix(node, own, parent)))
        parts = ScoreParts(
            own=own,
            relevance=relevance,
            dense=self._part(row, lexical=0.0),
            lexical=self._lexical(row),
            parent=parent,
            rerank=self._workings.rerank_score_of_row.get(row),
            hotness=self._hotness(node) if is_last else None,
        )
        rank, count = self._among_siblings(node, relevance, parent, mask, family)
        navigation = relevance
        if is_last and mask != _ALL_LEVELS:
            every = self._best_rows([node], _ALL_LEVELS)[node]
            navigation = self._mix(node, every[1], parent)
        return NodeScore(parts, self._queued(step, navigation), rank, count, step)

    def _lexical(self, row: int) -> float | None:
        """Return the lexical part: None for a question without words, 0 where words have no weight."""
        question = self._workings.question
        if not self._has_words:
            return None
        is_file = self._snapshot.rows.level[row] == Level.DETAIL
        weight = question.lexical_weight if is_file else question.directory_weight
        return self._part(row, lexical=1.0) if weight else 0.0

    def _queued(self, step: int, computed: float | None) -> float | None:
        """Return the relevance with which a directory was opened, the computed one where it was not."""
        record = self._workings.record
        if record is None or step < 0:
            return computed
        score = float(record.step_score[step])
        return None if math.isnan(score) else score

    def _family(self, node: int) -> dict[int, tuple[float, float]]:
        """Return what the descent saw when it opened the directory above a node: own score and relevance by row."""
        record, step = self._workings.record, self.step_of(int(self._snapshot.tree.parent[node]))
        if record is None or step < 0:
            return {}
        lo, hi = np.searchsorted(record.child_step, [step, step + 1])
        rows = record.child_row[lo:hi].tolist()
        return {
            row: (own, relevance)
            for row, (own, relevance) in zip(rows, record.child_score[lo:hi].tolist(), strict=True)
        }

    def _mix(self, node: int, own: float, parent: float | None) -> float:
        rules = self._workings.rules
        if parent is None or (rules.is_classic and parent == 0):
            return own
        alpha = rules.alpha[self._snapshot.tree.type[node]]
        return float(alpha * np.float32(own) + (np.float32(1.0) - alpha) * np.float32(parent))

    def _hotness(self, node: int) -> float | None:
        if self._is_flat or self._workings.rules.hotness_alpha <= 0:
            return None
        tree, now_us, out = self._snapshot.tree, self._workings.conditions.now_us, np.empty(1, np.float32)
        hotness(frozen(tree.active_count[[node]]), frozen(tree.update_us[[node]]), now_us, out)
        return float(out[0])

    def _part(self, row: int, *, lexical: float) -> float:
        """Return one part of a row's own score: the lexical one with weight 1, the dense one with weight 0."""
        question = self._workings.question._replace(lexical_weight=lexical, directory_weight=lexical)
        return float(self._own_of(question, [(row, row + 1)])[0])

    def _own_of(self, question: Question, ranges: Iterable[tuple[int, int]]) -> NDArray[np.float32]:
        parts = []
        for lo, hi in ranges:
            out = np.empty(hi - lo, np.float32)
            score_range(self._snapshot.rows, question, lo, hi, out)
            parts.append(out)
        return np.concatenate(parts) if parts else np.empty(0, np.float32)

    def _best_rows(self, nodes: Sequence[int], level_mask: int) -> dict[int, tuple[int, float]]:
        """Return each node's best row among the levels of a mask, the first of equals, with its own score."""
        tree, rows = self._snapshot.tree, self._snapshot.rows
        ranges = _joined((int(tree.row_lo[node]), int(tree.row_hi[node])) for node in nodes)
        own = self._own_of(self._workings.question, ranges).tolist()
        best: dict[int, tuple[int, float]] = {}
        wanted = set(nodes)
        for row, score in zip((row for lo, hi in ranges for row in range(lo, hi)), own, strict=True):
            node = int(rows.node[row])
            is_allowed = node in wanted and (level_mask >> int(rows.level[row])) & 1
            if is_allowed and (node not in best or score > best[node][1]):
                best[node] = (row, score)
        return best

    def _among_siblings(
        self,
        node: int,
        relevance: float,
        parent: float | None,
        level_mask: int,
        family: Mapping[int, tuple[float, float]],
    ) -> tuple[int, int]:
        """Return a node's rank by relevance among its visible siblings with something to score, and their number."""
        snapshot, tree = self._snapshot, self._snapshot.tree
        siblings = np.fromiter(snapshot.children(int(tree.parent[node])), np.int32)
        conditions = self._workings.conditions._replace(is_open=1)
        is_visible = np.empty(len(siblings), np.uint8)
        mask_nodes(tree, conditions, siblings, is_visible)
        others = [one for one in siblings[is_visible.astype(bool)].tolist() if one != node]
        better = (-relevance, int(tree.tie[node]))
        best = self._best_rows(others, level_mask)
        keys = [
            (-(family[row][1] if row in family else self._mix(one, own, parent)), int(tree.tie[one]))
            for one, (row, own) in best.items()
        ]
        return 1 + sum(key < better for key in keys), 1 + len(best)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, with neighbours as one: a directory's children are mostly one read."""
    joined: list[tuple[int, int]] = []
    for lo, hi in sorted(one for one in ranges if one[0] < one[1]):
        if joined and joined[-1][1] == lo:
            joined[-1] = (joined[-1][0], hi)
        else:
            joined.append((lo, hi))
    return joined
