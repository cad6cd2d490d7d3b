"""Decide from the metadata of a call who makes it, and for whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from viking_rpc.domain.identity import LOCAL, Identity, Role
from viking_rpc.domain.keys import ID_RULE, Key
from viking_rpc.domain.uri import is_id
from viking_rpc.errors import InvalidArgumentError, PermissionDeniedError, Violation

AUTHORIZATION_KEY: Final = "authorization"
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


def resolve_key(key: Key, account: str, user: str, peer: str) -> Identity:
    """Return who calls with a key: its own account and user, or those that it may act for.

    A ROOT key may name any account. A key that may act for others may name any user of the account, and then has that
    user's rights instead of its own. Any caller may name a peer.

    Args:
        key: checked.
        account, user, peer: as the call names them; empty where it does not.

    Raises:
        InvalidArgumentError: INVALID_ACCOUNT, INVALID_USER, INVALID_PEER.
        PermissionDeniedError: DELEGATION_NOT_ALLOWED, whether or not the named exist.
    """
    named = ((ACCOUNT_KEY, account, "INVALID_ACCOUNT"), (USER_KEY, user, "INVALID_USER"), _peer(peer))
    violations = [_not_an_id(*one) for one in named if one[1] and not is_id(one[1])]
    if violations:
        raise InvalidArgumentError.of(violations)
    if account and account != key.account and key.role is not Role.ROOT:
        raise _denied(ACCOUNT_KEY, account, "takes the role root")
    own_user = "" if key.role is Role.ROOT else key.user
    if not user or user == own_user:
        return Identity(account or key.account, own_user, key.role, peer)
    if not key.may_act_for:
        raise _denied(USER_KEY, user, "takes a key that may act for others")
    return Identity(account or key.account, user, Role.USER, peer)


@lru_cache(maxsize=1024)
def _with_peer(peer: str) -> Identity:
    if not peer:
        return LOCAL
    if not is_id(peer):
        raise InvalidArgumentError.of([_not_an_id(*_peer(peer))])
    return Identity(LOCAL.account, LOCAL.user, LOCAL.role, peer)


def _peer(peer: str) -> tuple[str, str, str]:
    return PEER_KEY, peer, "INVALID_PEER"


def _not_an_id(name: str, value: str, reason: str) -> Violation:
    return Violation(f"metadata.{name}", f"{value!r} cannot be an id: {ID_RULE}", reason)


def _denied(name: str, value: str, needed: str) -> PermissionDeniedError:
    message = f"this key may not name {value!r} as {name}: that {needed}"
    return PermissionDeniedError("DELEGATION_NOT_ALLOWED", message, {"key": name, "value": value})
