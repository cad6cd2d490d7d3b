"""Build the programs of other languages: stubs generated from the protos by their own tools, then compiled.

Nothing that is generated or downloaded stays in the repository: a copy of a program's sources is built in a folder that
is named by what it is made from, hence once, and by one process at a time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.polyglot.snippets import snippets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HERE = Path(__file__).resolve().parent
PROTOS = HERE.parent.parent / "protos"
BUF = Path(sys.executable).parent / "buf"
_BUF_GENERATE = [str(BUF), "generate", str(PROTOS), "--template", "buf.gen.yaml", "--output", "."]

#: Set by the project's own checks, where a tool-chain that is missing is a failure.
MUST_RUN = "POLYGLOT_REQUIRED"

_NODE_MAJOR = 20


def build_go() -> Path:
    """Return a folder with `bin/polyglot`, and `bin/snippet` from docs/clients.md."""
    _require("go", ["go", "version"])
    return _built("go", {"snippet/main.go": snippets("go")[0]}, _make_go)


def build_grpcurl() -> Path:
    """Return the path of grpcurl."""
    _require("go", ["go", "version"])

    def make(folder: Path) -> None:
        _go(folder, "build", "-o", "bin/", "github.com/fullstorydev/grpcurl/cmd/grpcurl")

    return _built("grpcurl", {}, make) / "bin" / "grpcurl"


def build_typescript() -> Path:
    """Return a folder with `dist/main.js`, and `dist/snippet.js` from docs/clients.md."""
    version = _require("node", ["node", "--version"])
    _require("npm", ["npm", "--version"])
    if int(version.removeprefix("v").split(".")[0]) < _NODE_MAJOR:
        _lack(f"node {_NODE_MAJOR} or newer is needed, found {version}")
    return _built("typescript", {"src/snippet.ts": snippets("typescript")[0]}, _make_typescript)


def _make_go(folder: Path) -> None:
    (folder / "bin").mkdir()
    _go(folder, "build", "-o", "bin/", "tool")
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    _run(folder, [*_BUF_GENERATE, "--path", str(PROTOS / "viking")], PATH=path)
    _go(folder, "vet", "./...")
    _go(folder, "build", "-o", "bin/", "./...")


def _make_typescript(folder: Path) -> None:
    # No script of a package is run: nothing here needs one.
    _run(folder, ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"])
    (folder / "src" / "gen").mkdir()
    _run(folder, _BUF_GENERATE)
    _run(folder, ["npm", "run", "build"])


def _go(folder: Path, *arguments: str) -> None:
    # The folder may lie in the working tree of a repository that is not the program's.
    flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false -mod=readonly".strip()
    _run(folder, ["go", *arguments], GOFLAGS=flags, GOWORK="off", CGO_ENABLED="0")


def _run(folder: Path, command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def _require(name: str, command: list[str]) -> str:
    """Return what a tool says of its version; skip the test where it is missing."""
    if shutil.which(name) is None:
        _lack(f"{name} is not installed")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _lack(reason: str) -> None:
    if os.environ.get(MUST_RUN):
        pytest.fail(f"{reason}, and {MUST_RUN} is set")
    pytest.skip(reason)


def _built(name: str, more: Mapping[str, str], make: Callable[[Path], None]) -> Path:
    """Copy the sources, add what is given, build; or return what was built from the same before."""
    sources = {
        path.relative_to(HERE / name).as_posix(): path.read_bytes()
        for path in sorted((HERE / name).rglob("*"))
        if path.is_file() and "node_modules" not in path.parts
    }
    sources |= {path: text.encode() for path, text in more.items()}
    digest = hashlib.sha256()
    for path, content in [*sources.items(), *_protos()]:
        digest.update(f"{path} {len(content)}\n".encode() + content)
    folder = Path(os.environ["VIKING_CACHE_DIR"]) / "polyglot" / f"{name}-{digest.hexdigest()[:16]}"
    with _alone(folder):
        if not (folder / "built").exists():
            shutil.rmtree(folder, ignore_errors=True)
            for path, content in sources.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
            make(folder)
            (folder / "built").touch()
    return folder


def _protos() -> Iterator[tuple[str, bytes]]:
    for path in sorted(PROTOS.rglob("*.proto")):
        yield path.relative_to(PROTOS).as_posix(), path.read_bytes()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep the test processes of one run from building the same at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
