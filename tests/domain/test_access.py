"""Who may see what, and which roots a search has: the whole table, and that no text leads out of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import NOW_US, identities, uri_texts
from viking_rpc.domain.access import (
    can_traverse,
    check_read,
    check_targets,
    check_traverse,
    check_write,
    default_roots,
    may_read,
    may_write,
    readable_roots,
    resolve_roots,
)
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.identity import LOCAL, Identity, Role
from viking_rpc.domain.subtrees import SearchScope, SubtreePattern
from viking_rpc.domain.uri import Uri, check_uri
from viking_rpc.errors import InvalidArgumentError, PermissionDeniedError, Violation

ALICE = Identity(account="acme", user="alice")
WITH_PEER = Identity(account="acme", user="alice", peer="p")
ADMIN = Identity(account="acme", user="alice", role=Role.ADMIN)
ROOT = Identity(account="acme", user="", role=Role.ROOT)
ANY: frozenset[ContextType] = frozenset()
MEMORY, RESOURCE, SKILL = (frozenset({t}) for t in (ContextType.MEMORY, ContextType.RESOURCE, ContextType.SKILL))
OWN_SESSIONS = SubtreePattern(("user", "alice", "sessions"))
NARROWED = "U/memories U/resources U/skills U/peers/p/memories U/peers/p/resources"


def uri(text: str) -> Uri:
    """Read `U/memories` and `resources/a`; `/` is the root."""
    return Uri.from_canonical("viking://" + text.removeprefix("/").replace("U", "user/alice"))


def uris(text: str) -> tuple[Uri, ...]:
    return tuple(uri(part) for part in text.split())


def resolve(targets: str, identity: Identity, types: frozenset[ContextType] = ANY) -> SearchScope:
    return resolve_roots([str(u) for u in uris(targets)], types, identity, 0)


@pytest.mark.parametrize(
    ("types", "identity", "expected"),
    [
        (ANY, ALICE, "U resources"),
        (ANY, ADMIN, "U resources"),
        (ANY, WITH_PEER, f"resources {NARROWED}"),
        (ANY, ROOT, "/"),
        (MEMORY, ALICE, "U"),
        (MEMORY, WITH_PEER, "U/memories U/peers/p/memories"),
        (MEMORY, ROOT, "/"),
        (RESOURCE, ALICE, "resources U"),
        (RESOURCE, WITH_PEER, "resources U/resources U/peers/p/resources"),
        (RESOURCE, ROOT, "/"),
        (SKILL, ALICE, "U/skills agent/skills"),
        (SKILL, WITH_PEER, "U/skills agent/skills"),
        (SKILL, ROOT, "/"),
    ],
)
def test_default_roots(types: frozenset[ContextType], identity: Identity, expected: str) -> None:
    assert default_roots(identity, types) == uris(expected)
    for targets in ([], [""], ["/"], ["viking://"], ["viking:///"], [" "], ["", "/"]):
        assert resolve_roots(targets, types, identity, 0).roots == uris(expected)


def test_several_types_share_their_rows() -> None:
    assert resolve_roots([], MEMORY | SKILL, ALICE, 0).roots == uris("U agent/skills")
    assert resolve_roots([], MEMORY | RESOURCE | SKILL, ALICE, 0).roots == uris("resources U agent/skills")
    expected = "resources U/resources U/peers/p/resources U/memories U/peers/p/memories"
    assert resolve_roots([], MEMORY | RESOURCE, WITH_PEER, 0).roots == uris(expected)


@pytest.mark.parametrize(
    ("targets", "identity", "expected"),
    [
        ("user", ALICE, "U"),
        ("U", ALICE, "U"),
        ("U/peers", ALICE, "U/peers"),
        ("U/peers/q", ALICE, "U/peers/q"),
        ("U/peers/q/other", ALICE, "U/peers/q/other"),
        ("user", WITH_PEER, NARROWED),
        ("U", WITH_PEER, NARROWED),
        ("U/peers", WITH_PEER, "U/peers/p/memories U/peers/p/resources"),
        ("U/peers/p", WITH_PEER, "U/peers/p/memories U/peers/p/resources"),
        ("U/peers/p/memories/a", WITH_PEER, "U/peers/p/memories/a"),
        ("U/privacy", WITH_PEER, "U/privacy"),
        ("user", ROOT, "user"),
        ("user/bob/peers/q/other", ROOT, "user/bob/peers/q/other"),
        ("agent", ALICE, "agent"),
        ("resources/a / resources/b", ALICE, "U resources"),
        ("resources/b resources/a resources/b", ALICE, "resources/b resources/a"),
        ("resources/a/b resources/a resources/a/c", ALICE, "resources/a"),
        ("resources/a resources/a2", ALICE, "resources/a resources/a2"),
        ("U/memories user", ALICE, "U"),
        ("U/memories/x /", WITH_PEER, f"resources {NARROWED}"),
    ],
)
def test_targets(targets: str, identity: Identity, expected: str) -> None:
    assert resolve(targets, identity).roots == uris(expected)


def test_targets_take_every_form_of_a_uri() -> None:
    targets = ["viking://~/memories/.abstract.md", "viking://session/s1", "viking://resources/{calendar:year}"]
    assert resolve_roots(targets, ANY, ALICE, 0).roots == uris("U/memories U/sessions/s1 resources/1970")


@pytest.mark.parametrize(
    ("targets", "identity"),
    [
        ("user/bob", ALICE),
        ("user/bob/memories", ADMIN),
        ("user/Alice", ALICE),
        ("user/alice2", ALICE),
        ("U/peers/q", WITH_PEER),
        ("U/peers/q/memories", WITH_PEER),
        ("U/peers/q/else", WITH_PEER),
        ("resources user/bob", ALICE),
    ],
)
def test_targets_of_others_are_refused(targets: str, identity: Identity) -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        resolve(targets, identity)
    assert caught.value.reason == "PERMISSION_DENIED"
    assert [v.field for v in caught.value.violations] == [f"scope.target_uris[{len(uris(targets)) - 1}]"]


def test_a_part_of_a_peer_that_is_not_searched_is_invalid() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        resolve("U/peers/p/sessions", WITH_PEER)
    assert caught.value.reason == "INVALID_ARGUMENT"


def test_all_that_is_wrong_is_told_and_comes_before_what_is_forbidden() -> None:
    targets = ["viking://user/bob", "http://x", "viking://resources", "viking://user/alice/peers/p/x", "viking://tmp"]
    with pytest.raises(InvalidArgumentError) as caught:
        resolve_roots(targets, ANY, WITH_PEER, 0, "targets")
    assert [v.field for v in caught.value.violations] == ["targets[1]", "targets[3]", "targets[4]"]
    with pytest.raises(PermissionDeniedError) as denied:
        resolve_roots(["viking://user/bob", "viking://resources", "viking://user/eve"], ANY, ALICE, 0, "targets")
    assert [v.field for v in denied.value.violations] == ["targets[0]", "targets[2]"]


@pytest.mark.parametrize(
    ("targets", "identity", "roots", "excluded"),
    [
        ("", ALICE, "U resources", OWN_SESSIONS),
        ("U", ALICE, "U", OWN_SESSIONS),
        ("U/sessions", ALICE, "U/sessions", None),
        ("U/sessions/s1/a", ALICE, "U/sessions/s1/a", None),
        ("U U/sessions/s1", ALICE, "U U/sessions/s1", OWN_SESSIONS),
        ("U/sessions/s1 U/sessions", ALICE, "U/sessions", None),
        ("resources", ALICE, "resources", None),
        ("", WITH_PEER, f"resources {NARROWED}", None),
        ("", ROOT, "/", SubtreePattern(("user", "*", "sessions"))),
        ("user", ROOT, "user", SubtreePattern(("user", "*", "sessions"))),
        ("user/bob", ROOT, "user/bob", SubtreePattern(("user", "*", "sessions"))),
        ("user/bob/sessions", ROOT, "user/bob/sessions", None),
        ("/ user/bob/sessions/s1", ROOT, "/ user/bob/sessions/s1", SubtreePattern(("user", "*", "sessions"))),
    ],
)
def test_sessions_are_searched_only_when_named(
    targets: str, identity: Identity, roots: str, excluded: SubtreePattern | None
) -> None:
    assert resolve(targets, identity) == SearchScope(uris(roots), (excluded,) if excluded else ())


def test_a_scope_holds_its_roots_without_what_is_excluded_below_them() -> None:
    scope = resolve("U U/sessions/s1", ALICE)
    assert [scope.contains(u) for u in uris("U U/memories U/sessions U/sessions/s1 U/sessions/s1/a U/sessions/s2")] == [
        *(True, True, False, True, True, False)
    ]
    everything = resolve("/ user/bob/sessions/s1", ROOT)
    inside = uris("/ resources user/bob user/bob/sessions/s1/a user/bob/x/sessions resources/x/sessions")
    outside = uris("U/sessions user/bob/sessions user/bob/sessions/s2 user/bob/sessions/s10")
    assert all(everything.contains(u) for u in inside)
    assert not any(everything.contains(u) for u in outside)


@pytest.mark.parametrize(
    ("identity", "yes", "no"),
    [
        (ALICE, "resources resources/a agent agent/x U U/peers/q/x U/sessions/s", "/ user user/bob user/bob/x user/al"),
        (ADMIN, "resources agent U/x", "/ user user/bob"),
        (
            WITH_PEER,
            "resources agent U U/x U/sessions U/peers/p U/peers/p/else",
            "/ user user/bob U/peers U/peers/q U/peers/p2",
        ),
        (ROOT, "/ user user/bob/x resources agent", ""),
        (LOCAL, "resources user/default/x", "U"),
    ],
)
def test_reading(identity: Identity, yes: str, no: str) -> None:
    for u in uris(yes):
        check_read(identity, u)
        assert can_traverse(identity, u)
    for u in uris(no):
        assert not may_read(identity, u)
        with pytest.raises(PermissionDeniedError):
            check_read(identity, u)


@pytest.mark.parametrize(
    ("identity", "yes", "no"),
    [
        (ALICE, "U U/x", "resources agent/x user/bob user /"),
        (WITH_PEER, "U U/x U/peers/p/x", "U/peers U/peers/q/x resources"),
        (ADMIN, "U resources agent/x", "user/bob user /"),
        (ROOT, "resources user/bob/x agent", ""),
        (LOCAL, "resources agent user/default", "U"),
    ],
)
def test_writing(identity: Identity, yes: str, no: str) -> None:
    for u in uris(yes):
        check_write(identity, u)
    for u in uris(no):
        assert not may_write(identity, u)
        with pytest.raises(PermissionDeniedError):
            check_write(identity, u)


def test_a_recursive_change_does_not_reach_unseen_peers() -> None:
    assert may_write(ALICE, uri("U"), recursive=True)
    assert may_write(WITH_PEER, uri("U/memories"), recursive=True)
    assert may_write(WITH_PEER, uri("U/peers/p"), recursive=True)
    assert may_write(WITH_PEER, uri("U"))
    with pytest.raises(PermissionDeniedError, match="sees no other peer"):
        check_write(WITH_PEER, uri("U"), recursive=True)


def test_listing_shows_only_what_may_be_seen() -> None:
    def listed(identity: Identity, children: str) -> str:
        return " ".join(c for c in children.split() if can_traverse(identity, uri(c)))

    for identity in (ALICE, ADMIN, WITH_PEER):
        assert can_traverse(identity, uri("/"))
        assert listed(identity, "resources user agent") == "resources user agent"
        assert listed(identity, "user/bob U user/alice2") == "U"
    assert listed(WITH_PEER, "U/memories U/peers") == "U/memories U/peers"
    assert listed(WITH_PEER, "U/peers/p U/peers/q") == "U/peers/p"
    assert listed(ALICE, "U/peers/p U/peers/q") == "U/peers/p U/peers/q"
    assert listed(ROOT, "user/bob U") == "user/bob U"
    check_traverse(WITH_PEER, uri("U/peers"))
    with pytest.raises(PermissionDeniedError, match="may not list viking://user/bob"):
        check_traverse(ALICE, uri("user/bob"))


@pytest.mark.parametrize(
    ("identity", "target", "hint"),
    [
        (ALICE, "user/acme/memories", "'acme' is the account, not the user; your own root is viking://user/alice"),
        (ALICE, "user/bob", "belongs to another user"),
        (WITH_PEER, "U/peers/q", "peer 'p'"),
        (ALICE, "user", "only its children"),
    ],
)
def test_a_refusal_says_what_to_do(identity: Identity, target: str, hint: str) -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        check_read(identity, uri(target), "uris[2]")
    assert caught.value.metadata == {"user": "alice", "account": "acme", "role": "user"}
    (violation,) = caught.value.violations
    assert violation.field == "uris[2]"
    assert hint in violation.description


def test_a_refused_change_of_the_shared_scopes_names_the_roles() -> None:
    with pytest.raises(PermissionDeniedError, match="admin"):
        check_write(ALICE, uri("resources/a"))


def allowed(identity: Identity, segments: tuple[str, ...]) -> bool:
    """Say once more, in the plainest way, what a caller may read."""
    if identity.role is Role.ROOT:
        return True
    if segments[:1] in (("resources",), ("agent",)):
        return True
    if segments[:2] != ("user", identity.user):
        return False
    return not identity.peer or segments[2:3] != ("peers",) or segments[3:4] == (identity.peer,)


@given(uri_texts(), identities(), NOW_US)
@example("viking://~/../bob", ALICE, 0)
@example("viking://session/../../bob", ALICE, 0)
@example("viking://user//bob", ALICE, 0)
@example("viking://~/peers//q", WITH_PEER, 0)
def test_reading_agrees_with_the_plain_rule(text: str, identity: Identity, now_us: int) -> None:
    parsed = check_uri(text, identity, now_us)
    if not isinstance(parsed, Violation):
        assert may_read(identity, parsed.uri) is allowed(identity, parsed.uri.segments)


@given(st.lists(uri_texts(), max_size=4), identities(), st.frozensets(st.sampled_from(ContextType)), NOW_US)
@example(["viking://user", "viking://~"], WITH_PEER, ANY, 0)
def test_no_target_leads_out_of_what_is_readable(
    targets: list[str], identity: Identity, types: frozenset[ContextType], now_us: int
) -> None:
    try:
        scope = resolve_roots(targets, types, identity, now_us)
    except (InvalidArgumentError, PermissionDeniedError) as error:
        assert error.violations
        return
    assert scope.roots
    readable = readable_roots(identity)
    for root in scope.roots:
        assert readable.contains_subtree(root)
        assert allowed(identity, root.segments)
        # Each root is searched, and nothing is searched twice.
        assert [other for other in scope.roots if SearchScope((other,), scope.excluded).contains(root)] == [root]


@given(identities(), uri_texts())
def test_whoever_sees_a_child_can_walk_down_to_it(identity: Identity, text: str) -> None:
    parsed = check_uri(text, identity, 0)
    if not isinstance(parsed, Violation) and may_read(identity, parsed.uri):
        assert all(can_traverse(identity, above) for above in parsed.uri.ancestors())


@given(st.lists(uri_texts(), max_size=5), identities())
def test_every_target_is_accepted_or_told(targets: list[str], identity: Identity) -> None:
    found, violations = check_targets(targets, identity, 0, "t")
    assert len(found) + len(violations) == len(targets)
    positions = [int(v.field[2:-1]) for v in violations]
    assert all(a < b for a, b in pairwise(positions))
