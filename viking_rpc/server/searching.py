"""Run a search: plan, one retrieval for each query of the plan on one state, side by side, and merge."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.plan import PlanStatus
from viking_rpc.domain.query import View
from viking_rpc.domain.trace import AnswerWarning
from viking_rpc.errors import VikingError
from viking_rpc.retrieve.search import (
    failed_result,
    keep_usable_targets,
    merge_results,
    requests_of,
    skipped_result,
    tell_unranked,
)
from viking_rpc.server.planning import make_plan
from viking_rpc.server.reranking import why_not
from viking_rpc.server.runner import check_time
from viking_rpc.server.texts import with_texts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from viking_rpc.domain.plan import PlanResult, QueryPlan
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.search import SearchRequest, SearchResult
    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner

    RunOne = Callable[[RetrieveRequest, Call, Snapshot | None], Awaitable[RetrieveResult]]

#: Of the time that a search has, what its planner may take; the queries have the rest.
_PLAN_SHARE: Final = 0.5
#: What may fail for one query and not for another. The rest is the request's fault, or everybody's.
_OF_ONE_QUERY: Final = frozenset({"EMBEDDER_UNAVAILABLE", "EMBED_TIMEOUT"})


async def run_search(runner: Runner, run_one: RunOne, request: SearchRequest, call: Call) -> SearchResult:
    """Answer a checked request.

    Args:
        runner: the server's state.
        run_one: runs one retrieval on a given state; several may run at once, taking turns.
        request: checked.
        call: who asks, and until when.

    Raises:
        NotFoundError: a target does not exist.
        UnavailableError: no query could be embedded.
        DeadlineExceededError: the call's time is over.
    """
    await runner.reach(call, request.min_revision)
    planned = await _plan(runner, request, call)
    snapshot = await runner.snapshot(call)
    plan = request.plan
    if planned is not None:
        if planned.status is PlanStatus.SKIPPED:
            return _finish(skipped_result(planned.plan, snapshot.revision), planned, call)
        scope, now_us = request.effective_scope, runner.clock.now_us()
        plan, dropped = keep_usable_targets(planned.plan, scope, snapshot, call.identity, now_us)
        planned = replace(planned, plan=plan, warnings=(*planned.warnings, *dropped))
    if plan is None:
        text = "a search has a task or a plan"
        raise ValueError(text)
    results = await _run_side_by_side(runner, run_one, request, plan, snapshot, call)
    call.facts.update(_work(results))
    merged = merge_results(request, plan, results, snapshot.revision)
    merged = await _with_texts(runner, merged, request.view, call)
    return _finish(merged, planned, call)


async def _plan(runner: Runner, request: SearchRequest, call: Call) -> PlanResult | None:
    """Plan for the task within half of the time; None where the caller has a plan."""
    if request.planning is None:
        return None
    share = _PLAN_SHARE
    budget_s = request.options.time_budget_s
    if budget_s is not None and call.remaining_s > 0:
        share = min(share, _PLAN_SHARE * budget_s / call.remaining_s)
    return await make_plan(runner, request.planning, call, share)


async def _run_side_by_side(
    runner: Runner, run_one: RunOne, request: SearchRequest, plan: QueryPlan, snapshot: Snapshot, call: Call
) -> list[RetrieveResult]:
    """Run every query of a plan; the order of the answers is the plan's, whichever ends first."""
    wanted = requests_of(request, plan, runner.search.presets)
    outcomes = await asyncio.gather(
        *(run_one(one, call, snapshot) for one in wanted),
        return_exceptions=True,
    )
    check_time(call)
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if errors and (len(errors) == len(outcomes) or not all(map(_is_of_one_query, errors))):
        raise next((error for error in errors if not _is_of_one_query(error)), errors[0])
    results = [
        failed_result(one, snapshot.revision, AnswerWarning("QUERY_FAILED", f"the query was not run: {outcome}"))
        if isinstance(outcome, BaseException)
        else outcome
        for one, outcome in zip(wanted, outcomes, strict=True)
    ]
    return (
        results
        if why_not(replace(wanted[0], options=request.options), runner.reranker)
        else tell_unranked(request, results)
    )


def _is_of_one_query(error: BaseException) -> bool:
    return isinstance(error, VikingError) and error.reason in _OF_ONE_QUERY


def _work(results: list[RetrieveResult]) -> dict[str, object]:
    """Return what the queries cost together, for the access log; they took turns, so times add up to what was spent."""
    stats = [result.stats for result in results]
    return {
        "n_queries": len(stats),
        "embed_ms": round(sum(one.embed_us for one in stats) / 1000, 3),
        "seed_ms": round(sum(one.seed_us for one in stats) / 1000, 3),
        "descent_ms": round(sum(one.descent_us for one in stats) / 1000, 3),
        "n_expansions": sum(one.n_expanded for one in stats),
    }


async def _with_texts(runner: Runner, result: SearchResult, view: View, call: Call) -> SearchResult:
    if view <= View.ABSTRACT:
        return result
    read, warnings = await with_texts(runner, [one.match for one in result.matches], view, call)
    matches = tuple(replace(one, match=match) for one, match in zip(result.matches, read, strict=False))
    return replace(result, matches=matches, warnings=(*result.warnings, *warnings))


def _finish(result: SearchResult, planned: PlanResult | None, call: Call) -> SearchResult:
    """Add how the plan came about and how long it all took; tell the access log."""
    call.facts.update(n_matches=len(result.matches), snapshot=result.revision)
    result = replace(result, total_us=(time.monotonic() - call.start_s) * 1e6)
    if planned is None:
        return result
    return replace(result, plan_status=planned.status, warnings=(*planned.warnings, *result.warnings))
