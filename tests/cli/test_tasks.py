"""`viking search`, `explain` and `context`: for people and as JSON, from a data directory and from a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.conftest import ROOT
from viking_rpc.domain.tokens import estimate_tokens

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli
    from viking_rpc.cli.embedded import EmbeddedServer

TASK = "Find out why the lock bus fails in the cold"


def test_search_shows_the_plan_the_matches_and_each_query(cli: Cli, data: str) -> None:
    result = cli("search", TASK, "--trace", "--data", data)
    assert result.code == 0
    for text in (TASK, "resources", f"{ROOT}/locks/bus.md", "found by query", "searched", "descent from", "merged in"):
        assert text in result.out


def test_search_as_json_has_plan_groups_and_provenance(cli: Cli, data: str) -> None:
    found = cli("search", TASK, "--limit", "3", "--data", data, "--json").json
    assert found["plan_status"] == "PLANNED"
    assert TASK in [query["query"] for query in found["plan"]["queries"]]
    assert len(found["query_results"]) == len(found["plan"]["queries"])
    assert sorted(found["resources"] + found["memories"] + found["skills"]) == list(range(len(found["matches"])))
    assert len(found["matches"]) == 3


def test_small_talk_is_not_searched(cli: Cli, data: str) -> None:
    """users.md 55 (issue 1184)."""
    result = cli("search", "thanks a lot!", "--data", data)
    assert result.code == 0
    assert "PLAN_SKIPPED" in result.out


def test_an_edited_plan_is_searched(cli: Cli, data: str, tmp_path: Path) -> None:
    plan = cli("plan", TASK, "--data", data, "--json").json
    plan["plan"]["queries"] = [{"query": "solenoid coil", "type": "RESOURCE", "target_uris": [f"{ROOT}/locks"]}]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    found = cli("search", "--plan", str(path), "--data", data, "--json").json
    assert found["plan_status"] is None
    assert found["query_results"][0]["searched_roots"] == [f"{ROOT}/locks"]
    assert found["matches"][0]["match"]["context"]["uri"] == f"{ROOT}/locks/solenoid.md"


def test_search_refuses_what_cannot_work(cli: Cli, data: str, tmp_path: Path) -> None:
    assert cli("search", "--data", data).code == 2
    bad = tmp_path / "bad.json"
    bad.write_text("[1]")
    refused = cli("search", "--plan", str(bad), "--data", data)
    assert (refused.code, "holds no plan" in refused.err) == (2, True)
    empty = tmp_path / "empty.json"
    empty.write_text('{"queries": []}')
    refused = cli("search", "--plan", str(empty), "--data", data)
    assert (refused.code, "--plan" in refused.err) == (2, True)


def test_explain_tells_the_verdict_and_the_way(cli: Cli, data: str) -> None:
    """users.md 55 (issue 43)."""
    result = cli("explain", "ERR-4716", f"{ROOT}/locks/solenoid.md", "--data", data)
    assert result.code == 0
    assert result.out.startswith("RETURNED")
    for text in ("viking://resources", "station", "locks", "solenoid.md", "own", "parent"):
        assert text in result.out
    told = cli("explain", "battery", f"{ROOT}/locks/bus.md", "--threshold", "0.9", "--data", data, "--json").json
    assert told["verdict"] == "BELOW_THRESHOLD"
    assert told["path"][-1]["parts"]["relevance"] < 0.9
    missing = cli("explain", "battery", f"{ROOT}/nothing.md", "--data", data)
    assert (missing.code, "CONTEXT_NOT_FOUND" in missing.err) == (1, True)


def test_context_prints_a_text_within_its_budget(cli: Cli, server: EmbeddedServer) -> None:
    """users.md 73 (pull 3534)."""
    result = cli("context", "lock bus", "--tokens", "200", "--server", server.address)
    assert result.code == 0
    assert result.out.startswith("<context>\n")
    assert estimate_tokens(result.out) <= 200
    assert "of 200 tokens" in result.err
    made = cli("context", "lock bus", "--server", server.address, "--json").json
    shown = [entry["uri"] for entry in made["entries"]]
    assert f"{ROOT}/locks/bus.md" in shown
    again = cli("context", "lock bus", "--exclude", shown[0], "--server", server.address, "--json").json
    assert shown[0] not in [entry["uri"] for entry in again["entries"]]
    searched = cli("context", TASK, "--search", "--server", server.address)
    assert f"{ROOT}/locks/bus.md" in searched.out
    talk = cli("context", "thanks!", "--search", "--server", server.address)
    assert (talk.out, "PLAN_SKIPPED" in talk.err) == ("", True)
    refused = cli("context", "x", "--tokens", "3", "--server", server.address)
    assert (refused.code, "--tokens" in refused.err) == (2, True)
