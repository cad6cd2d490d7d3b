"""The command line as a user calls it: arguments in, exit code and texts out; nothing of the user's own is touched."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from viking_rpc.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from viking_rpc.cli.embedded import EmbeddedServer

FILES = {
    "README.md": "# Station\n\nHow a parcel station works.\n",
    "locks/bus.md": "# Lock bus\n\nRS-485 with two terminators of 120 ohm; one is missing when it fails in the cold.\n",
    "locks/solenoid.md": "# Solenoid\n\nA coil burns when it is fired for too long. Error ERR-4716.\n",
    "power/battery.md": "# Battery\n\nA lead-gel battery carries the controller for nine hours.\n",
}
ROOT = "viking://resources/station"


@dataclass(frozen=True, slots=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return stdout as the one JSON document that it must be."""
        return json.loads(self.out)


class Cli:
    """Runs commands in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Result:
        """Run a command."""
        self._capsys.readouterr()
        code = run(list(arguments))
        captured = self._capsys.readouterr()
        return Result(code, captured.out, captured.err)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's settings and data out."""
    for name in [name for name in os.environ if name.startswith("VIKING_") and name != "VIKING_CACHE_DIR"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Return the command line."""
    return Cli(capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a small folder to import."""
    folder = tmp_path / "station"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def data(cli: Cli, folder: Path, tmp_path: Path) -> str:
    """Import the folder; return the data directory."""
    data = str(tmp_path / "data")
    assert cli("import", str(folder), "--to", ROOT, "--data", data).code == 0
    return data


@pytest.fixture
def server(data: str) -> Iterator[EmbeddedServer]:
    """Serve the imported folder on a free port."""
    from viking_rpc.cli.embedded import EmbeddedServer
    from viking_rpc.config import load_settings

    with EmbeddedServer(load_settings({"data": data, "server.listen": "127.0.0.1:0"})) as server:
        yield server
