"""The options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

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
