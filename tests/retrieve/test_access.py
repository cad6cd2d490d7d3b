"""Nothing that a caller may not read is told in any part of an answer."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.trees import make_world
from tests.oracle.model import Context, Path, Row, World
from tests.retrieve.worlds import grow, run, uri_text
from tests.strategies import identities, uri_texts
from viking_rpc.domain.access import readable_roots
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.query import Filter, Mode, Profile, RetrieveOptions, Scope, TraceLevel
from viking_rpc.domain.uri import Uri
from viking_rpc.errors import InvalidArgumentError, NotFoundError, PermissionDeniedError

if TYPE_CHECKING:
    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.index.snapshot import Snapshot

ALICE = Identity(user="alice")
_TOPS: list[Path] = [
    ("resources",),
    ("agent", "skills"),
    *(
        ("user", user, *part)
        for user in ("alice", "bob", "memories", "a.b@c")
        for part in [
            (),
            ("memories",),
            ("skills",),
            ("sessions", "s1"),
            ("privacy",),
            ("peers",),
            ("peers", "p", "memories"),
            ("peers", "p", "notes"),
            ("peers", "q", "memories"),
        ]
    ),
]


def make_users() -> World:
    """Make users with memories, sessions and peers; every directory on the way has rows too."""
    best = Context(is_directory=True, rows=(Row(0, (1.0, 0.0, 0.0, 0.0, 0.0)),))
    world: World = {(): Context(is_directory=True)}
    for seed, top in enumerate(_TOPS):
        for length in range(1, len(top) + 1):
            world.setdefault(top[:length], best)
        below = make_world(seed, 8, is_alive=True)
        for path, context in below.items():
            if path:
                world[*top, *path] = Context(context.is_directory, context.rows, context.type or 1)
    return world


@lru_cache(maxsize=2)
def account(seed: int) -> Snapshot:
    """Lay the users out, all of them at once or in steps."""
    return grow(seed, make_users())


def told(result: RetrieveResult) -> set[str]:
    """Return every URI that an answer names."""
    uris = {step.uri for step in result.steps} | set(result.searched_roots)
    uris |= {child.uri for step in result.steps for child in step.child_scores}
    for match in result.matches:
        uris |= {match.context.uri, *(above.uri for above in match.ancestors)}
    return uris


def is_session(uri: str) -> bool:
    segments = Uri.from_canonical(uri).segments
    return segments[:1] == ("user",) and segments[2:3] == ("sessions",)


_settings = settings(max_examples=150, derandomize=True, deadline=None, database=None)
_targets = st.lists(
    st.one_of(st.sampled_from([uri_text(top) for top in _TOPS]), st.sampled_from(["~", "/", "viking://"]), uri_texts()),
    max_size=3,
)


@_settings
@given(
    identity=identities(),
    targets=_targets,
    excluded=st.lists(st.sampled_from([uri_text(top) for top in _TOPS]), max_size=2),
    types=st.frozensets(st.sampled_from(ContextType), max_size=2),
    mode=st.sampled_from(Mode),
    profile=st.sampled_from(Profile),
    seed=st.sampled_from([0, 1]),
)
def test_an_answer_names_only_what_may_be_read(
    identity: Identity,
    targets: list[str],
    excluded: list[str],
    types: frozenset[ContextType],
    mode: Mode,
    profile: Profile,
    seed: int,
) -> None:
    try:
        result = run(
            account(seed),
            identity=identity,
            scope=Scope(tuple(targets), types),
            filter=Filter(exclude_uris=tuple(excluded)),
            mode=mode,
            options=RetrieveOptions(profile=profile, score_threshold=-2.0),
            trace_level=TraceLevel.SCORES,
            limit=500,
        ).result
    except (InvalidArgumentError, PermissionDeniedError, NotFoundError):
        return
    allowed = readable_roots(identity)
    uris = told(result) - {"viking://"}
    assert [uri for uri in uris if not allowed.contains(Uri.from_canonical(uri))] == []
    if "viking://" in told(result):
        assert identity.role is Role.ROOT
    named = [root for root in result.searched_roots if is_session(root)]
    for uri in uris:
        if is_session(uri):
            assert any(
                Uri.from_canonical(uri).is_under(Uri.from_canonical(root)) or root.startswith(f"{uri}/")
                for root in named
            )
    for out in excluded:
        left = [match.context.uri for match in result.matches if f"{match.context.uri}/".startswith(f"{out}/")]
        assert left == []


@pytest.mark.parametrize("mode", list(Mode))
def test_sessions_are_found_only_when_they_are_named(mode: Mode) -> None:
    """Row 33."""
    snapshot = account(0)
    options = {"mode": mode, "limit": 500, "options": RetrieveOptions(score_threshold=-2.0), "identity": ALICE}
    default = {match.context.uri for match in run(snapshot, **options).result.matches}
    assert default
    assert not any(map(is_session, default))
    mine = "viking://user/alice/sessions"
    for target in (mine, f"{mine}/s1", "viking://session", "~/sessions".replace("~", "viking://~")):
        found = {match.context.uri for match in run(snapshot, scope=Scope((target,)), **options).result.matches}
        assert found
        assert all(is_session(uri) for uri in found)
    both = Scope(("viking://user/alice", f"{mine}/s1"))
    found = {match.context.uri for match in run(snapshot, scope=both, **options).result.matches}
    assert {uri for uri in found if is_session(uri)} == {
        uri
        for uri in map(snapshot.uri, range(1, snapshot.n_nodes))
        if f"{uri}/".startswith(f"{mine}/s1/") and uri in found
    }
    assert any(map(is_session, found))


@pytest.mark.parametrize("mode", list(Mode))
def test_a_peer_sees_itself_only(mode: Mode) -> None:
    snapshot = account(0)
    options = {"mode": mode, "limit": 500, "options": RetrieveOptions(score_threshold=-2.0)}
    with_peer = Identity(user="alice", peer="p")
    found = {match.context.uri for match in run(snapshot, identity=with_peer, **options).result.matches}
    peers = {uri for uri in found if "/peers/" in uri}
    assert peers
    assert all(uri.startswith("viking://user/alice/peers/p/memories") for uri in peers)
    without = {match.context.uri for match in run(snapshot, identity=ALICE, **options).result.matches}
    assert {uri.split("/")[5] for uri in without if uri.startswith("viking://user/alice/peers/")} >= {"p", "q"}
    with pytest.raises(PermissionDeniedError, match="sees no other peer"):
        run(snapshot, identity=with_peer, scope=Scope(("viking://user/alice/peers/q/memories",)))


def test_what_one_caller_was_answered_is_not_told_to_the_next() -> None:
    """Scopes, ancestors and URIs are remembered with the snapshot; by caller, where they depend on it."""
    snapshot = account(1)
    everyone = [
        ALICE,
        Identity(user="bob"),
        Identity(user="alice", peer="p"),
        Identity(user="alice", peer="q"),
        Identity(user="", role=Role.ROOT),
    ]
    options = {"limit": 500, "options": RetrieveOptions(score_threshold=-2.0), "trace_level": TraceLevel.SCORES}
    first = [run(snapshot, identity=identity, **options).result for identity in everyone]
    for _ in range(2):
        for identity, before in zip(reversed(everyone), reversed(first), strict=True):
            again = run(snapshot, identity=identity, **options).result
            assert again.matches == before.matches
            assert told(again) == told(before)
    assert len({frozenset(told(result)) for result in first}) == len(everyone)
