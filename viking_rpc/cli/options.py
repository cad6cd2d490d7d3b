"""The options that several commands have."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class TypeName(StrEnum):
    """A context type as it is typed."""

    RESOURCE = "resource"
    MEMORY = "memory"
    SKILL = "skill"


class ModeName(StrEnum):
    """A mode as it is typed."""

    QUICK = "quick"
    THINKING = "thinking"


class ProfileName(StrEnum):
    """A profile as it is typed."""

    BALANCED = "balanced"
    CLASSIC = "classic"
    EXHAUSTIVE = "exhaustive"


Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Data directory.  [default: ~/.local/share/viking-rpc]", show_default=False
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="TOML file.  [default: viking.toml in the data directory]", show_default=False
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="ADDRESS", help="Ask this server (HOST:PORT or unix:PATH) instead of a data directory."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
UriArgument = Annotated[str, typer.Argument(metavar="URI", help="A context, e.g. viking://resources/handbook.")]
