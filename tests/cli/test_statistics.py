"""`viking stats` and `viking checkpoint`: what they print, and whom they ask."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import ROOT

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from viking_rpc.cli.embedded import EmbeddedServer

QUERY = "why does a lock fail in the cold"


def test_statistics_of_a_running_server(cli: Cli, data: str, server: EmbeddedServer) -> None:
    empty = cli("stats", "--data", data)
    assert empty.code == 0
    assert "none yet" in empty.out
    answers = [cli("find", QUERY, "--data", data, "--json").json for _ in range(2)]
    cli("find", QUERY, "--type", "memory", "--data", data)
    told = cli("stats", "--server", server.address, "--json").json
    n_matches = sum(len(answer["matches"]) for answer in answers)
    assert (told["n_queries"], told["n_results"], told["n_zero_results"]) == (3, n_matches, 1)
    assert told["zero_result_rate"] == pytest.approx(1 / 3)
    assert told["queries_by_type"] == {"UNSPECIFIED": 2, "MEMORY": 1}
    assert told["max_score"] == pytest.approx(answers[0]["matches"][0]["score"])
    assert 0 < told["levels"][0]["p50_us"] <= told["levels"][0]["p99_us"]
    shown = cli("stats", "--data", data)
    assert f"asking the server at {server.address}" in " ".join(shown.err.split())
    for text in ("3 (memory 1, all types 2)", f"{n_matches}, ", "1 (33.3%)", "0 attempted", "depth", "p95"):
        assert text in shown.out


def test_without_a_server_there_are_none(cli: Cli, data: str) -> None:
    result = cli("stats", "--data", data)
    assert result.code == 1
    assert "NO_SERVER" in result.err


@pytest.mark.usefixtures("server")
def test_all_accounts_take_the_role_root(cli: Cli, data: str) -> None:
    result = cli("stats", "--all-accounts", "--data", data)
    assert result.code == 1
    assert "PERMISSION_DENIED" in result.err


@pytest.mark.parametrize("form", ["--json", "text"])
def test_watching_goes_on_until_it_is_interrupted(server: EmbeddedServer, form: str) -> None:
    arguments = ["stats", "--watch", "0.1", "--server", server.address, *(["--json"] if form == "--json" else [])]
    with subprocess.Popen(
        [sys.executable, "-m", "viking_rpc.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (130, "")
    if form == "--json":
        assert [json.loads(line)["n_queries"] for line in lines] == [0, 0, 0]
    else:
        assert "queries" in lines[0]


def test_a_checkpoint_with_and_without_a_server(cli: Cli, data: str) -> None:
    before = cli("info", "--data", data, "--json").json["store"]
    assert before["checkpoint_revision"] == 0
    assert cli("checkpoint", "--data", data, "--json").json == {"revision": before["revision"]}
    assert cli("info", "--data", data, "--json").json["store"]["checkpoint_revision"] == before["revision"]
    assert "has revision" in cli("checkpoint", "--data", data).out


def test_a_checkpoint_of_a_server(cli: Cli, data: str, server: EmbeddedServer) -> None:
    cli("touch", f"{ROOT}/README.md", "--data", data)
    revision = cli("info", "--data", data, "--json").json["store"]["revision"]
    assert cli("checkpoint", "--server", server.address, "--json").json == {"revision": revision}
