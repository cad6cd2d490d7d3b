"""Read the settings from flags, environment and one TOML file, and validate them once, as a whole."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ValidationError
from pydantic_settings import EnvSettingsSource, SettingsError

from viking_rpc.config.sections import NESTED, PREFIX, Settings, default_data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE_NAME = "viking.toml"
DEFAULT = "default"


class Problem(NamedTuple):
    """One setting that cannot be used: its key (`server.listen`), what is wrong, and where it was set."""

    key: str
    message: str
    source: str


class ConfigError(ValueError):
    """The configuration cannot be used.

    Args:
        problems: all of them.
    """

    def __init__(self, problems: list[Problem]) -> None:
        """Make the message: one line for each problem."""
        self.problems = tuple(problems)
        lines = (f"  {p.key}: {p.message} ({p.source})" for p in problems)
        super().__init__("the configuration cannot be used:\n" + "\n".join(lines))


class _Layer(NamedTuple):
    name: str
    values: Mapping[str, Any]


#: Read before there are settings: where compiled kernels are kept, and whether their arguments are checked. And what
#: the command line says of itself to a server: it is no setting, for settings are shown.
_NOT_SETTINGS = {f"{PREFIX}CACHE_DIR", f"{PREFIX}CHECK_KERNELS"} | {
    PREFIX + name
    for name in ("KEY", "KEY_FILE", "ACCOUNT", "USER", "PEER", "TLS_CA", "TLS_CLIENT_CERT", "TLS_CLIENT_KEY")
}


def load_settings(flags: Mapping[str, Any] | None = None, file: Path | None = None) -> Settings:
    """Read and validate the settings: flags win over the environment, that over the file, that over the defaults.

    Args:
        flags: by dotted key (`server.listen`); None values count as not given.
        file: a TOML file; None means `viking.toml` in the data folder, where there is one.

    Returns:
        Frozen settings that know where each value comes from.

    Raises:
        ConfigError: lists all problems, each with its source.
    """
    problems = list(_unknown_variables())
    layers = [_Layer("flag", _nested({k: v for k, v in (flags or {}).items() if v is not None}))]
    try:
        layers.append(_Layer("environment", EnvSettingsSource(Settings)()))
    except SettingsError as error:
        problems.append(Problem("environment", str(error), "environment"))
    layers.extend(_read_file(file, layers, problems))
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        _merge(merged, layer.values)
    key_variables = [_get(merged, f"{section}.api_key_env") for section in ("embedder", "planner", "reranker")]
    problems = [p for p in problems if p.key not in key_variables]
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        problems.extend(_problem(dict(e), layers) for e in error.errors(include_url=False, include_input=False))
        raise ConfigError(problems) from None  # the cause would show values, secrets too
    if problems:
        raise ConfigError(problems)
    settings.sources.update({key: _source_of(key, layers) for key, _ in _leaves(settings)})
    return settings


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """Return (key, value, source) of every setting, passwords masked, for people to read."""
    return [(key, _shown(value), settings.sources.get(key, DEFAULT)) for key, value in _leaves(settings)]


def _leaves(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _shown(value: object) -> str:
    if value is None:
        return "-"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "://" not in text or "@" not in text:
        return text
    parts = urlsplit(text)
    return urlunsplit(parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]))


def _unknown_variables() -> Iterator[Problem]:
    for variable in sorted(os.environ):
        if not variable.upper().startswith(PREFIX) or variable.upper() in _NOT_SETTINGS:
            continue
        section = variable[len(PREFIX) :].split(NESTED)[0].lower()
        if section not in Settings.model_fields:
            yield Problem(variable, f"unknown; known are {_known_sections()}", "environment")


def _known_sections() -> str:
    return ", ".join(f"{PREFIX}{name.upper()}" for name in Settings.model_fields)


def _read_file(file: Path | None, layers: list[_Layer], problems: list[Problem]) -> Iterator[_Layer]:
    path = file
    if path is None:
        data = next((layer.values["data"] for layer in layers if "data" in layer.values), None)
        path = (Path(data).expanduser() if isinstance(data, (str, Path)) else default_data_folder()) / FILE_NAME
        if not path.is_file():
            return
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problems.append(Problem("--config", f"cannot be read: {error}", str(path)))
        return
    if file is None and "data" in values:
        problems.append(Problem("data", "cannot be set in the file that lies in the data folder", str(path)))
    yield _Layer(str(path), values)


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *sections, name = key.split(".")
        place = nested
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return nested


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        old = into.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            _merge(old, value)
        elif isinstance(value, dict):
            into[key] = {}
            _merge(into[key], value)
        else:
            into[key] = value


def _problem(error: Mapping[str, Any], layers: list[_Layer]) -> Problem:
    key = ".".join(str(part) for part in error["loc"])
    message = "unknown key" if error["type"] == "extra_forbidden" else str(error["msg"]).removeprefix("Value error, ")
    return Problem(key or "settings", message, _source_of(key, layers))


def _get(values: Mapping[str, Any], key: str) -> object:
    value: Any = values
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def _source_of(key: str, layers: list[_Layer]) -> str:
    """Return the name of the first layer that sets the key; for a section, of all that set something in it."""
    found = [(name, _get(values, key)) for name, values in layers]
    names = [name for name, value in found if value is not None]
    is_section = all(value is None or isinstance(value, dict) for _, value in found)
    return ", ".join(names if is_section else names[:1]) or DEFAULT
