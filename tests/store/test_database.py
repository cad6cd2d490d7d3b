"""The database keeps, refuses and tells as it promises."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.store.trees import ACCOUNT, DIMENSIONS, NOW, ROOT, directory, facts_of, file, row, scanned
from viking_rpc.domain.context import ContextType, ContextWrite, Kind, Level, Relation, Row
from viking_rpc.errors import (
    AbortedError,
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    VikingError,
)
from viking_rpc.store import batch, reading
from viking_rpc.store.database import Counts, Database, Delete, Move, PurgeExpired, Touch, Upsert

if TYPE_CHECKING:
    from pathlib import Path


def test_a_context_comes_back_as_it_was_written_after_a_reopen(tmp_path: Path) -> None:
    written = file(
        f"{ROOT}/a/b.md",
        title="T",
        abstract="\u4e2d\u6587",
        content="text\0with nul",
        tags={"lang": "zh", "a": "1"},
        expire_us=NOW + 9,
        active_count=3,
        relations=(Relation(f"{ROOT}/c", "why"), Relation(f"{ROOT}/b")),
        rows=(row(1),),
    )
    with Database.open(tmp_path / "viking.db") as database:
        database.bind_model("m", DIMENSIONS)
        committed = database.apply(ACCOUNT, [written], now_us=NOW)
    with Database.open(tmp_path / "viking.db", create=False) as database:
        found = database.get(ACCOUNT, f"{ROOT}/a/b.md", now_us=NOW, with_overview=True, with_content=True)
        record = scanned(database)[f"{ROOT}/a/b.md"]
    assert found is not None
    write = written.write
    for name in ("uri", "kind", "title", "abstract", "content", "tags", "expire_us", "active_count", "relations"):
        assert getattr(found, name) == getattr(write, name), name
    assert (found.type, found.create_us, found.update_us) == (ContextType.RESOURCE, NOW, NOW)
    assert found.etag == committed.contexts[0].etag
    assert committed.contexts[0].content == ""
    assert facts_of(record) == facts_of(committed.change_set.upserted[-1])
    assert record.rows[0].vector.tobytes() == row(1).vector.tobytes()
    assert not record.rows[0].vector.flags.writeable


def test_missing_parents_are_made_with_the_types_of_their_positions(database: Database) -> None:
    committed = database.apply(ACCOUNT, [file("viking://user/u/peers/p/memories/x/y")], now_us=NOW)
    assert [record.name for record in committed.change_set.upserted] == [
        "user",
        "u",
        "peers",
        "p",
        "memories",
        "x",
        "y",
    ]
    assert [record.type for record in committed.change_set.upserted] == [ContextType.RESOURCE] * 4 + [
        ContextType.MEMORY
    ] * 3
    assert [context.uri for context in committed.contexts] == ["viking://user/u/peers/p/memories/x/y"]
    assert database.counts(ACCOUNT, now_us=NOW) == Counts(6, 1, 0)


def test_a_second_write_replaces_all_but_what_it_leaves_to_the_store(database: Database) -> None:
    uri = f"{ROOT}/f"
    database.apply(ACCOUNT, [file(uri, title="1", content="c", active_count=7, rows=(row(1),))], now_us=NOW)
    first = scanned(database)[uri]
    database.apply(ACCOUNT, [file(uri, abstract="2")], now_us=NOW + 5)
    second = scanned(database)[uri]
    found = database.get(ACCOUNT, uri, now_us=NOW, with_content=True)
    assert found is not None
    assert (found.title, found.abstract, found.content) == ("", "2", "")
    assert (found.create_us, found.update_us, found.active_count) == (NOW, NOW + 5, 7)
    assert (second.key, second.version, second.rows) == (first.key, first.version + 1, ())
    assert database.counts(ACCOUNT, now_us=NOW) == Counts(1, 1, 0)


def test_a_file_becomes_a_directory_and_an_empty_directory_a_file(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/x")], now_us=NOW)
    database.apply(ACCOUNT, [directory(f"{ROOT}/x"), file(f"{ROOT}/x/y")], now_us=NOW)
    with pytest.raises(FailedPreconditionError) as caught:
        database.apply(ACCOUNT, [file(f"{ROOT}/x")], now_us=NOW)
    assert caught.value.reason == "DIRECTORY_NOT_EMPTY"
    database.apply(ACCOUNT, [Delete(f"{ROOT}/x/y"), file(f"{ROOT}/x")], now_us=NOW)
    assert database.counts(ACCOUNT, now_us=NOW) == Counts(1, 1, 0)


def test_a_batch_with_bad_contexts_names_each_and_stores_none(database: Database) -> None:
    nan = Row(Level.DETAIL, np.full(DIMENSIONS, np.nan, np.float32), row(0).terms, row(0).term_counts)
    long = Row(Level.DETAIL, np.zeros(DIMENSIONS + 1, np.float32), row(0).terms, row(0).term_counts[:2])
    batch_ = [
        file(f"{ROOT}/ok", rows=(row(1),)),
        file("viking://resources//x"),
        file(f"{ROOT}/n", rows=(nan,)),
        file(f"{ROOT}/l", rows=(long,)),
        directory(f"{ROOT}/d", rows=(row(1), row(2))),
        file(f"{ROOT}/ok"),
        file(ROOT),
        file(f"{ROOT}/t", expire_us=-1),
    ]
    with pytest.raises(InvalidArgumentError) as caught:
        database.apply(ACCOUNT, batch_, now_us=NOW)
    assert [(violation.field, violation.reason) for violation in caught.value.violations] == [
        ("contexts[1].uri", "INVALID_URI"),
        ("contexts[2].rows[0].vector", "NOT_FINITE"),
        ("contexts[3].rows[0].vector", "DIMENSION_MISMATCH"),
        ("contexts[3].rows[0].term_counts", "INVALID_VALUE"),
        ("contexts[4].rows", "INVALID_VALUE"),
        ("contexts[4].rows[0].level", "INVALID_VALUE"),
        ("contexts[4].rows[1].level", "INVALID_VALUE"),
        ("contexts[5].uri", "DUPLICATE_URI"),
        ("contexts[6].kind", "SCOPE_ROOT"),
        ("contexts[7].expire_us", "INVALID_VALUE"),
    ]
    assert database.revision(ACCOUNT) == 0
    assert scanned(database) == {}


def test_what_only_the_state_forbids_is_named_for_each_context_too(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/f"), file(f"{ROOT}/d/x")], now_us=NOW)
    bad = [
        file(f"{ROOT}/f/below"),
        file(f"{ROOT}/new"),
        file(f"{ROOT}/d"),
        file(f"{ROOT}/f", etag="stale"),
        file(f"{ROOT}/s", content="\ud800"),
    ]
    with pytest.raises(FailedPreconditionError) as caught:
        database.apply(ACCOUNT, bad, now_us=NOW)
    assert caught.value.reason == "PARENT_IS_FILE"
    assert [(violation.field, violation.reason) for violation in caught.value.violations] == [
        ("contexts[0].uri", "PARENT_IS_FILE"),
        ("contexts[2].kind", "DIRECTORY_NOT_EMPTY"),
        ("contexts[3].etag", "ETAG_MISMATCH"),
        ("contexts[4]", "INVALID_TEXT"),
    ]
    assert set(scanned(database)) == {ROOT, f"{ROOT}/f", f"{ROOT}/d", f"{ROOT}/d/x"}
    assert database.revision(ACCOUNT) == 1


def test_an_etag_lets_only_the_first_of_two_writers_through(database: Database) -> None:
    etag = database.apply(ACCOUNT, [file(f"{ROOT}/f")], now_us=NOW).contexts[0].etag
    database.apply(ACCOUNT, [Touch((f"{ROOT}/f",))], now_us=NOW)  # is no write of the context
    database.apply(ACCOUNT, [file(f"{ROOT}/f", etag=etag)], now_us=NOW)
    with pytest.raises(AbortedError):
        database.apply(ACCOUNT, [file(f"{ROOT}/f", etag=etag)], now_us=NOW)
    database.apply(ACCOUNT, [Delete(f"{ROOT}/f"), file(f"{ROOT}/f")], now_us=NOW)
    with pytest.raises(AbortedError):  # made anew: the same version of another context
        database.apply(ACCOUNT, [file(f"{ROOT}/f", etag=etag)], now_us=NOW)


def test_delete_keeps_what_it_was_not_told_to_delete(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/d/e/f", rows=(row(1),)), file(f"{ROOT}/d2")], now_us=NOW)
    with pytest.raises(FailedPreconditionError) as caught:
        database.apply(ACCOUNT, [Delete(f"{ROOT}/d")], now_us=NOW)
    assert caught.value.reason == "DIRECTORY_NOT_EMPTY"
    keys = {
        record.key for uri, record in scanned(database).items() if uri.startswith(f"{ROOT}/d/") or uri == f"{ROOT}/d"
    }
    committed = database.apply(ACCOUNT, [Delete(f"{ROOT}/d", is_recursive=True)], now_us=NOW)
    assert set(committed.change_set.deleted_keys) == keys
    assert committed.n_deleted == 3
    assert set(scanned(database)) == {ROOT, f"{ROOT}/d2"}
    with pytest.raises(NotFoundError) as missing:
        database.apply(ACCOUNT, [Delete(f"{ROOT}/d2"), Delete(f"{ROOT}/x"), Delete(f"{ROOT}/y")], now_us=NOW)
    assert [violation.field for violation in missing.value.violations] == ["uris[1]", "uris[2]"]
    nothing = database.apply(ACCOUNT, [Delete(f"{ROOT}/x", allow_missing=True)], now_us=NOW)
    assert (nothing.revision, nothing.change_set.upserted, nothing.change_set.deleted_keys) == (2, (), ())


def test_a_move_keeps_keys_rows_and_children_and_redirects_relations(database: Database) -> None:
    link = Relation(f"{ROOT}/a/b/c", "see")
    near = Relation(f"{ROOT}/a/b2")
    writes = [file(f"{ROOT}/a/b/c", rows=(row(3),)), file(f"{ROOT}/other", relations=(link, near))]
    database.apply(ACCOUNT, writes, now_us=NOW)
    before = scanned(database)
    committed = database.apply(ACCOUNT, [Move(f"{ROOT}/a/b", f"{ROOT}/z/y")], now_us=NOW)
    after = scanned(database)
    assert set(after) == {ROOT, f"{ROOT}/a", f"{ROOT}/other", f"{ROOT}/z", f"{ROOT}/z/y", f"{ROOT}/z/y/c"}
    assert after[f"{ROOT}/z/y/c"].key == before[f"{ROOT}/a/b/c"].key
    assert after[f"{ROOT}/z/y/c"].rows[0].vector.tobytes() == row(3).vector.tobytes()
    assert [record.name for record in committed.change_set.upserted] == ["other", "z", "y"]
    assert committed.n_moved == 2
    other = database.get(ACCOUNT, f"{ROOT}/other", now_us=NOW)
    assert other is not None
    assert other.relations == (Relation(f"{ROOT}/z/y/c", "see"), near)


@pytest.mark.parametrize(
    ("source", "destination", "error", "reason"),
    [
        ("a", "b", AlreadyExistsError, "CONTEXT_EXISTS"),
        ("a", "a", InvalidArgumentError, "MOVE_INTO_ITSELF"),
        ("a", "a/x/y", InvalidArgumentError, "MOVE_INTO_ITSELF"),
        ("nope", "n", NotFoundError, "CONTEXT_NOT_FOUND"),
        ("a", "b/x", FailedPreconditionError, "PARENT_IS_FILE"),
        ("a", "n" * 2040, InvalidArgumentError, "INVALID_URI"),
        ("a", "n" * 2000, InvalidArgumentError, "INVALID_URI"),  # too long only for what lies below
    ],
)
def test_a_move_that_cannot_be_is_refused(
    database: Database, source: str, destination: str, error: type[VikingError], reason: str
) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/a/{'c' * 60}"), file(f"{ROOT}/b")], now_us=NOW)
    before = {uri: facts_of(record) for uri, record in scanned(database).items()}
    with pytest.raises(error) as caught:
        database.apply(ACCOUNT, [Move(f"{ROOT}/{source}", f"{ROOT}/{destination}")], now_us=NOW)
    assert caught.value.reason == reason
    assert {uri: facts_of(record) for uri, record in scanned(database).items()} == before


def test_a_scope_cannot_be_moved(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/a")], now_us=NOW)
    with pytest.raises(InvalidArgumentError) as caught:
        database.apply(ACCOUNT, [Move(ROOT, "viking://agent")], now_us=NOW)
    assert [violation.field for violation in caught.value.violations] == ["source_uri", "destination_uri"]


def test_types_follow_a_move_unless_they_were_given(database: Database) -> None:
    writes = [file(f"{ROOT}/x/memories/a"), file(f"{ROOT}/x/memories/b", type=ContextType.SKILL), file(f"{ROOT}/x/c")]
    database.apply(ACCOUNT, writes, now_us=NOW)
    committed = database.apply(ACCOUNT, [Move(f"{ROOT}/x", "viking://user/u")], now_us=NOW)
    type_of = {uri: record.type for uri, record in scanned(database).items()}
    assert type_of["viking://user/u/memories/a"] == ContextType.MEMORY
    assert type_of["viking://user/u/memories/b"] == ContextType.SKILL
    assert type_of["viking://user/u/c"] == ContextType.RESOURCE
    assert [record.name for record in committed.change_set.upserted] == ["user", "u", "memories", "a"]


def test_touch_counts_every_mention_and_refuses_what_is_missing(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/a"), file(f"{ROOT}/b")], now_us=NOW)
    committed = database.apply(ACCOUNT, [Touch((f"{ROOT}/a", f"{ROOT}/a", f"{ROOT}/b"))], now_us=NOW + 1)
    assert committed.change_set.upserted == committed.contexts == ()
    stored = scanned(database)
    keys = [stored[f"{ROOT}/{name}"].key for name in "ab"]
    assert sorted(committed.change_set.touched) == [(keys[0], 2), (keys[1], 1)]
    assert {stored[f"{ROOT}/{name}"].update_us for name in "ab"} == {NOW}
    with pytest.raises(NotFoundError) as caught:
        database.apply(ACCOUNT, [Touch((f"{ROOT}/a", f"{ROOT}/x"))], now_us=NOW)
    assert [violation.field for violation in caught.value.violations] == ["uris[1]"]
    database.apply(ACCOUNT, [Touch((f"{ROOT}/a", f"{ROOT}/x"), allow_missing=True)], now_us=NOW)
    assert scanned(database)[f"{ROOT}/a"].active_count == 3


def test_a_repeated_request_gets_the_first_answer_for_ten_minutes(database: Database) -> None:
    minute = 60_000_000
    request = [file(f"{ROOT}/a", title="t", tags={"k": "v"}, relations=(Relation(ROOT, "r"),))]
    first = database.apply(ACCOUNT, request, now_us=NOW, request_id="r1")
    database.apply(ACCOUNT, [file(f"{ROOT}/a", title="later")], now_us=NOW + minute)
    repeat = database.apply(ACCOUNT, request, now_us=NOW + 9 * minute, request_id="r1")
    assert repeat.is_repeat
    assert (repeat.revision, repeat.contexts, repeat.change_set.upserted) == (first.revision, first.contexts, ())
    assert not database.apply("other", request, now_us=NOW, request_id="r1").is_repeat
    late = database.apply(ACCOUNT, request, now_us=NOW + 10 * minute, request_id="r1")
    assert (late.is_repeat, late.revision) == (False, 3)


def test_a_request_that_failed_may_be_sent_again(database: Database) -> None:
    with pytest.raises(NotFoundError):
        database.apply(ACCOUNT, [Delete(f"{ROOT}/a")], now_us=NOW, request_id="r1")
    database.apply(ACCOUNT, [file(f"{ROOT}/a")], now_us=NOW)
    assert not database.apply(ACCOUNT, [Delete(f"{ROOT}/a")], now_us=NOW, request_id="r1").is_repeat


def test_what_expired_is_hidden_with_its_subtree_and_counts(database: Database) -> None:
    writes = [directory(f"{ROOT}/d", expire_us=NOW + 1), file(f"{ROOT}/d/f", rows=(row(1),)), file(f"{ROOT}/e")]
    database.apply(ACCOUNT, writes, now_us=NOW)
    database.apply(ACCOUNT, [Upsert(ContextWrite(f"{ROOT}/d/g", Kind.FILE, expire_us=NOW + 1), "h")], now_us=NOW)
    root = database.get(ACCOUNT, ROOT, now_us=NOW)
    assert root is not None
    assert root.child_count == 2
    assert database.source_hashes(ACCOUNT, ROOT, now_us=NOW) == {f"{ROOT}/d/g": "h"}
    late = NOW + 1
    root = database.get(ACCOUNT, ROOT, now_us=late)
    assert root is not None
    assert root.child_count == 1
    assert [context.uri for context in database.children(ACCOUNT, ROOT, now_us=late)] == [f"{ROOT}/e"]
    assert database.get(ACCOUNT, f"{ROOT}/d", now_us=late) is None
    assert database.get(ACCOUNT, f"{ROOT}/d/f", now_us=late) is None
    with pytest.raises(NotFoundError):
        database.children(ACCOUNT, f"{ROOT}/d", now_us=late)
    assert database.counts(ACCOUNT, now_us=NOW) == Counts(2, 3, 1)
    assert database.counts(ACCOUNT, now_us=late) == Counts(1, 1, 0)
    assert database.source_hashes(ACCOUNT, ROOT, now_us=late) == {}
    with pytest.raises(NotFoundError):
        database.apply(ACCOUNT, [Delete(f"{ROOT}/d/f")], now_us=late)


def test_a_write_to_an_expired_place_brings_nothing_old_back(database: Database) -> None:
    database.apply(ACCOUNT, [directory(f"{ROOT}/d", expire_us=NOW + 1), file(f"{ROOT}/d/old")], now_us=NOW)
    old = scanned(database)[f"{ROOT}/d"].key
    committed = database.apply(ACCOUNT, [file(f"{ROOT}/d/new")], now_us=NOW + 1)
    assert old in committed.change_set.deleted_keys
    assert set(scanned(database)) == {ROOT, f"{ROOT}/d", f"{ROOT}/d/new"}


def test_the_expired_are_purged_oldest_first(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/f{i}", expire_us=NOW + i) for i in range(1, 6)], now_us=NOW)
    committed = database.apply(ACCOUNT, [PurgeExpired(limit=2)], now_us=NOW + 3)
    assert len(committed.change_set.deleted_keys) == 2
    assert set(scanned(database)) == {ROOT, f"{ROOT}/f3", f"{ROOT}/f4", f"{ROOT}/f5"}


def test_pages_stay_true_while_others_write(database: Database) -> None:
    names = ["B", "a", "b c", "\u00e9", "\u4e2d", "\U0001f600"]
    database.apply(ACCOUNT, [file(f"{ROOT}/{name}") for name in names], now_us=NOW)
    seen: list[str] = []
    for _ in range(3):
        page = database.children(ACCOUNT, ROOT, now_us=NOW, after_name=seen[-1] if seen else "", limit=2)
        seen += [context.uri.rpartition("/")[2] for context in page]
        gone = f"{ROOT}/{seen[0]}"
        database.apply(ACCOUNT, [file(f"{ROOT}/A{len(seen)}"), Delete(gone, allow_missing=True)], now_us=NOW)
    assert seen == sorted(names, key=str.encode)
    assert database.children(ACCOUNT, ROOT, now_us=NOW, after_name=seen[-1]) == []


def test_the_root_lists_the_scopes(database: Database) -> None:
    assert database.children(ACCOUNT, "viking://", now_us=NOW) == []
    database.apply(ACCOUNT, [file("viking://user/u/a"), file(f"{ROOT}/a")], now_us=NOW)
    assert [context.uri for context in database.children(ACCOUNT, "viking://", now_us=NOW)] == [ROOT, "viking://user"]
    assert database.get(ACCOUNT, "viking://", now_us=NOW) is None


def test_bodies_are_read_for_the_keys_of_the_own_account_only(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/a", content="A"), directory(f"{ROOT}/d", overview="O")], now_us=NOW)
    database.apply("other", [file(f"{ROOT}/a", content="B")], now_us=NOW)
    key = {uri: record.key for uri, record in scanned(database).items()}
    foreign = scanned(database, "other")[f"{ROOT}/a"].key
    wanted = [key[ROOT], key[f"{ROOT}/a"], key[f"{ROOT}/d"], foreign, 10**12]
    assert database.hydrate(ACCOUNT, wanted) == {
        key[ROOT]: ("", ""),
        key[f"{ROOT}/a"]: ("", "A"),
        key[f"{ROOT}/d"]: ("O", ""),
    }
    assert database.hydrate(ACCOUNT, wanted, content=False)[key[f"{ROOT}/a"]] == ("", "")


def test_accounts_have_their_own_trees_and_revisions(database: Database) -> None:
    database.apply("b", [file(f"{ROOT}/x")], now_us=NOW)
    database.apply("a", [file(f"{ROOT}/x"), file(f"{ROOT}/y")], now_us=NOW)
    database.apply("a", [Delete(ROOT, is_recursive=True)], now_us=NOW)
    assert database.accounts() == ("a", "b")
    assert (database.revision("a"), database.revision("b"), database.revision("c")) == (2, 1, 0)
    assert (len(scanned(database, "a")), len(scanned(database, "b"))) == (0, 2)


def test_the_change_log_is_trimmed_and_says_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "KEPT_CHANGES", 10)
    for i in range(30):
        database.apply(ACCOUNT, [file(f"{ROOT}/f{i}")], now_us=NOW)
    assert database.changes_since(ACCOUNT, 30) == []
    changes = database.changes_since(ACCOUNT, 20)
    assert changes is not None
    assert [record.name for record in changes[0].upserted] == [f"f{i}" for i in range(20, 30)]
    assert database.changes_since(ACCOUNT, 19) is None
    assert database.changes_since(ACCOUNT, 31) is None
    monkeypatch.setattr(reading, "MAX_CHANGED", 9)
    assert database.changes_since(ACCOUNT, 20) is None


def test_a_scan_sees_one_state_while_others_write(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/f{i}") for i in range(300)], now_us=NOW)
    with database.scan(ACCOUNT) as scan:
        first = next(scan.records)
        database.apply(ACCOUNT, [Delete(ROOT, is_recursive=True)], now_us=NOW)
        assert scan.revision == 1
        assert 1 + sum(1 for _ in scan.records) == scan.n_contexts == 301
    assert first.name == "resources"
    assert scanned(database) == {}


def test_a_scan_left_in_the_middle_does_not_hold_the_old_state(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/f{i}") for i in range(300)], now_us=NOW)
    with database.scan(ACCOUNT) as scan:
        next(scan.records)
    database.apply(ACCOUNT, [file(f"{ROOT}/g")], now_us=NOW)
    assert database.get(ACCOUNT, f"{ROOT}/g", now_us=NOW) is not None
    assert database.revision(ACCOUNT) == 2


def test_writers_that_come_together_commit_apart_and_fail_alone(database: Database) -> None:
    n_threads, n_batches = 6, 24
    start = threading.Barrier(n_threads)
    revisions: list[int] = []
    failures: list[BaseException] = []

    def write(thread: int) -> None:
        start.wait()
        for i in range(n_batches):
            writes = [file(f"{ROOT}/t{thread}/{i}/{j}", rows=(row(i),)) for j in range(2)]
            if i % 3 == 2:
                writes.append(file(f"{ROOT}/t{thread}/{i}/bad", etag="never"))
            try:
                revisions.append(database.apply(ACCOUNT, writes, now_us=NOW).revision)
            except AbortedError as error:
                failures.append(error)

    threads = [threading.Thread(target=write, args=(thread,)) for thread in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    n_good = n_threads * n_batches * 2 // 3
    assert sorted(revisions) == list(range(1, n_good + 1))
    assert len({id(error) for error in failures}) == n_threads * n_batches - n_good
    files = {uri for uri, record in scanned(database).items() if record.kind is Kind.FILE}
    assert files == {
        f"{ROOT}/t{t}/{i}/{j}" for t in range(n_threads) for i in range(n_batches) for j in range(2) if i % 3 != 2
    }


def test_a_model_is_bound_once(database: Database) -> None:
    assert (database.meta.model, database.meta.dimensions) == ("test-model", DIMENSIONS)
    with pytest.raises(FailedPreconditionError) as caught:
        database.bind_model("other", 9)
    assert caught.value.reason == "MODEL_MISMATCH"
    assert set(caught.value.metadata.values()) == {"test-model", str(DIMENSIONS), "other", "9"}
    for value in caught.value.metadata.values():
        assert value in caught.value.message
    assert database.bind_model("other", 9, allow_mismatch=True).model == "test-model"
    assert (database.bind_analysis("1"), database.bind_analysis("2"), database.meta.analysis) == ("1", "1", "1")


def test_without_a_model_there_are_no_vectors(tmp_path: Path) -> None:
    with Database.open(tmp_path / "viking.db") as database:
        database.apply(ACCOUNT, [file(f"{ROOT}/a")], now_us=NOW)
        with pytest.raises(FailedPreconditionError) as caught:
            database.apply(ACCOUNT, [file(f"{ROOT}/b", rows=(row(1),))], now_us=NOW)
    assert caught.value.reason == "MODEL_UNBOUND"


def test_a_closed_database_says_so(database: Database) -> None:
    database.apply(ACCOUNT, [file(f"{ROOT}/a")], now_us=NOW)
    database.close()
    database.close()
    with pytest.raises(UnavailableError):
        database.apply(ACCOUNT, [file(f"{ROOT}/b")], now_us=NOW)
    with pytest.raises(UnavailableError):
        database.revision(ACCOUNT)


def test_a_second_connection_sees_the_first_ones_writes(database: Database, tmp_path: Path) -> None:
    with Database.open(tmp_path / "viking.db", create=False) as other:
        for i in range(3):
            database.apply(ACCOUNT, [file(f"{ROOT}/a{i}")], now_us=NOW)
            other.apply(ACCOUNT, [file(f"{ROOT}/b{i}")], now_us=NOW)
        assert database.revision(ACCOUNT) == other.revision(ACCOUNT) == 6
        assert set(scanned(database)) == set(scanned(other))
        assert other.meta == database.meta
