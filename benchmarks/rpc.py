"""Retrieve over loopback gRPC against an echo of the same messages, interleaved in one run.

    python -m benchmarks.rpc --nodes 100000 --json

Measures: the median time a caller waits for Retrieve (THINKING, BALANCED, a ready 384-d vector, limit 10, default
view and trace level) and for an echo RPC with the same request and a canned response of the same size, on the same kind
of server (grpc.aio, a process of its own), call by call in turn. Data: benchmarks.data, imported into a store.
`ratio_p50` is what the answer costs against the floor of any answer. recall10 is against the exhaustive descent, asked
over the same connection.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from itertools import islice
from pathlib import Path

import grpc
import numpy as np

from benchmarks.data import DIMENSIONS, SyntheticTree, make_tree, upserts_of
from benchmarks.servers import running
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1 import retrieval_service_pb2_grpc
from viking_rpc.store.store import Store

LIMIT = 10
BATCH = 5000
CONFIG = f'[embedder]\nname = "none"\ndimensions = {DIMENSIONS}\nmodel = "ready"\n'


def fill_store(folder: Path, tree: SyntheticTree) -> None:
    """Put a synthetic tree into a data directory, as an import does."""
    (folder / "viking.toml").write_text(CONFIG)
    operations = upserts_of(tree)
    with Store.open(folder, model="ready", dimensions=DIMENSIONS) as store:
        while batch := list(islice(operations, BATCH)):
            store.database.apply("default", batch, now_us=1_780_000_000_000_000)
        store.lay_out("default")


def request_of(vector: np.ndarray, profile: int = pb.PROFILE_BALANCED) -> pb.RetrieveRequest:
    """Return a request with a ready vector."""
    return pb.RetrieveRequest(
        query=pb.Query(vector={"values": vector.tolist()}),
        limit=LIMIT,
        options=pb.RetrieveOptions(profile=profile),  # type: ignore[arg-type]
    )


def stub_of(address: str) -> retrieval_service_pb2_grpc.RetrievalServiceStub:
    """Return a blocking stub on a connection of its own."""
    return retrieval_service_pb2_grpc.RetrievalServiceStub(grpc.insecure_channel(address))


def measure(n_nodes: int, n_queries: int, rounds: int) -> dict[str, object]:
    """Import, start both servers, call them in turn."""
    tree = make_tree(n_nodes, n_queries=n_queries)
    requests = [request_of(query) for query in tree.queries]
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        data.mkdir()
        fill_store(data, tree)
        with running("viking", data) as address:
            viking = stub_of(address)
            answers = [viking.Retrieve(request) for request in requests]
            canned = sorted(answers, key=lambda answer: answer.ByteSize())[len(answers) // 2]
            (Path(name) / "canned").write_bytes(canned.SerializeToString())
            with running("echo", Path(name) / "canned") as echo_address:
                echo = stub_of(echo_address)
                times = np.empty((2, rounds, n_queries))
                for request in requests[:50]:
                    echo.Retrieve(request)
                for i in range(rounds):
                    for j, request in enumerate(requests):
                        for k, stub in enumerate((echo, viking)):
                            started = time.perf_counter_ns()
                            stub.Retrieve(request)
                            times[k, i, j] = (time.perf_counter_ns() - started) / 1000
            recall = []
            for query, answer in list(zip(tree.queries, answers, strict=True))[:100]:
                exact = viking.Retrieve(request_of(query, pb.PROFILE_EXHAUSTIVE))
                found = {match.display_uri for match in answer.matches}
                recall.append(len(found & {match.display_uri for match in exact.matches}) / LIMIT)
    p50 = np.median(times, axis=(1, 2))
    p99 = np.percentile(times, 99, axis=(1, 2))
    return {
        "nodes": len(tree.records),
        "floor_p50_us": round(float(p50[0]), 1),
        "retrieve_p50_us": round(float(p50[1]), 1),
        "ratio_p50": round(float(p50[1] / p50[0]), 3),
        "floor_p99_us": round(float(p99[0]), 1),
        "retrieve_p99_us": round(float(p99[1]), 1),
        "response_bytes": canned.ByteSize(),
        "recall10": round(float(np.mean(recall)), 4),
        "queries": n_queries,
        "rounds": rounds,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one line of JSON; else indented")
    arguments = parser.parse_args()
    answer = measure(arguments.nodes, arguments.queries, arguments.rounds)
    print(json.dumps(answer, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
