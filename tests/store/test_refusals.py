"""A full disk, a folder that cannot be written, files of another model, two imports at once: each has its clear end."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.index.test_update import Hands, answers, make_row
from tests.ingest.fakes import CountingEmbedder
from tests.store.trees import ACCOUNT, NOW, file, scanned
from viking_rpc.domain.context import Level
from viking_rpc.errors import ResourceExhaustedError
from viking_rpc.ingest.pipeline import run_import
from viking_rpc.ingest.plan import plan_folder
from viking_rpc.ingest.target import StoreTarget
from viking_rpc.store.store import Store, StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

DIM = 4
P = "viking://resources/p"
SETTINGS = StoreSettings(min_ann_rows=20, max_fresh_rows=1_000_000, max_fresh_share=1e9)


def open_store(folder: Path, model: str = "m", dimensions: int = DIM) -> Store:
    return Store.open(folder, model=model, dimensions=dimensions, settings=SETTINGS, clock=Hands())


def fill(store: Store, n: int = 40) -> None:
    store.apply(ACCOUNT, [file(f"{P}/d{i % 5}/f{i}", rows=(make_row(Level.DETAIL, i),)) for i in range(n)])


def test_a_full_disk_refuses_the_write_and_the_store_goes_on(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store)
        before = answers(store.snapshot(ACCOUNT), NOW, 0.5)
        with store.database._writer.transaction() as connection:
            n_pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {n_pages}")
        with pytest.raises(ResourceExhaustedError) as caught:
            store.apply(ACCOUNT, [file(f"{P}/big", content="x" * 10**6)])
        assert caught.value.reason == "DISK_FULL"
        assert answers(store.snapshot(ACCOUNT), NOW, 0.5) == before
        with store.database._writer.transaction() as connection:
            connection.execute("PRAGMA max_page_count = 1000000")
        assert store.apply(ACCOUNT, [file(f"{P}/big", content="x" * 10**6)]).revision == 2
    with open_store(tmp_path) as store:
        assert f"{P}/big" in scanned(store.database)


# Without rights of its own, in a folder that nobody may write: the root user may write everywhere.
_POWERLESS = """
import os, sys
from pathlib import Path
from viking_rpc.errors import VikingError
from viking_rpc.ingest.export import export_account
from viking_rpc.store.backup import back_up
from viking_rpc.store.lock import DataLock
from viking_rpc.store.store import Store

os.chdir(sys.argv[1])
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
here = Path(".")
for work in (
    lambda: DataLock.acquire(here / sys.argv[2]),
    lambda: Store.open(here / sys.argv[2], model="m", dimensions=4).apply("acme", []),
    lambda: back_up(here / "data", here / "copy"),
    lambda: export_account(here / "data", here / "out", "acme", now_us=0),
):
    try:
        work()
    except VikingError as error:
        print(error.code, error.reason)
"""


def powerless(folder: Path, data: str) -> list[str]:
    command = [sys.executable, "-c", _POWERLESS, str(folder), data]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder to which others find the way, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
        Path(folder).chmod(0o755)


def test_a_folder_that_cannot_be_written_is_a_precondition(open_folder: Path) -> None:
    (open_folder / "empty").mkdir(mode=0o555)
    with open_store(open_folder / "data") as store:
        fill(store)
        for path in (open_folder / "data", *(open_folder / "data").rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        open_folder.chmod(0o555)
        told = powerless(open_folder, "empty")
    assert told == [
        "FAILED_PRECONDITION DATA_DIRECTORY_READ_ONLY",
        "FAILED_PRECONDITION DATABASE_CANNOT_OPEN",
        "FAILED_PRECONDITION BACKUP_NOT_WRITABLE",
        "FAILED_PRECONDITION EXPORT_NOT_WRITABLE",
    ]


# The system refuses files beyond a size, as a full disk refuses all.
_CRAMPED = """
import resource, signal, sys
from pathlib import Path
from viking_rpc.errors import VikingError
from viking_rpc.ingest.export import export_account
from viking_rpc.store.backup import back_up

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
here = Path(sys.argv[1])
for work in (
    lambda: back_up(here / "data", here / "copy", with_checkpoints=True),
    lambda: back_up(here / "data", here / "copy"),
    lambda: export_account(here / "data", here / "out", "acme", now_us=0),
):
    try:
        work()
    except VikingError as error:
        print(error.reason)
"""


def test_a_copy_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    with open_store(tmp_path / "data") as store:
        fill(store, 400)
        store.apply(ACCOUNT, [file(f"{P}/noise{i}", content=random.Random(i).randbytes(400).hex()) for i in range(200)])
        store.lay_out(ACCOUNT)
    command = [sys.executable, "-c", _CRAMPED, str(tmp_path), "40000"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert told[0] == told[2] == "DISK_FULL"
    assert told[1] in {"DISK_FULL", "DISK_ERROR"}  # SQLite does not tell a limit from a broken disk
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_checkpoint_of_another_model_is_told_and_rebuilt(tmp_path: Path) -> None:
    for model in ("m", "another"):
        with open_store(tmp_path / model, model) as store:
            fill(store)
            before = answers(store.snapshot(ACCOUNT), NOW, 0.5)
    shutil.rmtree(tmp_path / "m/checkpoints")
    shutil.copytree(tmp_path / "another/checkpoints", tmp_path / "m/checkpoints")
    with open_store(tmp_path / "m") as store:
        assert answers(store.snapshot(ACCOUNT), NOW, 0.5) == before
        (note,) = store.notes
        assert "model another instead of m" in note
    with open_store(tmp_path / "m") as store:
        store.snapshot(ACCOUNT)
        assert store.notes == []


def test_two_imports_of_one_folder_at_once_end_as_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for i in range(30):
        path = folder / f"d{i % 4}" / f"f{i}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Title {i}\n\nText {i}\n")
    plan = plan_folder(folder, f"{P}/notes")
    embedder = CountingEmbedder()
    errors: list[BaseException] = []

    def work(store: Store) -> None:
        try:
            run_import(plan, StoreTarget(store, ACCOUNT), embedder, allow_prune=True, batch_size=5)
        except BaseException as error:
            errors.append(error)
            raise

    trees = []
    for name, n_threads in (("one", 1), ("two", 2)):
        with open_store(tmp_path / name, dimensions=embedder.dimensions) as store:
            threads = [threading.Thread(target=work, args=(store,)) for _ in range(n_threads)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            tree = scanned(store.database)
            trees.append({uri: (record.title, record.abstract, len(record.rows)) for uri, record in tree.items()})
            store.lay_out(ACCOUNT)
            assert store.snapshot(ACCOUNT).n_contexts == len(tree)
    assert errors == []
    assert trees[0] == trees[1]
