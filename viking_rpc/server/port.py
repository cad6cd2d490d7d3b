"""One port for several processes: refused when a stranger listens on it, then held until all are gone."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Self

from viking_rpc.errors import FailedPreconditionError

if TYPE_CHECKING:
    from types import TracebackType


class SharedPort:
    """Holds a port with SO_REUSEPORT without listening on it, so that only processes of ours may join.

    The kernel lets sockets of one user share a port when all of them ask for it. A server that does not ask is refused
    for as long as this is open; one that asks would be let in, hence the look before.
    """

    def __init__(self, listen: str) -> None:
        """Take the port.

        Args:
            listen: HOST:PORT; port 0 means any free one.

        Raises:
            FailedPreconditionError: CANNOT_LISTEN.
        """
        host, _, text = listen.rpartition(":")
        port = int(text)
        self._sockets: list[socket.socket] = []
        try:
            found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
            for family, address in dict.fromkeys((family, address[0]) for family, _, _, _, address in found):
                port = _require_free(family, str(address), port)
                held = _bound(family, str(address), port, socket.SO_REUSEPORT)
                self._sockets.append(held)
        except OSError as error:
            self.close()
            message = f"cannot listen on {listen}: is another server there? ({error.strerror})"
            raise FailedPreconditionError("CANNOT_LISTEN", message, {"address": listen}) from error
        self.address = f"{host}:{port}"

    def close(self) -> None:
        """Let go; a second call does nothing."""
        while self._sockets:
            self._sockets.pop().close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go."""
        self.close()


def _require_free(family: int, host: str, port: int) -> int:
    """Return the port, the found one for 0, when nobody listens on it; connections that are closing do not count."""
    with _bound(family, host, port, socket.SO_REUSEADDR) as looking:
        looking.listen(1)
        return int(looking.getsockname()[1])


def _bound(family: int, host: str, port: int, option: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, option, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made
