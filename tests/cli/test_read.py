"""`viking find`, `ls`, `tree`, `read` and `info`: for people and as JSON, from a data directory and from a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import FILES, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli
    from viking_rpc.cli.embedded import EmbeddedServer


def test_find_shows_matches_with_breadcrumbs_and_scores(cli: Cli, data: str) -> None:
    result = cli("find", "ERR-4716", "--level", "L2", "--data", data)
    assert result.code == 0
    first, crumbs, parts, *_ = result.out.splitlines()
    assert first.endswith(f"{ROOT}/locks/solenoid.md")
    assert crumbs.strip() == "Station > locks > Solenoid"
    assert all(name in parts for name in ("own", "dense", "lexical", "parent"))


def test_find_with_trace_shows_the_descent(cli: Cli, data: str) -> None:
    out = cli("find", "battery", "--trace", "--data", data).out
    for text in ("descent from", "queued", "rows scored", "stopped: EXHAUSTED"):
        assert text in out


def test_find_without_a_match_says_why(cli: Cli, data: str) -> None:
    above = cli("find", "battery", "--threshold", "9", "--data", data)
    assert above.code == 0
    assert "BELOW_THRESHOLD" in above.out
    filtered = cli("find", "battery", "--tag", "a=b", "--data", data, "--json").json
    assert (filtered["matches"], filtered["empty_reason"]) == ([], "FILTERED_OUT")


def test_find_passes_every_option_on(cli: Cli, data: str) -> None:
    options = ("--target", f"{ROOT}/locks", "--type", "resource", "--mode", "quick", "--profile", "exhaustive")
    more = ("--limit", "1", "--level", "l2", "--since", "1w", "--until", "9999-01-01", "--threshold", "-1")
    found = cli("find", "lock bus terminators", *options, *more, "--data", data, "--json").json
    assert [match["context"]["uri"] for match in found["matches"]] == [f"{ROOT}/locks/bus.md"]
    assert (found["mode"], found["searched_roots"]) == ("QUICK", [f"{ROOT}/locks"])
    long_ago = cli("find", "bus", "--until", "2001-01-01", "--data", data, "--json").json
    assert long_ago["empty_reason"] == "FILTERED_OUT"


def test_find_says_when_nothing_was_reranked(cli: Cli, data: str) -> None:
    wished = cli("find", "battery", "--rerank", "prefer", "--data", data, "--json").json
    assert [warning["reason"] for warning in wished["warnings"]] == ["RERANK_SKIPPED"]
    assert cli("find", "battery", "--rerank", "off", "--data", data, "--json").json["warnings"] == []
    required = cli("find", "battery", "--rerank", "require", "--data", data)
    assert required.code != 0
    assert "none is configured" in required.err
    contradiction = cli("find", "battery", "--rerank", "require", "--mode", "quick", "--data", data)
    assert (contradiction.code, "--rerank" in contradiction.err) == (2, True)


def test_find_tells_everything_that_is_wrong(cli: Cli, data: str) -> None:
    wrong = ("--limit", "-3", "--level", "L9", "--tag", "x", "--since", "soon", "--threshold", "nan", "--target", "x:")
    result = cli("find", "", *wrong, "--data", data)
    assert (result.code, result.out) == (2, "")
    for flag in ("QUERY", "--limit", "--level", "--tag", "--since", "--threshold", "--target"):
        assert f"{flag}:" in result.err or f"{flag}[0]:" in result.err, flag


def test_find_refuses_bytes_that_are_no_text(cli: Cli, data: str) -> None:
    result = cli("find", "caf\udce9", "--data", data)
    assert result.code == 2
    assert "surrogate" in result.err


def test_the_server_answers_as_the_data_directory_does(cli: Cli, data: str) -> None:
    from viking_rpc.cli.embedded import EmbeddedServer
    from viking_rpc.config import load_settings

    arguments = ("find", "what burns in the cold", "--json")
    local = cli(*arguments, "--data", data).json
    with EmbeddedServer(load_settings({"data": data, "server.listen": "127.0.0.1:0"})) as server:
        remote = cli(*arguments, "--server", server.address).json
        through_lock = cli(*arguments, "--data", data)
    assert remote["matches"] == local["matches"] == through_lock.json["matches"]
    assert server.address in through_lock.err


def test_ls_and_tree_show_what_is_there(cli: Cli, data: str) -> None:
    names = [entry["uri"].rpartition("/")[2] for entry in cli("ls", ROOT, "--data", data, "--json").json]
    assert names == ["README.md", "locks", "power"]
    assert "locks/" in cli("ls", ROOT, "--data", data).out
    assert cli("ls", "--data", data, "--json").json[0]["uri"] == "viking://resources"
    shown = cli("tree", ROOT, "--data", data).out
    assert all(name.rpartition("/")[2] in shown for name in FILES)
    shallow = cli("tree", ROOT, "-L", "1", "--data", data)
    assert "bus.md" not in shallow.out
    assert "(2 more)" in shallow.out
    tree = cli("tree", ROOT, "--data", data, "--json").json
    assert [child["uri"] for child in tree["children"][1]["children"]] == [
        f"{ROOT}/locks/bus.md",
        f"{ROOT}/locks/solenoid.md",
    ]


def test_read_prints_the_text_as_it_is(cli: Cli, data: str) -> None:
    assert cli("read", f"{ROOT}/locks/bus.md", "--data", data).out == FILES["locks/bus.md"]
    abstract = cli("read", f"{ROOT}/locks/.abstract.md", "--data", data).out
    assert abstract == cli("read", f"{ROOT}/locks", "--level", "L0", "--data", data).out
    assert abstract.strip()
    assert cli("read", f"{ROOT}/locks", "--data", data, "--json").json["kind"] == "DIRECTORY"
    assert cli("read", f"{ROOT}/locks", "--level", "L2", "--data", data).code == 1
    assert cli("read", f"{ROOT}/locks", "--level", "x", "--data", data).code == 2


def test_info_shows_every_setting_with_its_source(cli: Cli, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIKING_SERVER__MAX_IN_FLIGHT", "7")
    info = cli("info", "--data", data, "--json").json
    assert info["store"]["n_files"] == 4
    assert info["settings"]["server.max_in_flight"] == {"value": "7", "source": "environment"}
    assert info["settings"]["data"] == {"value": data, "source": "flag"}
    assert info["settings"]["embedder.name"]["source"] == "default"
    assert float(info["settings"]["retrieval.balanced.lexical_weight"]["value"]) > 0
    assert "4 files in" in cli("info", "--data", data).out


def test_info_of_a_server(cli: Cli, server: EmbeddedServer) -> None:
    info = cli("info", "--server", server.address, "--json").json
    assert info["store"]["n_files"] == 4
    assert info["settings"]["server.listen"] == {"value": "127.0.0.1:0", "source": "server"}


def test_info_works_before_anything_was_imported(cli: Cli, tmp_path: Path) -> None:
    info = cli("info", "--data", str(tmp_path / "none"), "--json").json
    assert info["store"] is None
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("command", [("ls",), ("tree",), ("find", "x"), ("read", ROOT), ("rm", ROOT)])
def test_reading_does_not_make_a_store(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    result = cli(*command, "--data", str(tmp_path / "none"))
    assert (result.code, result.out) == (1, "")
    assert "viking import" in " ".join(result.err.split())
    assert not (tmp_path / "none").exists()
