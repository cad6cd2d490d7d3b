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

# -- before the command: how a server is asked

KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", metavar="FILE", help="Holds the key; else the variable VIKING_KEY does."),
]
Account = Annotated[
    str, typer.Option("--account", metavar="NAME", envvar="VIKING_ACCOUNT", help="Act in this account.")
]
User = Annotated[str, typer.Option("--user", metavar="NAME", envvar="VIKING_USER", help="Act for this user.")]
Peer = Annotated[str, typer.Option("--peer", metavar="NAME", envvar="VIKING_PEER", help="Whom the user talks with.")]
SpeaksTls = Annotated[bool, typer.Option("--tls", help="Speak TLS; the options below mean it too.")]
ServerCa = Annotated[
    Path | None,
    typer.Option("--tls-ca", metavar="FILE", envvar="VIKING_TLS_CA", help="Who signs the server's certificate (PEM)."),
]
TlsClientCert = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-cert", metavar="FILE", envvar="VIKING_TLS_CLIENT_CERT", help="Certificate to show (PEM)."
    ),
]
TlsClientKey = Annotated[
    Path | None,
    typer.Option("--tls-client-key", metavar="FILE", envvar="VIKING_TLS_CLIENT_KEY", help="Its key (PEM)."),
]
PlainKey = Annotated[bool, typer.Option("--plain-key", help="Send the key in plain text to other machines too.")]
