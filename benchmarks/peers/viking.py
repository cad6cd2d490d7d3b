"""This project in its own process: CLASSIC and BALANCED in process, and BALANCED over gRPC to a server of its own.

What is timed is one Retrieve (THINKING, a ready vector, ten results with their ancestors), from the request to the
answer. The caller is a user without rights to another's memories; access is a place, so it is part of every search.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.data import DIMENSIONS
from benchmarks.peers.data import CALLER, LIMIT, Data
from benchmarks.peers.loop import run, timed
from benchmarks.peers.tree import make
from benchmarks.retrieve import NOW_US
from benchmarks.rpc import fill_store, request_of, stub_of
from benchmarks.servers import started
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.query import Profile, Query, RetrieveOptions, RetrieveRequest, TraceLevel
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.peers.loop import Round

_IDENTITY = Identity("default", CALLER, Role.USER)
_PROFILES = {"classic": Profile.CLASSIC, "balanced": Profile.BALANCED, "exhaustive": Profile.EXHAUSTIVE}


class _Arm:
    """What the arms share: one kind of store, filled the same way."""

    def __init__(self, data: Data, store: Path) -> None:
        """Prepare."""
        self.data = data
        self.store = store
        self.queries = np.fromfile(data.folder / "queries.f32", np.float32).reshape(-1, data.dimensions)
        self.stack = ExitStack()

    def load(self) -> None:
        """Import the tree, as `viking import` does: the rows' vectors are ready, the layout and the graphs are not."""
        fill_store(self.store, make(self.data.n_contexts, self.data.n_queries))

    def figures(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def close(self) -> None:
        """Close the store or the server."""
        self.stack.close()


class InProcess(_Arm):
    """The retrieval that a server runs, called directly."""

    def __init__(self, profile: Profile, data: Data, store: Path) -> None:
        """Prepare."""
        super().__init__(data, store)
        self.profile = profile
        self.n_rows = 0
        self.n_asked = 0
        self.paths: set[str] = set()

    def open(self) -> dict[str, Any]:
        """Open the store."""
        store = self.stack.enter_context(Store.open(self.store, model="ready", dimensions=DIMENSIONS))
        self.snapshot = store.snapshot("default")
        return {"note": "in process"}

    def _ask(self, i: int) -> Any:
        vector = self.queries[i]
        request = RetrieveRequest(
            Query(vector=vector),
            limit=LIMIT,
            options=RetrieveOptions(profile=self.profile),
            trace_level=TraceLevel.NONE,
        )
        retrieval = Retrieval(self.snapshot, request, _IDENTITY, vector=vector, now_us=NOW_US)
        while not retrieval.advance():
            pass
        return retrieval.result()

    def round(self) -> Round:
        """Answer all queries."""
        times, results = timed(self._ask, len(self.queries))
        self.n_asked += len(results)
        self.n_rows += sum(result.stats.rows_scored for result in results)
        return times, [[match.context.uri for match in result.matches] for result in results]

    def figures(self) -> dict[str, Any]:
        """Return the rows scored a query."""
        return {"searches": 1, "rows_scored": round(self.n_rows / self.n_asked, 1)}


class OverGrpc(_Arm):
    """A server in a process of its own, asked over loopback by one caller."""

    def open(self) -> dict[str, Any]:
        """Start the server."""
        address, process = self.stack.enter_context(started("viking", self.store))
        self.stub = stub_of(address)
        self.metadata = (("viking-user", CALLER),)
        self.requests = [request_of(query) for query in self.queries]
        return {"note": "BALANCED; the memory is the server's", "process": process}

    def round(self) -> Round:
        """Answer all queries."""
        times, answers = timed(lambda i: self.stub.Retrieve(self.requests[i]), len(self.requests))
        return times, [[match.context.uri for match in answer.matches] for answer in answers]


def _make(arm: str, data: Data, store: Path) -> InProcess | OverGrpc:
    return OverGrpc(data, store) if arm == "grpc" else InProcess(_PROFILES[arm], data, store)


if __name__ == "__main__":
    run(_make)
