"""A backup holds one state of a store that others write to, opens as a store of its own, and fails without traces."""

from __future__ import annotations

import itertools
import shutil
import threading
from typing import TYPE_CHECKING

import pytest

from tests.index.test_update import Hands, answers, make_row
from tests.store.trees import ACCOUNT, NOW, file
from viking_rpc.domain.context import Level
from viking_rpc.errors import AlreadyExistsError, DataLossError, FailedPreconditionError, NotFoundError
from viking_rpc.store import schema
from viking_rpc.store.backup import back_up
from viking_rpc.store.database import Delete
from viking_rpc.store.dump import dump, state_of
from viking_rpc.store.store import Store, StoreSettings

if TYPE_CHECKING:
    from pathlib import Path

DIM = 4
P = "viking://resources/p"
SETTINGS = StoreSettings(min_ann_rows=20, max_fresh_rows=1_000_000, max_fresh_share=1e9)


def open_store(folder: Path) -> Store:
    return Store.open(folder, model="m", dimensions=DIM, settings=SETTINGS, clock=Hands())


def fill(store: Store, n: int = 40) -> None:
    store.apply(ACCOUNT, [file(f"{P}/d{i % 5}/f{i}", rows=(make_row(Level.DETAIL, i),)) for i in range(n)])


@pytest.mark.parametrize("with_checkpoints", [False, True])
def test_a_backup_opens_as_a_store_with_the_same_answers(tmp_path: Path, *, with_checkpoints: bool) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/viking.toml").write_text("[server]\nmax_in_flight = 8\n")
    with open_store(tmp_path / "data") as store:
        fill(store)
        store.lay_out(ACCOUNT)
        store.apply(ACCOUNT, [Delete(f"{P}/d1", is_recursive=True)])
        before = answers(store.snapshot(ACCOUNT), NOW, 0.5)
        original = store.database.meta
        report = back_up(tmp_path / "data", tmp_path / "copy", with_checkpoints=with_checkpoints)
        store.apply(ACCOUNT, [Delete(P, is_recursive=True)])
    assert (report.revisions, report.n_checkpoints) == ({ACCOUNT: 2}, int(with_checkpoints))
    assert (tmp_path / "copy/viking.toml").read_text().startswith("[server]")
    with open_store(tmp_path / "copy") as restored:
        meta = restored.database.meta
        assert meta.store_id == report.store_id != original.store_id
        assert (meta.model, meta.dimensions, meta.created_us) == (original.model, DIM, original.created_us)
        assert answers(restored.snapshot(ACCOUNT), NOW, 0.5) == before
        # Without a checkpoint the tree is laid out at the copied state; with one, it is caught up with.
        assert restored.info(ACCOUNT).checkpoint_revision == (1 if with_checkpoints else 2)
        assert bool(restored.notes) is not with_checkpoints
        fill(restored)


def test_a_checkpoint_of_the_original_is_never_taken_for_the_copys(tmp_path: Path) -> None:
    with open_store(tmp_path / "data") as store:
        fill(store)
        back_up(tmp_path / "data", tmp_path / "copy")
    with open_store(tmp_path / "copy") as copy:
        copy.apply(ACCOUNT, [Delete(f"{P}/d1", is_recursive=True)])
        copy.lay_out(ACCOUNT)
        before = answers(copy.snapshot(ACCOUNT), NOW, 0.5)
    shutil.rmtree(tmp_path / "copy/checkpoints")
    shutil.copytree(tmp_path / "data/checkpoints", tmp_path / "copy/checkpoints")
    with open_store(tmp_path / "copy") as copy:
        assert answers(copy.snapshot(ACCOUNT), NOW, 0.5) == before
        (note,) = copy.notes
        assert "stale" in note


def test_a_backup_beside_writers_has_whole_batches_and_all_that_was_acknowledged(tmp_path: Path) -> None:
    """Three threads write batches of three; each backup must hold a prefix of each thread's batches."""
    acknowledged = [0, 0, 0]
    is_over = threading.Event()

    def write(thread: int, store: Store) -> None:
        for n in itertools.count():
            if is_over.is_set():
                return
            batch = [file(f"{P}/t{thread}/b{n}/{i}", content="x" * 2000) for i in range(3)]
            store.apply(ACCOUNT, batch)
            acknowledged[thread] = n + 1

    with open_store(tmp_path / "data") as store:
        threads = [threading.Thread(target=write, args=(thread, store)) for thread in range(3)]
        for thread in threads:
            thread.start()
        try:
            for i in range(5):
                before = list(acknowledged)
                back_up(tmp_path / "data", tmp_path / f"copy{i}", with_checkpoints=True)
                with state_of(tmp_path / f"copy{i}/viking.db") as connection:
                    uris = {stored.write.uri for stored in dump(connection, ACCOUNT, 0)}
                    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                for thread in range(3):
                    batches = {int(uri.split("/")[5][1:]) for uri in uris if uri.startswith(f"{P}/t{thread}/b")}
                    n_batches = len(batches)
                    assert batches == set(range(n_batches))
                    assert n_batches >= before[thread]
                    files = {f"{P}/t{thread}/b{n}/{i}" for n in batches for i in range(3)}
                    assert files <= uris
        finally:
            is_over.set()
            for thread in threads:
                thread.join()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    with open_store(tmp_path / "data"):
        (tmp_path / "full").mkdir()
        (tmp_path / "full/mine").write_text("x")
        with pytest.raises(AlreadyExistsError) as caught:
            back_up(tmp_path / "data", tmp_path / "full")
        assert caught.value.reason == "BACKUP_EXISTS"
        assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
        with pytest.raises(AlreadyExistsError):
            back_up(tmp_path / "data", tmp_path / "data")
        (tmp_path / "empty").mkdir()
        assert back_up(tmp_path / "data", tmp_path / "empty").revisions == {}


def test_without_a_store_there_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        back_up(tmp_path / "none", tmp_path / "copy")
    assert caught.value.reason == "DATABASE_NOT_FOUND"
    assert not (tmp_path / "copy").exists()


def test_a_damaged_store_gives_no_backup(tmp_path: Path) -> None:
    with open_store(tmp_path / "data") as store:
        fill(store, 400)
    path = tmp_path / "data/viking.db"
    n_bytes = path.stat().st_size
    with path.open("r+b") as stored:
        stored.seek(3 * schema.PAGE_BYTES)
        stored.write(b"\xff" * (n_bytes - 3 * schema.PAGE_BYTES))
    with pytest.raises(DataLossError) as caught:
        back_up(tmp_path / "data", tmp_path / "copy")
    assert str(path) in caught.value.message
    assert not (tmp_path / "copy").exists()


def test_a_target_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with open_store(tmp_path / "data"), pytest.raises(FailedPreconditionError) as caught:
        back_up(tmp_path / "data", tmp_path / "file" / "copy")
    assert caught.value.reason == "BACKUP_NOT_WRITABLE"
    assert "file" in caught.value.message
