"""How a channel is opened, and what every call says beside its message."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc

from viking_rpc.domain.address import is_loopback
from viking_rpc.errors import FailedPreconditionError
from viking_rpc.pb import service_config

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_ADDRESS: Final = "127.0.0.1:7654"

_KEEPALIVE_MS: Final = 30_000
_KEEPALIVE_TIMEOUT_MS: Final = 10_000

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a client's TLS, in PEM.

    Args:
        ca: who signs the server's certificate; None: those that gRPC trusts, or GRPC_DEFAULT_SSL_ROOTS_FILE_PATH.
        cert: the client's certificate chain, where the server wants one.
        key: its key.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Read the files.

        Raises:
            FailedPreconditionError: TLS_FILES_UNUSABLE.
        """
        named = [str(path) for path in (self.ca, self.cert, self.key) if path is not None]
        if (self.cert is None) != (self.key is None):
            raise _unusable(named, "a certificate and its key go together")
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if self.ca is not None:
                context.load_verify_locations(self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key, password="")
            parts = [None if path is None else path.read_bytes() for path in (self.ca, self.key, self.cert)]
        except (OSError, ValueError) as error:
            raise _unusable(named, str(error)) from error
        return grpc.ssl_channel_credentials(*parts)


def _unusable(named: list[str], error: str) -> FailedPreconditionError:
    files = ", ".join(named)
    message = f"TLS cannot be used with {files} ({error})"
    return FailedPreconditionError("TLS_FILES_UNUSABLE", message, {"files": files, "error": error})


def channel_options() -> list[tuple[str, Any]]:
    """Return the options of a channel: deadlines and retries of the contract, and pings while calls are open."""
    return [
        ("grpc.service_config", service_config()),
        ("grpc.enable_retries", 1),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ]


def call_metadata(*, key: str, account: str, user: str, peer: str) -> Metadata:
    """Return the metadata that says who calls; what is empty is left out."""
    named = (
        ("authorization", f"Bearer {key}" if key else ""),
        ("viking-account", account),
        ("viking-user", user),
        ("viking-peer", peer),
    )
    return tuple((name, value) for name, value in named if value)


def check_plain_text(address: str, key: str, tls: Tls | None, *, allow_plain_key: bool) -> None:
    """Refuse to show a key to whoever is on the way to another machine.

    Raises:
        FailedPreconditionError: KEY_IN_PLAIN_TEXT.
    """
    if key and tls is None and not allow_plain_key and not is_loopback(address):
        message = f"a key is not sent to {address} in plain text: use TLS, or allow it in so many words"
        raise FailedPreconditionError("KEY_IN_PLAIN_TEXT", message, {"address": address})
