"""The file of keys: made by many at once, read while it is written, and never taken for another one."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from viking_rpc.domain.identity import Role
from viking_rpc.domain.keys import KeyLimits, Token, check_token
from viking_rpc.errors import FailedPreconditionError, NotFoundError, UnauthenticatedError, VikingError
from viking_rpc.store.keys import KEYS_NAME, KeyReader, add_key, check_keys, list_keys, revoke_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from viking_rpc.domain.keys import Key

NOW_US = 1_767_225_600_000_000
N_AT_ONCE = 8
N_KEYS = 24


def add(folder: Path, user: str = "alice", now_us: int = NOW_US) -> tuple[Key, Token]:
    """Make a key."""
    return add_key(folder, account="acme", user=user, role=Role.USER, now_us=now_us)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[KeyReader]:
    """Return a reader of the keys."""
    reader = KeyReader(tmp_path)
    yield reader
    reader.close()


def test_what_is_added_is_listed_and_found(tmp_path: Path, reader: KeyReader) -> None:
    limits = KeyLimits(2.5, 10, 0)
    how = {"may_act_for": True, "expires_us": NOW_US + 1, "limits": limits}
    key, token = add_key(tmp_path, account="acme", user="alice", role=Role.ADMIN, now_us=NOW_US, **how)  # type: ignore[arg-type]
    later, _ = add(tmp_path, now_us=NOW_US + 1)
    assert list_keys(tmp_path) == [key, later]
    assert (key.id, key.limits, key.expires_us) == (token.id, limits, NOW_US + 1)
    assert reader.look()
    assert reader.find(key.id) == key
    assert reader.find("nobody") is None
    assert check_token(token, reader.find(token.id), NOW_US) == key


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the rights of an administrator")
def test_the_file_belongs_to_who_has_the_folder(tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 2345)
    add(tmp_path)
    found = (tmp_path / KEYS_NAME).stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 2345, 0o600)


def test_many_make_the_first_key_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(N_AT_ONCE) as threads:
        made = list(threads.map(lambda i: add(tmp_path, f"u{i}"), range(N_KEYS)))
    assert {key.id for key in list_keys(tmp_path)} == {key.id for key, _ in made}
    assert [path.name for path in tmp_path.iterdir()] == [KEYS_NAME]


def test_a_reader_notices_every_change_and_nothing_else(tmp_path: Path, reader: KeyReader) -> None:
    assert not reader.look()
    assert not reader.has_file
    key, _ = add(tmp_path)
    assert [reader.look() for _ in range(3)] == [True, False, False]
    assert reader.has_file
    add(tmp_path)
    assert [reader.look() for _ in range(2)] == [True, False]
    revoke_key(tmp_path, key.id, now_us=NOW_US + 5)
    assert [reader.look() for _ in range(2)] == [True, False]
    found = reader.find(key.id)
    assert found is not None
    assert found.revoked_us == NOW_US + 5
    revoke_key(tmp_path, key.id, now_us=NOW_US + 6)
    assert [one.revoked_us for one in list_keys(tmp_path) if one.id == key.id] == [NOW_US + 5]
    (tmp_path / KEYS_NAME).unlink()
    assert [reader.look() for _ in range(2)] == [True, False]
    assert reader.find(key.id) is None


def test_a_reader_stands_a_writer(tmp_path: Path, reader: KeyReader) -> None:
    key, _ = add(tmp_path)
    assert reader.look()
    with closing(sqlite3.connect(tmp_path / KEYS_NAME, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("UPDATE key SET user = 'bob'")
        assert not reader.look()
        with pytest.raises(VikingError) as caught:
            reader.find(key.id)
        assert caught.value.reason == "DATABASE_BUSY"
        writer.execute("COMMIT")
    assert reader.look()
    found = reader.find(key.id)
    assert found is not None
    assert found.user == "bob"


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path, reader: KeyReader) -> None:
    first, _ = add(tmp_path)
    reader.look()
    other, _ = add(tmp_path / "other")
    (tmp_path / "other" / KEYS_NAME).replace(tmp_path / KEYS_NAME)
    assert reader.look()
    assert (reader.find(first.id), reader.find(other.id)) == (None, other)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "NOT_OUR_DATABASE"), (b"garbage" * 1000, "DATABASE_CORRUPT")],
)
def test_another_file_is_never_taken_for_keys(tmp_path: Path, reader: KeyReader, content: bytes, reason: str) -> None:
    (tmp_path / KEYS_NAME).write_bytes(content)
    for act in (lambda: list_keys(tmp_path), lambda: add(tmp_path), reader.look):
        with pytest.raises(VikingError) as caught:
            act()
        assert caught.value.reason == reason
    assert check_keys(tmp_path)
    assert reader.has_file
    assert (tmp_path / KEYS_NAME).read_bytes() == content


def test_a_file_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    add(tmp_path)
    with closing(sqlite3.connect(tmp_path / KEYS_NAME)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(FailedPreconditionError) as caught:
        list_keys(tmp_path)
    assert (caught.value.reason, caught.value.metadata["found"]) == ("SCHEMA_TOO_NEW", "2")


def test_where_nothing_can_be_written_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FailedPreconditionError) as caught:
        add(tmp_path / "file")
    assert caught.value.reason == "DATA_DIRECTORY_READ_ONLY"
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208 - names are enough


def test_without_keys_nothing_is_listed_and_nothing_made(tmp_path: Path) -> None:
    assert (list_keys(tmp_path), check_keys(tmp_path)) == ([], "")
    with pytest.raises(NotFoundError) as caught:
        revoke_key(tmp_path, "abcdefgh", now_us=NOW_US)
    assert caught.value.reason == "KEY_NOT_FOUND"
    assert not list(tmp_path.iterdir())


def test_tokens_are_never_alike_and_read_back(tmp_path: Path) -> None:
    tokens = [Token.new() for _ in range(1000)]
    assert len({token.secret for token in tokens}) == len(tokens)
    assert [Token.parse(token.reveal()) for token in tokens] == tokens
    key, token = add(tmp_path)
    for wrong in (None, Token(key.id, "a" * 52), Token.new()):
        with pytest.raises(UnauthenticatedError):
            check_token(wrong, key, NOW_US)
    with pytest.raises(UnauthenticatedError):
        check_token(token, None, NOW_US)
