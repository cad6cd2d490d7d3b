"""`viking plan`: for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli


def test_a_task_is_shown_as_queries(cli: Cli, data: str) -> None:
    result = cli("plan", "restart it", "--turn", "user: what is the Kestrel gateway", "--data", data)
    assert result.code == 0
    assert "restart Kestrel gateway" in result.out
    assert "skill" in result.out
    assert "it is about: Kestrel gateway" in result.out


def test_small_talk_needs_nothing(cli: Cli, data: str) -> None:
    assert "nothing needs to be looked up" in cli("plan", "thanks!", "--data", data).out


def test_every_option_is_passed_on(cli: Cli, data: str, tmp_path: Path) -> None:
    summary = tmp_path / "summary.txt"
    summary.write_text("It is about pump P-7.")
    options = ("--summary", str(summary), "--type", "skill", "--target", f"{ROOT}/locks", "--max-queries", "2")
    found = cli("plan", "repair it", *options, "--data", data, "--json").json
    assert found["status"] == "PLANNED"
    assert [(q["query"], q["type"]) for q in found["plan"]["queries"]] == [
        ("repair pump P-7", "SKILL"),
        ("repair it", "SKILL"),
    ]


def test_everything_wrong_is_told(cli: Cli, data: str) -> None:
    wrong = ("--turn", "robot: x", "--summary", "/no/such/file", "--max-queries", "-1", "--target", "x:")
    result = cli("plan", " ", *wrong, "--data", data)
    assert (result.code, result.out) == (2, "")
    for flag in ("TASK", "--turn", "--summary", "--max-queries", "--target[0]"):
        assert f"{flag}:" in result.err, flag


def test_info_names_the_planner(cli: Cli, data: str) -> None:
    assert cli("info", "--data", data, "--json").json["store"]["planner"] == "rules"
