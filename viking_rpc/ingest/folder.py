"""Walk a folder: which files an import takes, in which order, under which names, and what it leaves out and why."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from viking_rpc.domain.uri import safe_name, unique_names
from viking_rpc.errors import NotFoundError
from viking_rpc.ingest.ignore import IgnoreRules
from viking_rpc.ingest.skip import Skip, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_MAX_FILE_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to import: where it is, what it is called below the destination, and when it was changed."""

    path: Path
    names: tuple[str, ...]
    n_bytes: int
    update_us: int

    @property
    def display(self) -> str:
        """Return its path below the folder, printable whatever the bytes of its name are."""
        return printable("/".join(self.path.parts[-len(self.names) :]))


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """What a walk takes; hidden files are those whose name begins with a dot, `.git` is never taken."""

    max_file_bytes: int = DEFAULT_MAX_FILE_BYTES
    allow_hidden: bool = False
    is_gitignore_used: bool = True


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    names: tuple[str, ...]
    rules: IgnoreRules


def walk(path: Path, options: WalkOptions | None = None) -> tuple[list[FoundFile], list[Skip]]:
    """Find the files of a folder, or take the one file that the path names.

    Links are not followed: what they lead to inside the folder is taken where it is, and what lies outside was not
    asked for. Ignored and hidden files are left out without a word; everything else that is left out is listed.

    Args:
        path: a folder or a file.
        options: what to take.

    Returns:
        The files, sorted by name within each folder, files before sub-folders; and what was skipped.

    Raises:
        NotFoundError: the path does not exist; reason PATH_NOT_FOUND.
    """
    options = options or WalkOptions()
    root = os.path.realpath(path)
    skipped: list[Skip] = []
    if not os.path.exists(root):
        raise NotFoundError("PATH_NOT_FOUND", f"there is no file or folder {printable(str(path))}", {"path": str(path)})
    if not os.path.isdir(root):
        file = Path(root)
        found = _check_file(file.name, os.stat(root), Path(root), (safe_name(file.name),), options, skipped)
        return ([found] if found else []), skipped
    files: list[FoundFile] = []
    rules = IgnoreRules.above(root) if options.is_gitignore_used else IgnoreRules()
    stack = [_Folder(root, (), rules)]
    while stack:
        folder = stack.pop()
        found_files, folders = _list_folder(folder, root, options, skipped)
        files += found_files
        stack += reversed(folders)
    return files, skipped


def _list_folder(
    folder: _Folder, root: str, options: WalkOptions, skipped: list[Skip]
) -> tuple[list[FoundFile], list[_Folder]]:
    relative = folder.path[len(root) + 1 :]
    rules = folder.rules
    try:
        if options.is_gitignore_used:
            rules = rules.inside(folder.path, skipped_as=relative, skipped=skipped)
        with os.scandir(folder.path) as listing:
            entries = sorted(_wanted(listing, rules, options), key=lambda entry: entry.name)
    except OSError as error:
        skipped.append(_unreadable(relative or ".", error))
        return [], []
    files: list[FoundFile] = []
    folders: list[_Folder] = []
    for entry, name in zip(entries, unique_names(entry.name for entry in entries), strict=True):
        display = printable(entry.path[len(root) + 1 :])
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            skipped.append(_unreadable(display, error))
            continue
        if stat.S_ISDIR(status.st_mode):
            folders.append(_Folder(entry.path, (*folder.names, name), rules))
            continue
        found = _check_file(display, status, Path(entry.path), (*folder.names, name), options, skipped)
        if found:
            files.append(found)
    return files, folders


def _wanted(
    listing: Iterator[os.DirEntry[str]], rules: IgnoreRules, options: WalkOptions
) -> Iterator[os.DirEntry[str]]:
    for entry in listing:
        if entry.name == ".git" or (entry.name.startswith(".") and not options.allow_hidden):
            continue
        if rules.is_ignored(entry.path, is_folder=entry.is_dir(follow_symlinks=False)):
            continue
        yield entry


def _check_file(
    display: str, status: os.stat_result, path: Path, names: tuple[str, ...], options: WalkOptions, skipped: list[Skip]
) -> FoundFile | None:
    if stat.S_ISLNK(status.st_mode):
        target = printable(os.path.realpath(path))
        skipped.append(Skip(display, "SYMBOLIC_LINK", f"links are not followed; it leads to {target}"))
    elif not stat.S_ISREG(status.st_mode):
        skipped.append(Skip(display, "NOT_A_FILE", "it is a pipe, a socket or a device"))
    elif status.st_size == 0:
        skipped.append(Skip(display, "EMPTY_FILE", "the file is empty"))
    elif status.st_size > options.max_file_bytes:
        message = f"the file has {status.st_size} bytes, the limit is {options.max_file_bytes}"
        skipped.append(Skip(display, "FILE_TOO_LARGE", message))
    else:
        return FoundFile(path, names, status.st_size, status.st_mtime_ns // 1000)
    return None


def _unreadable(display: str, error: OSError) -> Skip:
    reason = "PERMISSION_DENIED" if isinstance(error, PermissionError) else "UNREADABLE"
    return Skip(printable(display), reason, error.strerror or type(error).__name__)
