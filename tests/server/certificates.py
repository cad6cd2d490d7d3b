"""Certificates of authorities that nobody else trusts, as files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trustme

from viking_rpc.client import Tls

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Files:
    """The three files of one side of TLS."""

    ca: Path
    cert: Path
    key: Path

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of a server with this certificate."""
        return {"cert": self.cert, "key": self.key}


class Authority:
    """Signs certificates.

    Args:
        folder: where its files lie.
        name: of its files.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Write its own certificate."""
        self._ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self._folder = folder
        self.path = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.path))

    def sign(self, name: str) -> Files:
        """Write a certificate for this machine and its key, in place of what has the name already."""
        signed = self._ca.issue_cert("localhost", "127.0.0.1", "::1", key_type=trustme.KeyType.ECDSA)
        files = Files(self.path, self._folder / f"{name}-cert.pem", self._folder / f"{name}-key.pem")
        files.cert.write_bytes(b"".join(one.bytes() for one in signed.cert_chain_pems))
        files.key.write_bytes(signed.private_key_pem.bytes())
        return files

    def tls(self, client: Files | None = None) -> Tls:
        """Return the TLS of a client that trusts this authority."""
        return Tls(self.path) if client is None else Tls(self.path, client.cert, client.key)
