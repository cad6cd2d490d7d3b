"""Turns what the kernels found into an answer for people and programs: contexts, ancestors, steps, statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from viking_kernels.arrays import (
    CHILD_KEPT,
    CHILD_ROW,
    CHILD_STEP,
    COUNT_CHILDREN,
    LEVEL_CYCLES,
    LEVEL_EXPANDED,
    LEVEL_KEPT,
    LEVEL_ROWS,
    STEP_CYCLES,
    STEP_KEPT,
    STEP_NODE,
    STEP_QUEUED,
    STEP_ROUND,
    STEP_SCORED,
    Frontier,
)
from viking_rpc.domain.access import readable_roots
from viking_rpc.domain.context import Context, ContextType, Kind, Level
from viking_rpc.domain.query import View
from viking_rpc.domain.trace import ChildScore, LevelStats, Match, ScoreParts, TraceStep
from viking_rpc.domain.uri import SCHEME, Uri
from viking_rpc.index.records import decode_relations
from viking_rpc.index.snapshot import ROOT
from viking_rpc.store.codec import etag_of

if TYPE_CHECKING:
    from viking_rpc.domain.identity import Identity
    from viking_rpc.index.snapshot import Snapshot

_LEVELS = tuple(Level)
_SUFFIXES = tuple(level.suffix for level in Level)
_KINDS = (Kind.FILE, Kind.DIRECTORY)
_TYPES = {int(kind): kind for kind in ContextType}
_MAX_REMEMBERED = 20_000


class Found(NamedTuple):
    """One node that the answer holds, with its scores; NaN parts do not exist."""

    node: int
    row: int
    step: int
    score: float
    dense: float
    lexical: float
    own: float
    parent: float
    relevance: float
    hotness: float
    rerank: float = float("nan")


class Hydrator:
    """Makes contexts of nodes; those that many answers share are made once per snapshot."""

    def __init__(
        self, snapshot: Snapshot, identity: Identity, view: View, now_us: int, *, has_words: bool = True
    ) -> None:
        """Bind to a snapshot, to who reads, to which texts it wants, and to whether its query has words."""
        self._snapshot = snapshot
        self._now_us = now_us
        self._has_words = has_words
        self._has_abstract = view >= View.ABSTRACT
        self._readable = readable_roots(identity)
        self._level = memoryview(snapshot.rows.level)  # type: ignore[arg-type]
        self._parent = snapshot.columns.parent
        memo = snapshot.memo
        self._uris: dict[int, str] = memo.setdefault("uris", {})  # type: ignore[assignment]
        self._contexts: dict[int, Context] = memo.setdefault(("contexts", self._has_abstract), {})  # type: ignore[assignment]
        self._chains: dict[int, tuple[Context, ...]] = memo.setdefault(  # type: ignore[assignment]
            ("ancestors", identity, self._has_abstract), {}
        )

    def context(self, node: int) -> Context:
        """Return a node's context with abstract and relations if the view has them; the store adds longer texts."""
        found = self._contexts.get(node)
        if found is None:
            found = self._read(node)
            if not self._snapshot.has_expiry:  # else the counts of children change with time
                if len(self._contexts) > _MAX_REMEMBERED:
                    self._contexts.clear()
                self._contexts[node] = found
        return found

    def _read(self, node: int) -> Context:
        snapshot = self._snapshot
        tree = snapshot.columns
        is_directory = tree.is_directory[node]
        lo, hi = tree.tag_lo[node], tree.tag_hi[node]
        return Context(
            uri=self.uri(node),
            kind=_KINDS[is_directory],
            type=_TYPES[tree.type[node]],
            title=snapshot.titles.get(node),
            abstract=snapshot.abstracts.get(node) if self._has_abstract else "",
            tags=snapshot.tags_between(lo, hi) if hi > lo else {},
            create_us=tree.create_us[node],
            update_us=tree.update_us[node],
            expire_us=tree.expire_us[node],
            active_count=tree.active_count[node],
            etag=etag_of(int(snapshot.key[node]), int(snapshot.version[node])),
            child_count=snapshot.child_count(node, self._now_us) if is_directory else 0,
            relations=decode_relations(snapshot.relations.get_bytes(node)) if self._has_abstract else (),
        )

    def uri(self, node: int) -> str:
        """Return a node's URI."""
        name = self._snapshot.names.get(node)
        parent = self._snapshot.columns.parent[node]
        return f"{self._directory_uri(parent)}/{name}" if parent > ROOT else SCHEME + name

    def _directory_uri(self, node: int) -> str:
        found = self._uris.get(node)
        if found is None:
            if len(self._uris) > _MAX_REMEMBERED:
                self._uris.clear()
            found = self._uris[node] = self.uri(node)
        return found

    def _chain(self, node: int) -> tuple[Context, ...]:
        """Return the directories that the caller may read, from the top down to and including a directory."""
        if node <= ROOT:
            return ()
        found = self._chains.get(node)
        if found is None:
            found = self._chain(self._parent[node])
            # a container of other users' data may not be read, though what is below it may
            if self._readable.contains(Uri.from_canonical(self._directory_uri(node))):
                found = (*found, self.context(node))
            if len(self._chains) > _MAX_REMEMBERED:
                self._chains.clear()
            if not self._snapshot.has_expiry:
                self._chains[node] = found
        return found

    def match(self, found: Found, *, has_steps: bool) -> Match:
        """Return a match with its ancestors."""
        # this runs for every match of every query: no numpy scalars, no names of fields
        node, row, step, score, dense, lexical, own, parent, relevance, hotness, rerank = found
        i_level = self._level[row]
        level = _LEVELS[i_level]
        context = self._contexts.get(node) or self.context(node)
        above = self._parent[node]
        parts = ScoreParts(
            own,
            relevance,
            _or_none(dense),
            _or_none(lexical) if self._has_words else None,
            _or_none(parent),
            _or_none(rerank),
            _or_none(hotness),
        )
        return Match(
            context,
            context.uri + _SUFFIXES[i_level],  # its display URI: no stored name is a level's
            level,
            score,
            parts,
            self._chains.get(above) or self._chain(above),
            step if has_steps and step >= 0 else None,
        )

    def step(self, frontier: Frontier, i: int, depth_of_roots: dict[int, int], us_per_cycle: float) -> TraceStep:
        """Return the i-th recorded step, without the scores of its children."""
        values = frontier.step_int[i]
        node = int(values[STEP_NODE])
        return TraceStep(
            index=i,
            round=int(values[STEP_ROUND]),
            uri=self.uri(node),
            score=_or_none(float(frontier.step_score[i])),
            depth=depth_below_root(self._snapshot, node, depth_of_roots),
            n_scored=int(values[STEP_SCORED]),
            n_kept=int(values[STEP_KEPT]),
            n_queued=int(values[STEP_QUEUED]),
            duration_us=float(values[STEP_CYCLES]) * us_per_cycle,
        )

    def child_scores(self, frontier: Frontier, i: int) -> tuple[ChildScore, ...]:
        """Return the scores of one step's children, in the order in which they were scored."""
        n = int(frontier.counters[COUNT_CHILDREN])
        lo, hi = np.searchsorted(frontier.child_int[:n, CHILD_STEP], [i, i + 1])
        rows = self._snapshot.rows
        return tuple(
            ChildScore(
                uri=self.uri(int(rows.node[values[CHILD_ROW]])),
                level=_LEVELS[int(rows.level[values[CHILD_ROW]])],
                own=float(scores[0]),
                relevance=float(scores[1]),
                is_kept=bool(values[CHILD_KEPT]),
            )
            for values, scores in zip(frontier.child_int[lo:hi], frontier.child_score[lo:hi], strict=True)
        )


def _or_none(value: float) -> float | None:
    """Return the value, None for NaN."""
    return None if value != value else value  # noqa: PLR0124 - the fastest test for NaN


def depth_below_root(snapshot: Snapshot, node: int, depth_of_roots: dict[int, int]) -> int:
    """Return how far below its searched root a node lies."""
    above = node
    while above not in depth_of_roots and above > ROOT:
        above = int(snapshot.tree.parent[above])
    return int(snapshot.tree.depth[node]) - depth_of_roots.get(above, 0)


def level_stats(frontier: Frontier, descent_us: float) -> tuple[LevelStats, ...]:
    """Return the work by depth; the descent's wall time is divided by the cycles that each depth took."""
    opened = [(depth, values) for depth, values in enumerate(frontier.level_int.tolist()) if values[LEVEL_EXPANDED]]
    us_per_cycle = descent_us / (sum(values[LEVEL_CYCLES] for _, values in opened) or 1)
    return tuple(
        LevelStats(
            depth, values[LEVEL_EXPANDED], values[LEVEL_ROWS], values[LEVEL_KEPT], values[LEVEL_CYCLES] * us_per_cycle
        )
        for depth, values in opened
    )
