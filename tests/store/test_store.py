"""The store as a whole: restarts, derived files that are gone or broken, background layouts, waiting, accounts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.index.test_update import Hands, answers, check, make_row
from tests.store.trees import ACCOUNT, NOW, directory, file, scanned
from viking_rpc.domain.context import ContextWrite, Kind, Level, Row
from viking_rpc.domain.uri import Uri
from viking_rpc.errors import DeadlineExceededError, FailedPreconditionError, NotFoundError
from viking_rpc.index.ann import AnnParameters
from viking_rpc.store.database import Delete, Move, Upsert
from viking_rpc.store.store import Store, StoreSettings, pending_rows

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.store.operations import Operation

DIM = 4
NEVER = StoreSettings(min_ann_rows=20, max_fresh_rows=1_000_000, max_fresh_share=1e9)
EAGER = StoreSettings(min_ann_rows=20, max_fresh_rows=4, max_fresh_share=0.0)
P = "viking://resources/p"


def open_store(folder: Path, settings: StoreSettings = NEVER, **changed: object) -> Store:
    facts = {"model": "m", "dimensions": DIM, "clock": Hands()} | changed
    return Store.open(folder, settings=settings, **facts)  # type: ignore[arg-type]


def write(i: int, n: int = 1) -> list[Operation]:
    """Write n files with rows, some equal."""
    return [file(f"{P}/d{j % 5}/f{j}", rows=(make_row(Level.DETAIL, j),), title=f"t{j}") for j in range(i, i + n)]


def agree(store: Store, account: str = ACCOUNT) -> None:
    """Compare the current snapshot with what is stored."""
    check(store.snapshot(account), scanned(store.database, account), NOW)


def test_a_restart_finds_everything(tmp_path: Path) -> None:
    """The checkpoint, what was written after it, and the same answers."""
    with open_store(tmp_path) as store:
        store.apply(
            ACCOUNT, [directory(f"{P}/d1", rows=(make_row(Level.OVERVIEW, 3),), tags={"k": "v"}), *write(0, 40)]
        )
        store.lay_out(ACCOUNT)
        before = answers(store.snapshot(ACCOUNT), NOW, 0.5)
        info = store.info(ACCOUNT)
        assert (info.revision, info.checkpoint_revision, info.pending_rows, info.has_ann) == (1, 1, 0, True)
        assert (info.model, info.dimensions) == ("m", DIM)
    with open_store(tmp_path) as store:
        assert answers(store.snapshot(ACCOUNT), NOW, 0.5) == before
        store.apply(ACCOUNT, write(100, 3))
        store.apply(ACCOUNT, [Delete(f"{P}/d2", is_recursive=True)])
        agree(store)
        after = answers(store.snapshot(ACCOUNT), NOW, 0.5)
    with open_store(tmp_path) as store:
        agree(store)
        assert store.snapshot(ACCOUNT).revision == 3
        assert store.info(ACCOUNT).checkpoint_revision == 1
        assert answers(store.snapshot(ACCOUNT), NOW, 0.5) == after
        assert store.info(ACCOUNT).notes == ()
        found = store.get(ACCOUNT, f"{P}/d1")
        assert found is not None
        assert found.tags == {"k": "v"}
        assert [child.uri for child in store.children(ACCOUNT, P)] == [f"{P}/d{i}" for i in (0, 1, 3, 4)]
        with pytest.raises(NotFoundError):
            store.children(ACCOUNT, f"{P}/d2")


@pytest.mark.parametrize(
    "late",
    [
        [Upsert(ContextWrite(f"{P}/bare", Kind.FILE))],
        [
            file(
                f"{P}/wordless",
                rows=(
                    Row(
                        Level.DETAIL,
                        np.eye(1, DIM, dtype=np.float32)[0],
                        *(np.empty(0, np.uint64), np.empty(0, np.float32)),
                    ),
                ),
            )
        ],
        [file(f"{P}/words", rows=(make_row(Level.DETAIL, 3),))],
        [Move(f"{P}/d1", "viking://resources/q/d1")],
    ],
    ids=["no row", "row without terms", "row", "move"],
)
def test_a_loaded_checkpoint_takes_every_kind_of_write(tmp_path: Path, late: list[Operation]) -> None:
    """The arrays of a checkpoint are read-only; the first write after a restart must not write into them."""
    with open_store(tmp_path) as store:
        store.apply(ACCOUNT, write(0, 10))
    with open_store(tmp_path) as store:
        store.apply(ACCOUNT, late)
        agree(store)


@pytest.mark.parametrize("how", ["missing", "manifest", "data", "graph", "parameters"])
def test_a_checkpoint_that_cannot_be_used_is_rebuilt_and_said_so(tmp_path: Path, how: str) -> None:
    with open_store(tmp_path) as store:
        store.apply(ACCOUNT, write(0, 60))
        before = answers(store.snapshot(ACCOUNT), NOW, 0.5)
    folder = tmp_path / "checkpoints"
    settings = NEVER
    if how == "missing":
        for path in folder.iterdir():
            path.unlink()
    elif how == "parameters":
        settings = StoreSettings(min_ann_rows=30, ann=AnnParameters(connectivity=8), max_fresh_share=1e9)
    else:
        (path,) = folder.glob({"manifest": "*.json", "data": "*.data", "graph": "*.0.file"}[how])
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
    with open_store(tmp_path, settings) as store:
        assert answers(store.snapshot(ACCOUNT), NOW, 0.5) == before
        agree(store)
        (note,) = store.info(ACCOUNT).notes
        word = {"missing": "missing", "parameters": "stale"}.get(how, "damaged")
        assert f"checkpoint of account {ACCOUNT} is {word}" in note
        assert "is rebuilt" in note
        assert store.info(ACCOUNT).checkpoint_revision == 1
    with open_store(tmp_path, settings) as store:
        store.snapshot(ACCOUNT)
        assert store.info(ACCOUNT).notes == ()


def test_a_checkpoint_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        (tmp_path / "checkpoints").write_text("in the way")
        store.apply(ACCOUNT, write(0, 5))
        agree(store)
        info = store.info(ACCOUNT)
        assert info.checkpoint_revision == 0
        assert "could not be written" in info.notes[0]


@pytest.mark.parametrize("changed", [{"model": "other"}, {"dimensions": 8}])
def test_another_model_is_refused_and_both_are_named(tmp_path: Path, changed: dict[str, object]) -> None:
    with open_store(tmp_path) as store:
        store.apply(ACCOUNT, write(0))
    with pytest.raises(FailedPreconditionError) as caught:
        open_store(tmp_path, **changed)
    assert caught.value.reason == "MODEL_MISMATCH"
    wanted = {"model": "m", "dimensions": DIM} | changed
    for word in ("m", str(DIM), str(wanted["model"]), str(wanted["dimensions"])):
        assert f" {word}" in caught.value.message
    with open_store(tmp_path) as store:  # and it was left usable
        agree(store)


def test_small_batches_are_laid_out_in_the_background_and_none_is_lost(tmp_path: Path) -> None:
    """Four writers; every acknowledged batch is visible at once to its writer, and all are there at the end."""
    with open_store(tmp_path, EAGER) as store:
        errors: list[BaseException] = []

        def work(writer: int) -> None:
            try:
                for i in range(40):
                    uri = f"{P}/w{writer}/f{i}"
                    committed = store.apply(ACCOUNT, [file(uri, rows=(make_row(Level.DETAIL, i),))])
                    snapshot = store.snapshot(ACCOUNT)
                    assert snapshot.revision >= committed.revision
                    assert snapshot.find(Uri.from_canonical(uri)) > 0
                    if i % 10 == 9:
                        store.apply(ACCOUNT, [Delete(f"{P}/w{writer}/f{i - 5}")])
                        assert store.snapshot(ACCOUNT).find(Uri.from_canonical(f"{P}/w{writer}/f{i - 5}")) < 0
                    if i % 20 == 19:
                        store.lay_out(ACCOUNT)
            except BaseException as error:  # noqa: BLE001 - raised below, in the test's own thread
                errors.append(error)

        workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        store.settle()
        assert errors == []
        agree(store)
        snapshot = store.snapshot(ACCOUNT)
        assert snapshot.revision == 4 * 44
        assert snapshot.n_base > 4 * 20, "nothing was laid out"
        store.lay_out(ACCOUNT)
        assert pending_rows(store.snapshot(ACCOUNT)) == 0
        assert store.info(ACCOUNT).checkpoint_revision == snapshot.revision
    with open_store(tmp_path, EAGER) as store:
        agree(store)
        assert store.info(ACCOUNT).notes == ()


def test_closing_waits_for_the_layout(tmp_path: Path) -> None:
    for i in range(5):
        with open_store(tmp_path, EAGER) as store:
            store.apply(ACCOUNT, write(0, 5))
            store.apply(ACCOUNT, write(10 * i + 10, 10))  # starts one
    with open_store(tmp_path) as store:
        agree(store)
        assert store.info(ACCOUNT).notes == ()


def test_a_small_account_weighs_its_words_soon(tmp_path: Path) -> None:
    """Written one by one, a few contexts still are laid out, so that rare words count more than common ones."""
    with open_store(tmp_path, StoreSettings()) as store:
        for i in range(40):
            store.apply(ACCOUNT, write(i))
        store.settle()
        assert store.snapshot(ACCOUNT).vocabulary.n_rows >= 10


def test_waiting_for_a_revision(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.apply(ACCOUNT, write(0))
        assert store.wait_for(ACCOUNT, 1, 0.0).revision == 1
        with pytest.raises(
            DeadlineExceededError, match="revision 2 was not reached in time, the newest is 1"
        ) as caught:
            store.wait_for(ACCOUNT, 2, 0.01)
        assert caught.value.reason == "REVISION_NOT_REACHED"
        seen: list[int] = []
        waiter = threading.Thread(target=lambda: seen.append(store.wait_for(ACCOUNT, 3, 60.0).revision))
        waiter.start()
        store.apply(ACCOUNT, write(1))
        store.apply(ACCOUNT, write(2))
        waiter.join(30.0)
        assert seen == [3]


def test_a_waiter_hears_of_what_a_layout_caught_up_with(tmp_path: Path) -> None:
    """A batch that is committed but not yet in place can be put there by a layout instead of its writer."""
    with open_store(tmp_path) as store:
        store.apply(ACCOUNT, write(0))
        seen: list[int] = []
        waiter = threading.Thread(target=lambda: seen.append(store.wait_for(ACCOUNT, 2, 60.0).revision))
        waiter.start()
        store.database.apply(ACCOUNT, write(1), now_us=NOW)
        store.lay_out(ACCOUNT)
        waiter.join(30.0)
        assert seen == [2]


def test_what_went_straight_into_the_database_is_followed(tmp_path: Path) -> None:
    """An import writes past the snapshots, also when one is loaded already."""
    with open_store(tmp_path) as store:
        assert store.snapshot(ACCOUNT).n_contexts == 0
        for i in range(3):
            store.database.apply(ACCOUNT, write(10 * i, 5), now_us=NOW)
            assert store.follow(ACCOUNT) is store.snapshot(ACCOUNT)
            agree(store)
        store.database.apply(ACCOUNT, write(50, 5), now_us=NOW)
        store.lay_out(ACCOUNT)
        agree(store)
        assert store.info(ACCOUNT).checkpoint_revision == 4


def test_accounts_never_meet(tmp_path: Path) -> None:
    names = ["acme", "ACME", "a/../b", "x" * 300, "x" * 299 + "y", "\u00e9"]
    with open_store(tmp_path) as store:
        for i, name in enumerate(names):
            store.apply(name, [*write(i * 100, 3), file(f"{P}/same", rows=(make_row(Level.DETAIL, i),))])
            store.lay_out(name)
    with open_store(tmp_path) as store:
        for i, name in enumerate(names):
            agree(store, name)
            snapshot = store.snapshot(name)
            assert snapshot.find(Uri.from_canonical(f"{P}/d{i * 100 % 5}/f{i * 100}")) > 0
            assert snapshot.find(Uri.from_canonical(f"{P}/d{(i + 1) * 100 % 5}/f{(i + 1) * 100}")) == -1
            assert store.info(name).notes == ()
        assert store.snapshot("nobody").n_contexts == 0
        with pytest.raises(NotFoundError):
            store.children("nobody", P)


def test_a_repeated_request_changes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        first = store.apply(ACCOUNT, write(0, 2), request_id="r")
        store.apply(ACCOUNT, write(5))
        snapshot = store.snapshot(ACCOUNT)
        again = store.apply(ACCOUNT, write(0, 2), request_id="r")
        assert (again.revision, again.is_repeat) == (first.revision, True)
        assert store.snapshot(ACCOUNT) is snapshot


def test_all_can_be_deleted_and_written_again(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.apply(ACCOUNT, write(0, 5))
        store.apply(ACCOUNT, [Delete("viking://resources", is_recursive=True)])
        assert store.snapshot(ACCOUNT).n_contexts == 0
        store.lay_out(ACCOUNT)
        agree(store)
        store.apply(ACCOUNT, write(3, 5))
        agree(store)
    with open_store(tmp_path) as store:
        agree(store)
        assert store.info(ACCOUNT).notes == ()
