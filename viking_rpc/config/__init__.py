"""All settings of a process, read and validated once by `load_settings`; import it late, pydantic is slow."""

from viking_rpc.config.sections import (
    AnnSettings,
    EmbedderSettings,
    IndexSettings,
    IngestSettings,
    KeySettings,
    LogSettings,
    MetricsSettings,
    PlannerSettings,
    ProfileSettings,
    RerankerSettings,
    RetrievalSettings,
    ServerSettings,
    Settings,
    TlsSettings,
    default_data_folder,
)
from viking_rpc.config.sources import ConfigError, Problem, describe, load_settings

__all__ = [
    "AnnSettings",
    "ConfigError",
    "EmbedderSettings",
    "IndexSettings",
    "IngestSettings",
    "KeySettings",
    "LogSettings",
    "MetricsSettings",
    "PlannerSettings",
    "Problem",
    "ProfileSettings",
    "RerankerSettings",
    "RetrievalSettings",
    "ServerSettings",
    "Settings",
    "TlsSettings",
    "default_data_folder",
    "describe",
    "load_settings",
]
