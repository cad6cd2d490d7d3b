"""The URI parser: every row of the rules, and what holds for any text."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import NOW_US, identities, names, uri_texts
from viking_rpc.domain.context import ContextType, Level
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.uri import (
    MAX_NAME_BYTES,
    MAX_URI_BYTES,
    ParsedUri,
    Uri,
    check_uri,
    display_uri,
    is_id,
    parse_uri,
    safe_name,
    unique_names,
)
from viking_rpc.errors import InvalidArgumentError, Violation

ALICE = Identity(account="acme", user="alice")
ROOT = Identity(account="acme", user="", role=Role.ROOT)
NEW_YEAR_US = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000
DOCUMENT = "viking://resources/\u4e2d\u6587 \u6587\u6863/\u8bf4\u660e.md"


def reason_of(text: str, identity: Identity = ALICE) -> str:
    found = check_uri(text, identity, NEW_YEAR_US, "uri")
    assert isinstance(found, Violation), found
    assert found.field == "uri"
    assert found.description
    return found.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("viking://", "viking://"),
        ("viking:///", "viking://"),
        (" viking://resources/a ", "viking://resources/a"),
        ("viking://resources//a///b/", "viking://resources/a/b"),
        ("viking://~", "viking://user/alice"),
        ("viking://~/", "viking://user/alice"),
        ("viking://~/memories/x.md", "viking://user/alice/memories/x.md"),
        ("viking://~//memories//x", "viking://user/alice/memories/x"),
        ("viking://user/memories/x", "viking://user/alice/memories/x"),
        ("viking://user/resources", "viking://user/alice/resources"),
        ("viking://user/skills/s", "viking://user/alice/skills/s"),
        ("viking://user/peers/p/memories", "viking://user/alice/peers/p/memories"),
        ("viking://user/sessions", "viking://user/alice/sessions"),
        ("viking://user/privacy/x", "viking://user/alice/privacy/x"),
        ("viking://user/memoriesx", "viking://user/memoriesx"),
        ("viking://session/s1/history/a", "viking://user/alice/sessions/s1/history/a"),
        ("viking://session", "viking://user/alice/sessions"),
        ("viking://user", "viking://user"),
        ("viking://user/bob/memories", "viking://user/bob/memories"),
        ("viking://user/a.b-c_d@e", "viking://user/a.b-c_d@e"),
        (DOCUMENT, DOCUMENT),
        ("viking://resources/a b.md", "viking://resources/a b.md"),
        ("viking://resources/%E4%B8%AD", "viking://resources/%E4%B8%AD"),
        ("viking://resources/~/x", "viking://resources/~/x"),
        ("viking://resources/A/a", "viking://resources/A/a"),
        ("viking://resources/e\u0301", "viking://resources/\u00e9"),
        ("viking://resources/...", "viking://resources/..."),
        ("viking://resources/a:b", "viking://resources/a:b"),
        ("viking://resources/ a", "viking://resources/ a"),
        ("viking://resources/{calendar:today}", "viking://resources/2026/01/01"),
        ("viking://resources/{calendar:yesterday}/x", "viking://resources/2025/12/31/x"),
        ("viking://resources/{calendar:yq}", "viking://resources/2026/Q1"),
        ("viking://resources/w{calendar:week}", "viking://resources/w01"),
        ("viking://resources/{calendar: today}", "viking://resources/{calendar: today}"),
        ("viking://resources/{calendar}", "viking://resources/{calendar}"),
    ],
)
def test_accepted_forms(text: str, expected: str) -> None:
    assert str(parse_uri(text, ALICE, NEW_YEAR_US).uri) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "/",
        "resources/a",
        "/resources/a",
        "VIKING://resources/a",
        "Viking://resources/a",
        "viking:/resources",
        "viking:resources",
        "http://x",
        "viking://Resources/a",
        "viking://resourcesx",
        "viking://temp/x",
        "viking://queue",
        "viking://upload/x",
        "viking://memories/x",
        "viking://~x/memories",
        "viking://user/~/memories",
        "viking://user/al ice",
        "viking://user/alice /memories",
        "viking://user/../bob",
        "viking://user/./bob",
        "viking://resources/..",
        "viking://../resources",
        "viking://user/alice/peers/a@b@c",
        "viking://user/alice/peers/a b/memories",
        "viking://user/peers/\u00e9",
        "viking://user/a@b@c",
        "viking://user/al%69ce",
        "viking://resources/a?v=2",
        "viking://resources/a#f",
        "viking://resources/a\x00",
        "viking://resources/a\nb",
        "viking://resources/a\x7fb",
        "viking://resources/a\x9fb",
        "viking://resources/a\\b",
        "viking://resources/a\ud800",
        "viking://resources/\udc00\ud800",
        "viking://resources/a /",
        "viking://resources/a /b",
        "viking://resources/a/.abstract.md/.overview.md",
        "viking://resources/.abstract.md/b",
    ],
)
def test_refused_forms(text: str) -> None:
    assert reason_of(text) == "INVALID_URI"


@pytest.mark.parametrize(
    "text",
    ["viking://~", "viking://~/memories", "viking://user/memories/x", "viking://session/s1", "viking://user/privacy"],
)
def test_root_has_no_me(text: str) -> None:
    found = check_uri(text, ROOT, NEW_YEAR_US, "uri")
    assert isinstance(found, Violation)
    assert found.reason == "INVALID_URI"
    assert "viking://user/<id>" in found.description
    assert reason_of(text, Identity(user="ignored", role=Role.ROOT)) == "INVALID_URI"
    assert reason_of(text, Identity(user="")) == "INVALID_URI"


def test_a_user_named_like_a_short_form_means_the_own_root_by_it() -> None:
    memories = Identity(user="memories")
    assert str(parse_uri("viking://user/memories/x", memories, 0).uri) == "viking://user/memories/x"
    assert str(parse_uri("viking://user/skills/x", memories, 0).uri) == "viking://user/memories/skills/x"
    assert str(parse_uri("viking://~/memories", memories, 0).uri) == "viking://user/memories/memories"


@pytest.mark.parametrize("variable", ["{calendar:nope}", "{foo:bar}", "{Calendar:today}", "{a{calendar:year}:b}"])
def test_unknown_variables_are_an_invalid_argument(variable: str) -> None:
    assert reason_of(f"viking://resources/{variable}/x") == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("text", "uri", "level"),
    [
        ("viking://resources/a/.abstract.md", "viking://resources/a", Level.ABSTRACT),
        ("viking://resources/a//.overview.md/", "viking://resources/a", Level.OVERVIEW),
        ("viking://resources/a", "viking://resources/a", None),
        ("viking://~/.abstract.md", "viking://user/alice", Level.ABSTRACT),
        ("viking://user/.overview.md", "viking://user", Level.OVERVIEW),
        ("viking:///.abstract.md", "viking://", Level.ABSTRACT),
        ("viking://resources/a.abstract.md", "viking://resources/a.abstract.md", None),
    ],
)
def test_display_suffixes_name_a_level(text: str, uri: str, level: Level | None) -> None:
    parsed = parse_uri(text, ALICE, 0)
    assert (str(parsed.uri), parsed.level) == (uri, level)


def test_raising_form_carries_the_violation_with_its_field() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_uri("http://x", ALICE, 0, "scope.target_uris[3]")
    assert caught.value.reason == "INVALID_URI"
    assert [v.field for v in caught.value.violations] == ["scope.target_uris[3]"]


def test_length_is_that_of_the_canonical_form() -> None:
    head = "viking://resources/"
    longest = head + "\u4e2d" * ((MAX_URI_BYTES - len(head)) // 3)
    assert str(parse_uri(longest + "/" * 5000, ALICE, 0).uri) == longest
    assert parse_uri(longest + "/.abstract.md", ALICE, 0) == ParsedUri(Uri.from_canonical(longest), Level.ABSTRACT)
    assert reason_of(longest + "\u4e2d") == "INVALID_URI"
    exact = "viking://user/" + "a" * (MAX_URI_BYTES - len("viking://user/"))
    assert str(parse_uri(exact, ALICE, 0).uri) == exact
    assert reason_of("viking://~/" + "a" * (MAX_URI_BYTES - len("viking://~/"))) == "INVALID_URI"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("viking://user/bob/memories", ContextType.MEMORY),
        ("viking://user/bob/memories/a/b.md", ContextType.MEMORY),
        ("viking://user/bob/peers/p/memories/x", ContextType.MEMORY),
        ("viking://user/bob/peers/p/skills/x", ContextType.RESOURCE),
        ("viking://user/bob/skills/x", ContextType.SKILL),
        ("viking://agent/skills", ContextType.SKILL),
        ("viking://agent/memories", ContextType.RESOURCE),
        ("viking://resources/memories", ContextType.RESOURCE),
        ("viking://user/bob/resources/memories", ContextType.RESOURCE),
        ("viking://user/bob/sessions/s1", ContextType.RESOURCE),
        ("viking://user/bob", ContextType.RESOURCE),
        ("viking://", ContextType.RESOURCE),
    ],
)
def test_type_follows_the_position(text: str, expected: ContextType) -> None:
    assert Uri.from_canonical(text).type is expected


def test_parts_of_a_uri() -> None:
    uri = Uri.from_canonical("viking://resources/a/b")
    assert (uri.scope, uri.name, str(uri.parent), uri.is_root) == ("resources", "b", "viking://resources/a", False)
    assert [str(a) for a in uri.ancestors()] == ["viking://", "viking://resources", "viking://resources/a"]
    assert uri == uri.parent.child("b")
    root = Uri()
    assert (root.scope, root.name, root.parent, root.is_root, root.ancestors()) == ("", "", root, True, ())


def test_is_under_compares_whole_segments() -> None:
    foo = Uri(("resources", "foo"))
    assert foo.is_under(foo)
    assert foo.child("x").is_under(foo)
    assert foo.is_under(Uri())
    assert not Uri(("resources", "foo2")).is_under(foo)
    assert not foo.is_under(foo.child("x"))


@pytest.mark.parametrize("text", ["a", "A.b-c_d@e", "...", "@"])
def test_ids(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize("text", ["", ".", "..", "a@b@c", "a b", "a/b", "\u00e9", "a\n", "~"])
def test_no_ids(text: str) -> None:
    assert not is_id(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a b.md", "a b.md"),
        (" a", " a"),
        ("a:b.md", "a:b.md"),
        ("\u4e2d\u6587", "\u4e2d\u6587"),
        ("e\u0301", "\u00e9"),
        ("a?b#c\\d/e\x00f", "a_b_c_d_e_f"),
        ("a\udcff", "a_"),
        ("a  ", "a__"),
        ("a \t", "a _"),
        ("", "_"),
        (".", "_"),
        ("..", "__"),
        (".abstract.md", "_abstract.md"),
        ("{foo:bar}.md", "_foo:bar_.md"),
        ("{calendar:today}", "_calendar:today_"),
        ("{calendar: today}", "{calendar: today}"),
    ],
)
def test_safe_name(name: str, expected: str) -> None:
    assert safe_name(name) == expected


@pytest.mark.parametrize(
    ("given_names", "expected"),
    [
        (["a.md", "b.md"], ("a.md", "b.md")),
        (["a?b.md", "a_b.md", "a#b.md"], ("a_b-2.md", "a_b.md", "a_b-3.md")),
        (["a?b", "a#b", "a_b-2"], ("a_b", "a_b-3", "a_b-2")),
        (["Intro", "Intro", "Intro"], ("Intro", "Intro-2", "Intro-3")),
        (["v1.2", "v1.2"], ("v1.2", "v1.2-2")),
        ([".md", ".md"], (".md", ".md-2")),
        (["a", "A"], ("a", "A")),
        (["e\u0301", "\u00e9"], ("\u00e9-2", "\u00e9")),
    ],
)
def test_unique_names(given_names: list[str], expected: tuple[str, ...]) -> None:
    assert unique_names(given_names) == expected


@given(uri_texts(), identities(), NOW_US)
@example("viking://resources/a{calendar:{calendar:year}}", ALICE, NEW_YEAR_US)
@example("viking://resources/{wee\u212a:x}", ALICE, NEW_YEAR_US)
@example("viking://resources/a /.abstract.md", ALICE, NEW_YEAR_US)
def test_a_canonical_uri_parses_to_itself(text: str, identity: Identity, now_us: int) -> None:
    parsed = check_uri(text, identity, now_us)
    if isinstance(parsed, Violation):
        assert parsed.reason in {"INVALID_URI", "INVALID_ARGUMENT"}
        return
    canonical = str(parsed.uri)
    assert check_uri(canonical, identity, now_us + 10**12) == ParsedUri(parsed.uri)
    assert Uri.from_canonical(canonical) == parsed.uri
    assert unicodedata.is_normalized("NFC", canonical)
    assert all(segment not in {"", ".", ".."} and "/" not in segment for segment in parsed.uri.segments)


@given(uri_texts(), identities(), st.sampled_from(Level))
def test_a_display_uri_parses_back(text: str, identity: Identity, level: Level) -> None:
    parsed = check_uri(text, identity, 0)
    if isinstance(parsed, Violation):
        return
    shown = display_uri(parsed.uri, level)
    assert display_uri(shown, level) == shown
    assert display_uri(shown, Level.DETAIL) == str(parsed.uri)
    assert check_uri(shown, identity, 0) == ParsedUri(parsed.uri, None if level is Level.DETAIL else level)


@given(names())
def test_a_safe_name_is_one_valid_segment(name: str) -> None:
    safe = safe_name(name)
    directory = Uri(("resources", "x"))
    assert parse_uri(str(directory.child(safe)), ALICE, 0).uri == directory.child(safe)
    assert safe_name(safe) == safe
    assert len(safe.encode()) <= MAX_NAME_BYTES


@given(st.lists(names(), max_size=12))
@example(["a_b.md", "a?b.md", "a_b-2.md", "a#b.md"])
def test_unique_names_are_distinct_and_valid(given_names: list[str]) -> None:
    unique = unique_names(given_names)
    assert len(set(unique)) == len(given_names) == len(unique)
    directory = Uri(("resources", "x"))
    for name, made in zip(given_names, unique, strict=True):
        assert parse_uri(str(directory.child(made)), ALICE, 0).uri == directory.child(made)
        if given_names.count(name) == 1 and safe_name(name) == name:
            assert made == name
