"""Where a server may listen: on loopback always, elsewhere when callers have to show who they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viking_rpc.domain.address import is_loopback
from viking_rpc.errors import FailedPreconditionError
from viking_rpc.store.keys import has_keys

if TYPE_CHECKING:
    from viking_rpc.config import Settings


def check_exposure(settings: Settings) -> str:
    """Refuse to listen where strangers reach a server that asks nobody who they are, unless that is wanted.

    Returns:
        Why the operator should hear of it all the same; empty when there is nothing: keys_in_plain_text, whoever is on
        the way can read and use keys; insecure, whoever reaches the server may read and change everything.

    Raises:
        FailedPreconditionError: NOT_LOOPBACK.
    """
    listen = settings.server.listen
    if is_loopback(listen):
        return ""
    if settings.keys.required or has_keys(settings.data):
        if settings.tls.cert is None:
            return "keys_in_plain_text"
        return ""
    if settings.server.insecure:
        return "insecure"
    raise FailedPreconditionError(
        "NOT_LOOPBACK",
        f"without keys the server listens on loopback only (127.0.0.1, [::1], localhost, unix:PATH), not on {listen}; "
        "make a key: viking keys add; or let everybody in: --insecure",
        {"address": listen},
    )
