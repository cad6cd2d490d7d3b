"""The program as a whole: help, errors, and the demonstration, in processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from viking_rpc.cli import kernels
from viking_rpc.cli.app import app
from viking_rpc.demo.material import CONTENT, PLACES, load_queries

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli

VIKING = [sys.executable, "-m", "viking_rpc.cli.main"]
COMMANDS = (
    "import",
    "serve",
    "find",
    "plan",
    "ls",
    "tree",
    "read",
    "rm",
    "mv",
    "touch",
    "info",
    "doctor",
    "backup",
    "export",
    "warmup",
    "demo",
    "eval",
    "tune",
    "stats",
    "checkpoint",
    "search",
    "explain",
    "context",
)


def test_help_names_every_command(cli: Cli) -> None:
    result = cli("--help")
    assert result.code == 0
    assert all(re.search(rf"\b{name}\b", result.out) for name in COMMANDS)
    assert len(app.registered_commands) == len(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli: Cli, command: str) -> None:
    assert cli(command, "-h").code == 0


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom viking_rpc.cli.main import run\nrun(['--help'])\n"
        "heavy = {'numpy', 'numba', 'grpc', 'pydantic', 'usearch'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_version(cli: Cli) -> None:
    assert re.fullmatch(r"viking-rpc \d+\.\d+\.\d+\S*\n", cli("--version").out)


@pytest.mark.parametrize("arguments", [("find",), ("nope",), ("find", "x", "--mode", "slow"), ("tree", "-L", "0")])
def test_wrong_usage_exits_with_2(cli: Cli, arguments: tuple[str, ...]) -> None:
    result = cli(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err


def test_a_wrong_setting_is_told_with_its_source(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIKING_SERVER__MAX_IN_FLIGHT", "none")
    result = cli("info")
    assert (result.code, result.out) == (2, "")
    assert "server.max_in_flight" in result.err
    assert "environment" in result.err


def test_a_server_that_is_not_there_is_an_error_without_a_traceback(cli: Cli) -> None:
    result = cli("ls", "--server", "unix:/nonexistent/socket")
    assert (result.code, result.out) == (1, "")
    assert "Traceback" not in result.err


def test_serve_announces_itself_and_stops_cleanly(data: str) -> None:
    command = [*VIKING, "serve", "--data", data, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "serves" in line)
        address = line.split()[0]
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        listed = subprocess.run([*VIKING, "ls", "--server", address], capture_output=True, text=True, check=False)
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert process.returncode == 0
    assert second.returncode == 1
    assert str(process.pid) in second.stderr
    assert listed.returncode == 0, listed.stderr
    assert "resources/" in listed.stdout


def test_warmup_compiles_once(cli: Cli) -> None:
    assert set(kernels.LONG) < set(kernels.kernel_modules())
    assert cli("warmup").code == 0
    assert kernels.is_compiled()
    assert "are compiled already" in cli("warmup").out


def test_a_compilation_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "is_compiled", lambda: False)
    with kernels.compiling() as compilation:
        assert compilation is not None
    assert compilation.wait() > 0


def test_the_queries_of_the_demo_expect_what_exists() -> None:
    for query in load_queries(is_all=True):
        for uri in query.expected:
            place = next(place for place in PLACES.values() if uri.startswith(place))
            name = next(name for name, one in PLACES.items() if one == place)
            assert (CONTENT / name / uri.removeprefix(place + "/")).is_file(), uri


def test_the_demo_runs_from_folder_to_answer(tmp_path: Path) -> None:
    env = os.environ | {"XDG_DATA_HOME": str(tmp_path)}
    done = subprocess.run([*VIKING, "demo"], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    for text in ("-> viking://agent/skills", "Serving", "127.0.0.1:", "descent from", "stopped:", "level", "Next:"):
        assert text in done.stdout, text
    found = re.search(r"(\d+) of 5 at rank 1, (\d+) among the first 5", done.stdout)
    assert found is not None
    assert int(found[2]) >= 3
    assert list(tmp_path.iterdir()) == []


def test_the_demo_asks_what_it_is_told(cli: Cli) -> None:
    result = cli("demo", "--query", "lead-gel battery")
    assert result.code == 0
    assert "battery-backup.md" in result.out
    assert "at rank 1" not in result.out
