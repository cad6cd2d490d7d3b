"""Assemble the text of a prompt: find, read the texts, and spend the budget."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.domain.assembly import DEFAULT_TOKENS, MAX_EXCLUDED, MAX_TOKENS, MIN_TOKENS, AssembleRequest
from viking_rpc.domain.query import RetrieveRequest, TraceLevel, View
from viking_rpc.domain.trace import EmptyReason
from viking_rpc.domain.uri import check_uri
from viking_rpc.errors import Violation
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.retrieve.assemble import assemble
from viking_rpc.server.convert_answer import MAX_RESPONSE_BYTES
from viking_rpc.server.convert_search import Findings
from viking_rpc.server.searching import run_search
from viking_rpc.server.texts import with_texts
from viking_rpc.server.validate import MAX_LIMIT, check_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from viking_rpc.domain.assembly import AssembledContext
    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.search import SearchRequest
    from viking_rpc.domain.trace import AnswerWarning, Match
    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner
    from viking_rpc.server.searching import RunOne

    ReadSource = Callable[[pb.AssembleContextRequest], RetrieveRequest | SearchRequest]

#: Room for what is added after the cut: a warning, and the frame.
_SPARE_BYTES: Final = 1024


def read_assemble(
    message: pb.AssembleContextRequest, identity: Identity, now_us: int, read_source: ReadSource
) -> AssembleRequest:
    """Read and check a request; nothing here depends on what exists.

    Args:
        message: as it was received.
        identity: the caller.
        now_us: the server's time for path variables, microseconds since the epoch, UTC.
        read_source: reads and checks what is asked in it.

    Raises:
        InvalidArgumentError: all violations, by field path.
        PermissionDeniedError: all targets that the caller may not read.
    """
    findings = Findings()
    source = None
    if message.WhichOneof("source") is None:
        found = Violation("source", "exactly one of retrieve and search must be set", "REQUIRED")
        findings.violations.append(found)
    else:
        source = findings.of(lambda: read_source(message))
    n_tokens = message.max_tokens or DEFAULT_TOKENS
    if not MIN_TOKENS <= n_tokens <= MAX_TOKENS:
        text = f"{n_tokens} is not in [{MIN_TOKENS}, {MAX_TOKENS}]"
        findings.violations.append(Violation("max_tokens", text, "OUT_OF_RANGE"))
    findings.violations += check_count("exclude_uris", message.exclude_uris, MAX_EXCLUDED)
    excluded = list(_read_excluded(message, identity, now_us, findings.violations))
    findings.refuse(identity)
    if source is None:
        text = "what was not read has been refused"
        raise ValueError(text)
    return AssembleRequest(source, n_tokens, tuple(excluded))


def _read_excluded(
    message: pb.AssembleContextRequest, identity: Identity, now_us: int, found: list[Violation]
) -> Iterator[str]:
    """Yield the canonical form of each excluded URI; a level's URI stands for its directory."""
    for i, uri in enumerate(message.exclude_uris[:MAX_EXCLUDED]):
        parsed = check_uri(uri, identity, now_us, f"exclude_uris[{i}]")
        if isinstance(parsed, Violation):
            found.append(parsed)
        else:
            yield str(parsed.uri)


async def run_assemble(runner: Runner, run_one: RunOne, request: AssembleRequest, call: Call) -> AssembledContext:
    """Answer a checked request. Raises as Retrieve or Search does."""
    limit = request.source.limit
    wider: dict[str, Any] = {
        "limit": min(MAX_LIMIT, limit + len(request.exclude_uris)),  # what is left out must not leave gaps
        "view": View.ABSTRACT,
        "trace_level": TraceLevel.NONE,
    }
    matches: tuple[Match, ...]
    warnings: tuple[AnswerWarning, ...]
    if isinstance(request.source, RetrieveRequest):
        result = await run_one(replace(request.source, **wider), call, None)
        matches, warnings = result.matches, result.warnings
        revision, why = result.revision, result.empty_reason
    else:
        merged = await run_search(runner, run_one, replace(request.source, **wider), call)
        matches = tuple(one.match for one in merged.matches)
        warnings = (*merged.warnings, *(warning for one in merged.query_results for warning in one.warnings))
        revision, why = merged.revision, merged.empty_reason
    excluded = frozenset(request.exclude_uris)
    n_wanted = limit + sum(match.context.uri in excluded for match in matches)
    read, cut = await with_texts(runner, matches[:n_wanted], View.FULL, call)
    made = await runner.in_thread(call, assemble, read, request.max_tokens, excluded, limit)
    if matches and not made.text:
        why = EmptyReason.FILTERED_OUT
    call.facts.update(n_matches=len(made.entries), snapshot=revision)
    reason = EmptyReason.NONE if made.text else why
    return replace(made, revision=revision, warnings=(*warnings, *cut), empty_reason=reason)


def assemble_response(made: AssembledContext) -> pb.AssembleContextResponse:
    """Write a text for a prompt."""
    stats = made.stats
    response = pb.AssembleContextResponse(
        text=made.text,
        more_uris=made.more_uris,
        stats=pb.AssembleStats(
            max_tokens=stats.max_tokens,
            used_tokens=stats.used_tokens,
            matched_count=stats.n_matched,
            excluded_count=stats.n_excluded,
            duplicate_count=stats.n_duplicates,
            dropped_count=stats.n_dropped,
            abstract_count=stats.n_by_level[0],
            overview_count=stats.n_by_level[1],
            detail_count=stats.n_by_level[2],
        ),
        empty_reason=int(made.empty_reason),  # type: ignore[arg-type]
        revision=made.revision,
    )
    for entry in made.entries:
        response.entries.add(
            uri=entry.uri,
            level=int(entry.level) + 1,
            tokens=entry.n_tokens,
            is_cut=entry.is_cut,
            score=entry.score,
            type=int(entry.type),
        )
    for warning in made.warnings:
        response.warnings.add(reason=warning.reason, message=warning.message)
    _fit(response)
    return response


def _fit(response: pb.AssembleContextResponse) -> None:
    """Cut the list of what was left out where the answer would be larger than clients take; the text always fits."""
    n_over = response.ByteSize() + _SPARE_BYTES - MAX_RESPONSE_BYTES
    n_all = n_kept = len(response.more_uris)
    while n_over > 0 and n_kept:
        n_kept -= 1
        n_over -= len(response.more_uris[n_kept].encode()) + 2
    if n_kept < n_all:
        del response.more_uris[n_kept:]
        text = (
            f"the last {n_all - n_kept} of more_uris were left out to keep the answer under {MAX_RESPONSE_BYTES} bytes"
        )
        response.warnings.add(reason="RESPONSE_TRUNCATED", message=text)
