"""Ask the reranker for a retrieval: whether at all, with which texts, within what time, and what is counted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.context import Level
from viking_rpc.domain.query import Mode, RerankMode
from viking_rpc.domain.rerank import SKIPPED, RerankText
from viking_rpc.domain.trace import AnswerWarning
from viking_rpc.errors import FailedPreconditionError, UnavailableError
from viking_rpc.retrieve.reranked import RerankedRetrieval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.domain.ports import Reranker
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.retriever import Retrieval
    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner

#: Of the time left, what a reranker gets that steers: a stuck one leaves the rest to the descent.
_STEERING_SHARE: Final = 0.5


def require_reranker(request: RetrieveRequest, reranker: Reranker | None) -> None:
    """Refuse a request that needs a reranker where there is none.

    Raises:
        FailedPreconditionError: NO_RERANKER.
    """
    if request.options.rerank_mode is RerankMode.REQUIRE and reranker is None:
        raise FailedPreconditionError("NO_RERANKER", "the request requires a reranker, and none is configured")


def why_not(request: RetrieveRequest, reranker: Reranker | None) -> str:
    """Return why nothing is reranked, empty where something is; the mode is the request's, whatever is configured."""
    options = request.options
    if request.mode is Mode.QUICK:
        return "QUICK reranks nothing"
    if options.rerank_mode is RerankMode.OFF:
        return "the request switches it off"
    if options.max_rerank_documents == 0:
        return "max_rerank_documents is 0"
    if reranker is None:
        return "no reranker is configured"
    return "" if query_text(request) else "the query has no text"


def skipped(request: RetrieveRequest, why: str) -> AnswerWarning | None:
    """Return the warning for a request that asks for a rerank in so many words and gets none."""
    if not why or request.options.rerank_mode is not RerankMode.PREFER:
        return None
    return AnswerWarning(SKIPPED, f"nothing was reranked: {why}")


def query_text(request: RetrieveRequest) -> str:
    """Return what a reranker compares texts with."""
    return (request.query.text or request.query.lexical_text).strip()


async def supply(runner: Runner, retrieval: Retrieval, call: Call, end_s: float) -> None:
    """Bring the scores that a retrieval waits for, if it waits for any.

    Args:
        runner: the server's state.
        retrieval: stands still while rows are wanted.
        call: whose it is; if it ends, so do the requests to the reranker.
        end_s: until when there is time, on the monotonic clock.
    """
    if not isinstance(retrieval, RerankedRetrieval) or retrieval.wanted is None or runner.reranker is None:
        return
    started_s = time.monotonic()
    texts = await _texts_of(runner, retrieval.snapshot, retrieval.wanted, call)
    left_s = end_s - time.monotonic()
    share = _STEERING_SHARE if retrieval.stop_reason is None else 1.0
    account = call.identity.account
    answer = await runner.reranker.rerank(query_text(retrieval.request), texts, left_s * share, account=account)
    retrieval.supply(answer, (time.monotonic() - started_s) * 1e6)


async def _texts_of(runner: Runner, snapshot: Snapshot, rows: NDArray[np.int32], call: Call) -> list[RerankText]:
    """Return the text of each row: the abstract, the overview or the content; a shorter one where that is empty."""
    nodes, levels = snapshot.rows.node[rows].tolist(), snapshot.rows.level[rows].tolist()
    keys = [int(snapshot.key[node]) for node, level in zip(nodes, levels, strict=True) if level != Level.ABSTRACT]
    bodies: dict[int, tuple[str, str]] = {}
    if keys:
        bodies = await runner.in_thread(
            call,
            runner.store.bodies,
            call.identity.account,
            keys,
            overview=Level.OVERVIEW in levels,
            content=Level.DETAIL in levels,
        )
    texts = []
    for node, level in zip(nodes, levels, strict=True):
        overview, content = bodies.get(int(snapshot.key[node]), ("", ""))
        text = {Level.OVERVIEW: overview, Level.DETAIL: content}.get(level, "")
        text = text if text.strip() else snapshot.abstracts.get(node) or snapshot.titles.get(node)
        texts.append(RerankText(Level(level), text))
    return texts


def settle(runner: Runner, retrieval: Retrieval, call: Call) -> None:
    """Count what became of a retrieval's rerank.

    Raises:
        UnavailableError: the request requires the reranker, which has said nothing.
    """
    if not isinstance(retrieval, RerankedRetrieval):
        return
    reranking = retrieval.reranking
    is_used, fault = bool(reranking.score_of_row), reranking.fault
    runner.recorder.rerank(call.identity.account, is_used=is_used, has_failed=fault is not None)
    call.facts.update(rerank_ms=round(reranking.cost.duration_us / 1000, 3), n_reranked=reranking.cost.n_sent)
    if fault is not None and not is_used and retrieval.request.options.rerank_mode is RerankMode.REQUIRE:
        raise UnavailableError(fault.reason, f"the request requires the reranker: {fault.message}", retry_after_s=1.0)
