"""The other end of `benchmarks.peers.loop`: starts an arm's process and asks it for rounds."""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType

    from benchmarks.peers.data import Data

_ROOT = Path(__file__).resolve().parents[2]
_END_S = 30.0


class ArmError(RuntimeError):
    """An arm that cannot be measured; the others go on."""


class ArmProcess:
    """A running arm; `told` is what it said when it was ready."""

    def __init__(self, python: Path, arm: str, data: Data, store: Path, task: str, timeout_s: float) -> None:
        """Start it and wait until it is ready; what it writes to standard error is kept for a message."""
        self.arm = arm
        self.timeout_s = timeout_s
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in `end`
        command = [str(python), "-m", _module(arm), arm, str(data.folder), str(store), task]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        try:
            self.told = self._read()
        except BaseException:
            self.end()
            raise

    def round(self) -> dict[str, Any]:
        """Let it answer all queries."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], self.timeout_s)[0]:
            message = f"took more than {self.timeout_s:.0f} s"
            raise ArmError(message)
        line = stdout.readline()
        if not line:
            self._process.wait(_END_S)
            self._log.seek(0)
            said = self._log.read().strip().splitlines()
            message = said[-1] if said else f"ended with {self._process.returncode}"
            raise ArmError(message)
        return json.loads(line)  # type: ignore[no-any-return]

    def end(self) -> None:
        """End it: by the end of its input, or by force."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_S if self._process.poll() is None and hasattr(self, "told") else 0.1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.end()


def _module(arm: str) -> str:
    if arm.startswith("openviking"):
        return "benchmarks.peers.openviking"
    return "benchmarks.peers." + ("viking" if arm in ("classic", "balanced", "grpc", "exhaustive") else "flat")
