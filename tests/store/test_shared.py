"""One data directory in several stores, as in several processes; and more accounts than the memory may hold."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.index.test_update import check, make_row
from tests.store.trees import ACCOUNT, NOW, file, scanned
from viking_rpc.domain.context import Level
from viking_rpc.store.database import Delete, Move
from viking_rpc.store.keeper import Keeper
from viking_rpc.store.layouts import StoreSettings
from viking_rpc.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from viking_rpc.store.operations import Operation

DIMENSIONS = 4
WAIT_S = 60.0
SHARED = StoreSettings(is_shared=True, min_ann_rows=20, max_fresh_rows=10, max_fresh_share=0.0)
ALONE = StoreSettings(max_fresh_rows=1_000_000, max_fresh_share=1e9)


def open_store(folder: Path, settings: StoreSettings = SHARED) -> Store:
    return Store.open(folder, model="m", dimensions=DIMENSIONS, settings=settings)


def write(i: int, n: int = 1) -> list[Operation]:
    return [
        file(f"viking://resources/p/d{j % 5}/f{j}", rows=(make_row(Level.DETAIL, j),), title=f"t{j}")
        for j in range(i, i + n)
    ]


def await_that(is_so: Callable[[], bool]) -> None:
    until_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until_s
        threading.Event().wait(0.01)


def agree(store: Store, account: str = ACCOUNT) -> None:
    check(store.snapshot(account), scanned(store.database, account), NOW)


def test_each_follows_what_the_other_writes(tmp_path: Path) -> None:
    with open_store(tmp_path) as one, open_store(tmp_path) as two:
        for i in range(12):
            writer, reader = (one, two) if i % 3 else (two, one)
            reader.snapshot(ACCOUNT)
            revision = writer.apply(ACCOUNT, write(i, 2)).revision
            assert writer.snapshot(ACCOUNT).revision >= revision
            assert reader.wait_for(ACCOUNT, revision, WAIT_S).revision >= revision
        one.apply(ACCOUNT, [Move("viking://resources/p/d1", "viking://resources/q")])
        revision = two.apply(ACCOUNT, [Delete("viking://resources/p/d2", is_recursive=True)]).revision
        for store in (one, two):
            store.wait_for(ACCOUNT, revision, WAIT_S)
            agree(store)


def test_many_threads_of_both_write_and_nothing_is_left_over(tmp_path: Path) -> None:
    with open_store(tmp_path) as one, open_store(tmp_path) as two:
        for store in (one, two):
            store.snapshot(ACCOUNT)

        def work(store: Store, first: int) -> None:
            for i in range(15):
                store.apply(ACCOUNT, write(first + i))

        threads = [threading.Thread(target=work, args=((one, two)[k % 2], 100 * k)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        for store in (one, two):
            assert store.wait_for(ACCOUNT, 90, WAIT_S).revision == 90
            agree(store)
            assert not store._trees[ACCOUNT]._committed


def test_the_keeper_lays_out_and_the_others_take_it(tmp_path: Path) -> None:
    with open_store(tmp_path) as one, open_store(tmp_path) as two:
        keeper = Keeper(tmp_path, one.database, SHARED)
        one.apply(ACCOUNT, write(0, 40))
        two.snapshot(ACCOUNT)
        assert one.info(ACCOUNT).checkpoint_revision == 0  # they write none
        assert keeper.keep() == 1
        assert keeper.keep() == 0
        pinned = two.snapshot(ACCOUNT)
        for i in range(15):
            revision = one.apply(ACCOUNT, write(40 + i)).revision
        assert keeper.keep() == 1
        for store in (one, two):
            store.wait_for(ACCOUNT, revision, WAIT_S)
            await_that(lambda store=store: store.info(ACCOUNT).checkpoint_revision == revision)  # type: ignore[misc]
            assert store.info(ACCOUNT).pending_rows == 0
            agree(store)
        assert pinned.n_contexts == 40 + 7
    with open_store(tmp_path) as again:
        again.snapshot(ACCOUNT)
        assert again.info(ACCOUNT).checkpoint_revision == revision


def test_a_damaged_checkpoint_is_made_again_by_the_keeper(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.apply(ACCOUNT, write(0, 40))
        keeper = Keeper(tmp_path, store.database, SHARED)
        assert keeper.keep() == 1
        (path,) = (tmp_path / "checkpoints").glob("*.data")
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
        with open_store(tmp_path) as other:
            agree(other)
            assert "damaged" in other.info(ACCOUNT).notes[0]
        assert keeper.keep() == 1
        with open_store(tmp_path) as other:
            other.snapshot(ACCOUNT)
            assert (other.info(ACCOUNT).checkpoint_revision, other.info(ACCOUNT).notes) == (1, ())


def test_accounts_beyond_the_budget_are_unloaded_and_pinned_states_stay(tmp_path: Path) -> None:
    names = [f"tenant-{i}" for i in range(6)]
    with open_store(tmp_path, replace(ALONE, min_checkpoint_rows=1000)) as store:
        for i, name in enumerate(names):
            store.apply(name, write(i, 20))
        size = max(store.snapshot(name).size_bytes for name in names)
        assert not (tmp_path / "checkpoints").exists()
    budget = replace(ALONE, min_checkpoint_rows=1000, memory_budget_bytes=3 * size)
    with open_store(tmp_path, budget) as store:
        pinned = store.snapshot(names[0])
        for name in names:
            store.snapshot(name)
            assert sum(store.loaded(other) is not None for other in names) <= 3
        assert store.loaded(names[-1]) is not None
        assert store.loaded(names[0]) is None
        check(pinned, scanned(store.database, names[0]), NOW)
        store.database.apply(names[0], write(50), now_us=NOW)
        for name in (names[0], names[1]):  # writes to an account that is not loaded are found when it is
            revision = store.apply(name, write(100, 3)).revision
            assert store.snapshot(name).revision == revision
            agree(store, name)
        assert store.info(names[0]).notes == ()
