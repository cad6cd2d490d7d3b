"""The service that finds contexts: one query, a plan of several, why one was found, and a text for a prompt."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from viking_rpc.domain.query import Page, Profile, TraceLevel, View
from viking_rpc.domain.trace import StopReason
from viking_rpc.errors import InvalidArgumentError, Violation
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1 import retrieval_service_pb2_grpc
from viking_rpc.retrieve.reranked import RerankedRetrieval
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.server import access_log
from viking_rpc.server.assembling import assemble_response, read_assemble, run_assemble
from viking_rpc.server.convert_answer import step_message, write_answer
from viking_rpc.server.convert_request import read_request
from viking_rpc.server.convert_search import read_search, search_response
from viking_rpc.server.explaining import explain_response, read_explain, run_explain
from viking_rpc.server.pages import make_page_token, read_page_token
from viking_rpc.server.planning import check_plan_request, make_plan, plan_response, read_plan_request
from viking_rpc.server.reranking import require_reranker, settle, skipped, supply, why_not
from viking_rpc.server.runner import check_time
from viking_rpc.server.searching import run_search
from viking_rpc.server.texts import with_texts
from viking_rpc.server.validate import check_request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.search import SearchRequest
    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.server.call import Call
    from viking_rpc.server.convert_answer import WrittenAnswer
    from viking_rpc.server.runner import Runner

#: Rounds per slice: between slices a call looks at the clock, at cancellation, and lets others run.
_SLICE_ROUNDS: Final = 64
_WATCHED_SLICE_ROUNDS: Final = 1
#: A retrieval that is not done after so many slices goes on in a thread.
_INLINE_SLICES: Final = 4
#: With more rows, a scan of them all goes on in a thread.
_MAX_INLINE_ROWS: Final = 20_000
#: Share of the deadline after which the best so far is the answer.
_BUDGET_SHARE: Final = 0.8


class RetrievalService(retrieval_service_pb2_grpc.RetrievalServiceServicer):
    """Handlers; each gets a `Call` in place of the gRPC context."""

    def __init__(self, runner: Runner) -> None:
        """Remember the shared state."""
        self._runner = runner

    async def Retrieve(self, request: pb.RetrieveRequest, context: Call) -> pb.RetrieveResponse:  # noqa: N802
        """One query, one answer."""
        wanted = self._read(request, context)
        retrieval = await self._start(wanted, context)
        await self._finish(retrieval, wanted, context)
        answer = await self._answer(retrieval, wanted, context, request)
        return cast("pb.RetrieveResponse", answer.encode())  # bytes go through as they are, see Edge

    async def WatchRetrieve(  # noqa: N802
        self, request: pb.WatchRetrieveRequest, context: Call
    ) -> AsyncGenerator[pb.WatchRetrieveResponse, None]:
        """One query; every step as it is decided, then the answer."""
        if not request.HasField("request"):
            raise InvalidArgumentError.of([Violation("request", "must be set", "REQUIRED")])
        wanted = self._read(request.request, context, prefix="request.")
        wanted = replace(wanted, trace_level=max(wanted.trace_level, TraceLevel.STEPS))
        with_scores = wanted.trace_level >= TraceLevel.SCORES
        retrieval = await self._start(wanted, context)
        n_sent = 0
        is_done = False
        end_s = self._end_s(wanted, context)
        while not is_done:
            is_done = self._is_over(retrieval, end_s, context) or retrieval.advance(max_rounds=_WATCHED_SLICE_ROUNDS)
            for step in retrieval.new_steps():
                yield pb.WatchRetrieveResponse(step=step_message(step, with_scores=with_scores))
                n_sent += 1
            await supply(self._runner, retrieval, context, end_s)
            await asyncio.sleep(0)
        settle(self._runner, retrieval, context)
        answer = await self._answer(retrieval, wanted, context, request.request, n_steps_sent=n_sent)
        yield pb.WatchRetrieveResponse(result=answer.message())

    async def Plan(self, request: pb.PlanRequest, context: Call) -> pb.PlanResponse:  # noqa: N802
        """A task and its conversation to typed queries, without running them."""
        found: list[Violation] = []
        wanted = read_plan_request(request, found)
        check_plan_request(wanted, context.identity, self._runner.clock.now_us(), found)
        return plan_response(await make_plan(self._runner, wanted, context))

    async def Search(self, request: pb.SearchRequest, context: Call) -> pb.SearchResponse:  # noqa: N802
        """A task or a plan; one retrieval for each query, merged."""
        wanted = self._read_search(request, context)
        result = await run_search(self._runner, self._run, wanted, context)
        response = search_response(result, wanted, self._runner.encoded.of(context.identity))
        self._touch(context, (one.match.context.uri for one in response.matches))
        return response

    async def Explain(self, request: pb.ExplainRequest, context: Call) -> pb.ExplainResponse:  # noqa: N802
        """What became of one context in a request, and why."""
        call, now_us = context, self._runner.clock.now_us()
        asked = read_explain(request, call.identity, now_us, lambda one: self._read(one, call, "request."))
        retrieval = await self._start(asked.request, call)
        await self._finish(retrieval, asked.request, call)
        return explain_response(await run_explain(self._runner, retrieval, asked, call))

    async def AssembleContext(  # noqa: N802
        self, request: pb.AssembleContextRequest, context: Call
    ) -> pb.AssembleContextResponse:
        """Matches as one text for a prompt."""
        call, now_us = context, self._runner.clock.now_us()
        wanted = read_assemble(request, call.identity, now_us, lambda one: self._read_source(one, call))
        made = await run_assemble(self._runner, self._run, wanted, call)
        self._touch(call, (entry.uri for entry in made.entries))
        return assemble_response(made)

    def _read(self, message: pb.RetrieveRequest, call: Call, prefix: str = "") -> RetrieveRequest:
        """Read and check a request; `prefix` is the path to it in the message that was sent."""
        found: list[Violation] = []
        request = read_request(message, found)
        if message.page_token:
            request = replace(request, page=read_page_token(message, call.identity, found))
        try:
            check_request(
                request,
                call.identity,
                self._runner.clock.now_us(),
                dimensions=self._runner.embedder.dimensions,
                timeout_s=call.timeout_s,
                found=found,
            )
        except InvalidArgumentError as error:
            if not prefix:
                raise
            raise InvalidArgumentError.of(replace(v, field=prefix + v.field) for v in error.violations) from None
        require_reranker(request, self._runner.reranker)
        return request

    def _read_search(self, message: pb.SearchRequest, call: Call, prefix: str = "") -> SearchRequest:
        """Read and check a search; `prefix` is the path to it in the message that was sent."""
        now_us = self._runner.clock.now_us()
        return read_search(message, call.identity, now_us, lambda shared: self._read(shared, call), prefix)

    def _read_source(self, message: pb.AssembleContextRequest, call: Call) -> RetrieveRequest | SearchRequest:
        """Read and check what a prompt is made of."""
        if message.WhichOneof("source") == "retrieve":
            return self._read(message.retrieve, call, "retrieve.")
        return self._read_search(message.search, call, "search.")

    async def _run(self, request: RetrieveRequest, call: Call, snapshot: Snapshot | None = None) -> RetrieveResult:
        """Run a retrieval to its end; several take turns."""
        retrieval = await self._start(request, call, snapshot)
        await self._finish(retrieval, request, call)
        started_s = time.perf_counter()
        result = retrieval.result()
        self._count(request, result, call, started_s)
        return result

    async def _start(self, request: RetrieveRequest, call: Call, snapshot: Snapshot | None = None) -> Retrieval:
        """Wait for the state, if none is given, embed the query and find the starting points."""
        runner = self._runner
        await runner.reach(call, request.min_revision)
        started_s = time.perf_counter()
        vector = await self._vector(request, call)
        embed_us = (time.perf_counter() - started_s) * 1e6 if request.query.text else 0.0
        check_time(call)
        state = snapshot or await runner.snapshot(call)

        unused = why_not(request, runner.reranker)
        kind = Retrieval if unused else RerankedRetrieval

        def make() -> Retrieval:
            return kind(
                state,
                request,
                call.identity,
                vector=vector,
                now_us=runner.clock.now_us(),
                settings=runner.search,
                embed_us=embed_us,
            )

        # These two look at every row before the descent begins.
        is_long = request.options.profile != Profile.BALANCED and state.n_rows > _MAX_INLINE_ROWS
        retrieval = await runner.in_thread(call, make) if is_long else make()
        warning = skipped(request, unused)
        if warning is not None:
            retrieval.warnings.append(warning)
        return retrieval

    async def _vector(self, request: RetrieveRequest, call: Call) -> NDArray[np.float32] | None:
        """Return float32[dimensions], the query's vector; None when there is nothing to compare."""
        query = request.query
        if not query.text:
            return query.vector
        embedder = self._runner.embedder
        if embedder.is_inline:
            vector = embedder.embed_query(query.text)
        else:
            vector = await embedder.embed_query_async(query.text, timeout_s=call.remaining_s)
        return vector if vector.any() else None

    async def _finish(self, retrieval: Retrieval, request: RetrieveRequest, call: Call) -> None:
        """Run a retrieval to its end: short ones here, long ones in a thread, so that other calls go on."""
        if retrieval.advance(max_rounds=_SLICE_ROUNDS):
            return
        end_s = self._end_s(request, call)
        n_slices = 1
        is_done = False
        while not is_done:
            await asyncio.sleep(0)  # a cancelled call ends here
            await supply(self._runner, retrieval, call, end_s)
            if retrieval.is_done or self._is_over(retrieval, end_s, call):
                break
            if n_slices < _INLINE_SLICES:
                is_done = retrieval.advance(max_rounds=_SLICE_ROUNDS)
                n_slices += 1
            else:
                is_done = await self._runner.in_thread(call, retrieval.advance, max_rounds=_SLICE_ROUNDS)
        settle(self._runner, retrieval, call)

    def _end_s(self, request: RetrieveRequest, call: Call) -> float:
        """Return when the best so far becomes the answer, on the monotonic clock."""
        budget_s = request.options.time_budget_s
        return call.start_s + (budget_s if budget_s is not None else call.timeout_s * _BUDGET_SHARE)

    def _is_over(self, retrieval: Retrieval, end_s: float, call: Call) -> bool:
        """Stop a retrieval whose time budget is spent."""
        check_time(call)
        if time.monotonic() < end_s:
            return False
        retrieval.stop(StopReason.TIME)
        return True

    async def _answer(
        self,
        retrieval: Retrieval,
        request: RetrieveRequest,
        call: Call,
        message: pb.RetrieveRequest,
        *,
        n_steps_sent: int = 0,
    ) -> WrittenAnswer:
        started_s = time.perf_counter()
        result = retrieval.result()
        if request.view > View.ABSTRACT:
            matches, warnings = await with_texts(self._runner, result.matches, request.view, call)
            result = replace(result, matches=matches, warnings=(*result.warnings, *warnings))
        self._count(request, result, call, started_s)
        if access_log.is_wanted():
            stats = result.stats
            call.facts.update(
                embed_ms=round(stats.embed_us / 1000, 3),
                seed_ms=round(stats.seed_us / 1000, 3),
                descent_ms=round(stats.descent_us / 1000, 3),
                n_expansions=stats.n_expanded,
                n_matches=len(result.matches),
                snapshot=result.revision,
            )
        encoded = self._runner.encoded.of(call.identity)
        answer = write_answer(result, request.view, request.trace_level, encoded, n_steps_sent=n_steps_sent)
        n_told = len(answer.matches)  # a large answer was cut
        is_more = result.has_more or n_told < len(result.matches)
        if n_told and is_more and request.options.profile is not Profile.CLASSIC:
            page = Page(result.matches[n_told - 1].context.uri, result.n_before + n_told, result.revision)
            answer.rest.next_page_token = make_page_token(message, call.identity, page)
        self._touch(call, (match.context.uri for match in result.matches[:n_told]))
        return answer

    def _count(self, request: RetrieveRequest, result: RetrieveResult, call: Call, started_s: float) -> None:
        """Count an answered query, the answer of which is made since a time on the performance counter."""
        hydrate_us = (time.perf_counter() - started_s) * 1e6
        self._runner.recorder.query(call.identity.account, request, result, hydrate_us)

    def _touch(self, call: Call, uris: Iterator[str]) -> None:
        """Count what was served as used, where the operator wants that; else the URIs are not even read."""
        if self._runner.settings.server.touch_served_matches:
            self._runner.touches.later(call.identity.account, list(uris))
