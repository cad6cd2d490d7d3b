"""Write the answer of a retrieval as a message, cut openly where it would be larger than clients take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from viking_rpc.domain.query import TraceLevel
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.duration_pb2 import Duration

    from viking_rpc.domain.query import View
    from viking_rpc.domain.trace import Match, RetrieveResult, RetrieveStats, ScoreParts, TraceStep
    from viking_rpc.server.encoded import EncodedFor

#: What a gRPC client takes by default.
MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
#: The best children of a step that are told; with more a step alone could be larger than an answer may be.
MAX_CHILD_SCORES: Final = 1_000
#: Room for what is added after the cut: warnings, and the frame.
_SPARE_BYTES: Final = 4 * 1024
#: Bytes of a match beside its contexts, or of a step or a child score, never exceed this: a URI and some numbers.
_MAX_FRAME_BYTES: Final = 2_400


def response_message(
    result: RetrieveResult, view: View, trace_level: TraceLevel, encoded: EncodedFor, *, n_steps_sent: int = 0
) -> pb.RetrieveResponse:
    """Write an answer.

    Args:
        result: the answer.
        view: how much of each context is shown.
        trace_level: how much of the work is told.
        encoded: writes contexts for the caller.
        n_steps_sent: how many of the steps the caller has already; they are left out.

    Returns:
        A message of at most MAX_RESPONSE_BYTES: of a larger one first steps, then matches are cut at the end, each
        with a Warning.
    """
    response = pb.RetrieveResponse(
        revision=result.revision,
        mode=int(result.mode),  # type: ignore[arg-type]
        searched_roots=result.searched_roots,
        empty_reason=int(result.empty_reason),  # type: ignore[arg-type]
        total_matched=result.total_matched,
        best_below_threshold=result.best_below_threshold,
        threshold_space=int(result.threshold_space or 0),  # type: ignore[arg-type]
    )
    if trace_level >= TraceLevel.STATS:
        fill_stats(response.stats, result.stats)
    has_steps = trace_level >= TraceLevel.STEPS
    n_bytes = _add_matches(response, result.matches, view, encoded, has_steps=has_steps)
    if has_steps:
        steps = result.steps[n_steps_sent:]
        with_scores = trace_level >= TraceLevel.SCORES
        response.steps.extend(step_message(step, with_scores=with_scores) for step in steps)
        n_bytes += sum(_MAX_FRAME_BYTES * (1 + len(step.child_scores)) for step in steps)
        if with_scores and any(len(step.child_scores) > MAX_CHILD_SCORES for step in result.steps):
            text = f"of each step the best {MAX_CHILD_SCORES} children are told"
            response.warnings.add(reason="TRACE_TRUNCATED", message=text)
    for warning in result.warnings:
        response.warnings.add(reason=warning.reason, message=warning.message)
    if n_bytes > MAX_RESPONSE_BYTES - _SPARE_BYTES:
        fit(response)
    return response


def fit(response: pb.RetrieveResponse, n_bytes: int = MAX_RESPONSE_BYTES) -> None:
    """Cut a response at its end until it is no larger than so many bytes, and say so in its warnings."""
    n_over = response.ByteSize() + _SPARE_BYTES - n_bytes
    if n_over > 0 and response.steps:
        n_cut, n_over = _cut_end(response.steps, n_over)
        text = f"the last {n_cut} steps were left out to keep the answer under {n_bytes} bytes"
        response.warnings.add(reason="TRACE_TRUNCATED", message=text)
    if n_over > 0 and response.matches:
        n_cut, n_over = _cut_end(response.matches, n_over)
        text = f"the last {n_cut} matches were left out to keep the answer under {n_bytes} bytes: ask for less text"
        response.warnings.add(reason="RESPONSE_TRUNCATED", message=text)


def _cut_end(messages: Any, n_over: int) -> tuple[int, int]:
    """Remove messages from the end until enough bytes are gone; return how many, and how many bytes are still over."""
    n_kept = len(messages)
    while n_kept and n_over > 0:
        n_kept -= 1
        n_over -= messages[n_kept].ByteSize() + 2
    n_cut = len(messages) - n_kept
    del messages[n_kept:]
    return n_cut, n_over


def _add_matches(
    response: pb.RetrieveResponse, matches: Sequence[Match], view: View, encoded: EncodedFor, *, has_steps: bool
) -> int:
    """Add the matches; return a number of bytes that they do not exceed."""
    n_bytes = 0
    add = response.matches.add
    for match in matches:
        message = add(
            display_uri=match.display_uri,
            level=match.level + 1,
            score=match.score,
            parts=parts_message(match.parts),
            step_index=match.step_index if has_steps else None,
        )
        body = encoded.match(match.context, view)
        ancestors = match.ancestors
        if ancestors:
            body += encoded.chain(ancestors)
        message.MergeFromString(body)
        n_bytes += len(body) + _MAX_FRAME_BYTES
    return n_bytes


def parts_message(parts: ScoreParts) -> pb.ScoreParts:
    """Write where a score comes from."""
    return pb.ScoreParts(
        dense=parts.dense,
        lexical=parts.lexical,
        own=parts.own,
        parent=parts.parent,
        relevance=parts.relevance,
        rerank=parts.rerank,
        hotness=parts.hotness,
    )


def step_message(step: TraceStep, *, with_scores: bool) -> pb.TraceStep:
    """Write a step; of very many children the best are told."""
    message = pb.TraceStep(
        index=step.index,
        round=step.round,
        uri=step.uri,
        score=step.score,
        depth=step.depth,
        children_scored=step.n_scored,
        children_kept=step.n_kept,
        children_queued=step.n_queued,
    )
    fill_duration(message.duration, step.duration_us)
    if with_scores:
        for child in sorted(step.child_scores, key=lambda c: (-c.relevance, c.uri))[:MAX_CHILD_SCORES]:
            message.child_scores.add(
                uri=child.uri,
                level=child.level + 1,
                own=child.own,
                relevance=child.relevance,
                kept=child.is_kept,
            )
    return message


def fill_stats(message: pb.RetrieveStats, stats: RetrieveStats) -> None:
    """Write what a retrieval cost; the duration of a stage that did not run is left out, which reads as zero."""
    if stats.stop_reason is not None:
        message.stop_reason = int(stats.stop_reason)  # type: ignore[assignment]
    message.rounds = stats.n_rounds
    message.directories_expanded = stats.n_expanded
    message.rows_scored = stats.rows_scored
    message.rows_filtered = stats.rows_filtered
    message.seed_path = stats.seed_path
    message.rerank_calls = stats.n_rerank_calls
    message.rerank_documents = stats.n_reranked
    fill_duration(message.embed_duration, stats.embed_us)
    fill_duration(message.seed_duration, stats.seed_us)
    fill_duration(message.descent_duration, stats.descent_us)
    fill_duration(message.rerank_duration, stats.rerank_us)
    fill_duration(message.total_duration, stats.total_us)
    for level in stats.levels:
        entry = message.levels.add(
            depth=level.depth,
            directories_expanded=level.n_expanded,
            rows_scored=level.n_rows,
            rows_kept=level.n_kept,
        )
        fill_duration(entry.duration, level.duration_us)


def fill_duration(message: Duration, duration_us: float) -> None:
    """Write a duration; nothing for none."""
    if duration_us > 0:
        message.seconds, message.nanos = divmod(round(duration_us * 1000), 1_000_000_000)
