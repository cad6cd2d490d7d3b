"""Who calls a server that has keys: looked up once, remembered until a key is added or revoked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from viking_rpc.domain.keys import Token, check_expiry, check_token
from viking_rpc.errors import UnauthenticatedError, UnavailableError, VikingError
from viking_rpc.server.allowance import UNLIMITED, Allowance
from viking_rpc.server.identity import ACCOUNT_KEY, AUTHORIZATION_KEY, PEER_KEY, USER_KEY, resolve_key, resolve_local
from viking_rpc.store.keys import KeyReader, has_keys

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.config import KeySettings
    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.keys import Key
    from viking_rpc.domain.ports import Clock
    from viking_rpc.server.identity import IdentityResolver

logger = logging.getLogger(__name__)

#: How often a server that is asked looks whether keys have changed.
LOOK_S: Final = 0.2
#: Callers that are remembered, by key and by whom they act for.
_MAX_KNOWN: Final = 4096
_RETRY_S: Final = 1.0


class Caller(NamedTuple):
    """Who calls, by which key (its id; empty without one), and how much more that key may ask for."""

    identity: Identity
    allowance: Allowance = UNLIMITED
    key_id: str = ""


#: Metadata in, caller out. Whatever it raises refuses the call.
CallerResolver = Callable[[Mapping[str, str]], Caller]


class KeyCallers:
    """Resolves callers by their keys, and without keys as the local user; of one event loop.

    A server that once wanted keys wants them until it ends: revoking all of them, or deleting their file, opens
    nothing.

    Args:
        folder: the data directory.
        settings: whether keys are wanted even where there are none, and the limits of keys without their own.
        clock: says when a key expires.
    """

    def __init__(self, folder: Path, settings: KeySettings, clock: Clock) -> None:
        """Look whether there are keys."""
        self._settings = settings
        self._clock = clock
        self._reader = KeyReader(folder)
        self._wants_keys = settings.required or has_keys(folder)
        self._is_readable = True
        self._look_at_s = 0.0
        self._known: dict[tuple[bytes, str, str, str], tuple[Caller, Key]] = {}
        self._allowances: dict[str, Allowance] = {}

    def __call__(self, metadata: Mapping[str, str]) -> Caller:
        """Return who calls.

        Raises:
            UnauthenticatedError: KEY_MISSING, KEY_INVALID, KEY_REVOKED, KEY_EXPIRED.
            PermissionDeniedError: DELEGATION_NOT_ALLOWED; without keys IDENTITY_NOT_ALLOWED.
            InvalidArgumentError: INVALID_ACCOUNT, INVALID_USER, INVALID_PEER.
            UnavailableError: KEYS_UNREADABLE.
        """
        now_s = time.monotonic()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_S
            self._look()
        if not self._wants_keys:
            return Caller(resolve_local(metadata))
        if not self._is_readable:
            raise _unreadable()
        sent = metadata.get(AUTHORIZATION_KEY)
        if not sent:
            raise UnauthenticatedError("KEY_MISSING", "this server wants a key: send authorization: Bearer KEY")
        known_as = (
            blake2b(sent.encode(), digest_size=16).digest(),  # no key lies in memory for longer than its call
            metadata.get(ACCOUNT_KEY, ""),
            metadata.get(USER_KEY, ""),
            metadata.get(PEER_KEY, ""),
        )
        known = self._known.get(known_as)
        if known is None:
            known = self._resolve(sent, *known_as[1:])
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[known_as] = known
        elif known[1].expires_us is not None:
            check_expiry(known[1], self._clock.now_us())
        return known[0]

    def close(self) -> None:
        """Let the file go."""
        self._reader.close()

    def _look(self) -> None:
        """Forget callers when a key may have changed."""
        try:
            has_changed = self._reader.look()
        except VikingError as error:
            if self._is_readable:
                logger.warning("keys_unreadable reason=%s error=%s", error.reason, error.message)
            self._is_readable, self._wants_keys = False, True
            self._known.clear()
            return
        if not self._is_readable:
            logger.warning("keys_readable")
            self._is_readable = True
        if not has_changed:
            return
        self._known.clear()
        if self._reader.has_file and not self._wants_keys:
            self._wants_keys = True
            logger.warning("keys_wanted")
        elif self._wants_keys and not self._reader.has_file and not self._settings.required:
            logger.warning("keys_gone effect=%s", "no key is valid; a restart serves without keys")

    def _resolve(self, sent: str, account: str, user: str, peer: str) -> tuple[Caller, Key]:
        """Check a key and whom it names; what is refused is not remembered."""
        scheme, _, text = sent.partition(" ")
        token = Token.parse(text.strip()) if scheme.lower() == "bearer" else None
        try:
            found = None if token is None else self._reader.find(token.id)
        except VikingError as error:
            logger.warning("keys_unreadable reason=%s error=%s", error.reason, error.message)
            raise _unreadable() from error
        key = check_token(token, found, self._clock.now_us())
        return Caller(resolve_key(key, account, user, peer), self._allowance(key), key.id), key

    def _allowance(self, key: Key) -> Allowance:
        """Return what a key may ask for; the same for all whom it acts for, and for as long as the server lives."""
        known = self._allowances.get(key.id)
        if known is not None:
            return known
        own, usual = key.limits, self._settings
        rate = usual.rate if own.rate is None else own.rate
        burst = (usual.burst if own.rate is None else 0) if own.burst is None else own.burst
        max_calls = usual.max_calls if own.max_calls is None else own.max_calls
        made = Allowance(rate, burst, max_calls) if rate or max_calls else UNLIMITED
        self._allowances[key.id] = made
        return made


def _unreadable() -> UnavailableError:
    """Return what callers are told; why it is so is the operator's to know."""
    return UnavailableError("KEYS_UNREADABLE", "the server cannot read its keys", retry_after_s=_RETRY_S)


def unlimited(resolve: IdentityResolver) -> CallerResolver:
    """Return a resolver of callers that have no limits of their own."""
    return lambda metadata: Caller(resolve(metadata))
