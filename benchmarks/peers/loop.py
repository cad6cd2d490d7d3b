"""The life of a measured process: load or reopen a store, then answer all queries each time a line is read.

Standard library only: the processes of other systems run it in environments of their own.

    python -m benchmarks.peers.MODULE ARM DATA STORE load     fills the store and ends
    python -m benchmarks.peers.MODULE ARM DATA STORE serve    opens it and answers

A process prints one line of JSON when it is ready, and one for each round: the times of all queries and what was found.
Libraries may print to standard output what they like; reports go to the descriptor that was standard output at first.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from benchmarks.peers.data import Data

if TYPE_CHECKING:
    from collections.abc import Callable

_Answer = TypeVar("_Answer")
#: Milliseconds by query, and the URIs found by query.
Round = tuple[list[float], list[list[str]]]


class System(Protocol):
    """One arm."""

    def load(self) -> None:
        """Fill the store from the data."""

    def open(self) -> dict[str, Any]:
        """Open the store; return what is to be said of it: `note`, `process` (whose memory counts)."""

    def round(self) -> Round:
        """Answer all queries."""

    def figures(self) -> dict[str, Any]:
        """Return what was counted: `searches` and `rows_scored` a query, where they are known."""

    def close(self) -> None:
        """End."""


def run(make: Callable[[str, Data, Path], System]) -> None:
    """Live; `make` is called with the arm's name, the data and the store's folder."""
    arm, folder, store, task = sys.argv[1:]
    reports = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    system = make(arm, Data.read(Path(folder)), Path(store))

    def report(value: dict[str, Any]) -> None:
        reports.write(json.dumps(value) + "\n")
        reports.flush()

    started = time.perf_counter()
    if task == "load":
        Path(store).mkdir(parents=True)
        system.load()
        report({"load_s": round(time.perf_counter() - started, 2)})
    else:
        said = system.open()
        process = said.pop("process", os.getpid())
        report(said | {"open_s": round(time.perf_counter() - started, 2)})
        for _ in sys.stdin:
            times, found = system.round()
            report({"times_ms": times, "found": found, "rss_mb": _rss_mb(process), **system.figures()})
    system.close()


def timed(ask: Callable[[int], _Answer], n_queries: int) -> tuple[list[float], list[_Answer]]:
    """Answer all queries with a function, and time each: milliseconds and answers."""
    times: list[float] = []
    found: list[_Answer] = []
    for i in range(n_queries):
        started = time.perf_counter_ns()
        answer = ask(i)
        times.append((time.perf_counter_ns() - started) / 1e6)
        found.append(answer)
    return times, found


def _rss_mb(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
