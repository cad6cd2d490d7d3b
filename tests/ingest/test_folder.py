"""The walk: what is taken, in which order, and why the rest is not."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from viking_rpc.errors import NotFoundError
from viking_rpc.ingest.folder import WalkOptions, walk


def make(root: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def taken(root: Path, options: WalkOptions | None = None) -> list[str]:
    return ["/".join(found.names) for found in walk(root, options)[0]]


def skipped(root: Path, options: WalkOptions | None = None) -> dict[str, str]:
    return {skip.path: skip.reason for skip in walk(root, options)[1]}


def test_order_is_files_then_folders_by_name(tmp_path: Path) -> None:
    make(tmp_path, "b.md", "a/z.md", "a/b/c.md", "C.md", "d/1.md")
    assert taken(tmp_path) == ["C.md", "b.md", "a/z.md", "a/b/c.md", "d/1.md"]


def test_gitignore_files_nest_and_negate(tmp_path: Path) -> None:
    make(tmp_path, "a.log", "keep.log", "sub/a.log", "sub/b.log", "build/x.md", "sub/build/x.md", "sub/only.tmp")
    make(tmp_path, "deep/er/a.tmp", "deep/er/keep.tmp", ".git/config", "sub/.git/config")
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/build/\n*.tmp\n")
    (tmp_path / "sub" / ".gitignore").write_text("!b.log\n")
    (tmp_path / "deep" / "er" / ".gitignore").write_text("!keep.tmp\n")
    assert taken(tmp_path) == ["keep.log", "deep/er/keep.tmp", "sub/b.log", "sub/build/x.md"]
    everything = taken(tmp_path, WalkOptions(is_gitignore_used=False))
    assert "a.log" in everything
    assert "build/x.md" in everything


def test_rules_of_the_repository_above_hold_unless_they_ignore_the_folder_itself(tmp_path: Path) -> None:
    make(tmp_path, ".git/HEAD", "docs/a.md", "docs/out/b.md", "vendor/c.md")
    (tmp_path / ".gitignore").write_text("out/\nvendor/\n")
    assert taken(tmp_path / "docs") == ["a.md"]
    assert taken(tmp_path / "vendor") == ["c.md"]


def test_a_bad_pattern_is_listed_and_the_others_hold(tmp_path: Path) -> None:
    make(tmp_path, "a.log", "b.md")
    (tmp_path / ".gitignore").write_text("!\n*.log\n")
    assert taken(tmp_path) == ["b.md"]
    assert skipped(tmp_path) == {".gitignore": "BAD_PATTERN"}


def test_hidden_files_only_when_wanted(tmp_path: Path) -> None:
    make(tmp_path, ".env", ".github/x.md", "a.md", ".git/x")
    assert taken(tmp_path) == ["a.md"]
    assert taken(tmp_path, WalkOptions(allow_hidden=True)) == [".env", "a.md", ".github/x.md"]


def test_links_are_listed_and_not_followed(tmp_path: Path) -> None:
    make(tmp_path, "real/a.md")
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "out").symlink_to("/etc")
    assert taken(tmp_path) == ["real/a.md"]
    assert skipped(tmp_path) == dict.fromkeys(["real/loop", "self", "out"], "SYMBOLIC_LINK")


def test_the_path_itself_may_be_a_link(tmp_path: Path) -> None:
    make(tmp_path, "real/a.md")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert taken(tmp_path / "link") == ["a.md"]


def test_empty_large_and_special_files_are_listed(tmp_path: Path) -> None:
    make(tmp_path, "empty.md", text="")
    make(tmp_path, "large.md", text="x" * 101)
    make(tmp_path, "fits.md", text="x" * 100)
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        before = Path.cwd()
        os.chdir(tmp_path)  # the path of a socket has few bytes
        try:
            unix.bind("sock")
        finally:
            os.chdir(before)
    options = WalkOptions(max_file_bytes=100)
    assert taken(tmp_path, options) == ["fits.md"]
    assert skipped(tmp_path, options) == {
        "empty.md": "EMPTY_FILE", "large.md": "FILE_TOO_LARGE", "pipe": "NOT_A_FILE", "sock": "NOT_A_FILE",
    }  # fmt: skip


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_folders_are_listed(tmp_path: Path) -> None:
    make(tmp_path, "closed/a.md", "open.md")
    (tmp_path / "closed").chmod(0)
    try:
        assert taken(tmp_path) == ["open.md"]
        assert skipped(tmp_path) == {"closed": "PERMISSION_DENIED"}
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_names_become_valid_and_distinct(tmp_path: Path) -> None:
    make(tmp_path, "a?.md", "a#.md", "a_.md", "\u4e2d \u6587.md")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.md")).write_text("x")
    names = taken(tmp_path)
    assert set(names) >= {"a_.md", "a_-2.md", "a_-3.md", "\u4e2d \u6587.md"}
    assert len(set(names)) == 5
    assert all(name.encode() for name in names)


def test_one_file_and_no_file(tmp_path: Path) -> None:
    make(tmp_path, "a b.md")
    assert taken(tmp_path / "a b.md") == ["a b.md"]
    with pytest.raises(NotFoundError, match=r"nothing\.md"):
        walk(tmp_path / "nothing.md")


def test_a_very_deep_tree_is_walked(tmp_path: Path) -> None:
    depth = 1_050  # deeper than Python recurses
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        for _ in range(depth):
            Path("d").mkdir()
            os.chdir("d")
        Path("leaf.md").write_text("x")
        found = walk(tmp_path)[0]
    finally:
        os.chdir(before)
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # pytest cannot clean so deep a tree
    assert len(found) == 1
