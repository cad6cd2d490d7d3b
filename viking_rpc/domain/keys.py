"""A key: what its holder sends, what is kept of it, and how the one is checked against the other."""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.uri import is_id
from viking_rpc.errors import InvalidArgumentError, UnauthenticatedError, Violation

if TYPE_CHECKING:
    from viking_rpc.domain.identity import Role

_ID_BYTES: Final = 5
_SECRET_BYTES: Final = 32
_SALT_BYTES: Final = 16
_TOKEN: Final = re.compile(r"vk_([a-z2-7]{8})_([a-z2-7]{52})")

#: What `is_id` wants, in words.
ID_RULE: Final = "letters, digits, _ . - and at most one @"


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """How much one key may ask for; None leaves it to the settings, 0 sets no limit.

    Args:
        rate: calls a second.
        burst: calls at once after a pause; as many as `rate` allows in a second where nothing else is said.
        max_calls: calls in work.
    """

    rate: float | None = None
    burst: int | None = None
    max_calls: int | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """What is kept of a key; its secret is not, and cannot be found from this.

    Args:
        id: the public part, which lists and logs show.
        account: whose contexts it opens.
        user: whose key it is; a ROOT key acts for no user, and only remembers who holds it.
        role: what it may do.
        may_act_for: whether its holder may name another user of the account.
        created_us, expires_us, revoked_us: microseconds since the epoch; None: it never was, or will be.
        limits: its own.
        salt, digest: what a secret is checked against.
    """

    id: str
    account: str
    user: str
    role: Role
    may_act_for: bool
    created_us: int
    expires_us: int | None = None
    revoked_us: int | None = None
    limits: KeyLimits = KeyLimits()
    salt: bytes = field(default=b"", repr=False)
    digest: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Token:
    """What the holder of a key sends: its id and its secret, which no representation shows."""

    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> Token:
        """Make one at random; 256 bits of it are secret, so that a fast hash hides them as well as a slow one."""
        return cls(_letters(_ID_BYTES), _letters(_SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> Token | None:
        """Read one; None for what is none."""
        found = _TOKEN.fullmatch(text)
        return None if found is None else cls(found[1], found[2])

    def reveal(self) -> str:
        """Return the text to send. Show it once, to whom it belongs."""
        return f"vk_{self.id}_{self.secret}"


def _letters(n_bytes: int) -> str:
    return base64.b32encode(secrets.token_bytes(n_bytes)).decode().rstrip("=").lower()


def new_salt() -> bytes:
    """Return the salt of one key."""
    return secrets.token_bytes(_SALT_BYTES)


def digest_of(salt: bytes, secret: str) -> bytes:
    """Return what is kept in place of a secret."""
    return hmac.digest(salt, secret.encode(), "sha256")


#: Stands in for a key that does not exist, so that its secret is compared like any other.
_NOBODY_SALT: Final = new_salt()
_NOBODY_DIGEST: Final = digest_of(_NOBODY_SALT, Token.new().secret)


def check_token(token: Token | None, key: Key | None, now_us: int) -> Key:
    """Return the key whose secret was sent; a wrong one takes the same time and words whether or not its id exists.

    Args:
        token: as it was sent; None when that was no token.
        key: of the token's id; None when there is none.
        now_us: the time, microseconds since the epoch.

    Raises:
        UnauthenticatedError: KEY_INVALID; with the right secret KEY_REVOKED, KEY_EXPIRED.
    """
    salt, digest = (_NOBODY_SALT, _NOBODY_DIGEST) if key is None else (key.salt, key.digest)
    is_right = hmac.compare_digest(digest_of(salt, "" if token is None else token.secret), digest)
    if token is None or key is None or not is_right:
        raise UnauthenticatedError("KEY_INVALID", "the key is not valid")
    if key.revoked_us is not None:
        raise UnauthenticatedError("KEY_REVOKED", "the key was revoked")
    check_expiry(key, now_us)
    return key


def check_expiry(key: Key, now_us: int) -> None:
    """Refuse a key whose time is over.

    Raises:
        UnauthenticatedError: KEY_EXPIRED.
    """
    if key.expires_us is not None and now_us >= key.expires_us:
        raise UnauthenticatedError("KEY_EXPIRED", "the key has expired")


def check_key(account: str, user: str, limits: KeyLimits) -> None:
    """Refuse to make a key that could not be used.

    Raises:
        InvalidArgumentError: all that is wrong.
    """
    violations = [
        Violation(name, f"{value!r} cannot be an id: {ID_RULE}", f"INVALID_{name.upper()}")
        for name, value in (("account", account), ("user", user))
        if not is_id(value)
    ]
    violations += [
        Violation(name, f"must not be below 0, but is {value:g}")
        for name, value in (("rate", limits.rate), ("burst", limits.burst), ("max_calls", limits.max_calls))
        if value is not None and not 0 <= value < float("inf")
    ]
    if violations:
        raise InvalidArgumentError.of(violations)
