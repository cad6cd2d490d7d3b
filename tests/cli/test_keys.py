"""`viking keys`, and commands that ask a server with keys: what they print, what they never print, what is refused."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.certificates import Authority
from viking_rpc.cli.embedded import EmbeddedServer
from viking_rpc.config import load_settings
from viking_rpc.domain.keys import Token
from viking_rpc.store.keys import KEYS_NAME

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


@pytest.fixture
def empty(tmp_path: Path) -> str:
    """Return where a data directory may come to be."""
    return str(tmp_path / "new")


def make(cli: Cli, data: str, *options: str) -> str:
    """Make a key; return what its holder sends."""
    result = cli("keys", "add", "--data", data, *options)
    assert result.code == 0, result.err
    return result.out.strip()


def test_a_new_key_alone_goes_to_stdout_and_is_never_shown_again(cli: Cli, empty: str) -> None:
    added = cli("keys", "add", "--data", empty, "--account", "acme", "--user", "alice")
    token = Token.parse(added.out.strip())
    assert token is not None
    assert added.out == token.reveal() + "\n"
    assert token.secret not in added.err
    assert "every caller" in added.err
    assert "every caller" not in cli("keys", "add", "--data", empty).err
    for arguments in (("keys", "list"), ("keys", "list", "--json"), ("info",), ("keys", "revoke", token.id)):
        shown = cli(*arguments, "--data", empty)
        assert token.secret not in shown.out + shown.err
    assert token.secret.encode() not in (Path(empty) / KEYS_NAME).read_bytes()


def test_json_says_all_of_a_key(cli: Cli, empty: str) -> None:
    options = ("--account", "acme", "--user", "alice", "--role", "admin", "--may-act-for", "--expires", "30d")
    limits = ("--rate", "2.5", "--burst", "10", "--max-calls", "4")
    added = cli("keys", "add", "--data", empty, *options, *limits, "--json").json
    token = Token.parse(added.pop("key"))
    assert token is not None
    listed = cli("keys", "list", "--data", empty, "--json").json
    assert listed == {"keys": [added]}
    end = datetime.fromisoformat(added.pop("expire_time"))
    assert timedelta(days=29.9) < end - datetime.now(UTC) < timedelta(days=30.1)
    del added["create_time"]
    assert added == {
        "id": token.id,
        "account": "acme",
        "user": "alice",
        "role": "admin",
        "may_act_for": True,
        "state": "valid",
        "revoke_time": None,
        "rate": 2.5,
        "burst": 10,
        "max_calls": 4,
    }


def test_a_list_tells_what_is_valid(cli: Cli, empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("keys", "list", "--data", empty).out == ""
    assert not Path(empty).exists()
    first, second, third = (make(cli, empty, *how) for how in ((), ("--expires", "1h"), ("--role", "root")))
    assert cli("keys", "revoke", first.split("_")[1], "--data", empty).code == 0
    later_ns = time.time_ns() + 7_200_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    states = {key["id"]: key["state"] for key in cli("keys", "list", "--data", empty, "--json").json["keys"]}
    assert states == {
        first.split("_")[1]: "revoked",
        second.split("_")[1]: "expired",
        third.split("_")[1]: "valid",
    }
    lines = cli("keys", "list", "--data", empty).out.splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["revoked", "expired", "valid"]


def test_what_cannot_be_a_key_is_refused_at_once_and_leaves_nothing(cli: Cli, empty: str) -> None:
    refused = cli("keys", "add", "--data", empty, "--account", "a/b", "--user", "", "--rate", "-1", "--max-calls", "-2")
    assert refused.code == 2
    for flag in ("--account", "--user", "--rate", "--max-calls"):
        assert flag in refused.err
    for when in ("2020-01-01", "soon", "0s", "99999999999d"):
        assert cli("keys", "add", "--data", empty, "--expires", when).code == 2
    assert not Path(empty).exists()


def test_a_day_is_valid_to_its_end(cli: Cli, empty: str) -> None:
    added = cli("keys", "add", "--data", empty, "--expires", "2030-01-31", "--json").json
    assert added["expire_time"] == "2030-02-01T00:00:00Z"


def test_who_revokes_what_is_not_there_hears_it_without_a_secret(cli: Cli, empty: str) -> None:
    assert "KEY_NOT_FOUND" in cli("keys", "revoke", "abcdefgh", "--data", empty).err
    key = make(cli, empty)
    whole = cli("keys", "revoke", key, "--data", empty)  # pasted by mistake
    assert (whole.code, key in whole.out + whole.err) == (0, False)
    unknown = Token.new().reveal()
    refused = cli("keys", "revoke", unknown, "--data", empty)
    assert (refused.code, unknown.split("_")[2] in refused.err) == (1, False)


def test_a_data_directory_with_keys_is_open_to_who_may_read_its_files(cli: Cli, data: str) -> None:
    make(cli, data)
    assert cli("ls", "viking://resources", "--data", data).code == 0


def test_a_backup_has_the_keys_and_the_doctor_looks_at_them(cli: Cli, data: str, tmp_path: Path) -> None:
    make(cli, data)
    copy = tmp_path / "copy"
    assert cli("backup", str(copy), "--data", data).code == 0
    listed = [cli("keys", "list", "--data", one, "--json").json for one in (data, str(copy))]
    assert listed[0] == listed[1]
    assert (copy / KEYS_NAME).stat().st_mode & 0o777 == 0o600
    assert cli("doctor", "--data", str(copy)).code == 0
    (copy / KEYS_NAME).write_bytes(b"garbage")
    told = cli("doctor", "--data", str(copy), "--json")
    assert (told.code, [finding["check"] for finding in told.json["findings"]]) == (1, ["keys"])


def test_commands_ask_a_server_with_a_key_over_tls(
    cli: Cli, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Authority(tmp_path, "ours")
    files = ours.sign("server")
    key = make(cli, data)
    key_file = tmp_path / "key"
    key_file.write_text(key + "\n")
    flags = {"data": data, "server.listen": "127.0.0.1:0", "tls.cert": files.cert, "tls.key": files.key}
    with EmbeddedServer(load_settings(flags)) as server:
        asked = ("ls", "viking://resources", "--server", server.address)
        trust = ("--tls-ca", str(ours.path))
        assert cli(*trust, "--key-file", str(key_file), *asked).code == 0
        refused = cli(*trust, *asked)
        assert (refused.code, "KEY_MISSING" in refused.err) == (1, True)
        assert "KEY_FILE_UNREADABLE" in cli(*trust, "--key-file", str(tmp_path / "none"), *asked).err
        monkeypatch.setenv("VIKING_KEY", key)
        monkeypatch.setenv("VIKING_TLS_CA", str(ours.path))
        assert cli(*asked).code == 0
        denied = cli("--user", "bob", *asked)
        assert "DELEGATION_NOT_ALLOWED" in denied.err
        monkeypatch.setenv("VIKING_USER", "bob")
        assert "DELEGATION_NOT_ALLOWED" in cli(*asked).err
        monkeypatch.delenv("VIKING_USER")
        monkeypatch.setenv("VIKING_TLS__CERT", str(files.cert))
        monkeypatch.setenv("VIKING_TLS__KEY", str(files.key))
        assert cli("ls", "viking://resources", "--data", data).code == 0  # through the server, which holds it


def test_a_key_is_not_sent_to_another_machine_in_plain_text(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Token.new().reveal()
    monkeypatch.setenv("VIKING_KEY", key)
    refused = cli("ls", "--server", "192.0.2.1:7654")
    assert (refused.code, "KEY_IN_PLAIN_TEXT" in refused.err, key in refused.err) == (1, True, False)


def test_an_import_into_files_is_for_nobody_else(cli: Cli, folder: Path, empty: str) -> None:
    to = ("--to", "viking://resources/x", "--data", empty)
    refused = cli("--account", "acme", "import", str(folder), *to)
    assert (refused.code, "IDENTITY_NOT_ALLOWED" in refused.err) == (1, True)


def test_what_cannot_be_served_is_told_before_anything_starts(cli: Cli, data: str) -> None:
    refused = cli("serve", "--data", data, "--listen", "0.0.0.0:0")
    assert (refused.code, "NOT_LOOPBACK" in refused.err) == (1, True)
    several = cli("serve", "--data", data, "--listen", "0.0.0.0:0", "--workers", "2")
    assert (several.code, "NOT_LOOPBACK" in several.err) == (1, True)
    assert cli("serve", "--data", data, "--tls-cert", "x.pem").code == 2
    for n_workers in ("1", "2"):
        unusable = cli("serve", "--data", data, "--workers", n_workers, "--tls-cert", "x.pem", "--tls-key", "y.pem")
        assert (unusable.code, "TLS_FILES_UNUSABLE" in unusable.err) == (1, True)
