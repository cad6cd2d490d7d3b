"""Load by ghz, where it is installed: a client in Go takes less of a small machine than callers in Python."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, json_format

from benchmarks.load_callers import CALLERS_A_CONNECTION, DEADLINE_S, Outcome
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from subprocess import Popen

    from google.protobuf.descriptor import FileDescriptor

#: What a call says that the end of the stretch ended.
_CUT_OFF = ("transport is closing", "the client connection is closing", "context canceled")


def is_present() -> bool:
    """Return whether ghz is on the path."""
    return shutil.which("ghz") is not None


class Ghz:
    """Runs stretches of load as `load_callers.Callers` does.

    Args:
        folder: for the messages and the reports.
        messages: serialized requests, taken in turn.
    """

    def __init__(self, folder: Path, messages: Sequence[bytes]) -> None:
        """Write the messages as ghz reads them."""
        self._data = folder / "messages.json"
        self._report = folder / "report.json"
        self._descriptors = folder / "descriptors.binpb"
        self._descriptors.write_bytes(_descriptors())
        requests = [json_format.MessageToDict(pb.RetrieveRequest.FromString(message)) for message in messages]
        self._data.write_text(json.dumps(requests))
        self._seconds = 0.0
        self._process: Popen[bytes] | None = None

    def closed(self, address: str, n_callers: int, seconds: float) -> Outcome:
        """Run a closed loop."""
        n_connections = -(-n_callers // CALLERS_A_CONNECTION)
        self._start(address, seconds, f"--concurrency={n_callers}", f"--connections={n_connections}")
        return self.end()

    def begin_open(self, address: str, rate: float, seconds: float, n_connections: int) -> None:
        """Begin an open loop of so many calls a second."""
        workers = f"--concurrency={n_connections}"
        self._start(address, seconds, "--async", f"--rps={round(rate)}", workers, f"--connections={n_connections}")

    def end(self) -> Outcome:
        """Wait for what was begun."""
        assert self._process is not None
        if self._process.wait():
            message = "ghz failed"
            raise RuntimeError(message)
        return _read(json.loads(self._report.read_text()), self._seconds)

    def _start(self, address: str, seconds: float, *how: str) -> None:
        self._seconds = seconds
        command = ["ghz", "--insecure", f"--protoset={self._descriptors}"]
        command += ["--call=viking.v1.RetrievalService.Retrieve", f"--data-file={self._data}"]
        command += [f"--timeout={DEADLINE_S}s", f"--duration={seconds}s", "--duration-stop=close"]
        command += ["--format=json", f"--output={self._report}"]
        self._process = subprocess.Popen([*command, *how, address])


def _descriptors() -> bytes:
    """Return the service with all that it imports; ghz's own reader of protos does not know them all."""
    found: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def add(file: FileDescriptor) -> None:
        for imported in file.dependencies:
            add(imported)
        if file.name not in found:
            found[file.name] = descriptor_pb2.FileDescriptorProto()
            file.CopyToProto(found[file.name])

    add(pb.DESCRIPTOR)
    return descriptor_pb2.FileDescriptorSet(file=found.values()).SerializeToString()


def _read(report: dict[str, Any], seconds: float) -> Outcome:
    """Count calls by their gRPC status; what the end of the stretch cut off is no call."""
    outcome = Outcome(seconds=seconds)
    codes: Counter[str] = Counter()
    for call in report["details"]:
        if call["status"] == "OK":
            outcome.latencies_ms.append(call["latency"] / 1e6)
        elif not any(text in call["error"] for text in _CUT_OFF):
            codes[call["status"]] += 1
    outcome.errors = codes
    return outcome
