"""Who calls: an account, a user in it, the role, and the peer that the user talks with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Role(Enum):
    """What a caller may do: ROOT all of its account, ADMIN also writes the shared scopes, USER its own."""

    ROOT = "root"
    ADMIN = "admin"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller of one RPC, taken from metadata, never from a message. ROOT has no user of its own (`user` empty)."""

    account: str = "default"
    user: str = "default"
    role: Role = Role.USER
    peer: str = ""


#: Without configured keys a server is one user on loopback; it may write the shared scopes of its own machine.
LOCAL = Identity(role=Role.ADMIN)
