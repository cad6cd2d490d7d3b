"""A checkpoint comes back whole or not at all."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from viking_rpc.errors import ResourceExhaustedError, VikingError
from viking_rpc.store.checkpoint import (
    Checkpoint,
    DamagedCheckpointError,
    StaleCheckpointError,
    copy_checkpoint,
    read_checkpoint,
    remove_checkpoint,
    write_checkpoint,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODEL: dict[str, Any] = {"model": "m", "dimensions": 4, "layout": "index-1"}


def write(folder: Path, revision: int = 7, name: str = "tree") -> dict[str, np.ndarray[Any, Any]]:
    arrays = {
        "vector": np.arange(12, dtype=np.float32).reshape(3, 4),
        "flag": np.array([True, False]),
        "empty": np.empty((0, 4), np.float32),
        "one": np.array(revision),
        "columns": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
    }
    write_checkpoint(
        folder,
        name,
        revision=revision,
        **MODEL,
        arrays=arrays,
        blobs={"text": b"abc", "none": b""},
        files={"usearch": lambda path: path.write_bytes(b"opaque" * 50)},
    )
    return arrays


def read(folder: Path, name: str = "tree", **changed: Any) -> Checkpoint:
    return read_checkpoint(folder, name, **(MODEL | changed))


def test_what_was_written_comes_back_read_only_and_aligned(tmp_path: Path) -> None:
    written = write(tmp_path)
    found = read(tmp_path)
    assert found.revision == 7
    assert set(found.arrays) == set(written)
    for key, array in found.arrays.items():
        assert array.dtype == written[key].dtype
        assert array.shape == written[key].shape
        assert np.array_equal(array, written[key])
        assert not array.flags.writeable
        assert array.flags.c_contiguous
        assert array.size == 0 or array.ctypes.data % 64 == 0
    assert found.blobs == {"text": b"abc", "none": b""}
    assert found.files["usearch"].read_bytes() == b"opaque" * 50


_dtypes = st.sampled_from(["<f4", "<f8", "<i4", "<i8", "<u2", "<u8", "|u1", "|i1", "|b1", "<f2"])
_arrays = st.dictionaries(
    st.text(max_size=5),
    _dtypes.flatmap(lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, max_side=5, min_side=0))),
    max_size=4,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays=_arrays, blobs=st.dictionaries(st.text(max_size=5), st.binary(max_size=200), max_size=3))
def test_any_arrays_and_blobs_come_back(
    tmp_path: Path, arrays: dict[str, np.ndarray[Any, Any]], blobs: dict[str, bytes]
) -> None:
    write_checkpoint(tmp_path, "any", revision=1, **MODEL, arrays=arrays, blobs=blobs)
    found = read(tmp_path, "any")
    assert {key: array.tobytes() for key, array in found.arrays.items()} == {k: a.tobytes() for k, a in arrays.items()}
    assert {key: (a.dtype, a.shape) for key, a in found.arrays.items()} == {
        k: (a.dtype, a.shape) for k, a in arrays.items()
    }
    assert found.blobs == blobs


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_flipped_bit_is_ever_trusted(tmp_path: Path, data: st.DataObject) -> None:
    if not list(tmp_path.iterdir()):
        write(tmp_path)
    path = data.draw(st.sampled_from(sorted(tmp_path.iterdir())))
    whole = path.read_bytes()
    i = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[i] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(flipped)
    try:
        with pytest.raises((DamagedCheckpointError, StaleCheckpointError)):
            read(tmp_path)
    finally:
        path.write_bytes(whole)
    assert read(tmp_path).revision == 7


@pytest.mark.parametrize("suffix", ["json", "data", "file"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "longer", "empty"])
def test_a_damaged_file_is_named(tmp_path: Path, suffix: str, damage: str) -> None:
    write(tmp_path)
    path = next(tmp_path.glob(f"*.{suffix}"))
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"truncated": whole[:-1], "longer": whole + b"\0", "empty": b""}[damage])
    with pytest.raises((DamagedCheckpointError, StaleCheckpointError)) as caught:
        read(tmp_path)
    is_missing_manifest = damage == "missing" and suffix == "json"
    assert caught.value.reason == ("CHECKPOINT_MISSING" if is_missing_manifest else "CHECKPOINT_DAMAGED")
    assert path.name in caught.value.message


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest and seal it again, as another release or another store would have written it."""
    path = folder / "tree.json"
    manifest = json.loads(path.read_bytes().splitlines()[0])
    change(manifest)
    text = json.dumps(manifest).encode()
    path.write_bytes(b"%s\n%08x\n" % (text, zlib.crc32(text)))


@pytest.mark.parametrize("changed", [{"model": "other"}, {"dimensions": 5}, {"layout": "index-2"}])
def test_a_checkpoint_of_another_model_or_layout_is_stale(tmp_path: Path, changed: dict[str, Any]) -> None:
    write(tmp_path)
    with pytest.raises(StaleCheckpointError) as caught:
        read(tmp_path, **changed)
    assert caught.value.reason == "CHECKPOINT_IDENTITY"
    assert str(next(iter(changed.values()))) in caught.value.message


def test_a_checkpoint_of_another_format_is_stale(tmp_path: Path) -> None:
    write(tmp_path)
    rewrite(tmp_path, lambda manifest: manifest.update(format=99))
    with pytest.raises(StaleCheckpointError) as caught:
        read(tmp_path)
    assert caught.value.reason == "CHECKPOINT_FORMAT"


def test_a_checkpoint_of_a_later_revision_than_the_stores_is_stale(tmp_path: Path) -> None:
    write(tmp_path)
    assert read(tmp_path, max_revision=7).revision == 7
    with pytest.raises(StaleCheckpointError) as caught:
        read(tmp_path, max_revision=6)
    assert caught.value.reason == "CHECKPOINT_FROM_FUTURE"


def test_a_manifest_without_sense_is_damage(tmp_path: Path) -> None:
    for change in (lambda m: m.pop("arrays"), lambda m: m["arrays"]["vector"].update(offset=10**9)):
        write(tmp_path)
        rewrite(tmp_path, change)
        with pytest.raises(DamagedCheckpointError):
            read(tmp_path)


def test_only_the_newest_checkpoint_of_a_name_is_kept_and_old_views_live_on(tmp_path: Path) -> None:
    write(tmp_path, name="other")
    n_files = len(list(tmp_path.iterdir()))
    write(tmp_path, revision=1)
    old = read(tmp_path)
    (tmp_path / "tree.1.dead.data").write_bytes(b"left by a crash")
    write(tmp_path, revision=2)
    assert read(tmp_path).revision == 2
    assert len(list(tmp_path.iterdir())) == 2 * n_files
    assert old.arrays["one"] == 1
    remove_checkpoint(tmp_path, "tree")
    assert len(list(tmp_path.iterdir())) == n_files
    assert read(tmp_path, "other").revision == 7


def test_a_writer_that_fails_leaves_the_old_checkpoint_and_no_rubbish(tmp_path: Path) -> None:
    write(tmp_path)
    before = sorted(tmp_path.iterdir())

    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_checkpoint(tmp_path, "tree", revision=8, **MODEL, files={"usearch": fail})
    with pytest.raises(VikingError) as caught:
        write_checkpoint(tmp_path, "tree", revision=8, **MODEL, arrays={"text": np.array(["a"])})
    assert caught.value.reason == "CHECKPOINT_DTYPE"
    assert sorted(tmp_path.iterdir()) == before
    assert read(tmp_path).revision == 7


def test_a_disk_without_room_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    write(tmp_path)
    before = sorted(tmp_path.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, hard))
    try:
        with pytest.raises(ResourceExhaustedError):
            write_checkpoint(tmp_path, "tree", revision=8, **MODEL, arrays={"big": np.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(tmp_path.iterdir()) == before
    assert read(tmp_path).revision == 7


def test_a_reader_that_meets_a_writer_reads_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, revision=1)
    real_stat = os.stat
    n_writes = 0

    def stat(path: Any, **options: Any) -> os.stat_result:
        nonlocal n_writes
        if str(path).endswith(".data") and n_writes == 0:  # the manifest is read, the data file not yet
            n_writes += 1
            write(tmp_path, revision=2)
        return real_stat(path, **options)

    monkeypatch.setattr(os, "stat", stat)
    assert read(tmp_path).revision == 2
    assert n_writes == 1


_WRITER = """
import itertools, sys
from pathlib import Path
import numpy as np
from viking_rpc.store.checkpoint import write_checkpoint
for revision in itertools.count(int(sys.argv[2])):
    write_checkpoint(Path(sys.argv[1]), "tree", revision=revision, model="m", dimensions=4, layout="index-1",
        arrays={"one": np.full(20_000, revision)}, files={"f": lambda path: path.write_bytes(b"x" * 50_000)})
    print(revision, flush=True)
"""


def test_a_kill_leaves_a_whole_checkpoint_of_the_last_or_the_next_revision(tmp_path: Path) -> None:
    chance = random.Random(3)
    revision = 0
    for _ in range(4):
        arguments = [sys.executable, "-c", _WRITER, str(tmp_path), str(revision + 1)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randrange(1, 20)):
                revision = int(writer.stdout.readline())
            writer.kill()
            revision = max([revision, *(int(line) for line in writer.stdout if line.endswith("\n"))])
        found = read(tmp_path)
        assert found.revision in (revision, revision + 1)
        assert (found.arrays["one"] == found.revision).all()
        revision = found.revision
    write(tmp_path, revision + 1)
    assert len(list(tmp_path.iterdir())) == 3


def test_room_is_written_in_place_by_whoever_maps_it(tmp_path: Path) -> None:
    """What one process appends is its own; the file, its other readers and a copy of it know nothing of it."""
    vectors = np.arange(12, dtype=np.float32).reshape(3, 4)
    for folder in (tmp_path / "first", tmp_path / "copied"):
        if folder.name == "first":
            arrays = {"vectors": vectors, "none": np.empty(0, np.int32), "last": np.arange(3)}
            room = {"vectors": 100_000, "none": 2, "last": 5}
            write_checkpoint(folder, "tree", revision=7, **MODEL, arrays=arrays, room=room)
        else:
            assert copy_checkpoint(tmp_path / "first", folder, "tree", relabel=lambda layout: layout)
        [path] = folder.glob("*.data")
        assert path.stat().st_size > 1_600_000 > 100 * 512 * path.stat().st_blocks
        before = zlib.crc32(path.read_bytes())
        mine, other = read(folder), read(folder)
        assert set(mine.buffers) == {"vectors", "none", "last"}
        assert [len(mine.buffers[key]) for key in ("vectors", "none", "last")] == [100_003, 2, 8]
        assert not mine.arrays["vectors"].flags.writeable
        assert np.shares_memory(mine.arrays["vectors"], mine.buffers["vectors"])
        for buffer in mine.buffers.values():
            buffer[-1] = 9
        assert np.array_equal(mine.arrays["vectors"], vectors)
        assert not any(buffer[-1].any() for buffer in other.buffers.values())
        assert zlib.crc32(path.read_bytes()) == before


@pytest.mark.parametrize("offset", [100, -1], ids=["before a hole", "behind it"])
def test_what_is_around_a_hole_is_checked(tmp_path: Path, offset: int) -> None:
    arrays = {"vectors": np.ones((50, 4), np.float32), "after": np.ones(64, np.uint8)}
    write_checkpoint(tmp_path, "tree", revision=7, **MODEL, arrays=arrays, room={"vectors": 1000})
    [path] = tmp_path.glob("*.data")
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedCheckpointError):
        read(tmp_path)


def test_blocks_are_checked_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block may be a part of an array, of a hole, or of several of them."""
    rng = np.random.default_rng(3)
    arrays = {f"a{n}": rng.integers(0, 255, n).astype(np.uint8) for n in (1, 63, 64, 500, 1000)}
    room = {"a64": 700, "a500": 3}
    whole = {}
    for block_bytes in (64, 100, 1 << 26):
        monkeypatch.setattr("viking_rpc.store.files.BLOCK_BYTES", block_bytes)
        write_checkpoint(tmp_path, "tree", revision=7, **MODEL, arrays=arrays, room=room)
        found = read(tmp_path)
        assert {key: array.tolist() for key, array in found.arrays.items()} == {
            k: a.tolist() for k, a in arrays.items()
        }
        [path] = tmp_path.glob("*.data")
        whole[block_bytes] = path.read_bytes()
        for offset in range(64, len(whole[block_bytes]), 97):
            content = bytearray(whole[block_bytes])
            content[offset] ^= 1
            path.write_bytes(content)
            try:
                again = read(tmp_path)
            except DamagedCheckpointError:
                continue
            assert all(np.array_equal(again.arrays[key], array) for key, array in arrays.items())  # it was in a hole
    assert len(set(whole.values())) == 1
