"""`viking serve`: run the server in the foreground."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from viking_rpc.cli.console import err
from viking_rpc.cli.kernels import ensure_compiled
from viking_rpc.cli.session import settings_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def serve_data(data: Path | None, config: Path | None, flags: Mapping[str, Any]) -> None:
    """Serve until SIGINT or SIGTERM, with settings by dotted key. Raises what starting the server raises."""
    from viking_rpc.server.logs import set_up_logging

    settings = settings_for(data, config, flags)
    set_up_logging(settings.log)
    ensure_compiled()
    from viking_rpc.server.app import serve

    def tell(address: str) -> None:
        err.print(f"[bold]{escape(address)}[/] serves {escape(str(settings.data))}", soft_wrap=True)

    serve(settings, tell, partial(set_up_logging, settings.log))
