"""Hypothesis strategies that several test modules share, grouped by layer."""

from __future__ import annotations

from hypothesis import strategies as st

from viking_rpc.domain.identity import Identity, Role

# --- domain: URIs, identities, times ---------------------------------------------------------------------------------

#: Words that mean something somewhere in a URI, near misses of them, and bytes that tend to slip through parsers.
# fmt: off
URI_WORDS = [
    "resources", "user", "agent", "session", "sessions", "~", "memories", "skills", "peers", "privacy",
    "alice", "bob", "ALICE", "Alice", "p", "q", "me", "acme", ".", "..", "...", "~x", "~alice", "%2e%2e",
    "%2F", ".abstract.md", ".overview.md", "temp", "a", "b", "a@b", "a@b@c", "*", "{calendar:today}",
    "{calendar:yw}", "{calendar:nope}", "{foo:bar}", "{calendar:{calendar:year}}", "{a{calendar:day}:b}", "{",
    "}", "{calendar: today}",
]
UNUSUAL = ["", " ", "\t", "\x00", "\x85", "\u3000", "\u00e9", "e\u0301", "\u212a", "\u0301", "\u4e2d\u6587", "\ud800"]

PLAIN_WORDS = [
    "memories", "skills", "sessions", "peers", "alice", "bob", "p", "q",
    "me", "a", "A", "b", "{calendar:today}", ".", "~", "", "e\u0301",
]
# fmt: on

#: 2000-01-01 to 2099-12-31, microseconds.
NOW_US = st.integers(946_684_800_000_000, 4_102_444_799_999_999)


def identities() -> st.SearchStrategy[Identity]:
    """Return callers of every role; user alice (or one with an awkward id), with and without a peer."""
    return st.one_of(
        st.builds(
            Identity,
            account=st.sampled_from(["acme", "alice"]),
            user=st.sampled_from(["alice", "memories", "a.b@c"]),
            role=st.sampled_from([Role.USER, Role.ADMIN]),
            peer=st.sampled_from(["", "p"]),
        ),
        st.just(Identity(account="acme", user="", role=Role.ROOT)),
    )


def uri_texts() -> st.SearchStrategy[str]:
    """Return texts that are, or nearly are, URIs: two of three plausible, one of odd words, letters, separators."""
    heads = st.sampled_from(["viking://", "viking:///", " viking://"])
    tops = st.sampled_from(
        [
            "resources",
            "agent",
            "~",
            "session",
            "user",
            "user/alice",
            "user/bob",
            "~/peers",
            "user/alice//peers",
            "user/peers",
        ]
    )
    tails = st.sampled_from(["", "", "/", " ", "/.abstract.md", "/.overview.md/"])
    plain = st.sampled_from(PLAIN_WORDS)
    plausible = st.builds(
        lambda head, top, segments, tail: "/".join([head + top, *segments]) + tail,
        heads,
        tops,
        st.lists(plain, max_size=4),
        tails,
    )
    words = st.one_of(st.sampled_from(URI_WORDS), st.sampled_from(UNUSUAL), st.text(max_size=4))
    wild = st.builds(
        lambda head, segments, separator, tail: head + separator.join(segments) + tail,
        st.one_of(heads, st.sampled_from(["viking://", "Viking://", "", "/", "viking:/"])),
        st.lists(st.one_of(words, st.tuples(words, words).map("".join)), max_size=6),
        st.sampled_from(["/", "/", "/", "//", "\\", "/./", "/../"]),
        st.one_of(tails, st.sampled_from(["?a", "#b"])),
    )
    return st.one_of(plausible, plausible, wild)


def names() -> st.SearchStrategy[str]:
    """Return names of files and headings, awkward ones included."""
    awkward = st.sampled_from([*URI_WORDS, *UNUSUAL, "a/b", "a?b.md", "a_b.md", "a_b-2.md", "a_b-3.md", "x" * 300])
    return st.one_of(awkward, st.text(max_size=12), st.tuples(awkward, awkward).map("".join))
