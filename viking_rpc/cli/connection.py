"""What the command line says of itself to a server: the key, for whom it acts, and TLS."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from viking_rpc.errors import FailedPreconditionError, PermissionDeniedError

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.client import Client


@dataclass(frozen=True, slots=True)
class Connection:
    """What stands before a command, or in the environment; see `viking --help`."""

    key: str = field(default="", repr=False)
    key_file: Path | None = None
    account: str = ""
    user: str = ""
    peer: str = ""
    has_tls: bool = False
    tls_ca: Path | None = None
    tls_client_cert: Path | None = None
    tls_client_key: Path | None = None
    allow_plain_key: bool = False

    def open(self, address: str, *, has_tls: bool = False) -> Client:
        """Return a client of a server.

        Args:
            address: of the server.
            has_tls: whether the server is known to speak TLS.

        Raises:
            FailedPreconditionError: KEY_FILE_UNREADABLE, KEY_IN_PLAIN_TEXT, TLS_FILES_UNUSABLE.
        """
        from viking_rpc.client import Tls, connect

        files = (self.tls_ca, self.tls_client_cert, self.tls_client_key)
        wants_tls = has_tls or self.has_tls or any(files)
        return connect(
            address,
            key=self._key(),
            account=self.account,
            user=self.user,
            peer=self.peer,
            tls=Tls(*files) if wants_tls else None,
            allow_plain_key=self.allow_plain_key,
        )

    def require_local(self) -> None:
        """Refuse to work on a data directory for somebody else than the local user, who is meant there.

        Raises:
            PermissionDeniedError: IDENTITY_NOT_ALLOWED.
        """
        named = {"--account": self.account, "--user": self.user, "--peer": self.peer}
        given = [f"{option} {value}" for option, value in named.items() if value]
        if given:
            message = f"{' '.join(given)} takes a server with keys: serve the data directory, and use --server"
            raise PermissionDeniedError("IDENTITY_NOT_ALLOWED", message, {"given": " ".join(given)})

    def _key(self) -> str:
        if self.key_file is None:
            return self.key.strip()
        try:
            return self.key_file.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            told = error.strerror if isinstance(error, OSError) else "it is no text"
            message = f"the key cannot be read from {self.key_file} ({told})"
            raise FailedPreconditionError("KEY_FILE_UNREADABLE", message, {"path": str(self.key_file)}) from None


_IN_USE: Final[ContextVar[Connection]] = ContextVar("connection")


def use(connection: Connection) -> None:
    """Ask servers so from now on."""
    _IN_USE.set(connection)


def in_use() -> Connection:
    """Return how servers are asked."""
    return _IN_USE.get(Connection())
