"""What all rerankers share: cuts, batches, a cache, a time limit, a circuit breaker, a fault for what is missing."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from viking_rpc.adapters.background import BackgroundLoop
from viking_rpc.adapters.breaker import CircuitBreaker
from viking_rpc.adapters.rerank_pairs import PairBudget
from viking_rpc.domain.rerank import ERROR, PARTIAL, TIMEOUT, RerankAnswer
from viking_rpc.domain.trace import AnswerWarning
from viking_rpc.errors import UnavailableError, VikingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from viking_rpc.domain.rerank import RerankText

logger = logging.getLogger(__name__)

_LOG_EVERY_S: Final = 60.0
_BATCHES_AT_ONCE: Final = 4
#: A caller with less time says little about an endpoint that did not answer within it.
_FAIR_S: Final = 1.0


class Scorer(Protocol):
    """One model; used from one event loop."""

    @property
    def name(self) -> str:
        """Return its stable id."""

    async def score(self, query: str, texts: Sequence[str], out: NDArray[np.float32], allowed_s: float) -> None:
        """Write float32[n_texts], NaN before: what is not finite, or left NaN, is missing.

        Raises:
            VikingError, TimeoutError: no more is to come; what is written counts.
        """

    async def close(self) -> None:
        """Give up what it holds."""


@dataclass(frozen=True, slots=True)
class RerankOptions:
    """How a reranker is asked.

    Args:
        budget: how much of a text it gets, and how many in one request.
        timeout_s: for one call, all its batches together.
        cache_size: scores that are remembered, by query and text; 0: none.
        breaker_failures, breaker_reset_s: after that many failures in a row, calls fail at once for so long.
    """

    budget: PairBudget = field(default_factory=PairBudget)
    timeout_s: float = 3.0
    cache_size: int = 20_000
    breaker_failures: int = 5
    breaker_reset_s: float = 1.0


@dataclass(slots=True)
class _Run:
    """One call in work."""

    query: str
    texts: list[str]
    out: NDArray[np.float32]
    allowed_s: float
    n_calls: int = 0
    n_sent: int = 0


class BatchReranker:
    """A reranker of one model; all callers share it, on a loop of its own.

    Args:
        scorer: the model.
        options: see there.
    """

    def __init__(self, scorer: Scorer, options: RerankOptions | None = None) -> None:
        """Make the reranker; nothing is asked yet."""
        self._scorer = scorer
        self._options = options or RerankOptions()
        self._breaker = CircuitBreaker(self._options.breaker_failures, self._options.breaker_reset_s)
        self._loop = BackgroundLoop("rerank")
        self._cache: OrderedDict[bytes, float] = OrderedDict()
        self._told_s = -math.inf
        self._n_untold = 0

    @property
    def name(self) -> str:
        """Return its stable id."""
        return self._scorer.name

    async def rerank(
        self, query: str, texts: Sequence[RerankText], timeout_s: float | None = None, *, account: str = ""
    ) -> RerankAnswer:
        """Score within `timeout_s` and the options' own; a cancelled call stops its requests.

        Args:
            query: is cut where it is too long.
            texts: are cut by their level.
            timeout_s: None: the options' own.
            account: whose scores are remembered; no other account gets them.

        Returns:
            Scores of all texts that are not blank; NaN and a fault for what is missing. Equal texts are sent once.
        """
        allowed_s = self._options.timeout_s if timeout_s is None else min(timeout_s, self._options.timeout_s)
        query, cut = self._options.budget.cut(query, texts)
        return await asyncio.wrap_future(self._loop.submit(self._rerank(query, cut, allowed_s, account)))

    def close(self) -> None:
        """Close the connections; nothing can be reranked after."""
        self._loop.submit(self._scorer.close()).result()
        self._loop.close()

    async def _rerank(self, query: str, texts: list[str], allowed_s: float, account: str) -> RerankAnswer:
        scores = np.full(len(texts), np.nan, np.float32)
        places: dict[bytes, list[int]] = {}
        for i, text in enumerate(texts):
            if text:
                key = _key(account, query, text)
                known = self._recall(key)
                if known is None:
                    places.setdefault(key, []).append(i)
                else:
                    scores[i] = known
        if not places:
            return RerankAnswer(scores)
        asked = [texts[at[0]] for at in places.values()]
        run = _Run(query, asked, np.full(len(asked), np.nan, np.float32), allowed_s)
        error = await self._ask(run)
        run.out[~np.isfinite(run.out)] = np.nan
        for (key, at), score in zip(places.items(), run.out.tolist(), strict=True):
            if not math.isnan(score):
                scores[at] = score
                self._remember(key, score)
        fault = self._fault(run, error)
        if fault is not None:
            self._tell(fault)
        return RerankAnswer(scores, run.n_calls, run.n_sent, fault)

    async def _ask(self, run: _Run) -> VikingError | TimeoutError | None:
        """Ask for all batches, some at once; return the first thing that went wrong."""
        gate = asyncio.Semaphore(_BATCHES_AT_ONCE)
        ends = asyncio.get_running_loop().time() + run.allowed_s
        ranges = self._options.budget.batches(run.query, run.texts)
        tasks = [asyncio.create_task(self._ask_batch(run, lo, hi, gate, ends)) for lo, hi in ranges]
        try:
            errors = await asyncio.gather(*tasks)
        finally:
            for task in tasks:  # the caller left, or a fault that nobody foresaw
                task.cancel()
        return next((error for error in errors if error is not None), None)

    async def _ask_batch(
        self, run: _Run, lo: int, hi: int, gate: asyncio.Semaphore, ends: float
    ) -> VikingError | TimeoutError | None:
        is_passed = False
        try:
            async with asyncio.timeout_at(ends), gate:
                wait_s = self._breaker.wait_s()
                if wait_s:
                    message = f"{self.name} failed repeatedly and is left alone for {wait_s:.3g} s"
                    return UnavailableError("RERANKER_UNAVAILABLE", message, retry_after_s=wait_s)
                is_passed = True
                left_s = ends - asyncio.get_running_loop().time()
                if left_s <= 0:
                    raise TimeoutError  # noqa: TRY301 - a request that nobody would wait for is not begun
                run.n_calls += 1
                run.n_sent += hi - lo
                await self._scorer.score(run.query, run.texts[lo:hi], run.out[lo:hi], left_s)
        except TimeoutError as error:
            if is_passed:
                is_fair = run.allowed_s >= min(_FAIR_S, self._options.timeout_s)
                (self._breaker.fail if is_fair else self._breaker.abandon)()
            return error
        except UnavailableError as error:
            self._breaker.fail()
            return error
        except VikingError as error:
            self._breaker.succeed()  # it answers; what it answers is for people to mend
            return error
        except BaseException:
            if is_passed:
                self._breaker.abandon()
            raise
        self._breaker.succeed()
        return None

    def _fault(self, run: _Run, error: VikingError | TimeoutError | None) -> AnswerWarning | None:
        """Say in one warning why scores are missing."""
        n, n_missing = len(run.out), int(np.count_nonzero(np.isnan(run.out)))
        if not n_missing:
            return None
        if isinstance(error, TimeoutError):
            why = f"{self.name} did not answer within {max(run.allowed_s, 0):.3g} s"
        elif error is not None:
            why = error.message
        else:
            why = f"the answer of {self.name} lacks scores, or has some that are not finite"
        if n_missing < n:
            return AnswerWarning(PARTIAL, f"{n_missing} of {n} texts have no score of the reranker: {why}")
        return AnswerWarning(TIMEOUT if isinstance(error, TimeoutError) else ERROR, f"nothing was reranked: {why}")

    def _tell(self, fault: AnswerWarning) -> None:
        """Log a fault, once a minute at most."""
        now_s = time.monotonic()
        if now_s - self._told_s < _LOG_EVERY_S:
            self._n_untold += 1
            return
        logger.warning("rerank_fault reason=%s n_untold=%d what=%r", fault.reason, self._n_untold, fault.message)
        self._told_s, self._n_untold = now_s, 0

    def _recall(self, key: bytes) -> float | None:
        found = self._cache.get(key)
        if found is not None:
            self._cache.move_to_end(key)
        return found

    def _remember(self, key: bytes, score: float) -> None:
        if not self._options.cache_size:
            return
        self._cache[key] = score
        if len(self._cache) > self._options.cache_size:
            self._cache.popitem(last=False)


def _key(account: str, query: str, text: str) -> bytes:
    """Return what a pair is remembered by: a row that is rewritten has another text, and so another key."""
    named = f"{len(account)}\0{len(query)}\0{account}{query}{text}"
    return blake2b(named.encode(errors="surrogatepass"), digest_size=16).digest()
