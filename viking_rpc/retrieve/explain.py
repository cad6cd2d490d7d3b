"""Why a context was, or was not, found: its verdict, the way to it with every score, and where the way was blocked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from viking_kernels.mask import mask_nodes
from viking_rpc.domain.access import check_targets, readable_roots, select_roots
from viking_rpc.domain.explain import Explanation, PathStep, Verdict
from viking_rpc.domain.query import Mode, Profile, RerankMode, TraceLevel
from viking_rpc.domain.trace import StopReason
from viking_rpc.domain.uri import ParsedUri, Uri, check_uri
from viking_rpc.errors import NotFoundError
from viking_rpc.index.snapshot import ROOT
from viking_rpc.retrieve.path_scores import PathScores

if TYPE_CHECKING:
    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.trace import AnswerWarning, RetrieveResult
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.path_scores import NodeScore
    from viking_rpc.retrieve.workings import Workings

_WHY_STOPPED: Final = {
    StopReason.EXHAUSTED: "nothing was left to open",
    StopReason.CONVERGED: "the best matches had not changed for several rounds",
    StopReason.STAGNANT: "several rounds had brought no candidate",
    StopReason.BUDGET: "the budget of rows was spent",
    StopReason.TIME: "the time was over",
}


def traced(request: RetrieveRequest) -> RetrieveRequest:
    """Return a request that records all that an explanation needs."""
    return replace(request, trace_level=TraceLevel.SCORES)


def exhaustive(request: RetrieveRequest, snapshot: Snapshot) -> RetrieveRequest:
    """Return the request that ranks all that match: nothing stops it, and nothing is reranked."""
    options = replace(
        request.options,
        profile=Profile.EXHAUSTIVE,
        global_top_k=0,
        leaf_seeds=0,
        convergence_rounds=0,
        max_scored_rows=0,
        time_budget_s=None,
        rerank_mode=RerankMode.OFF,
    )
    return replace(
        request, limit=snapshot.n_nodes, options=options, trace_level=TraceLevel.NONE, grouping=None, page=None
    )


def find_node(snapshot: Snapshot, uri: Uri) -> int:
    """Return the node of a context that the caller may read; an expired one is found.

    Raises:
        NotFoundError: it does not exist.
    """
    node = snapshot.find(uri)
    if node < 0:
        raise NotFoundError("CONTEXT_NOT_FOUND", f"{uri} does not exist", {"uri": str(uri)})
    return node


@dataclass(frozen=True, slots=True, eq=False)
class Explainer:
    """Explains what became of a context in a request that was run with all scores recorded.

    Args:
        snapshot, request, identity, now_us: what was asked of which state, by whom, and when.
        uri: of the context, which the caller may read.
        workings: of the retrieval, taken before its result.
        result: of the retrieval.
    """

    snapshot: Snapshot
    request: RetrieveRequest
    identity: Identity
    now_us: int
    uri: Uri
    workings: Workings
    result: RetrieveResult

    def explain(self, exhaustive_rank: int = 0, warnings: tuple[AnswerWarning, ...] = ()) -> Explanation:
        """Find the verdict and tell it.

        Args:
            exhaustive_rank: the context's place when everything is searched, from 1; 0: it has none.
            warnings: what could not be told.

        Raises:
            NotFoundError: the context does not exist.
        """
        node = find_node(self.snapshot, self.uri)
        path = self.snapshot.path(node)
        roots = set(self.workings.roots.tolist())
        root = next((one for one in [ROOT, *path] if one in roots), -1)
        scores = PathScores(self.snapshot, self.request, self.workings)
        along = scores.along(path, root)
        rank = next((i for i, match in enumerate(self.result.matches, 1) if match.context.uri == str(self.uri)), 0)
        if rank:  # the answer's own numbers
            along[-1] = along[-1]._replace(parts=self.result.matches[rank - 1].parts)
        verdict, why = self._judge(node, path, along[-1], scores, rank)
        told = Explanation(
            verdict=verdict,
            path=tuple(self._steps(path, along)),
            summary=why,
            revision=self.result.revision,
            rank=rank,
            exhaustive_rank=exhaustive_rank,
            stop_reason=self.result.stats.stop_reason,
            n_expanded=self.result.stats.n_expanded,
            warnings=warnings,
        )
        if verdict is Verdict.NOT_REACHED and self.request.mode is not Mode.QUICK:
            told = self._blocked(told, path, along, root)
        return replace(told, summary=f"{told.summary}{self._exhaustively(told)}.")

    def _judge(self, node: int, path: list[int], last: NodeScore, scores: PathScores, rank: int) -> tuple[Verdict, str]:
        """Return the verdict, and the beginning of the sentence that tells it."""
        if rank:
            return Verdict.RETURNED, f"It is match {rank} of {len(self.result.matches)}"
        outside = self._outside(node, path)
        if outside is not None:
            return outside
        if self.snapshot.tree.row_hi[node] == self.snapshot.tree.row_lo[node]:
            return Verdict.NOT_INDEXED, "It has no text and no vector that could be scored"
        filtered = self._filtered(node, last)
        if filtered:
            return Verdict.FILTERED_OUT, filtered
        parts = last.parts
        if parts is None or not scores.was_scored(node):
            return self._unscored(last)
        if not self._passes(parts.relevance):
            threshold = self._threshold
            return (
                Verdict.BELOW_THRESHOLD,
                f"Its relevance, {parts.relevance:.4f}, does not pass the threshold, {threshold:g}",
            )
        at = self.request.options.rerank_threshold
        if parts.rerank is not None and at is not None and parts.rerank <= at:
            return (
                Verdict.BELOW_THRESHOLD,
                f"The reranker's score, {parts.rerank:.4f}, does not pass the threshold, {at:g}",
            )
        return Verdict.OUTRANKED, self._outranked(last)

    def _outside(self, node: int, path: list[int]) -> tuple[Verdict, str] | None:
        """Say whether the context is no part of what is searched, whatever the query."""
        tree = self.snapshot.tree
        if any(0 < int(tree.expire_us[one]) <= self.now_us for one in path):
            return Verdict.FILTERED_OUT, "It has expired, or a directory above it has"
        targets, _ = check_targets(self.request.scope.target_uris, self.identity, self.now_us)
        scope = select_roots(targets, self.request.scope.types, self.identity)
        is_top = self.workings.rules.is_classic and node in set(self.workings.roots.tolist())
        if not scope.contains(self.uri) or is_top:
            return Verdict.OUT_OF_SCOPE, f"It is not below what was searched: {', '.join(map(str, scope.roots))}"
        if not (self.workings.conditions.type_mask >> int(tree.type[node])) & 1:
            return Verdict.OUT_OF_SCOPE, "It has another type than what was asked for"
        for text in self.request.filter.exclude_uris:
            parsed = check_uri(text, self.identity, self.now_us)
            if isinstance(parsed, ParsedUri) and self.uri.is_under(parsed.uri):
                return Verdict.FILTERED_OUT, f"The filter excludes {parsed.uri}"
        return None

    def _filtered(self, node: int, last: NodeScore) -> str:
        """Say which condition removed the context; empty for none."""
        if node == self.workings.like_node:
            return "It is the context that the query names, which is no match of itself"
        if last.parts is None:
            return "None of its texts has a level that the filter allows"
        passes = np.empty(1, np.uint8)
        mask_nodes(self.snapshot.tree, self.workings.conditions, np.array([node], np.int32), passes)
        return "" if passes[0] else "Its tags or its times do not pass the filter"

    def _unscored(self, last: NodeScore) -> tuple[Verdict, str]:
        """Tell of a context that the retrieval did not look at."""
        if self.request.mode is not Mode.QUICK:
            return Verdict.NOT_REACHED, "The descent did not come to it"
        worst = self.result.matches[-1].score if len(self.result.matches) == self.request.limit else None
        if last.parts is not None and worst is not None and last.parts.relevance <= worst:
            return Verdict.OUTRANKED, self._outranked(last)
        return Verdict.NOT_REACHED, "The approximate index did not offer it, though it would have been good enough"

    @property
    def _threshold(self) -> float:
        return float(np.float32(self.workings.rules.threshold))

    def _passes(self, relevance: float) -> bool:
        value = np.float32(relevance)
        return bool(value > self._threshold or (self.request.options.score_gte and value == self._threshold))

    def _outranked(self, last: NodeScore) -> str:
        """Compare with the last match."""
        matches, parts = self.result.matches, last.parts
        if parts is None or not matches:
            return "Others are better"
        own = f"Its relevance is {parts.relevance:.4f}"
        if parts.rerank is not None:
            own += f", the reranker's score {parts.rerank:.4f}"
        return f"{own}; the last of {len(matches)} matches has the score {matches[-1].score:.4f}"

    def _blocked(self, told: Explanation, path: list[int], along: list[NodeScore], root: int) -> Explanation:
        """Add where the descent would have had to go on, and why it did not."""
        first = 0 if root in {ROOT, -1} else path.index(root)
        at = next((i for i in range(first, len(path) - 1) if along[i].step < 0), None)
        reason = self.result.stats.stop_reason
        stopped = f" after {told.n_expanded} directories, since {_WHY_STOPPED[reason]}" if reason is not None else ""
        if at is None:
            text = (
                f"{told.summary}: CLASSIC looks at the best {self.workings.rules.child_rows} rows of a directory only"
            )
            above = self.snapshot.uri(path[-2]) if len(path) > 1 else ""
            return replace(told, summary=text, blocked_uri=above)
        node, score = path[at], along[at].relevance
        uri = self.snapshot.uri(node)
        was_queued = at == first or along[at - 1].step >= 0
        is_shut = self.workings.rules.is_classic and score is not None and not self._passes(score)
        if is_shut:
            text = f"{told.summary}: {uri} has the relevance {score:.4f}, and in CLASSIC the threshold closes ways, too"
        else:
            waited = f", which waited with the relevance {score:.4f}" if score is not None else ""
            text = f"{told.summary}: it stopped{stopped}, before it opened {uri}{waited}"
        return replace(told, summary=text, blocked_uri=uri, blocked_score=score if was_queued else None)

    def _exhaustively(self, told: Explanation) -> str:
        """Return the end of the sentence: what a search of everything makes of it."""
        if told.warnings:
            return ""
        if told.exhaustive_rank:
            return f"; of all that matches it is number {told.exhaustive_rank}"
        return "; a search of everything would not return it either" if told.verdict is Verdict.NOT_REACHED else ""

    def _steps(self, path: list[int], along: list[NodeScore]) -> list[PathStep]:
        """Return what is told of each node that the caller may read."""
        record = self.workings.record
        readable = readable_roots(self.identity)
        steps = []
        for node, scored in zip(path, along, strict=True):
            uri = self.snapshot.uri(node)
            if not readable.contains(Uri.from_canonical(uri)):
                continue  # a container of other users' data
            is_open = record is not None and scored.step >= 0
            # a directory's row holds the words of all that lies below it, of which a caller with a peer may not know
            is_whole = readable.contains_subtree(Uri.from_canonical(uri))
            steps.append(
                PathStep(
                    uri=uri,
                    parts=scored.parts if is_whole else None,
                    sibling_rank=scored.sibling_rank if is_whole else 0,
                    sibling_count=scored.sibling_count if is_whole else 0,
                    step_index=scored.step if is_open else None,
                    round=int(record.step_round[scored.step]) if record is not None and is_open else None,
                )
            )
        return steps
