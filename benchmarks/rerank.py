"""What reranking sends and costs, and what a reranker that hangs costs everybody else.

    python -m benchmarks.rerank --json

Data: 20 directories of 20 files, seeded words, embedded by the packaged model, written to a server in a process of its
own. The reranker is an endpoint in this process that counts the words a text shares with the query and answers at once,
so that times are those of the server and of requests on loopback, not of a model. Arms, query by query in turn: `off`
(no rerank), `final`, `each_level`; `calls` and `documents` are the most that one query sent, as the endpoint counted
them; caches are off. `stuck`: ten times 16 callers with 300 ms each, while the endpoint holds every answer back for
30 s: the slowest caller, health checks meanwhile, all requests, and those after the last caller left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc

from benchmarks.servers import running
from viking_rpc.pb.v1 import context_service_pb2, context_service_pb2_grpc, retrieval_service_pb2_grpc
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

N_DIRECTORIES = N_FILES = 20
N_CALLERS = 16
BATCH = 200
STUCK_ROUNDS = 10
DEADLINE_S = 0.3
HELD_S = 30.0
SETTLE_S = 0.5
CONFIG = '[reranker]\nname = "http"\nmodel = "overlap"\nbase_url = "{}"\ncache_size = 0\n'
ARMS: dict[str, dict[str, int]] = {
    "off": {"rerank_mode": pb.RERANK_MODE_OFF},
    "final": {"rerank_scope": pb.RERANK_SCOPE_FINAL},
    "each_level": {"rerank_scope": pb.RERANK_SCOPE_EACH_LEVEL},
}


@dataclass
class Endpoint:
    """What the endpoint has seen: the number of texts in each request, and when it came."""

    address: str = ""
    sizes: list[int] = field(default_factory=list)
    arrivals_s: list[float] = field(default_factory=list)
    is_holding: bool = False
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """Serve reranks on a free port until the block ends."""
    state = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer: two would wait for each other's acknowledgement

        def do_POST(self) -> None:
            sent = self.rfile.read(n_bytes := int(self.headers["Content-Length"]))
            if len(sent) < n_bytes:  # the caller left while it wrote
                self.close_connection = True
                return
            body = json.loads(sent)
            state.arrivals_s.append(time.monotonic())
            state.sizes.append(len(body["documents"]))
            if state.is_holding:
                state.released.wait(HELD_S)
                self.close_connection = True
                return
            words = set(body["query"].split())
            scores = [len(words.intersection(text.split())) for text in body["documents"]]
            entries = [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]
            answer = json.dumps({"results": entries}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()


def make_contexts(rng: np.random.Generator) -> tuple[list[Context], list[str]]:
    """Return the contexts of the tree, and queries of words from its files."""
    syllables = ["ka", "lo", "mi", "ru", "te", "sa", "vo", "ni", "pe", "du"]
    words = ["".join(rng.choice(syllables, 3)) for _ in range(600)]
    contexts, queries = [], []
    for d in range(N_DIRECTORIES):
        own = rng.choice(words, 60)
        abstract = " ".join(rng.choice(own, 20))
        overview = " ".join(rng.choice(own, 80))
        uri = f"viking://resources/tree/d{d:02}"
        contexts.append(Context(uri=uri, kind=1, abstract=abstract, overview=overview))  # type: ignore[arg-type]
        for f in range(N_FILES):
            text = rng.choice(own, 120)
            contexts.append(Context(uri=f"{uri}/f{f:02}.md", content=" ".join(text)))
            queries.append(" ".join(rng.choice(text, 5)))
    rng.shuffle(queries)
    return contexts, queries


def measure_arms(address: str, seen: Endpoint, queries: list[str]) -> dict[str, dict[str, object]]:
    """Ask every query by every arm, in turn."""
    times: dict[str, list[float]] = {arm: [] for arm in ARMS}
    calls: dict[str, list[int]] = {arm: [] for arm in ARMS}
    texts: dict[str, list[int]] = {arm: [] for arm in ARMS}
    with grpc.insecure_channel(address) as channel:
        stub = retrieval_service_pb2_grpc.RetrievalServiceStub(channel)
        for i, query in enumerate(queries):
            for arm, options in ARMS.items():
                wanted = pb.RetrieveOptions(**options)  # type: ignore[arg-type]
                request = pb.RetrieveRequest(query=pb.Query(text=query), options=wanted)
                seen.sizes.clear()
                started_s = time.perf_counter()
                stub.Retrieve(request)
                if i:  # the first opens connections
                    times[arm].append((time.perf_counter() - started_s) * 1000)
                    calls[arm].append(len(seen.sizes))
                    texts[arm].append(sum(seen.sizes))
    return {
        arm: {
            "calls": max(calls[arm]),
            "documents": max(texts[arm]),
            "p50_ms": round(float(np.median(times[arm])), 2),
        }
        for arm in ARMS
    }


async def measure_stuck(address: str, seen: Endpoint) -> dict[str, object]:
    """Let callers wait for an endpoint that holds its answers back, and check health meanwhile."""
    seen.is_holding = True
    seen.arrivals_s.clear()
    outcomes: list[tuple[float, str]] = []
    checks: list[float] = []
    async with grpc.aio.insecure_channel(address) as channel, grpc.aio.insecure_channel(address) as other:
        stub, health = retrieval_service_pb2_grpc.RetrievalServiceStub(channel), health_pb2_grpc.HealthStub(other)
        await health.Check(health_pb2.HealthCheckRequest())  # type: ignore[attr-defined]

        async def call(i: int) -> tuple[float, str]:
            started_s = time.perf_counter()
            request = pb.RetrieveRequest(query=pb.Query(text=f"kalomi {i}"))
            code = await stub.Retrieve(request, timeout=DEADLINE_S).code()
            return (time.perf_counter() - started_s) * 1000, code.name

        for n in range(STUCK_ROUNDS):
            callers = [asyncio.create_task(call(n * N_CALLERS + i)) for i in range(N_CALLERS)]
            pending: set[asyncio.Task[Any]] = set(callers)
            while pending:
                started_s = time.perf_counter()
                await health.Check(health_pb2.HealthCheckRequest())  # type: ignore[attr-defined]
                checks.append((time.perf_counter() - started_s) * 1000)
                _, pending = await asyncio.wait(pending, timeout=0.005)
            outcomes += [caller.result() for caller in callers]
        left_s = time.monotonic()
        await asyncio.sleep(SETTLE_S)
    return {
        "callers": N_CALLERS,
        "rounds": STUCK_ROUNDS,
        "deadline_ms": DEADLINE_S * 1000,
        "slowest_caller_ms": round(max(ms for ms, _ in outcomes), 1),
        "codes": sorted({code for _, code in outcomes}),
        "health_p99_ms": round(float(np.percentile(checks, 99)), 2),
        "health_checks": len(checks),
        "requests": len(seen.arrivals_s),
        "requests_after_the_last_left": sum(at_s > left_s for at_s in seen.arrivals_s),
    }


def measure(n_queries: int) -> dict[str, object]:
    """Write the tree, measure the arms, then the stuck endpoint."""
    contexts, queries = make_contexts(np.random.default_rng(7))
    with endpoint() as seen, tempfile.TemporaryDirectory() as name:
        (Path(name) / "viking.toml").write_text(CONFIG.format(seen.address))
        with running("viking", Path(name)) as address:
            with grpc.insecure_channel(address) as channel:
                stub = context_service_pb2_grpc.ContextServiceStub(channel)
                for lo in range(0, len(contexts), BATCH):
                    stub.UpsertContexts(context_service_pb2.UpsertContextsRequest(contexts=contexts[lo : lo + BATCH]))
            answer: dict[str, object] = dict(measure_arms(address, seen, queries[: n_queries + 1]))
            answer["stuck"] = asyncio.run(measure_stuck(address, seen))
    answer |= {"contexts": len(contexts), "queries": n_queries, "load_average": os.getloadavg()[0]}
    return answer


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="one line of JSON; else indented")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.queries), indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
