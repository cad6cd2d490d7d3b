"""What the contract has and this release does not offer."""

from __future__ import annotations

from viking_rpc.errors import UnimplementedError


def not_offered(method: str) -> UnimplementedError:
    """Return the error of a method (`Service.Method`) that a later release will offer."""
    return UnimplementedError("NOT_OFFERED", f"this server does not offer {method} yet", {"method": method})
