"""What docs/clients.md shows runs against a real server, word for word."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.polyglot.snippets import snippets
from tests.polyglot.toolchains import PROTOS, build_go, build_grpcurl, build_typescript
from viking_rpc.client import connect
from viking_rpc.domain.context import ContextWrite, Kind

if TYPE_CHECKING:
    from pathlib import Path

URI = "viking://resources/notes/deploy.md"
SERVICE_CONFIG = str(PROTOS / "service_config.json")


def output(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def filled(address: str) -> str:
    """Store what the snippets look for."""
    with connect(address) as client:
        client.upsert([ContextWrite(URI, Kind.FILE, content="Deploys happen on Tuesday.")])
    return address


def check_found_and_refused(said: str) -> None:
    lines = said.splitlines()
    assert re.fullmatch(rf"-?\d\.\d{{3}} {URI}", lines[0])
    assert {line.split()[0] for line in lines if "viking://" not in line} == {"limit", "query"}


def run_python(snippet: str, address: str) -> str:
    return output([sys.executable, "-W", "error", "-c", f"address = {address!r}\n{snippet}"])


def test_every_language_has_its_snippets() -> None:
    assert {name: len(snippets(name)) for name in ("python", "go", "typescript", "sh")} == {
        "python": 2,
        "go": 1,
        "typescript": 1,
        "sh": 1,
    }


def test_python(address: str) -> None:
    found, violation, code = run_python(snippets("python")[0], address).splitlines()
    assert found.endswith(f" {URI}")
    assert violation.split()[0] == "limit"
    assert code == "DEADLINE_EXCEEDED"


def test_python_with_asyncio(address: str) -> None:
    said = run_python(snippets("python")[1], address).splitlines()
    assert said[:3] == ["1 10", "2 10", "3 10"]
    assert all(line.startswith("opened viking://") for line in said[3:-1])
    assert said[-1] == "found viking://resources/shelf/2/7.md"


def test_go(request: pytest.FixtureRequest) -> None:
    program = build_go() / "bin" / "snippet"
    check_found_and_refused(output([str(program), request.getfixturevalue("filled"), SERVICE_CONFIG]))


def test_typescript(request: pytest.FixtureRequest) -> None:
    program = build_typescript() / "dist" / "snippet.js"
    check_found_and_refused(output(["node", str(program), request.getfixturevalue("filled"), SERVICE_CONFIG]))


def test_grpcurl(request: pytest.FixtureRequest) -> None:
    folder: Path = build_grpcurl().parent
    address = request.getfixturevalue("filled")
    script = "set -eu\n" + snippets("sh")[0]
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    said = output(["sh", "-c", script], ADDRESS=address, PATH=path)
    methods, _, answers = said.partition("{")
    assert "viking.v1.RetrievalService.Retrieve" in methods.split()
    decoder = json.JSONDecoder()
    retrieved, end = decoder.raw_decode("{" + answers)
    assert retrieved["matches"][0]["display_uri"] == URI
    got, _ = decoder.raw_decode(("{" + answers)[end:].strip())
    assert got["context"]["content"] == "Deploys happen on Tuesday."
