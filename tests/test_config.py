"""Settings: who wins, what is refused and how it is said, what is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from viking_rpc.config import ConfigError, Problem, Settings, describe, load_settings

SERVER = 'data = "{data}"\n[server]\nlisten = "127.0.0.1:1"\nmax_in_flight = 1\ndefault_deadline_s = 1\n'


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in [v for v in os.environ if v.upper().startswith("VIKING_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))


def sources(settings: Settings) -> dict[str, tuple[str, str]]:
    return {key: (value, source) for key, value, source in describe(settings)}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def problems_of(flags: dict[str, object] | None = None, file: Path | None = None) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        load_settings(flags, file)
    assert all(p.key in str(caught.value) and p.message in str(caught.value) for p in caught.value.problems)
    return list(caught.value.problems)


def test_defaults_need_nothing(tmp_path: Path) -> None:
    settings = load_settings()
    assert settings.data == tmp_path / "share" / "viking-rpc"
    assert (settings.server.listen, settings.embedder.name) == ("127.0.0.1:7654", "wordllama")
    assert {source for _, source in sources(settings).values()} == {"default"}


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "my.toml", SERVER.format(data=tmp_path))
    monkeypatch.setenv("VIKING_SERVER__MAX_IN_FLIGHT", "2")
    monkeypatch.setenv("VIKING_SERVER__LISTEN", "127.0.0.1:2")
    settings = load_settings({"server.listen": "127.0.0.1:3", "server.max_deadline_s": None}, file)
    shown = sources(settings)
    assert shown["server.listen"] == ("127.0.0.1:3", "flag")
    assert shown["server.max_in_flight"] == ("2", "environment")
    assert shown["server.default_deadline_s"] == ("1.0", str(file))
    assert shown["server.max_deadline_s"] == ("60.0", "default")
    assert shown["data"] == (str(tmp_path), str(file))


@pytest.mark.parametrize("how", ["flag", "environment", "default"])
def test_a_file_in_the_data_folder_is_read(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "share" / "viking-rpc" if how == "default" else tmp_path / "data"
    file = write(folder / "viking.toml", "[index.ann]\nconnectivity = 8\n")
    if how == "environment":
        monkeypatch.setenv("VIKING_DATA", str(folder))
    settings = load_settings({"data": folder} if how == "flag" else None)
    assert settings.data == folder
    assert sources(settings)["index.ann.connectivity"] == ("8", str(file))


def test_a_named_file_replaces_the_one_in_the_data_folder(tmp_path: Path) -> None:
    write(tmp_path / "viking.toml", "[index.ann]\nconnectivity = 8\n")
    other = write(tmp_path / "other.toml", "[index.ann]\nexpansion_add = 9\n")
    ann = load_settings({"data": tmp_path}, other).index.ann
    assert (ann.connectivity, ann.expansion_add) == (16, 9)


def test_a_file_in_the_data_folder_cannot_move_the_data_folder(tmp_path: Path) -> None:
    file = write(tmp_path / "viking.toml", 'data = "/elsewhere"\n')
    (problem,) = problems_of({"data": tmp_path})
    assert (problem.key, problem.source) == ("data", str(file))


def test_all_problems_are_listed_with_their_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "my.toml", 'colour = 1\n[server]\nlistne = "x"\n[index.ann]\ndtype = "f64"\n')
    monkeypatch.setenv("VIKING_SERVER__MAX_IN_FLIGHT", "many")
    monkeypatch.setenv("VIKING_SERVR__LISTEN", "x")
    monkeypatch.setenv("VIKING_INGEST__SECTION", "1")
    found = {(p.key, p.source) for p in problems_of({"server.listen": "nowhere", "embedder.name": "gpt"}, file)}
    assert found == {
        ("colour", str(file)),
        ("server.listne", str(file)),
        ("index.ann.dtype", str(file)),
        ("server.max_in_flight", "environment"),
        ("VIKING_SERVR__LISTEN", "environment"),
        ("ingest.section", "environment"),
        ("server.listen", "flag"),
        ("embedder.name", "flag"),
    }


@pytest.mark.parametrize("text", ["[server", "a = 1\na = 2\n"], ids=["cut", "twice"])
def test_a_file_that_is_no_toml_is_named(text: str, tmp_path: Path) -> None:
    file = write(tmp_path / "my.toml", text)
    (problem,) = problems_of(file=file)
    assert problem.source == str(file)


def test_a_file_that_is_not_there_is_named_with_all_else(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    assert [p.source for p in problems_of({"server.max_in_flight": 0}, missing)] == [str(missing), "flag"]


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "localhost:65535", "[::1]:7654", "unix:/run/viking.sock"])
def test_addresses_that_can_be_listened_on(listen: str) -> None:
    assert load_settings({"server.listen": listen}).server.listen == listen


@pytest.mark.parametrize(
    "listen", ["", "7654", ":7654", "host:", "host:65536", "host:-1", "::1:7654", "unix:", "h:\u0661"]
)
def test_addresses_that_cannot(listen: str) -> None:
    assert [p.key for p in problems_of({"server.listen": listen})] == ["server.listen"]


@pytest.mark.parametrize(
    ("flags", "key", "message"),
    [
        ({"embedder.name": "openai"}, "embedder", "needs base_url and model"),
        ({"embedder.name": "none"}, "embedder", "needs dimensions"),
        ({"embedder.request_dimensions": True}, "embedder", "needs dimensions"),
        ({"server.default_deadline_s": 90}, "server", "default_deadline_s 90 is over max_deadline_s 60"),
        ({"embedder.base_url": "ftp://x"}, "embedder.base_url", "must be an http or https address"),
        ({"embedder.timeout_s": float("inf")}, "embedder.timeout_s", "finite"),
        ({"embedder.dimensions": 0}, "embedder.dimensions", "greater than or equal to 1"),
        (
            {"retrieval.balanced.score_propagation_alpha": 1.5},
            "retrieval.balanced.score_propagation_alpha",
            "less than",
        ),
        ({"server": 5}, "server", "dictionary"),
    ],
)
def test_values_that_do_not_fit(flags: dict[str, object], key: str, message: str) -> None:
    (problem,) = problems_of(flags)
    assert (problem.key, problem.source) == (key, "flag")
    assert message in problem.message


def test_profiles_are_replaced_value_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIKING_RETRIEVAL__BALANCED__LEXICAL_WEIGHT", "0.25")
    retrieval = load_settings().retrieval
    assert (retrieval.balanced.lexical_weight, retrieval.balanced.parallelism) == (0.25, None)
    assert retrieval.classic.lexical_weight is None


def test_the_variable_that_holds_the_key_may_begin_with_our_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIKING_EMBEDDER_KEY", "sk-1")
    assert [p.key for p in problems_of()] == ["VIKING_EMBEDDER_KEY"]
    load_settings({"embedder.api_key_env": "VIKING_EMBEDDER_KEY"})


def test_a_section_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIKING_SERVER", "sk-secret")
    (problem,) = problems_of()
    assert problem.source == "environment"
    assert "server" in problem.message
    assert "sk-secret" not in problem.message


def test_secrets_are_neither_shown_nor_in_errors() -> None:
    url = "http://me:s3cret@host:80/v1"
    flags = {"embedder.name": "openai", "embedder.base_url": url, "embedder.model": "tiny"}
    assert sources(load_settings(flags))["embedder.base_url"] == ("http://***@host:80/v1", "flag")
    with pytest.raises(ConfigError) as caught:
        load_settings(flags | {"embedder.base_url": url.replace("http", "ftp")})
    assert "s3cret" not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_settings_do_not_change() -> None:
    settings = load_settings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.data = Path("x")
    with pytest.raises(ValidationError, match="frozen"):
        settings.server.listen = "x"


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = load_settings({"data": "~/viking", "embedder.folder": "~/model"})
    assert (settings.data, settings.embedder.folder) == (tmp_path / "viking", tmp_path / "model")


def test_importing_the_package_does_not_load_pydantic() -> None:
    code = (
        "import sys, viking_rpc, viking_rpc.errors, viking_rpc.adapters.embedders; assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
