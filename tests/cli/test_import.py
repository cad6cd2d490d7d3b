"""`viking import` and `viking rm`: what is written, where, and what it says."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import ROOT
from viking_rpc.cli.remote import MAX_BATCH, parts_of
from viking_rpc.domain.context import ContextWrite, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli
    from viking_rpc.cli.embedded import EmbeddedServer


def test_an_import_says_what_it_did(cli: Cli, folder: Path, tmp_path: Path) -> None:
    report = cli("import", str(folder), "--to", ROOT, "--data", str(tmp_path / "data"), "--json").json
    assert (report["root"], report["n_files"], report["added"], report["skipped"]) == (ROOT, 4, 7, [])


def test_a_second_import_changes_nothing(cli: Cli, folder: Path, data: str) -> None:
    report = cli("import", str(folder), "--to", ROOT, "--data", data, "--json").json
    assert [report[name] for name in ("added", "updated", "unchanged", "removed")] == [0, 0, 7, 0]


def test_what_vanished_goes_with_prune_only(cli: Cli, folder: Path, data: str) -> None:
    (folder / "power/battery.md").unlink()
    arguments = ("import", str(folder), "--to", ROOT, "--data", data, "--json")
    assert cli(*arguments).json["removed"] == 0
    assert cli(*arguments, "--prune").json["removed"] == 2
    assert [entry["uri"] for entry in cli("ls", ROOT, "--data", data, "--json").json] == [
        f"{ROOT}/README.md",
        f"{ROOT}/locks",
    ]


def test_unreadable_files_are_listed_with_the_reason(cli: Cli, folder: Path, tmp_path: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    result = cli("import", str(folder), "--to", ROOT, "--data", str(tmp_path / "data"))
    assert result.code == 0
    assert "1 left out" in result.err
    assert "broken.pdf" in result.err


def test_a_corpus_is_imported_as_it_says(cli: Cli, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    leaf = {"uri": "viking://agent/skills/bake/bread.md", "context_type": "skill", "title": "Bread", "text": "Knead."}
    with gzip.open(corpus / "corpus.jsonl.gz", "wt") as file:
        file.write(json.dumps(leaf) + "\n")
    data = str(tmp_path / "data")
    assert cli("import", "--corpus", str(corpus), "--data", data).code == 0
    found = cli("find", "knead", "--type", "skill", "--level", "L2", "--data", data, "--json").json
    assert [match["context"]["uri"] for match in found["matches"]] == [leaf["uri"]]


@pytest.mark.parametrize("is_named", [True, False], ids=["named", "found by the lock"])
def test_an_import_goes_to_the_server_that_holds_the_data(
    cli: Cli, folder: Path, data: str, server: EmbeddedServer, *, is_named: bool
) -> None:
    (folder / "new.md").write_text("# Bluetooth\n\nA door never opens by bluetooth.\n")
    where = ("--server", server.address) if is_named else ("--data", data)
    report = cli("import", str(folder), "--to", ROOT, *where, "--json").json
    assert (report["added"], report["unchanged"]) == (1, 6)
    found = cli("find", "bluetooth", "--level", "2", "-n", "1", *where, "--json").json
    assert found["matches"][0]["context"]["uri"] == f"{ROOT}/new.md"


def test_a_server_is_pruned_too(cli: Cli, folder: Path, server: EmbeddedServer) -> None:
    (folder / "power/battery.md").unlink()
    report = cli("import", str(folder), "--to", ROOT, "--server", server.address, "--prune", "--json").json
    assert (report["removed"], report["updated"], report["unchanged"]) == (2, 1, 4)


def test_a_batch_is_cut_by_number_and_by_size() -> None:
    small = [ContextWrite(f"viking://resources/{i}", Kind.FILE, content="x") for i in range(MAX_BATCH + 1)]
    large = [ContextWrite(f"viking://resources/l{i}", Kind.FILE, content="x" * 1_000_000) for i in range(5)]
    assert [len(part) for part in parts_of(small)] == [MAX_BATCH, 1]
    assert [len(part) for part in parts_of(large)] == [3, 2]
    assert [write.uri for part in parts_of(small) for write in part] == [write.uri for write in small]


def test_rm_removes_a_context(cli: Cli, data: str) -> None:
    assert "removed 1 context" in cli("rm", f"{ROOT}/README.md", "--data", data).out
    refused = cli("rm", f"{ROOT}/locks", "--data", data)
    assert refused.code == 1
    assert cli("rm", "-r", f"{ROOT}/locks", "--data", data).out.strip() == "removed 3 contexts"
    assert cli("read", f"{ROOT}/locks", "--data", data).code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give either a PATH or --corpus"),
        (("x",), "a PATH needs a destination"),
        (("x", "--to", "http://a"), "must begin with viking://"),
        (("x", "--to", "viking://"), "no place for contexts"),
        (("x", "--corpus", "y"), "give either"),
        (("--corpus", "y", "--to", "viking://resources"), "a corpus says itself"),
    ],
)
def test_a_call_that_cannot_work_is_refused(cli: Cli, arguments: tuple[str, ...], said: str) -> None:
    result = cli("import", *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_a_missing_path_and_a_foreign_place_are_refused(cli: Cli, folder: Path, tmp_path: Path) -> None:
    missing = cli("import", str(tmp_path / "none"), "--to", ROOT)
    assert (missing.code, missing.out) == (1, "")
    foreign = cli("import", str(folder), "--to", "viking://user/somebody/notes", "--data", str(tmp_path / "data"))
    assert foreign.code == 1
    assert "another user" in " ".join(foreign.err.split())
