"""Sustained load on one server process beside an echo server of the same stack, and far more load than it can take.

    python -m benchmarks.load --nodes 100000 --json
    python -m benchmarks.load --nodes 5000 --seconds 1 --rounds 1 --overload-seconds 5

Measures: requests a second, latencies and errors of Retrieve (THINKING, BALANCED, ready 384-d vectors, limit 10) at 1,
8 and 64 concurrent callers, a closed loop each, and the same of an echo of messages of the same size (the echo server
of benchmarks.servers). Both servers stand all the time and are called in turn, stretch by stretch, in one run; a
connection serves eight callers. `share_of_echo` is the ratio of the best rates of both; `cpu_share_of_echo` that of the
CPU times of a call at 8 callers and more, which other work on the machine disturbs less. Callers are ghz where it is
installed, else a process of this program's own (benchmarks.load_callers). An answer counts when its gRPC status is OK.

Overload: an open loop at `--overload` times the best rate. `goodput_share`: successful answers a second against the
best rate. `p99_ratio`: their p99 against that of one caller alone, waiting in the client included. `rss_growth`: the
server's greatest resident memory in the last three quarters against that in the first, less 1. `recovery_s`: from the
end of the load until one caller's answers are for half a second good and within 3 times the p99 of one caller alone.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import grpc

from benchmarks import ghz
from benchmarks.data import make_tree
from benchmarks.load_callers import Callers, Outcome, calling
from benchmarks.rpc import LIMIT, fill_store, stub_of
from benchmarks.servers import started
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

CALLERS: Final = (1, 8, 64)
N_QUERIES: Final = 300
#: Over which an open loop is spread.
N_CONNECTIONS: Final = 8
_PROBE_S: Final = 0.02
_CALM_S: Final = 0.5
_CALM_RATIO: Final = 3.0
_GIVE_UP_S: Final = 10.0

Load = Callers | ghz.Ghz


def measure(
    n_nodes: int, seconds: float, rounds: int, overload: float, overload_seconds: float, *, with_ghz: bool
) -> dict[str, Any]:
    """Import, start both servers, load them in turn, then overload ours."""
    tree = make_tree(n_nodes, n_queries=N_QUERIES)
    messages = [_message(query) for query in tree.queries]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data = folder / "data"
        data.mkdir()
        fill_store(data, tree)
        n_contexts = len(tree.records)
        del tree
        address, pid = stack.enter_context(started("viking", data))
        (folder / "canned").write_bytes(_typical_answer(address, messages))
        echo, echo_pid = stack.enter_context(started("echo", folder / "canned"))
        load: Load = ghz.Ghz(folder, messages) if with_ghz else stack.enter_context(calling(messages))
        arms = {"callers": (address, pid), "echo": (echo, echo_pid)}
        found = {arm: {n: Outcome() for n in CALLERS} for arm in arms}
        cpu_s = dict.fromkeys(arms, 0.0)
        for _ in range(rounds):
            for n in CALLERS:
                for arm, (at, of) in arms.items():
                    before_s = _cpu_s(of)
                    found[arm][n].add(load.closed(at, n, seconds))
                    cpu_s[arm] += (_cpu_s(of) - before_s) if n > 1 else 0.0
        best = {arm: max(outcome.rps for outcome in found[arm].values()) for arm in arms}
        answer: dict[str, Any] = {arm: {str(n): outcome.figures() for n, outcome in found[arm].items()} for arm in arms}
        answer["share_of_echo"] = round(best["callers"] / best["echo"], 3)
        n_calls = {arm: sum(len(found[arm][n].latencies_ms) for n in CALLERS if n > 1) for arm in arms}
        answer["cpu_share_of_echo"] = round(
            cpu_s["echo"] / n_calls["echo"] / (cpu_s["callers"] / n_calls["callers"]), 3
        )
        if overload_seconds:
            calm_ms = found["callers"][1].percentile(99)
            rate = overload * best["callers"]
            answer["overload"] = _overload(
                load, address, pid, messages, rate, overload_seconds, best["callers"], calm_ms
            )
    answer |= {"nodes": n_contexts, "load": "ghz" if with_ghz else "asyncio", "seconds": seconds, "rounds": rounds}
    return answer | {"load_average": os.getloadavg()[0]}


def _message(vector: NDArray[np.float32]) -> bytes:
    query = pb.Query(vector=context_pb2.Vector(packed=vector.astype("<f4").tobytes()))
    return pb.RetrieveRequest(query=query, limit=LIMIT).SerializeToString()


def _typical_answer(address: str, messages: Sequence[bytes]) -> bytes:
    """Return the answer of median size, and warm the server up."""
    stub = stub_of(address)
    sizes: list[bytes] = sorted(
        (stub.Retrieve(pb.RetrieveRequest.FromString(message)).SerializeToString() for message in messages), key=len
    )
    return sizes[len(sizes) // 2]


def _overload(
    load: Load,
    address: str,
    pid: int,
    messages: Sequence[bytes],
    rate: float,
    seconds: float,
    best_rps: float,
    calm_ms: float,
) -> dict[str, Any]:
    load.begin_open(address, rate, seconds, N_CONNECTIONS)
    begun_s = time.perf_counter()
    resident: list[tuple[float, int]] = []
    while (passed_s := time.perf_counter() - begun_s) < seconds:
        resident.append((passed_s, _resident_bytes(pid)))
        time.sleep(min(0.1, seconds / 20))
    recovery_s = _recovery(address, messages, _CALM_RATIO * calm_ms)
    outcome = load.end()
    first = [size for at, size in resident if at <= seconds / 4]
    rest = [size for at, size in resident if at > seconds / 4]
    return {
        "goodput_share": round(outcome.rps / best_rps, 3),
        "p99_ratio": round(outcome.percentile(99) / calm_ms, 2),
        "rss_growth": round(max(rest) / max(first) - 1, 4),
        "recovery_s": recovery_s,
        "offered_rps": round(rate, 1),
        "asked_rps": round((len(outcome.latencies_ms) + outcome.errors.total()) / seconds, 1),
        "seconds": seconds,
        **outcome.figures(),
    }


def _recovery(address: str, messages: Sequence[bytes], limit_ms: float) -> float | None:
    """Return the seconds until a lone caller is answered as if nothing had been; None: it was not."""
    stub = stub_of(address)
    request = pb.RetrieveRequest.FromString(messages[0])
    begun_s = calm_since_s = time.perf_counter()
    while (now_s := time.perf_counter()) - begun_s < _GIVE_UP_S:
        if now_s - calm_since_s >= _CALM_S:
            return round(calm_since_s - begun_s, 3)
        try:
            stub.Retrieve(request, timeout=_GIVE_UP_S)
            is_calm = (time.perf_counter() - now_s) * 1000 <= limit_ms
        except grpc.RpcError:
            is_calm = False
        if not is_calm:
            calm_since_s = time.perf_counter()
        time.sleep(_PROBE_S)
    return None


def _cpu_s(pid: int) -> float:
    """Return the CPU time that a process has taken, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_bytes(pid: int) -> int:
    """Return what a process holds in memory that it does not share: mapped checkpoints come and go with the system."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each stretch")
    parser.add_argument("--rounds", type=int, default=5, help="stretches of each arm and number of callers")
    parser.add_argument("--overload", type=float, default=4.0, help="times the best rate")
    parser.add_argument("--overload-seconds", type=float, default=60.0, help="0: none")
    parser.add_argument("--own-callers", action="store_true", help="do not use ghz")
    parser.add_argument("--json", action="store_true", help="one line of JSON; else indented")
    arguments = parser.parse_args()
    answer = measure(
        arguments.nodes,
        arguments.seconds,
        arguments.rounds,
        arguments.overload,
        arguments.overload_seconds,
        with_ghz=ghz.is_present() and not arguments.own_callers,
    )
    print(json.dumps(answer, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
