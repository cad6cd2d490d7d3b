"""Random histories: the database agrees with a naive tree, and the change sets lead to what a scan finds."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.store.trees import ACCOUNT, DIMENSIONS, NOW, directory, facts_of, file, row, scanned, tree_of
from viking_rpc.domain.context import Kind, Level
from viking_rpc.domain.uri import Uri
from viking_rpc.errors import VikingError
from viking_rpc.store.database import Counts, Database, Delete, Move, PurgeExpired, Touch, Upsert

if TYPE_CHECKING:
    from viking_rpc.index.records import ChangeSet, NodeRecord
    from viking_rpc.store.operations import Operation

Segments = tuple[str, ...]


class NaiveTree:
    """A dictionary of paths; every rule is written out, nothing is indexed."""

    def __init__(self) -> None:
        self.nodes: dict[Segments, tuple[Kind, int]] = {}

    def visible(self, now: int) -> dict[Segments, Kind]:
        return {path: kind for path, (kind, _) in self.nodes.items() if self.sees(path, now)}

    def sees(self, path: Segments, now: int) -> bool:
        prefixes = [path[:n] for n in range(1, len(path) + 1)]
        return all(p in self.nodes and not 0 < self.nodes[p][1] <= now for p in prefixes)

    def drop(self, path: Segments) -> None:
        self.nodes = {p: node for p, node in self.nodes.items() if p[: len(path)] != path}

    def has_children(self, path: Segments, now: int) -> bool:
        return any(p[:-1] == path for p in self.visible(now))

    def make_room(self, path: Segments, now: int) -> None:
        for n in range(1, len(path) + 1):
            if path[:n] in self.nodes and not self.sees(path[:n], now):
                self.drop(path[:n])
        for n in range(1, len(path)):
            if self.nodes.setdefault(path[:n], (Kind.DIRECTORY, 0))[0] is Kind.FILE:
                raise ValueError(path)

    def apply(self, operation: Operation, now: int) -> None:
        match operation:
            case Upsert(write=write):
                path = Uri.from_canonical(write.uri).segments
                self.make_room(path, now)
                if write.kind is Kind.FILE and self.has_children(path, now):
                    raise ValueError(path)
                if write.kind is Kind.FILE:
                    self.drop(path)
                self.nodes[path] = (write.kind, write.expire_us)
            case Delete():
                path = Uri.from_canonical(operation.uri).segments
                if not self.sees(path, now):
                    raise ValueError(path)
                if self.has_children(path, now) and not operation.is_recursive:
                    raise ValueError(path)
                self.drop(path)
            case Move():
                source = Uri.from_canonical(operation.source).segments
                target = Uri.from_canonical(operation.destination).segments
                if target[: len(source)] == source or len(source) == 1 or len(target) == 1:
                    raise ValueError(source)
                if not self.sees(source, now) or self.sees(target, now):
                    raise ValueError(source)
                self.make_room(target, now)
                moved = {p: node for p, node in self.nodes.items() if p[: len(source)] == source}
                self.drop(source)
                self.nodes |= {target + p[len(source) :]: node for p, node in moved.items()}
            case Touch(uris=uris):
                for uri in uris:
                    if not self.sees(Uri.from_canonical(uri).segments, now):
                        raise ValueError(uri)
            case PurgeExpired():
                pass


@dataclass
class Replica:
    """What a reader of change sets believes."""

    records: dict[int, NodeRecord]

    def follow(self, changes: ChangeSet) -> None:
        for key in changes.deleted_keys:
            self.records.pop(key, None)
        for record in changes.upserted:
            assert record.parent_key == 0 or record.parent_key in self.records, "parents come first"
            self.records[record.key] = record
        for key, count in changes.touched:
            self.records[key] = replace(self.records[key], active_count=count)

    def tree(self) -> dict[str, tuple[object, ...]]:
        return {uri: facts_of(record) for uri, record in tree_of(self.records.values()).items()}


_names = st.sampled_from(["a", "b", "memories"])
_uris = st.builds(
    lambda scope, names: "viking://" + "/".join([*scope, *names]),
    st.sampled_from([("resources",), ("user", "u")]),
    st.lists(_names, min_size=1, max_size=4),
)
_expiry = st.sampled_from([0, 0, 0, NOW + 3, NOW + 6])
_operations = st.one_of(
    st.builds(lambda uri, e, s: file(uri, expire_us=e, rows=(row(s),)), _uris, _expiry, st.integers(0, 3)),
    st.builds(
        lambda uri, e, s: directory(uri, expire_us=e, rows=(row(s, Level.ABSTRACT), row(s, Level.OVERVIEW))[: s % 3]),
        *(_uris, _expiry, st.integers(0, 3)),
    ),
    st.builds(Delete, _uris, st.booleans()),
    st.builds(Move, _uris, _uris),
    st.builds(lambda uri: Touch((uri,)), _uris),
    st.just(PurgeExpired()),
)
_histories = st.lists(st.lists(_operations, min_size=1, max_size=4), min_size=1, max_size=10)


@settings(max_examples=120, deadline=None)
@given(history=_histories, lag=st.integers(1, 4))
# A parent with a greater key than its child: the records of one change set are sorted by depth.
@example(
    history=[
        [file("viking://resources/a/a")],
        [file("viking://resources/b/b")],
        [Move("viking://resources/a", "viking://resources/b/a"), Touch(("viking://resources/b/a/a",))],
    ],
    lag=3,
)
# A directory that the batch has met moves away before the batch writes to its old place.
@example(
    history=[
        [file("viking://resources/b/b")],
        [
            file("viking://resources/a/b/b"),
            Move("viking://resources/a", "viking://resources/b/a"),
            file("viking://resources/a/b/a"),
        ],
    ],
    lag=1,
)
def test_random_histories(history: list[list[Operation]], lag: int) -> None:
    naive = NaiveTree()
    told, polled, polled_revision = Replica({}), Replica({}), 0
    with tempfile.TemporaryDirectory() as folder, Database.open(Path(folder) / "viking.db") as database:
        database.bind_model("m", DIMENSIONS)
        for i, operations in enumerate(history):
            now = NOW + i
            uris = [operation.write.uri for operation in operations if isinstance(operation, Upsert)]
            expected = copy.deepcopy(naive)
            try:
                if len(set(uris)) < len(uris):
                    raise ValueError(uris)  # noqa: TRY301 - refused like any other
                for operation in operations:
                    expected.apply(operation, now)
            except ValueError:
                with pytest.raises(VikingError):
                    database.apply(ACCOUNT, operations, now_us=now)
            else:
                naive = expected
                told.follow(database.apply(ACCOUNT, operations, now_us=now).change_set)
            if i % lag == 0:
                for changes in database.changes_since(ACCOUNT, polled_revision) or []:
                    polled.follow(changes)
                    polled_revision = changes.revision
                assert polled_revision == database.revision(ACCOUNT)
                assert polled.tree() == told.tree()
            stored = {uri: facts_of(record) for uri, record in scanned(database).items()}
            assert told.tree() == stored
            visible = {"viking://" + "/".join(path): kind for path, kind in naive.visible(now).items()}
            assert {uri: found.kind for uri in stored if (found := database.get(ACCOUNT, uri, now_us=now))} == visible
            counts = database.counts(ACCOUNT, now_us=now)
            assert counts[:2] == (
                sum(k is Kind.DIRECTORY for k in visible.values()),
                sum(k is Kind.FILE for k in visible.values()),
            )
            assert counts.n_rows == sum(len(r.rows) for uri, r in scanned(database).items() if uri in visible)
            if not stored:
                assert counts == Counts()
