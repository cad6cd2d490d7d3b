"""Write the answer of a retrieval as a message, cut openly where it would be larger than clients take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.domain.query import TraceLevel
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.server.encoded_match import encode_match

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.duration_pb2 import Duration

    from viking_rpc.domain.query import View
    from viking_rpc.domain.trace import RetrieveResult, RetrieveStats, ScoreParts, TraceStep
    from viking_rpc.server.encoded import EncodedFor

#: What a gRPC client takes by default.
MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
#: The best children of a step that are told; with more a step alone could be larger than an answer may be.
MAX_CHILD_SCORES: Final = 1_000
#: Room for what is added after the cut: warnings, and the frame.
_SPARE_BYTES: Final = 4 * 1024


@dataclass(slots=True)
class WrittenAnswer:
    """An answer on its way out: its matches in bytes, which need not become messages first, and a message of the rest.

    Args:
        matches: each as the bytes of a RetrieveResponse that has this match only.
        rest: all other fields.
    """

    matches: list[bytes]
    rest: pb.RetrieveResponse

    @property
    def n_bytes(self) -> int:
        """Return the size of the whole."""
        return sum(map(len, self.matches)) + self.rest.ByteSize()

    def encode(self) -> bytes:
        """Return the whole as bytes; bytes of messages behind one another are those of both merged."""
        return b"".join(self.matches) + self.rest.SerializeToString()

    def message(self) -> pb.RetrieveResponse:
        """Return the whole as a message."""
        return pb.RetrieveResponse.FromString(self.encode())


def write_answer(
    result: RetrieveResult, view: View, trace_level: TraceLevel, encoded: EncodedFor, *, n_steps_sent: int = 0
) -> WrittenAnswer:
    """Write an answer.

    Args:
        result: the answer.
        view: how much of each context is shown.
        trace_level: how much of the work is told.
        encoded: writes contexts for the caller.
        n_steps_sent: how many of the steps the caller has already; they are left out.

    Returns:
        An answer of at most MAX_RESPONSE_BYTES: of a larger one first steps, then matches are cut at the end, each
        with a Warning.
    """
    rest = pb.RetrieveResponse(
        revision=result.revision,
        mode=int(result.mode),  # type: ignore[arg-type]
        searched_roots=result.searched_roots,
        empty_reason=int(result.empty_reason),  # type: ignore[arg-type]
        total_matched=result.total_matched,
        best_below_threshold=result.best_below_threshold,
        threshold_space=int(result.threshold_space or 0),  # type: ignore[arg-type]
    )
    if trace_level >= TraceLevel.STATS:
        fill_stats(rest.stats, result.stats)
    has_steps = trace_level >= TraceLevel.STEPS
    matches = [encode_match(match, view, encoded, has_steps=has_steps) for match in result.matches]
    if has_steps:
        steps = result.steps[n_steps_sent:]
        with_scores = trace_level >= TraceLevel.SCORES
        rest.steps.extend(step_message(step, with_scores=with_scores) for step in steps)
        if with_scores and any(len(step.child_scores) > MAX_CHILD_SCORES for step in result.steps):
            text = f"of each step the best {MAX_CHILD_SCORES} children are told"
            rest.warnings.add(reason="TRACE_TRUNCATED", message=text)
    for warning in result.warnings:
        rest.warnings.add(reason=warning.reason, message=warning.message)
    written = WrittenAnswer(matches, rest)
    # without steps the rest is small; to measure a message is to write it
    if has_steps or sum(map(len, matches)) > MAX_RESPONSE_BYTES // 2:
        fit(written)
    return written


def fit(answer: WrittenAnswer, n_bytes: int = MAX_RESPONSE_BYTES) -> None:
    """Cut an answer at its end until it is no larger than so many bytes, and say so in its warnings."""
    n_over = answer.n_bytes + _SPARE_BYTES - n_bytes
    warnings = answer.rest.warnings
    if n_over > 0 and answer.rest.steps:
        n_cut, n_over = _cut_end(answer.rest.steps, n_over, lambda step: step.ByteSize() + 2)
        text = f"the last {n_cut} steps were left out to keep the answer under {n_bytes} bytes"
        warnings.add(reason="TRACE_TRUNCATED", message=text)
    if n_over > 0 and answer.matches:
        n_cut, n_over = _cut_end(answer.matches, n_over, len)
        text = f"the last {n_cut} matches were left out to keep the answer under {n_bytes} bytes: ask for less text"
        warnings.add(reason="RESPONSE_TRUNCATED", message=text)


def _cut_end(parts: Any, n_over: int, size_of: Callable[[Any], int]) -> tuple[int, int]:
    """Remove parts from the end until enough bytes are gone; return how many, and how many bytes are still over."""
    n_kept = len(parts)
    while n_kept and n_over > 0:
        n_kept -= 1
        n_over -= size_of(parts[n_kept])
    n_cut = len(parts) - n_kept
    del parts[n_kept:]
    return n_cut, n_over


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
