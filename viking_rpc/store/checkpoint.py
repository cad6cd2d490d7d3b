"""Derived files on disk: named arrays, blobs and opaque files of one revision, checked whole before they are used."""

from __future__ import annotations

import errno
import json
import mmap
import os
import re
import zlib
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from viking_rpc.errors import DataLossError, FailedPreconditionError, ResourceExhaustedError, VikingError
from viking_rpc.store.files import ALIGNMENT, SummedFile, copy, flush, holes_of, sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

FORMAT_VERSION = 2
#: The data file begins with this, so that no offset is 0 and an empty checkpoint can be mapped.
_MAGIC = b"viking-checkpoint\n".ljust(ALIGNMENT, b"\0")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
#: Errors of the system that mean a full disk.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StaleCheckpointError(FailedPreconditionError):
    """There is no checkpoint, or a whole one of another state, model, layout or format."""


class DamagedCheckpointError(DataLossError):
    """A checkpoint is there and cannot be trusted."""


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What a checkpoint holds. Arrays are read-only views of the mapped file; they keep it mapped, deleted or not.

    `buffers` holds those arrays that have room, with that room at their end, to be written into: the mapping is
    private, so what is written there is this process's own memory, and all else stays shared with other processes.
    """

    revision: int
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    buffers: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)


def write_checkpoint(  # noqa: PLR0913 - what a checkpoint holds, by keyword
    folder: Path,
    name: str,
    *,
    revision: int,
    model: str,
    dimensions: int,
    layout: str = "",
    arrays: Mapping[str, NDArray[Any]] | None = None,
    room: Mapping[str, int] | None = None,
    blobs: Mapping[str, bytes] | None = None,
    files: Mapping[str, Callable[[Path], object]] | None = None,
) -> None:
    """Replace the checkpoint of a name, atomically: after a crash there is the old one or the new one.

    One process at a time writes a name; readers need no lock.

    Args:
        folder: made when it is missing.
        name: letters, digits, `_` and `-`.
        revision: the state that this stands for.
        model, dimensions: whose vectors these are.
        layout: all else that must be equal for a reader, as the caller words it (store id, versions of the index).
        arrays: of numbers, any shape, little-endian; stored in C order.
        room: by array, entries along the first axis that a reader may append in place; holes in the file, which take
            no room on the disk.
        files: by name, a function that writes the file to the path that it is given.

    Raises:
        ResourceExhaustedError: DISK_FULL; the old checkpoint is as it was, as with every error.
        FailedPreconditionError: DATA_DIRECTORY_READ_ONLY, the folder cannot be written.
        VikingError: CHECKPOINT_NAME, CHECKPOINT_DTYPE; the caller's mistake.
    """
    if not _NAME.fullmatch(name):
        raise VikingError("CHECKPOINT_NAME", f"{name!r} cannot name a checkpoint", {"name": name})
    stem = f"{name}.{revision:x}.{os.urandom(4).hex()}"
    made: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made.append(folder / f"{stem}.data")
        sections, whole = _write_data(made[0], arrays or {}, room or {}, blobs or {})
        manifest: dict[str, object] = {
            "format": FORMAT_VERSION,
            "revision": revision,
            **_identity(model, dimensions, layout),
            "data": {"file": made[0].name, **whole},
            **sections,
            "files": {},
        }
        entries = cast("dict[str, object]", manifest["files"])
        for i, (key, save) in enumerate((files or {}).items()):
            made.append(folder / f"{stem}.{i}.file")
            save(made[-1])
            flush(made[-1])
            entries[key] = {"file": made[-1].name, **sums(made[-1])}
        made.append(folder / f"{stem}.tmp")
        made[-1].write_bytes(_sealed(manifest))
        flush(made[-1])
        flush(folder)  # the names of the files above, before the manifest that needs them
        made.pop().replace(_manifest_path(folder, name))
    except OSError as error:
        _remove(made)
        raise _write_error(error, folder) from error
    except BaseException:
        _remove(made)
        raise
    flush(folder)
    _remove(path for path in folder.glob(f"{name}.*.*") if path not in made)


def read_checkpoint(
    folder: Path, name: str, *, model: str, dimensions: int, layout: str = "", max_revision: int | None = None
) -> Checkpoint:
    """Map a checkpoint after every byte of it was checked.

    Args:
        folder, name: where it was written.
        model, dimensions, layout: must equal what it was written with.
        max_revision: a checkpoint of a later revision is of a state that the store does not know (a restored backup).

    Raises:
        StaleCheckpointError: CHECKPOINT_MISSING, CHECKPOINT_FORMAT, CHECKPOINT_IDENTITY or CHECKPOINT_FROM_FUTURE.
        DamagedCheckpointError: CHECKPOINT_DAMAGED; the message says which file and how.
    """
    path = _manifest_path(folder, name)
    while True:
        manifest, raw = _read_manifest(path)
        _check_identity(manifest, path, _identity(model, dimensions, layout), max_revision)
        try:
            return _map(folder, manifest)
        except FileNotFoundError as error:
            # A writer may have put a newer one in its place since we read the manifest.
            if path.exists() and path.read_bytes() != raw:
                continue
            raise _damaged(path, f"{error.filename} is missing") from error
        except OSError as error:
            raise _damaged(path, f"it cannot be read: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, f"its manifest makes no sense: {error!r}") from error


def read_revision(folder: Path, name: str, *, model: str, dimensions: int, layout: str = "") -> int:
    """Return the revision that a manifest tells, 0 when there is none that fits; what it names is not looked at."""
    path = _manifest_path(folder, name)
    try:
        manifest, _ = _read_manifest(path)
        _check_identity(manifest, path, _identity(model, dimensions, layout), None)
    except (StaleCheckpointError, DamagedCheckpointError):
        return 0
    return int(manifest["revision"])


def copy_checkpoint(source: Path, target: Path, name: str, *, relabel: Callable[[str], str]) -> bool:
    """Copy a checkpoint into another folder, where it has another layout; a writer may replace it meanwhile.

    Args:
        source, target: folders; the target is made when it is missing.
        name: of the checkpoint, in both.
        relabel: makes the copy's layout from the original's.

    Returns:
        Whether there was one to copy; damaged ones are left out, for they are rebuilt anyway.

    Raises:
        OSError: the target cannot be written.
    """
    path = _manifest_path(source, name)
    while True:
        try:
            manifest, raw = _read_manifest(path)
        except (StaleCheckpointError, DamagedCheckpointError):
            return False
        made: list[Path] = []
        target.mkdir(parents=True, exist_ok=True)
        try:
            for entry in chain([manifest["data"]], manifest["files"].values()):
                made.append(target / entry["file"])
                copy(source / entry["file"], made[-1], entry)
                flush(made[-1])
        except FileNotFoundError:
            _remove(made)
            if not path.exists() or path.read_bytes() == raw:
                return False
            continue
        temporary = target / f"{name}.tmp"
        temporary.write_bytes(_sealed({**manifest, "layout": relabel(manifest["layout"])}))
        flush(temporary)
        temporary.replace(_manifest_path(target, name))
        flush(target)
        return True


def remove_checkpoint(folder: Path, name: str) -> None:
    """Delete a checkpoint and all that is left of older ones."""
    _remove([_manifest_path(folder, name), *folder.glob(f"{name}.*.*")])


# -- writing


def _write_data(
    path: Path, arrays: Mapping[str, NDArray[Any]], room: Mapping[str, int], blobs: Mapping[str, bytes]
) -> tuple[dict[str, object], dict[str, object]]:
    """Write arrays and blobs into one file; returns where each lies, and the file's size, checksum and holes."""
    placed_arrays: dict[str, dict[str, object]] = {}
    placed_blobs = {}
    with path.open("xb") as file:
        out = SummedFile(file)
        out.write(_MAGIC)
        for key, array in arrays.items():
            stored = np.asarray(array, order="C")
            if stored.dtype.kind not in "biuf" or stored.dtype != stored.dtype.newbyteorder("<"):
                message = f"array {key} is {stored.dtype}; a checkpoint takes little-endian numbers"
                raise VikingError("CHECKPOINT_DTYPE", message, {"array": key, "dtype": str(stored.dtype)})
            place = placed_arrays[key] = {"dtype": stored.dtype.str, "shape": stored.shape, "offset": out.align()}
            out.write(stored.reshape(-1).view(np.uint8).data)
            if room.get(key):
                place["room"] = room[key]
                out.skip(room[key] * int(np.prod(stored.shape[1:], dtype=np.int64)) * stored.itemsize)
        for key, blob in blobs.items():
            placed_blobs[key] = {"size": len(blob), "offset": out.align()}
            out.write(blob)
        file.truncate(out.size)  # it may end in a hole
        file.flush()
        os.fsync(file.fileno())
    whole = {"size": out.size, "crc32": out.crc32, "holes": out.holes}
    return {"arrays": placed_arrays, "blobs": placed_blobs}, whole


def _sealed(manifest: Mapping[str, object]) -> bytes:
    """Return a manifest as JSON on one line, and its checksum on the next."""
    text = json.dumps(manifest, ensure_ascii=True, sort_keys=True).encode()
    return b"%s\n%08x\n" % (text, zlib.crc32(text))


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _write_error(error: OSError, folder: Path) -> VikingError:
    facts = {"path": str(folder), "error": str(error)}
    if error.errno in NO_ROOM:
        return ResourceExhaustedError("DISK_FULL", f"no room to write a checkpoint into {folder}", facts)
    message = f"no checkpoint can be written into {folder} ({error})"
    return FailedPreconditionError("DATA_DIRECTORY_READ_ONLY", message, facts)


# -- reading


def _read_manifest(path: Path) -> tuple[dict[str, Any], bytes]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        message = f"there is no checkpoint at {path}"
        raise StaleCheckpointError("CHECKPOINT_MISSING", message, {"path": str(path)}) from None
    except OSError as error:
        raise _damaged(path, f"it cannot be read: {error}") from error
    text, _, seal = raw.partition(b"\n")
    if seal != b"%08x\n" % zlib.crc32(text):
        raise _damaged(path, "the checksum of its manifest is wrong")
    manifest = json.loads(text)
    if manifest.get("format") != FORMAT_VERSION:
        message = f"{path} has format {manifest.get('format')}, this release reads {FORMAT_VERSION}"
        facts = {"path": str(path), "found": str(manifest.get("format")), "supported": str(FORMAT_VERSION)}
        raise StaleCheckpointError("CHECKPOINT_FORMAT", message, facts)
    return manifest, raw


def _check_identity(
    manifest: Mapping[str, Any], path: Path, wanted: Mapping[str, object], max_revision: int | None
) -> None:
    differing = [key for key, value in wanted.items() if manifest.get(key) != value]
    if differing:
        told = ", ".join(f"{key} {manifest.get(key)} instead of {wanted[key]}" for key in differing)
        facts = {"path": str(path)} | {key: str(manifest.get(key)) for key in differing}
        raise StaleCheckpointError("CHECKPOINT_IDENTITY", f"{path} has {told}", facts)
    revision = manifest["revision"]
    if max_revision is not None and revision > max_revision:
        message = f"{path} is of revision {revision}, the store is at {max_revision}"
        facts = {"path": str(path), "found": str(revision), "stored": str(max_revision)}
        raise StaleCheckpointError("CHECKPOINT_FROM_FUTURE", message, facts)


def _map(folder: Path, manifest: Mapping[str, Any]) -> Checkpoint:
    entries = manifest["files"]
    for entry in chain([manifest["data"]], entries.values()):
        path = folder / entry["file"]
        if path.stat().st_size != entry["size"]:
            raise _damaged(path, f"it has {path.stat().st_size} bytes instead of {entry['size']}")
        if sums(path, holes_of(entry))["crc32"] != entry["crc32"]:
            raise _damaged(path, "its checksum is wrong")
    with (folder / manifest["data"]["file"]).open("rb") as file:
        has_room = bool(holes_of(manifest["data"]))
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY if has_room else mmap.ACCESS_READ)
    places = manifest["arrays"].items()
    return Checkpoint(
        revision=manifest["revision"],
        arrays={key: _view(mapped, place) for key, place in places},
        buffers={key: _view(mapped, place, place["room"]) for key, place in places if "room" in place},
        blobs={key: mapped[b["offset"] : b["offset"] + b["size"]] for key, b in manifest["blobs"].items()},
        files={key: folder / entry["file"] for key, entry in entries.items()},
    )


def _view(mapped: mmap.mmap, place: Mapping[str, Any], room: int = 0) -> NDArray[Any]:
    """Return an array, read-only; or with its room, to be written."""
    shape = tuple(place["shape"])
    if room:
        shape = (shape[0] + room, *shape[1:])
    n_values = int(np.prod(shape, dtype=np.int64))
    if n_values == 0:  # it may lie at the very end, where nothing can be viewed
        empty = np.empty(shape, place["dtype"])
        empty.setflags(write=False)
        return empty
    array = np.frombuffer(mapped, place["dtype"], n_values, place["offset"]).reshape(shape)
    array.setflags(write=room > 0)
    return array


def _identity(model: str, dimensions: int, layout: str) -> dict[str, object]:
    return {"model": model, "dimensions": dimensions, "layout": layout}


def _manifest_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _damaged(path: Path, how: str) -> DamagedCheckpointError:
    return DamagedCheckpointError("CHECKPOINT_DAMAGED", f"{path} is damaged: {how}", {"path": str(path)})
