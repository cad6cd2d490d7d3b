"""Callers in a process of their own, so that what they cost is not taken from the servers' interpreter.

A closed loop has so many callers, each waiting for its answer before it asks again; one that is refused with a
RetryInfo waits as long as that says. An open loop asks at a rate, whatever comes back. Messages are bytes made before;
an answer is a success when its gRPC status is OK.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import grpc
import numpy as np
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

METHOD: Final = "/viking.v1.RetrievalService/Retrieve"
#: Callers that share a connection.
CALLERS_A_CONNECTION: Final = 8
#: What a call gets; under an open loop it bounds how many can wait.
DEADLINE_S: Final = 10.0
_WARM_S: Final = 0.3
_DETAILS_KEY: Final = "grpc-status-details-bin"


@dataclass(slots=True)
class Outcome:
    """What became of calls: milliseconds of the successful ones, how many failed with which code, and seconds taken."""

    latencies_ms: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def rps(self) -> float:
        """Return successful calls a second."""
        return len(self.latencies_ms) / self.seconds if self.seconds else 0.0

    def add(self, other: Outcome) -> None:
        """Count another stretch of the same arm in."""
        self.latencies_ms += other.latencies_ms
        self.errors += other.errors
        self.seconds += other.seconds

    def figures(self) -> dict[str, object]:
        """Return rps, percentiles and the number of errors, by code where there are any."""
        taken = np.asarray(self.latencies_ms) if self.latencies_ms else np.full(1, np.nan)
        p50, p95, p99 = (round(float(value), 3) for value in np.percentile(taken, (50, 95, 99)))
        found: dict[str, object] = {"rps": round(self.rps, 1), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99}
        found["errors"] = self.errors.total()
        if self.errors:
            found["codes"] = dict(self.errors)
        return found

    def percentile(self, q: float) -> float:
        """Return a percentile of the successful calls, in milliseconds."""
        return float(np.percentile(self.latencies_ms, q)) if self.latencies_ms else float("nan")


class Callers:
    """Asks the process for stretches of load; one at a time unless `begin` and `end` part them."""

    def __init__(self, pipe: Connection) -> None:
        """Remember the way to the process."""
        self._pipe = pipe

    def closed(self, address: str, n_callers: int, seconds: float) -> Outcome:
        """Run a closed loop."""
        self._pipe.send(("closed", address, n_callers, seconds))
        return self.end()

    def begin_open(self, address: str, rate: float, seconds: float, n_connections: int) -> None:
        """Begin an open loop of so many calls a second."""
        self._pipe.send(("open", address, rate, seconds, n_connections))

    def end(self) -> Outcome:
        """Wait for what was begun."""
        outcome: Outcome = self._pipe.recv()
        return outcome


@contextmanager
def calling(messages: Sequence[bytes]) -> Iterator[Callers]:
    """Run a process of callers, which take the messages in turn."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(list(messages), theirs))
    process.start()
    try:
        yield Callers(ours)
    finally:
        ours.send(None)
        process.join()


def _serve(messages: list[bytes], control: Connection) -> None:
    while order := control.recv():
        kind, *arguments = order
        run = _run_closed if kind == "closed" else _run_open
        control.send(asyncio.run(run(messages, *arguments)))


def _connect(address: str) -> Any:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
    return grpc.aio.insecure_channel(address, options=options)


async def _run_closed(messages: list[bytes], address: str, n_callers: int, seconds: float) -> Outcome:
    channels = [_connect(address) for _ in range(-(-n_callers // CALLERS_A_CONNECTION))]
    outcome = Outcome()
    started_s = time.perf_counter() + _WARM_S
    end_s = started_s + seconds

    async def call_again_and_again(i: int) -> None:
        method = channels[i % len(channels)].unary_unary(METHOD)
        n = i * 7919
        while (begun_s := time.perf_counter()) < end_s:
            n += 1
            wait_s = await _call(method, messages[n % len(messages)], outcome, begun_s if begun_s > started_s else None)
            if wait_s:
                await asyncio.sleep(wait_s)

    await asyncio.gather(*map(call_again_and_again, range(n_callers)))
    outcome.seconds = time.perf_counter() - started_s
    await asyncio.gather(*(channel.close() for channel in channels))
    return outcome


async def _run_open(messages: list[bytes], address: str, rate: float, seconds: float, n_connections: int) -> Outcome:
    channels = [_connect(address) for _ in range(n_connections)]
    methods = [channel.unary_unary(METHOD) for channel in channels]
    outcome = Outcome()
    tasks: set[asyncio.Task[float]] = set()
    n = 0
    started_s = time.perf_counter()
    while (passed_s := time.perf_counter() - started_s) < seconds:
        while n < passed_s * rate:
            # From when it was due: a generator that lags must not flatter the server.
            due_s = started_s + n / rate
            call = _call(methods[n % n_connections], messages[n % len(messages)], outcome, due_s)
            task = asyncio.create_task(call)
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            n += 1
        await asyncio.sleep(0.001)
    # Later answers belong to calls of the stretch, and its time is the stretch's: what waits is not counted twice.
    outcome.seconds = seconds
    n_in_time = len(outcome.latencies_ms)
    await asyncio.gather(*tasks)
    outcome.errors["LATE"] += len(outcome.latencies_ms) - n_in_time
    del outcome.latencies_ms[n_in_time:]
    outcome.errors += Counter()  # what is zero goes
    await asyncio.gather(*(channel.close() for channel in channels))
    return outcome


async def _call(method: Any, message: bytes, outcome: Outcome, begun_s: float | None) -> float:
    """Call once and count it, unless it only warms up; return how long a refused caller is told to wait."""
    try:
        await method(message, timeout=DEADLINE_S)
    except grpc.aio.AioRpcError as error:
        if begun_s is not None:
            outcome.errors[error.code().name] += 1
        return _told_to_wait_s(error)
    if begun_s is not None:
        outcome.latencies_ms.append((time.perf_counter() - begun_s) * 1000)
    return 0.0


def _told_to_wait_s(error: grpc.aio.AioRpcError) -> float:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY:
            for packed in status_pb2.Status.FromString(value).details:
                retry = error_details_pb2.RetryInfo()
                if packed.Unpack(retry):
                    return float(retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9)
    return 0.0
