"""Open what a command talks to: the server that it names, the one that holds the data directory, or one of its own."""

from __future__ import annotations

import socket
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.markup import escape

from viking_rpc.cli.connection import in_use
from viking_rpc.cli.console import err
from viking_rpc.cli.kernels import ensure_compiled
from viking_rpc.config import load_settings
from viking_rpc.domain.address import as_reached_here
from viking_rpc.errors import FailedPreconditionError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from viking_rpc.client import Client
    from viking_rpc.config import Settings

DATABASE_NAME: Final = "viking.db"


def settings_for(data: Path | None, config: Path | None, flags: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings with what the command line says of them, by dotted key. Raises ConfigError."""
    return load_settings({"data": data, **(flags or {})}, config)


@contextmanager
def open_client(*, data: Path | None, server: str | None, config: Path | None) -> Iterator[Client]:
    """Open a client.

    Without `server`, the data directory is asked: through the server that holds it on this machine, else through one
    that lives as long as the block, on a socket that nobody else can reach. Both answer alike.

    Args:
        data: the data directory; None means that of the settings.
        server: the address of a server.
        config: the configuration file.

    Raises:
        ConfigError: the settings cannot be used.
        NotFoundError: NO_STORE, the data directory has nothing in it.
        FailedPreconditionError: it cannot be opened; another process that is no server holds it.
    """
    if server:
        with connected(server) as client:
            yield client
        return
    settings = settings_for(data, config)
    require_store(settings)
    ensure_compiled()
    from viking_rpc.cli.embedded import EmbeddedServer
    from viking_rpc.server.identity import resolve_local

    with tempfile.TemporaryDirectory(prefix="viking-") as folder:
        private = settings.server.model_copy(update={"listen": f"unix:{folder}/socket"})
        try:
            # Who may open the directory needs no key: nobody else reaches the socket.
            own = settings.model_copy(update={"server": private})
            embedded = EmbeddedServer(own, resolve=resolve_local).__enter__()
        except FailedPreconditionError as error:
            with connected(holder_address(error), has_tls=settings.tls.cert is not None) as client:
                yield client
            return
        try:
            with connected(embedded.address) as client:
                yield client
        finally:
            embedded.__exit__(None, None, None)


@contextmanager
def open_running(*, data: Path | None, server: str | None, config: Path | None) -> Iterator[Client]:
    """Open a client of a server that runs already: the one that is named, else the one that holds the data directory.

    Raises:
        FailedPreconditionError: NO_SERVER; or another process that is no server holds the directory.
    """
    if server:
        with connected(server) as client:
            yield client
        return
    settings = settings_for(data, config)
    require_store(settings)
    from viking_rpc.store.lock import DataLock

    try:
        DataLock.acquire(settings.data).release()
    except FailedPreconditionError as error:
        with connected(holder_address(error), has_tls=settings.tls.cert is not None) as client:
            yield client
        return
    message = f"no server holds {settings.data}; start one (viking serve), or name one (--server)"
    raise FailedPreconditionError("NO_SERVER", message, {"path": str(settings.data)})


@contextmanager
def connected(address: str, *, has_tls: bool = False) -> Iterator[Client]:
    """Connect to a server, as the options before the command say; with TLS also where it is known to want that."""
    with in_use().open(address, has_tls=has_tls) as client:
        yield client


def holder_address(error: FailedPreconditionError) -> str:
    """Return where the server listens that holds a data directory; raise the error when there is none to ask."""
    address, host = error.metadata.get("address", ""), error.metadata.get("host", "")
    if error.reason != "DATA_DIRECTORY_LOCKED" or not address or host != socket.gethostname():
        raise error
    err.print(
        f"[dim]asking the server at {escape(address)}, which holds {escape(error.metadata['path'])}[/]", soft_wrap=True
    )
    return as_reached_here(address)


def require_store(settings: Settings) -> None:
    """Refuse a data directory without a store: reading must not make one.

    Raises:
        NotFoundError: NO_STORE.
    """
    if not (settings.data / DATABASE_NAME).exists():
        message = f"there is no store in {settings.data}; make one: viking import PATH --to viking://resources/NAME"
        raise NotFoundError("NO_STORE", message, {"path": str(settings.data)})
