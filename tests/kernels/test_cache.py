"""The cache of compiled kernels costs time when it is broken, never the answer."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from viking_kernels import _jit

if TYPE_CHECKING:
    from pathlib import Path

#: Imports one small kernel module and prints: an answer, and how many kernels the cache did not serve.
PROGRAM = """
import numpy as np
from viking_kernels import _jit
from viking_kernels.hotness import hotness
out = np.empty(2, np.float32)
hotness(np.array([0, 2], np.int32), np.array([5, 0], np.int64), 5, out)
print(out.tolist(), _jit.cache_misses)
"""
ANSWER = "[0.5, 0.0]"

pytestmark = pytest.mark.skipif(not _jit.IS_COMPILED, reason="nothing is cached when nothing is compiled")


def run(**environment: str) -> tuple[str, int, str]:
    """Run the program in an environment that has only these variables; return (answer, cache misses, log)."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    answer, _, misses = done.stdout.strip().rpartition(" ")
    return answer, int(misses), done.stderr


WRONG = """
import numpy as np
from viking_kernels.hotness import hotness
try:
    hotness(np.array([0, 2], np.float32), np.array([5, 0], np.int64), 5, np.empty(2, np.float32))
except TypeError:
    print("refused")
"""


def test_types_of_arguments_are_checked_when_asked(tmp_path: Path) -> None:
    environment = {"VIKING_CACHE_DIR": str(tmp_path), "VIKING_CHECK_KERNELS": "1"}
    command = [sys.executable, "-W", "error", "-c", WRONG]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "refused\n"
    assert run(**environment)[0] == ANSWER


def files_in(folder: Path, pattern: str) -> list[Path]:
    """List cache files."""
    return sorted(folder.glob(f"kernels-*/**/{pattern}"))


def test_compiled_kernels_are_kept_by_state_of_the_sources(tmp_path: Path) -> None:
    assert run(VIKING_CACHE_DIR=str(tmp_path)) == (ANSWER, 0, "")
    assert [path.name for path in tmp_path.iterdir()] == [f"kernels-{_jit.source_hash()}"]
    [binary] = files_in(tmp_path, "*.nbc")
    written = binary.stat().st_mtime_ns
    assert run(VIKING_CACHE_DIR=str(tmp_path)) == (ANSWER, 0, "")
    assert binary.stat().st_mtime_ns == written


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80garbage", b"0.0.0\n", None])
def test_damaged_files_are_passed_over(tmp_path: Path, pattern: str, content: bytes | None) -> None:
    run(VIKING_CACHE_DIR=str(tmp_path))
    [path] = files_in(tmp_path, pattern)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    answer, _, log = run(VIKING_CACHE_DIR=str(tmp_path))
    assert answer == ANSWER
    assert "Traceback" not in log


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
def test_damaged_files_are_replaced(tmp_path: Path, pattern: str) -> None:
    run(VIKING_CACHE_DIR=str(tmp_path))
    [path] = files_in(tmp_path, pattern)
    path.write_bytes(path.read_bytes()[:-20])
    run(VIKING_CACHE_DIR=str(tmp_path))
    assert run(VIKING_CACHE_DIR=str(tmp_path)) == (ANSWER, 0, "")


def test_missing_binary_is_compiled_again(tmp_path: Path) -> None:
    run(VIKING_CACHE_DIR=str(tmp_path))
    for path in files_in(tmp_path, "*.nbc"):
        path.unlink()
    assert run(VIKING_CACHE_DIR=str(tmp_path))[0] == ANSWER
    assert files_in(tmp_path, "*.nbc")


def test_folder_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    """A file in the way refuses even a user who may write anywhere."""
    (tmp_path / "file").write_text("")
    answer, misses, log = run(VIKING_CACHE_DIR=str(tmp_path / "file"))
    assert (answer, misses) == (ANSWER, 1)
    assert "kernel_cache_unwritable" in log


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_read_only_folder_is_done_without(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert run(VIKING_CACHE_DIR=str(tmp_path))[:2] == (ANSWER, 1)


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}])
def test_no_home_is_done_without(environment: dict[str, str]) -> None:
    assert run(**environment) == (ANSWER, 1, "")


def test_home_has_a_cache(tmp_path: Path) -> None:
    assert run(HOME=str(tmp_path)) == (ANSWER, 0, "")
    assert files_in(tmp_path / ".cache" / "viking-rpc", "*.nbi")


def test_two_processes_may_fill_the_cache_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    environment = {"VIKING_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in processes:
        out, log = process.communicate(timeout=120)
        assert out.startswith(ANSWER), log
    assert run(VIKING_CACHE_DIR=str(tmp_path)) == (ANSWER, 0, "")
