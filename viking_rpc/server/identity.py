"""Decide from the metadata of a call who makes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from viking_rpc.domain.identity import LOCAL, Identity
from viking_rpc.domain.uri import is_id
from viking_rpc.errors import InvalidArgumentError, PermissionDeniedError, Violation

ACCOUNT_KEY: Final = "viking-account"
USER_KEY: Final = "viking-user"
PEER_KEY: Final = "viking-peer"

#: Metadata in, identity out. Whatever it raises refuses the call; metadata keys are lower-case.
IdentityResolver = Callable[[Mapping[str, str]], Identity]


def resolve_local(metadata: Mapping[str, str]) -> Identity:
    """Return the one user of a server without keys, with the peer that any caller may name.

    Raises:
        PermissionDeniedError: reason IDENTITY_NOT_ALLOWED; another account or user is named, which takes a key.
        InvalidArgumentError: reason INVALID_PEER.
    """
    if PEER_KEY not in metadata and ACCOUNT_KEY not in metadata and USER_KEY not in metadata:
        return LOCAL
    for key, own in ((ACCOUNT_KEY, LOCAL.account), (USER_KEY, LOCAL.user)):
        named = metadata.get(key, own)
        if named != own:
            raise PermissionDeniedError(
                "IDENTITY_NOT_ALLOWED",
                f"this server has no keys, so every caller is {own!r}: {key} may not be {named!r}",
                {"key": key, "value": named},
            )
    return _with_peer(metadata.get(PEER_KEY, ""))


@lru_cache(maxsize=1024)
def _with_peer(peer: str) -> Identity:
    if not peer:
        return LOCAL
    if not is_id(peer):
        message = f"{peer!r} cannot be a peer id: letters, digits, _ . - and at most one @"
        raise InvalidArgumentError.of([Violation(f"metadata.{PEER_KEY}", message, "INVALID_PEER")])
    return Identity(LOCAL.account, LOCAL.user, LOCAL.role, peer)
