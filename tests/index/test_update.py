"""Random histories of writes: after every batch the snapshot is the stored tree, and answers as one laid out at once."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.store.trees import ACCOUNT, NOW, directory, file, scanned
from viking_rpc.domain.context import Kind, Level, Relation, Row
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.query import Mode, Profile, Query, RetrieveOptions, RetrieveRequest, TraceLevel
from viking_rpc.domain.uri import Uri
from viking_rpc.errors import VikingError
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.records import decode_relations
from viking_rpc.index.sketches import make_sketches
from viking_rpc.index.text import hash_terms
from viking_rpc.retrieve.retriever import Retrieval, SearchSettings
from viking_rpc.store.codec import etag_of
from viking_rpc.store.database import Delete, Move, PurgeExpired, Touch
from viking_rpc.store.store import Store, StoreSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from viking_rpc.domain.trace import Match
    from viking_rpc.index.records import NodeRecord
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.store.operations import Operation

DIM = 4
OPERATOR = Identity(user="", role=Role.ROOT)
WORDS = ("apple", "pear", "plum", "ERR-4711", "fig")
NEVER = StoreSettings(max_fresh_rows=1_000_000, max_fresh_share=1e9)


@dataclass
class Hands:
    """A clock that a test sets."""

    time_us: int = NOW

    def now_us(self) -> int:
        return self.time_us


def make_row(level: Level, choice: int) -> Row:
    """Make one of a few rows, so that equal scores are common; some without terms."""
    vector = np.zeros(DIM, np.float32)
    vector[choice % DIM] = 1.0 if choice % 3 else -1.0
    words = sorted(WORDS[i] for i in range(choice % 4))
    return Row(level, vector, np.sort(hash_terms(words)), np.ones(len(words), np.float32))


def rows_of(kind: Kind, choice: int) -> tuple[Row, ...]:
    if kind is Kind.FILE:
        return (make_row(Level.DETAIL, choice),) if choice % 5 else ()
    return (make_row(Level.ABSTRACT, choice), make_row(Level.OVERVIEW, choice + 1))[: choice % 3]


_names = st.sampled_from(["a", "b", "a-b", "a0", "\u00e9", "sessions"])
_uris = st.builds(
    lambda scope, names: "viking://" + "/".join([*scope, *names]),
    st.sampled_from([("resources",), ("user", "me")]),
    st.lists(_names, min_size=1, max_size=4),
)
_writes = st.builds(
    lambda uri, kind, choice, expires, tag: (file if kind is Kind.FILE else directory)(
        uri,
        rows=rows_of(kind, choice),
        expire_us=expires,
        tags={"t": str(tag)} if tag else {},
        title=f"title {choice}",
        relations=(Relation("viking://resources/a", f"reason {choice}"),) if choice % 4 == 1 else (),
        abstract=f"abstract {choice}",
    ),
    _uris,
    st.sampled_from([Kind.FILE, Kind.FILE, Kind.DIRECTORY]),
    st.integers(0, 7),
    st.sampled_from([0] * 6 + [NOW + 4]),
    st.integers(0, 2),
)
_operations = st.one_of(
    _writes,
    _writes,
    st.builds(Delete, _uris, st.just(value=True)),
    st.builds(Move, _uris, _uris),
    st.builds(lambda uri: Touch((uri,)), _uris),
    st.just(PurgeExpired()),
)
_histories = st.lists(st.lists(_operations, min_size=1, max_size=4), min_size=2, max_size=9)


def check(snapshot: Snapshot, stored: Mapping[str, NodeRecord], now_us: int) -> None:
    """Compare every lookup with the stored records."""
    assert snapshot.n_contexts == len(stored)
    names_below: dict[str, set[str]] = {uri: set() for uri in ["viking://", *stored]}
    for uri in stored:
        names_below[str(Uri.from_canonical(uri).parent)].add(uri)
    for uri, record in stored.items():
        node = snapshot.find(Uri.from_canonical(uri))
        assert node > 0
        assert snapshot.node_of_key(record.key) == node
        assert snapshot.uri(node) == uri
        assert (snapshot.key[node], snapshot.version[node]) == (record.key, record.version)
        assert (snapshot.titles.get(node), snapshot.abstracts.get(node)) == (record.title, record.abstract)
        assert decode_relations(snapshot.relations.get_bytes(node)) == record.relations
        tree, rows = snapshot.tree, snapshot.rows
        lo, hi = int(tree.tag_lo[node]), int(tree.tag_hi[node])
        assert snapshot.tags_between(lo, hi) == dict(record.tags)
        facts = [tree.type, tree.create_us, tree.update_us, tree.expire_us, tree.active_count]
        assert [int(column[node]) for column in facts] == [
            record.type,
            record.create_us,
            record.update_us,
            record.expire_us,
            record.active_count,
        ]
        assert bool(tree.is_directory[node]) == (record.kind is Kind.DIRECTORY)
        mine = range(int(tree.row_lo[node]), int(tree.row_hi[node]))
        assert [int(rows.level[row]) for row in mine] == [row.level for row in record.rows]
        assert all(np.array_equal(rows.vectors[i], row.vector) for i, row in zip(mine, record.rows, strict=True))
        assert all(rows.node[i] == node for i in mine)
    for uri, below in names_below.items():
        node = snapshot.find(Uri.from_canonical(uri))
        alive = [child for child in snapshot.children(node) if not snapshot.tree.is_gone[child]]
        assert sorted(map(snapshot.uri, alive)) == sorted(below)
        visible = [child for child in below if not 0 < stored[child].expire_us <= now_us]
        assert snapshot.child_count(node, now_us) == len(visible)
        assert snapshot.find(Uri.from_canonical(f"{uri.rstrip('/')}/nothing")) == -1
    sketches = snapshot.sketches
    assert len(sketches.scale) == snapshot.n_rows - sketches.first
    made = make_sketches(snapshot.rows.vectors[sketches.first :])
    assert all(np.array_equal(one, other) for one, other in zip(sketches[:-1], made, strict=True))
    by_tie = sorted(stored, key=lambda uri: snapshot.tree.tie[snapshot.find(Uri.from_canonical(uri))])
    assert by_tie == sorted(stored)


def answers(snapshot: Snapshot, now_us: int, lexical_weight: float) -> list[tuple[Match, ...]]:
    """Run one question in both modes."""
    query = Query(vector=np.array([0.6, 0.0, 0.8, 0.0], np.float32), lexical_text="plum ERR-4711")
    options = RetrieveOptions(lexical_weight=lexical_weight, convergence_rounds=0)
    found = []
    for mode in Mode:
        request = RetrieveRequest(query, limit=7, mode=mode, options=options, trace_level=TraceLevel.NONE)
        retrieval = Retrieval(snapshot, request, OPERATOR, vector=query.vector, now_us=now_us)
        while not retrieval.advance():
            pass
        found.append(retrieval.result().matches)
    return found


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(history=_histories)
@example(history=[[file("viking://resources/a/f")], [Move("viking://resources/a", "viking://resources/b/a")]])
# moved twice in one batch, and what is above it too
@example(
    history=[
        [file("viking://resources/a/b/f", rows=rows_of(Kind.FILE, 2)), file("viking://resources/a/g")],
        [
            Move("viking://resources/a/b", "viking://resources/b/b"),
            Move("viking://resources/a", "viking://resources/b/a0"),
            Move("viking://resources/b/b", "viking://resources/b/a0/b"),
            file("viking://resources/b/a0/b/f", rows=rows_of(Kind.FILE, 3)),
            Touch(("viking://resources/b/a0/g",)),
        ],
        [Move("viking://resources/b", "viking://user/me/b"), Delete("viking://user/me/b/a0/b", is_recursive=True)],
    ]
)
# the same URI three times: a base node, a fresh one in its place, and another one
@example(
    history=[
        [file("viking://resources/a", rows=rows_of(Kind.FILE, 1))],
        [Delete("viking://resources/a")],
        [file("viking://resources/a", rows=rows_of(Kind.FILE, 2))],
        [Delete("viking://resources/a")],
        [directory("viking://resources/a", rows=rows_of(Kind.DIRECTORY, 2))],
    ]
)
def test_histories(history: list[list[Operation]]) -> None:
    clock = Hands()
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder), model="m", dimensions=DIM, settings=NEVER, clock=clock) as store,
    ):
        for i, operations in enumerate(history):
            clock.time_us = NOW + i
            before = store.snapshot(ACCOUNT)
            try:
                committed = store.apply(ACCOUNT, operations)
            except VikingError:
                assert store.snapshot(ACCOUNT) is before
                continue
            snapshot, stored = store.snapshot(ACCOUNT), scanned(store.database)
            assert snapshot.revision == committed.revision == store.database.revision(ACCOUNT)
            check(snapshot, stored, clock.time_us)
            laid_out = build_snapshot(stored.values(), revision=snapshot.revision, dimensions=DIM)
            check(laid_out, stored, clock.time_us)
            assert answers(snapshot, clock.time_us, 0.0) == answers(laid_out, clock.time_us, 0.0)
            for context in committed.contexts:
                node = snapshot.find(Uri.from_canonical(context.uri))
                assert etag_of(int(snapshot.key[node]), int(snapshot.version[node])) == context.etag
        store.lay_out(ACCOUNT)
        snapshot, stored = store.snapshot(ACCOUNT), scanned(store.database)
        assert snapshot.sketches.first == snapshot.n_rows
        check(snapshot, stored, clock.time_us)
        laid_out = build_snapshot(stored.values(), revision=snapshot.revision, dimensions=DIM)
        assert answers(snapshot, clock.time_us, 0.7) == answers(laid_out, clock.time_us, 0.7)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store.open(tmp_path / "data", model="m", dimensions=DIM, settings=NEVER, clock=Hands()) as opened:
        yield opened


@pytest.mark.parametrize("order", [1, -1], ids=["rising", "falling"])
def test_any_number_of_neighbours_finds_its_place(store: Store, order: int) -> None:
    """Names that always come next to the last one halve the same gap again and again; no layout is needed for that."""
    store.apply(ACCOUNT, [file("viking://resources/n/a"), file("viking://resources/n/z")])
    store.lay_out(ACCOUNT)
    n_base = store.snapshot(ACCOUNT).n_base
    for i in range(100)[::order]:
        store.apply(ACCOUNT, [file(f"viking://resources/n/n{i:03}", rows=rows_of(Kind.FILE, 1))])
    snapshot = store.snapshot(ACCOUNT)
    assert snapshot.n_base == n_base
    check(snapshot, scanned(store.database), NOW)


def test_a_move_is_appended_and_shares_its_terms(store: Store) -> None:
    names = [f"viking://resources/d/{i % 3}/{i}" for i in range(9)]
    store.apply(ACCOUNT, [file(name, rows=rows_of(Kind.FILE, 3)) for name in names])
    before = store.snapshot(ACCOUNT)
    store.apply(ACCOUNT, [Move("viking://resources/d/1", "viking://resources/e/f")])
    after = store.snapshot(ACCOUNT)
    assert (after.n_base, after.n_nodes, after.n_rows) == (before.n_base, before.n_nodes + 5, before.n_rows + 3)
    assert len(after.rows.term_id) == len(before.rows.term_id)
    assert (after.n_gone, after.n_contexts) == (4, before.n_contexts + 1)
    check(after, scanned(store.database), NOW)


def test_who_was_away_follows_moves_from_the_log(tmp_path: Path) -> None:
    kept = replace(NEVER, min_checkpoint_rows=0)
    names = [f"viking://resources/d/{i % 3}/{i}" for i in range(9)]
    with Store.open(tmp_path, model="m", dimensions=DIM, settings=kept, clock=Hands()) as store:
        store.apply(ACCOUNT, [file(name, rows=rows_of(Kind.FILE, 3)) for name in names])
        store.lay_out(ACCOUNT)
        n_base = store.snapshot(ACCOUNT).n_base
    with Store.open(tmp_path, model="m", dimensions=DIM, settings=kept, clock=Hands()) as store:
        for operations in (
            [Move("viking://resources/d/1", "viking://resources/e/f")],
            [file("viking://resources/e/f/new", rows=rows_of(Kind.FILE, 2)), Touch(("viking://resources/e/f/4",))],
            [Move("viking://resources/e", "viking://user/me/e"), Delete("viking://user/me/e/f/7")],
        ):
            store.database.apply(ACCOUNT, operations, now_us=NOW)  # as another process would
        snapshot = store.follow(ACCOUNT)
        assert snapshot.n_base == n_base
        check(snapshot, scanned(store.database), NOW)


def test_a_moved_owner_of_an_index_is_found_where_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((600, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    no_terms = (np.empty(0, np.uint64), np.empty(0, np.float32))
    writes = [
        file(f"viking://user/u{i % 2}/d{i % 7}/{i}", rows=(Row(Level.DETAIL, vector, *no_terms),))
        for i, vector in enumerate(vectors)
    ]
    settings_ = replace(NEVER, min_ann_rows=50)
    with Store.open(tmp_path, model="m", dimensions=DIM, settings=settings_, clock=Hands()) as store:
        store.apply(ACCOUNT, writes)
        assert len(store.snapshot(ACCOUNT).owners) == 2
        store.apply(ACCOUNT, [Move("viking://user/u0", "viking://user/moved")])
        snapshot = store.snapshot(ACCOUNT)
        found = {}
        for profile in (Profile.BALANCED, Profile.EXHAUSTIVE):
            request = RetrieveRequest(
                Query(vector=vectors[0]), limit=20, mode=Mode.QUICK, options=RetrieveOptions(profile=profile)
            )
            exact = SearchSettings(max_exact_rows=50)
            retrieval = Retrieval(snapshot, request, OPERATOR, vector=vectors[0], now_us=NOW, settings=exact)
            found[profile] = [match.context.uri for match in retrieval.result().matches]
        assert found[Profile.BALANCED] == found[Profile.EXHAUSTIVE]
        assert found[Profile.BALANCED][0] == "viking://user/moved/d0/0"
        assert not any(uri.startswith("viking://user/u0") for uri in found[Profile.BALANCED])


def test_a_touch_changes_one_column_and_keeps_what_the_snapshot_remembers(store: Store) -> None:
    store.apply(ACCOUNT, [file("viking://resources/a", rows=rows_of(Kind.FILE, 1)), file("viking://resources/b")])
    before = store.snapshot(ACCOUNT)
    first = answers(before, NOW, 0.5)
    store.apply(ACCOUNT, [Touch(("viking://resources/a", "viking://resources/a"))])
    after = store.snapshot(ACCOUNT)
    changed = [name for name in after.tree._fields if getattr(after.tree, name) is not getattr(before.tree, name)]
    assert changed == ["active_count"]
    assert after.rows is before.rows
    assert {key for key in before.memo if isinstance(key, tuple) and isinstance(key[0], Identity)} <= set(after.memo)
    check(after, scanned(store.database), NOW)
    for old, new in zip(first, answers(after, NOW, 0.5), strict=True):
        assert [match.context.active_count for match in old] == [0]
        assert [match.context.active_count for match in new] == [2]


def checksum(snapshot: Snapshot) -> int:
    """Sum up all that a reader may look at."""
    parts = [*snapshot.tree, *snapshot.rows, *snapshot.postings, snapshot.key, snapshot.version, snapshot.tie_order]
    texts = [snapshot.uri(node) + snapshot.titles.get(node) for node in range(snapshot.n_nodes)]
    return hash((tuple(part.tobytes() for part in parts), tuple(texts), tuple(snapshot.tag_ids.items())))


def test_a_pinned_snapshot_never_changes(store: Store) -> None:
    """Readers hold old states and ask them again and again while writers append, replace, delete and lay out."""
    base = [file(f"viking://resources/d{i % 7}/f{i}", rows=(make_row(Level.DETAIL, 2),)) for i in range(80)]
    store.apply(ACCOUNT, base)
    errors: list[BaseException] = []
    is_over = threading.Event()

    def read() -> None:
        try:
            while True:
                snapshot = store.snapshot(ACCOUNT)
                expected, first = checksum(snapshot), answers(snapshot, NOW, 0.5)
                for _ in range(3):
                    assert answers(snapshot, NOW, 0.5) == first
                assert checksum(snapshot) == expected
                if is_over.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - raised below, in the test's own thread
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(6)]
    for reader in readers:
        reader.start()
    for i in range(60):
        rows = (make_row(Level.DETAIL, i),)
        store.apply(ACCOUNT, [file(f"viking://resources/d{i % 7}/f{i}", rows=rows), file(f"viking://resources/g/{i}")])
        if i % 3 == 0:
            store.apply(
                ACCOUNT, [Delete(f"viking://resources/d{(i + 20) % 7}/f{i + 20}"), Touch(("viking://resources/g",))]
            )
        if i % 20 == 10:
            store.lay_out(ACCOUNT)
    is_over.set()
    for reader in readers:
        reader.join()
    assert errors == []
    check(store.snapshot(ACCOUNT), scanned(store.database), NOW)
