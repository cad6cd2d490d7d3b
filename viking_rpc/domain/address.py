"""Addresses of servers: who reaches them."""

from __future__ import annotations

import ipaddress
from typing import Final

#: Begins the address of a socket file.
UNIX: Final = "unix:"

_DEFAULT_RESOLVER: Final = "dns:///"


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address, HOST:PORT or unix:PATH; what cannot be read is not one."""
    if address.startswith(UNIX):
        return True
    host = address.removeprefix(_DEFAULT_RESOLVER).rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def as_reached_here(address: str) -> str:
    """Return how this machine reaches a server that listens on all its addresses; other addresses as they are."""
    host, colon, port = address.rpartition(":")
    return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host) + colon + port  # noqa: S104 - nothing is bound
