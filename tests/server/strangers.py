"""Trees of several accounts, users and peers in which every context has words of its own, and who may see them."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.server.fakes import cosine
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.pb.v1.context_pb2 import Context

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Ids that differ by case, or of which one begins another.
USERS: Final = ("alizq", "Alizq", "alizqx", "bobzq", "memories")
PEERS: Final = ("pzq", "Pzq", "pzqx")
ACCOUNTS: Final = ("acme", "Acme", "acmeq")
#: A word that stands in one context: `u...` in its URI, `c...` in its texts.
TOKEN: Final = re.compile(rb"[uc][0-9]{6}zq")
#: The name that only these ids have; others' ids are told to nobody.
ID: Final = re.compile(rb"(?<![A-Za-z0-9])(?:[Aa]liz?qx?|bobzq|[Pp]zqx?)(?![A-Za-z0-9])")
_PLACES: Final = (
    "resources", "agent", "agent/skills", "user/{user}", "user/{user}/memories", "user/{user}/resources",
    "user/{user}/skills", "user/{user}/sessions/s1", "user/{user}/privacy", "user/{user}/peers",
    "user/{user}/peers/{peer}", "user/{user}/peers/{peer}/memories", "user/{user}/peers/{peer}/resources",
    "user/{user}/peers/{peer}/notes",
)  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """A context as a test planted it."""

    uri: str
    message: Context


def identities(account: str) -> list[Identity]:
    """Return everybody who may call, of one account."""
    people = [
        Identity(account, user, role, peer)
        for user in USERS
        for role in (Role.USER, Role.ADMIN)
        for peer in ("", *PEERS[:2])
    ]
    return [*people, Identity(account, "", Role.ROOT)]


def who(identity: Identity) -> tuple[tuple[str, str], ...]:
    """Return the metadata that `resolve` reads."""
    return (("x-who", f"{identity.account}/{identity.user}/{identity.role.value}/{identity.peer}"),)


def resolve(metadata: Mapping[str, str]) -> Identity:
    """Take a caller at its word."""
    account, user, role, peer = metadata["x-who"].split("/")
    return Identity(account, user, Role(role), peer)


def may_see(identity: Identity, uri: str) -> bool:
    """Return whether a caller may know of a context of its account: the rules once more, in other words."""
    scope, *rest = uri.removeprefix("viking://").split("/")
    if identity.role is Role.ROOT or scope in {"resources", "agent"}:
        return True
    if scope != "user" or not rest or rest[0] != identity.user:
        return False
    return not identity.peer or rest[1:2] != ["peers"] or rest[2:3] == [identity.peer]


def may_change(identity: Identity, uri: str) -> bool:
    """Return whether a caller may write a context of its account."""
    if identity.role is Role.ROOT:
        return True
    if uri.startswith("viking://user"):
        return may_see(identity, uri)
    return identity.role is Role.ADMIN


def plant(seed: int, first: int) -> list[Stored]:
    """Make the contexts of one account: directories and files in most places, with tokens numbered from `first`.

    The containers that others look through, `viking://user` and a user's `peers`, have words of their own, too.
    """
    choose = random.Random(seed)
    number = first
    stored: list[Stored] = []
    users, peers = [USERS[0], *choose.sample(USERS[1:4], 2)], choose.sample(PEERS, 2)
    places = [place.format(user=user, peer=peer) for place in _PLACES for user in users for peer in peers]
    for place in ("user", *dict.fromkeys(places)):
        if choose.random() < 0.25:
            continue
        directory = f"viking://{place}"
        if choose.random() < 0.8:
            stored.append(_directory(directory, number))
            number += 1
        if place == "user" or place.endswith("/peers"):
            continue
        for _ in range(choose.randrange(3)):
            if choose.random() < 0.3:
                directory = f"{directory}/u{number:06}zq"
                stored.append(_directory(directory, number))
            else:
                stored.append(_file(f"{directory}/u{number:06}zq.md", number, choose))
            number += 1
    uris = [one.uri for one in stored]
    for one in stored:
        for uri in choose.sample(uris, min(len(uris), choose.randrange(4))):
            one.message.relations.add(uri=uri, reason=f"c{_number(one):06}zq")
    return stored


def _number(one: Stored) -> int:
    return int(one.message.title[1:7])


def _directory(uri: str, number: int) -> Stored:
    word = f"c{number:06}zq"
    return Stored(
        uri,
        Context(uri=uri, kind=1, title=word, abstract=f"about {word}", overview=f"all of {word}", tags={word: word}),
    )


def _file(uri: str, number: int, choose: random.Random) -> Stored:
    word = f"c{number:06}zq"
    vector = context_pb2.Vector(packed=cosine(choose.uniform(-1, 1)).tobytes())
    return Stored(
        uri,
        Context(
            uri=uri,
            kind=2,
            title=word,
            abstract=f"short {word}",
            content=f"text of {word} manual",
            tags={"word": word, word: "x"},
            vectors=[context_pb2.LevelVector(level=context_pb2.LEVEL_DETAIL, vector=vector)],
        ),
    )


def tokens(encoded: bytes) -> set[bytes]:
    """Return all tokens in some bytes."""
    return set(TOKEN.findall(encoded))


def known_to(identity: Identity, contexts: Iterable[Context]) -> set[bytes]:
    """Return the tokens that a caller may be told, of the contexts of its account."""
    known: set[bytes] = set()
    for context in contexts:
        if not may_see(identity, context.uri):
            continue
        shown = Context()
        shown.CopyFrom(context)
        del shown.relations[:]
        known |= tokens(shown.SerializeToString())
        for relation in context.relations:
            if may_see(identity, relation.uri):
                known |= tokens(relation.SerializeToString())
    return known
