"""`viking doctor`, `viking backup`, `viking export`: what they say, what they leave, and their exit codes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import ROOT
from viking_rpc.store.lock import DataLock

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from viking_rpc.cli.embedded import EmbeddedServer


def found(cli: Cli, data: str) -> Any:
    """Ask a store, and return what it found without what belongs to the store."""
    answer = cli("find", "why does a lock fail in the cold", "--data", data, "--json").json
    return [(match["context"]["uri"], match["score"]) for match in answer["matches"]]


def test_doctor_finds_a_sound_store(cli: Cli, data: str) -> None:
    result = cli("doctor", "--data", data)
    assert (result.code, result.out.splitlines()[-1]) == (0, "sound")
    report = cli("doctor", "--data", data, "--json").json
    assert (report["is_sound"], report["findings"], report["holder"]) == (True, [], "")
    assert report["n_contexts"] == 8


def test_doctor_tells_repairs_and_keeps_a_copy(cli: Cli, data: str) -> None:
    connection = sqlite3.connect(f"{data}/viking.db")
    connection.execute("UPDATE row SET terms = x'', term_counts = x'' WHERE id = (SELECT MAX(id) FROM row)")
    connection.commit()
    connection.close()
    told = cli("doctor", "--data", data)
    assert told.code == 1
    assert "wrong terms" in told.out
    assert ROOT in told.out
    assert "viking doctor --repair" in told.err
    assert cli("doctor", "--quick", "--data", data).code == 0
    report = cli("doctor", "--repair", "--data", data, "--json").json
    assert (report["is_sound"], [finding["is_repaired"] for finding in report["findings"]]) == (True, [True])
    assert Path(report["saved_as"]).exists()
    assert cli("doctor", "--data", data).code == 0


def test_a_served_store_is_checked_not_repaired(cli: Cli, data: str, server: EmbeddedServer) -> None:
    assert server.address in cli("doctor", "--data", data).out
    refused = cli("doctor", "--repair", "--data", data)
    assert refused.code == 1
    assert "DATA_DIRECTORY_LOCKED" in refused.err


@pytest.mark.usefixtures("server")
def test_a_backup_of_a_served_store_answers_alike(cli: Cli, data: str, tmp_path: Path) -> None:
    before = found(cli, data)
    assert before
    for name, flags in (("copy", ()), ("copy2", ("--checkpoints",))):
        report = cli("backup", str(tmp_path / name), *flags, "--data", data, "--json").json
        assert list(report["revisions"]) == ["default"]
        assert found(cli, str(tmp_path / name)) == before
    again = cli("backup", str(tmp_path / "copy"), "--data", data)
    assert again.code == 1
    assert "BACKUP_EXISTS" in again.err
    assert "viking serve --data" in cli("backup", str(tmp_path / "copy3"), "--data", data).err


def test_an_export_comes_back_with_the_same_answers(cli: Cli, data: str, tmp_path: Path) -> None:
    out, copy = str(tmp_path / "out"), str(tmp_path / "copy")
    assert "4 files in 4 directories" in cli("export", out, "--data", data).out
    report = cli("import", "--corpus", out, "--data", copy, "--json").json
    assert (report["account"], report["added"], report["updated"]) == ("default", 8, 0)
    assert found(cli, copy) == found(cli, data)
    assert cli("doctor", "--data", copy).code == 0
    assert cli("import", "--corpus", out, "--data", copy, "--json").json["updated"] == 8


def test_an_export_goes_into_a_data_directory_only(cli: Cli, data: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    cli("export", out, "--data", data)
    refused = cli("import", "--corpus", out, "--server", "127.0.0.1:1", "--prune")
    assert refused.code == 2
    assert "--server" in refused.err
    assert "--prune" in refused.err
    with DataLock.acquire(tmp_path / "held"):
        held = cli("import", "--corpus", out, "--data", str(tmp_path / "held"))
    assert held.code == 1
    assert "DATA_DIRECTORY_LOCKED" in held.err


@pytest.mark.parametrize("command", [("doctor",), ("doctor", "--repair"), ("backup", "x"), ("export", "x")])
def test_without_a_store_nothing_is_made(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    result = cli(*command, "--data", str(tmp_path / "none"))
    assert result.code == 1
    assert "NO_STORE" in result.err
    assert not (tmp_path / "none").exists()


def test_an_account_that_is_not_there_is_named(cli: Cli, data: str, tmp_path: Path) -> None:
    result = cli("export", str(tmp_path / "out"), "--account", "nobody", "--data", data)
    assert result.code == 1
    assert "nobody" in result.err


def test_a_second_import_at_once_is_told_who_was_first(cli: Cli, folder: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with DataLock.acquire(Path(data)):
        second = cli("import", str(folder), "--to", ROOT, "--data", data)
    assert second.code == 1
    assert "DATA_DIRECTORY_LOCKED" in second.err
    assert cli("import", str(folder), "--to", ROOT, "--data", data).code == 0


@pytest.mark.parametrize("command", [("find", "lock"), ("doctor",), ("backup", "copy"), ("export", "out"), ("info",)])
def test_a_corrupt_database_is_data_loss_for_every_command(
    cli: Cli, data: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    path = Path(data) / "viking.db"
    path.write_bytes(b"\x13" * path.stat().st_size)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    arguments = [str(tmp_path / one) if one in {"copy", "out"} else one for one in command]
    result = cli(*arguments, "--data", data)
    assert result.code == 1
    assert "DATABASE_CORRUPT" in result.err
    assert "backup" in " ".join(result.err.split())
