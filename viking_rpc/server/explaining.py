"""Explain one context: run the request with everything recorded, and once more with nothing to stop it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from viking_rpc.domain.access import check_read
from viking_rpc.domain.trace import AnswerWarning
from viking_rpc.domain.uri import Uri, check_uri
from viking_rpc.errors import InvalidArgumentError, Violation
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.retrieve.explain import Explainer, exhaustive, find_node, traced
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.retrieve.workings import rank_of
from viking_rpc.server.convert_answer import parts_message
from viking_rpc.server.convert_search import Findings
from viking_rpc.server.runner import check_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from viking_rpc.domain.explain import Explanation
    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner

#: Of the call's time, what may be gone before the search of everything is given up.
_EXHAUSTIVE_SHARE: Final = 0.95
_SLICE_ROUNDS: Final = 64


class ExplainQuestion(NamedTuple):
    """A checked request: what was asked, with everything to be recorded, and of which context an answer is wanted."""

    request: RetrieveRequest
    uri: Uri


def read_explain(
    message: pb.ExplainRequest, identity: Identity, now_us: int, read: Callable[[pb.RetrieveRequest], RetrieveRequest]
) -> ExplainQuestion:
    """Read and check a request; nothing here depends on what exists.

    Args:
        message: as it was received.
        identity: the caller.
        now_us: the server's time for path variables, microseconds since the epoch, UTC.
        read: reads and checks the retrieval in it.

    Raises:
        InvalidArgumentError: all violations, by field path.
        PermissionDeniedError: all URIs that the caller may not read.
    """
    findings = Findings()
    request = None
    if message.HasField("request"):
        request = findings.of(lambda: read(message.request))
    else:
        findings.violations.append(Violation("request", "must be set", "REQUIRED"))
    parsed = check_uri(message.uri, identity, now_us, "uri")
    if isinstance(parsed, Violation):
        findings.violations.append(parsed)
    elif parsed.uri.is_root:
        findings.violations.append(Violation("uri", "the root is no context", "INVALID_URI"))
    else:
        findings.of(lambda: check_read(identity, parsed.uri))
    findings.refuse(identity)
    if request is None or isinstance(parsed, Violation):  # refused already
        raise InvalidArgumentError.of(findings.violations)
    return ExplainQuestion(traced(request), parsed.uri)


async def run_explain(runner: Runner, retrieval: Retrieval, asked: ExplainQuestion, call: Call) -> Explanation:
    """Explain what became of a context.

    Args:
        runner: the server's state.
        retrieval: of the request, done, and its result not taken yet.
        asked: checked.
        call: who asks, and until when.

    Raises:
        NotFoundError: the context does not exist.
        DeadlineExceededError: the call's time is over.
    """
    snapshot, now_us = retrieval.snapshot, retrieval.now_us
    node = find_node(snapshot, asked.uri)
    workings = retrieval.workings()
    result = await runner.in_thread(call, retrieval.result)
    request = exhaustive(asked.request, snapshot)
    vector = workings.question.vector
    everything = await runner.in_thread(
        call,
        lambda: Retrieval(snapshot, request, call.identity, vector=vector, now_us=now_us, settings=runner.search),
    )
    warnings = list(result.warnings)
    rank = 0
    if await _is_finished(runner, everything, call):
        rank = await runner.in_thread(call, lambda: rank_of(everything.workings(), node))
    else:
        text = "the search of everything did not end in time; the exhaustive rank is not known"
        warnings.append(AnswerWarning("TIME_BUDGET", text))
    call.facts.update(n_expansions=result.stats.n_expanded, snapshot=result.revision)
    explainer = Explainer(snapshot, asked.request, call.identity, now_us, asked.uri, workings, result)
    return await runner.in_thread(call, explainer.explain, rank, tuple(warnings))


async def _is_finished(runner: Runner, everything: Retrieval, call: Call) -> bool:
    """Run the search of everything until almost all of the time is gone; return whether it came to its end."""
    end_s = call.start_s + _EXHAUSTIVE_SHARE * call.timeout_s
    is_done = everything.is_done
    while not is_done and time.monotonic() < end_s:
        is_done = await runner.in_thread(call, everything.advance, max_rounds=_SLICE_ROUNDS)
        await asyncio.sleep(0)  # a cancelled call ends here
    check_time(call)
    return is_done


def explain_response(told: Explanation) -> pb.ExplainResponse:
    """Write an explanation."""
    response = pb.ExplainResponse(
        verdict=int(told.verdict),  # type: ignore[arg-type]
        exhaustive_rank=told.exhaustive_rank,
        summary=told.summary,
        revision=told.revision,
        blocked_uri=told.blocked_uri,
        blocked_score=told.blocked_score,
        stop_reason=int(told.stop_reason or 0),  # type: ignore[arg-type]
        directories_expanded=told.n_expanded,
        rank=told.rank,
    )
    for step in told.path:
        response.path.add(
            uri=step.uri,
            parts=None if step.parts is None else parts_message(step.parts),
            expanded=step.is_expanded,
            sibling_rank=step.sibling_rank,
            sibling_count=step.sibling_count,
            step_index=step.step_index,
            round=step.round,
        )
    for warning in told.warnings:
        response.warnings.add(reason=warning.reason, message=warning.message)
    return response
