"""TLS from files, read again when they change: a new certificate needs no restart, and a broken one does no harm."""

from __future__ import annotations

import logging
import ssl
import threading
from typing import TYPE_CHECKING, NamedTuple, cast

import grpc

from viking_rpc.errors import FailedPreconditionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from viking_rpc.config import TlsSettings

logger = logging.getLogger(__name__)

#: What tells one state of the files from another: of each its place on the disk, its size and its time.
_State = tuple[tuple[int, int, int, int], ...]


class _Pem(NamedTuple):
    cert: bytes
    key: bytes
    client_ca: bytes | None


class CertificateFiles:
    """The certificate of a server and who signs its clients, as the files say at each handshake.

    Args:
        settings: `cert` and `key` are set; with `client_ca` clients need a certificate too.

    Raises:
        FailedPreconditionError: TLS_FILES_UNUSABLE.
    """

    def __init__(self, settings: TlsSettings) -> None:
        """Read the files for the first time."""
        if settings.cert is None or settings.key is None:
            raise ValueError("there are no files to read")
        self._cert, self._key, self._client_ca = settings.cert, settings.key, settings.client_ca
        self._lock = threading.Lock()
        self._refused = ""
        try:
            self._state = self._look()
            self._first = _configuration(self._read())
        except (OSError, ValueError) as error:
            facts = {"cert": str(self._cert), "key": str(self._key), "client_ca": str(self._client_ca or "")}
            named = ", ".join(value for value in facts.values() if value)
            message = f"TLS cannot be served with {named} ({_told(error)})"
            raise FailedPreconditionError("TLS_FILES_UNUSABLE", message, facts | {"error": _told(error)}) from error

    def credentials(self) -> grpc.ServerCredentials:
        """Return what a port is opened with."""
        # None is an answer, says grpc's documentation: nothing has changed. Its types do not.
        fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", self._changed)
        return grpc.dynamic_ssl_server_credentials(
            self._first, fetch, require_client_authentication=self._client_ca is not None
        )

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the new certificate when the files have changed and are sound; gRPC asks from threads of its own."""
        with self._lock:
            try:
                state = self._look()
                if state == self._state:
                    return None
                pem = self._read()
                if self._look() != state:  # somebody is writing; the next handshake looks again
                    return None
            except (OSError, ValueError) as error:
                self._refuse(error)
                return None
            self._state, self._refused = state, ""
            logger.info("tls_reloaded cert=%s", self._cert)
            return _configuration(pem)

    def _refuse(self, error: Exception) -> None:
        """Keep what was there, and say so once: files are often replaced one after the other."""
        told = _told(error)
        if told != self._refused:
            self._refused = told
            logger.warning("tls_not_reloaded cert=%s error=%s effect=%s", self._cert, told, "the old one stays in use")

    def _look(self) -> _State:
        paths = [self._cert, self._key, *([] if self._client_ca is None else [self._client_ca])]
        found = (path.stat() for path in paths)
        return tuple((one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns) for one in found)

    def _read(self) -> _Pem:
        """Read the files, and check what gRPC would only write a line about.

        Raises:
            OSError, ValueError: one cannot be read; they do not belong together.
        """
        client_ca = None if self._client_ca is None else self._client_ca.read_bytes()
        pem = _Pem(self._cert.read_bytes(), self._key.read_bytes(), client_ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A key under a password is refused; asking for one at the terminal would stop the server.
        context.load_cert_chain(self._cert, self._key, password="")
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
        return pem


def _configuration(pem: _Pem) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.cert)], root_certificates=pem.client_ca)


def _told(error: Exception) -> str:
    """Return one line without the file's content."""
    if isinstance(error, ssl.SSLError):
        return error.reason or "no certificate, or no key that belongs to it"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
