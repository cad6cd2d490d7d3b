"""One process holds a data directory, and the second is told which."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from viking_rpc.errors import FailedPreconditionError
from viking_rpc.store.lock import LOCK_NAME, DataLock

if TYPE_CHECKING:
    from pathlib import Path

_HOLDER = """
import sys
from pathlib import Path
from viking_rpc.store.lock import DataLock
lock = DataLock.acquire(Path(sys.argv[1]))
lock.announce("127.0.0.1:4321")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_told_who_holds_the_lock_until_that_one_is_killed(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(FailedPreconditionError) as caught:
            DataLock.acquire(tmp_path)
        assert caught.value.reason == "DATA_DIRECTORY_LOCKED"
        assert caught.value.metadata["pid"] == str(holder.pid)
        assert caught.value.metadata["address"] == "127.0.0.1:4321"
        assert str(holder.pid) in caught.value.message
        assert "127.0.0.1:4321" in caught.value.message
        holder.kill()
    DataLock.acquire(tmp_path).release()


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    with DataLock.acquire(tmp_path / "new") as lock:
        with pytest.raises(FailedPreconditionError) as caught:
            DataLock.acquire(tmp_path / "new")
        assert caught.value.metadata["pid"] == str(os.getpid())
        assert "serves" not in caught.value.message
        lock.release()
        lock.announce("ignored")
        DataLock.acquire(tmp_path / "new").release()
    assert (tmp_path / "new" / LOCK_NAME).read_bytes() == b""


def test_a_holder_that_has_written_nothing_yet_still_holds(tmp_path: Path) -> None:
    with DataLock.acquire(tmp_path):
        for text in (b"", b"{", b"[]", b'{"pid": 1}'):
            (tmp_path / LOCK_NAME).write_bytes(text)
            with pytest.raises(FailedPreconditionError) as caught:
                DataLock.acquire(tmp_path)
            assert caught.value.reason == "DATA_DIRECTORY_LOCKED"


def test_a_child_that_is_started_does_not_inherit_the_lock(tmp_path: Path) -> None:
    lock = DataLock.acquire(tmp_path)
    arguments = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        lock.release()
        DataLock.acquire(tmp_path).release()
        child.kill()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FailedPreconditionError) as caught:
        DataLock.acquire(tmp_path / "file" / "data")
    assert caught.value.reason == "DATA_DIRECTORY_READ_ONLY"
