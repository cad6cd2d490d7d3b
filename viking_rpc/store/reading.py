"""The queries that read contexts, records and changes; each works inside a transaction that its caller holds."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from viking_rpc.domain.context import Context, Kind
from viking_rpc.domain.uri import Uri
from viking_rpc.index.records import ROOT_KEY, ChangeSet, NodeRecord
from viking_rpc.store.codec import KIND_OF, TYPE_OF, decode_answer, decode_relations, decode_row, decode_tags, etag_of
from viking_rpc.store.operations import Committed

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from sqlite3 import Connection

    from viking_rpc.domain.context import Row

#: Keys of one statement; they travel as one JSON array.
KEYS_PER_STATEMENT = 10_000
#: With more changed contexts than this a whole scan is the cheaper way to catch up.
MAX_CHANGED = 100_000
#: A request id is remembered for ten minutes.
REQUEST_MEMORY_US = 600_000_000

_RELATIONS = """
    (SELECT json_group_array(json_array(r.uri, r.reason))
        FROM (SELECT uri, reason FROM relation WHERE context_id = c.id ORDER BY position) r)
"""

# A parameter named :now hides what is expired; the expired are few, so they are counted apart, by their own index.
_CONTEXT = f"""
SELECT c.id, c.name, c.kind, c.type, c.title, c.abstract, c.tags, c.create_us, c.update_us, c.expire_us,
    c.active_count, c.version,
    CASE c.kind WHEN 1 THEN
        (SELECT COUNT(*) FROM context k WHERE k.account_id = c.account_id AND k.parent_id = c.id)
        - (SELECT COUNT(*) FROM context k INDEXED BY context_expiry WHERE k.account_id = c.account_id
            AND k.expire_us > 0 AND k.expire_us <= :now AND k.parent_id = c.id)
    ELSE 0 END,
    {_RELATIONS}
"""
_NO_BODY = ", '', '' FROM context c "
_BODY = ", {overview}, {content} FROM context c LEFT JOIN body b ON b.context_id = c.id "

_RECORD = f"""
SELECT c.id, c.parent_id, c.name, c.kind, c.type, c.title, c.abstract, c.tags, c.create_us, c.update_us, c.expire_us,
    c.active_count, c.version, {_RELATIONS}, r.id, r.vector, r.terms, r.term_counts
FROM context c LEFT JOIN row r ON r.id BETWEEN c.id * 4 AND c.id * 4 + 3
"""

#: Keys of the subtrees that lie under expired contexts, these included.
_EXPIRED = """
WITH RECURSIVE expired (id) AS (
    SELECT id FROM context INDEXED BY context_expiry
        WHERE account_id = :account AND expire_us > 0 AND expire_us <= :now
    UNION SELECT c.id FROM expired e JOIN context c ON c.account_id = :account AND c.parent_id = e.id
)
"""


class Change(IntEnum):
    """What the change log says about a context; the numbers are stored, a touch has the greatest."""

    WRITTEN = 1
    DELETED = 2
    MOVED = 3
    TOUCHED = 4


class Account(NamedTuple):
    """The record of an account."""

    id: int
    revision: int
    log_start: int
    n_changes: int


class Counts(NamedTuple):
    """What an account holds, without what is expired."""

    n_directories: int = 0
    n_files: int = 0
    n_rows: int = 0


def find_account(connection: Connection, name: str) -> Account | None:
    """Return an account's record, None when nothing was ever written to it."""
    query = "SELECT id, revision, log_start, n_changes FROM account WHERE name = ?"
    found = connection.execute(query, (name,)).fetchone()
    return Account(*found) if found else None


def find_key(connection: Connection, account_id: int, segments: Sequence[str], now_us: int) -> int | None:
    """Return the key of a visible context: neither it nor a directory above it is expired. The root is ROOT_KEY."""
    key = ROOT_KEY
    query = "SELECT id, expire_us FROM context WHERE account_id = ? AND parent_id = ? AND name = ?"
    for name in segments:
        found = connection.execute(query, (account_id, key, name)).fetchone()
        if found is None or 0 < found[1] <= now_us:
            return None
        key = found[0]
    return key


def read_context(
    connection: Connection, key: int, uri: str, now_us: int, *, with_overview: bool = False, with_content: bool = False
) -> Context:
    """Return the context of a key that exists."""
    query = _select(with_overview=with_overview, with_content=with_content) + "WHERE c.id = :key"
    parent = uri.rpartition("/")[0] + "/"
    return _context(connection.execute(query, {"key": key, "now": now_us}).fetchone(), parent)


def read_children(  # noqa: PLR0913 - whose children, and which of them by keyword
    connection: Connection,
    account_id: int,
    key: int,
    uri: str,
    *,
    now_us: int,
    after_name: str,
    limit: int,
    with_overview: bool,
    with_content: bool,
) -> list[Context]:
    """Return the visible children of a directory whose names come after one, in the order of their names' bytes."""
    query = _select(with_overview=with_overview, with_content=with_content) + (
        "WHERE c.account_id = :account AND c.parent_id = :key AND c.name > :after"
        " AND (c.expire_us = 0 OR c.expire_us > :now) ORDER BY c.name LIMIT :limit"
    )
    values = {"account": account_id, "key": key, "after": after_name, "now": now_us, "limit": limit}
    parent = uri if key == ROOT_KEY else uri + "/"
    return [_context(found, parent) for found in connection.execute(query, values)]


def read_records(connection: Connection, keys: Iterable[int]) -> list[NodeRecord]:
    """Return the records of those keys that exist, parents first as far as both are among them."""
    query = _RECORD + "WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id, r.id"
    found = [record for part in parts(keys) for record in _records(connection.execute(query, (part,)))]
    # A parent has the greater key only after a move.
    if any(record.parent_key > record.key for record in found):
        depth_of = _depths(found)
        found.sort(key=lambda record: depth_of[record.key])
    return found


def read_counts_of(connection: Connection, keys: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return (key, active count) of those keys that exist."""
    query = "SELECT c.id, c.active_count FROM json_each(?) j JOIN context c ON c.id = j.value"
    return tuple(found for part in parts(keys) for found in connection.execute(query, (part,)))


def scan_records(connection: Connection, account_id: int) -> Generator[NodeRecord, None, None]:
    """Yield every context of an account in the order of keys, from one pass over two b-trees that share that order."""
    query = _RECORD + "WHERE c.account_id = ? ORDER BY c.id, r.id"
    return _records(connection.execute(query, (account_id,)))


def read_bodies(
    connection: Connection, account_id: int, keys: Iterable[int], *, overview: bool, content: bool
) -> dict[int, tuple[str, str]]:
    """Return (overview, content) of those keys that exist; what is not wanted is empty."""
    query = (
        f"SELECT c.id, {_text('overview', wanted=overview)}, {_text('content', wanted=content)} FROM json_each(?) j"
        " JOIN context c ON c.id = j.value AND c.account_id = ? LEFT JOIN body b ON b.context_id = c.id"
    )
    rows = (row for part in parts(keys) for row in connection.execute(query, (part, account_id)))
    return {key: (found_overview, found_content) for key, found_overview, found_content in rows}


def read_changes(connection: Connection, account: Account, revision: int) -> ChangeSet | None:
    """Return what changed after a revision as one change set, None when only a scan can tell."""
    if not account.log_start <= revision <= account.revision:
        return None
    query = "SELECT context_id, MIN(op) FROM change WHERE account_id = ? AND revision > ? GROUP BY context_id LIMIT ?"
    op_of = dict(connection.execute(query, (account.id, revision, MAX_CHANGED + 1)).fetchall())
    if len(op_of) > MAX_CHANGED:
        return None
    keys = [key for key, op in op_of.items() if op != Change.TOUCHED]
    records = read_records(connection, keys)
    gone = set(keys).difference(record.key for record in records)
    touched = read_counts_of(connection, op_of.keys() - keys)
    return ChangeSet(account.revision, tuple(records), tuple(sorted(gone)), touched)


def read_revisions(connection: Connection, accounts: Iterable[str]) -> dict[str, int]:
    """Return the last revision of those accounts that exist."""
    query = "SELECT a.name, a.revision FROM json_each(?) j JOIN account a ON a.name = j.value"
    return dict(connection.execute(query, (json.dumps(list(accounts)),)).fetchall())


def read_staleness(connection: Connection, account: Account, revision: int) -> tuple[int, int]:
    """Return (rows, contexts that were written, moved or deleted after a revision); all rows where the log is short."""
    n_rows: int = connection.execute("SELECT n_rows FROM account WHERE id = ?", (account.id,)).fetchone()[0]
    if not account.log_start <= revision <= account.revision:
        return n_rows, n_rows + 1
    query = "SELECT COUNT(*) FROM change WHERE account_id = ? AND revision > ? AND op <> ?"
    return n_rows, connection.execute(query, (account.id, revision, int(Change.TOUCHED))).fetchone()[0]


def read_answer(connection: Connection, account_id: int, request_id: str, now_us: int) -> Committed | None:
    """Return the first answer to a request id that is remembered, None when there is none."""
    query = "SELECT answer FROM request WHERE account_id = ? AND request_id = ? AND created_us > ?"
    found = connection.execute(query, (account_id, request_id, now_us - REQUEST_MEMORY_US)).fetchone()
    if found is None:
        return None
    revision, n_deleted, contexts = decode_answer(found[0])
    return Committed(revision, ChangeSet(revision), contexts, n_deleted, is_repeat=True)


def read_expired_accounts(connection: Connection, now_us: int) -> list[str]:
    """Return the names of the accounts that hold something expired."""
    query = (
        "SELECT a.name FROM account a WHERE EXISTS (SELECT 1 FROM context c INDEXED BY context_expiry"
        " WHERE c.account_id = a.id AND c.expire_us > 0 AND c.expire_us <= ?)"
    )
    return [name for (name,) in connection.execute(query, (now_us,))]


def read_source_hashes(connection: Connection, account_id: int, key: int, uri: str, now_us: int) -> dict[str, str]:
    """Return URI -> source hash of a visible context and all visible ones below it that have one."""
    query = """
    WITH RECURSIVE below (id, uri, hash) AS (
        SELECT id, :uri, source_hash FROM context WHERE id = :key
        UNION ALL SELECT c.id, b.uri || '/' || c.name, c.source_hash
        FROM below b JOIN context c ON c.account_id = :account AND c.parent_id = b.id
        WHERE c.expire_us = 0 OR c.expire_us > :now
    )
    SELECT uri, hash FROM below WHERE hash <> ''
    """
    values = {"account": account_id, "key": key, "uri": uri, "now": now_us}
    return dict(connection.execute(query, values).fetchall())


def read_counts(connection: Connection, account_id: int, now_us: int) -> Counts:
    """Return how much is visible: all that is stored without the expired subtrees, which are few."""
    query = "SELECT n_directories, n_files, n_rows FROM account WHERE id = ?"
    n_directories, n_files, n_rows = connection.execute(query, (account_id,)).fetchone()
    values = {"account": account_id, "now": now_us}
    query = _EXPIRED + "SELECT c.kind, COUNT(*) FROM expired e JOIN context c ON c.id = e.id GROUP BY c.kind"
    n_hidden: dict[int, int] = dict(connection.execute(query, values).fetchall())
    query = _EXPIRED + "SELECT COUNT(*) FROM expired e JOIN row r ON r.id BETWEEN e.id * 4 AND e.id * 4 + 3"
    n_hidden_rows: int = connection.execute(query, values).fetchone()[0]
    return Counts(
        n_directories - n_hidden.get(Kind.DIRECTORY, 0), n_files - n_hidden.get(Kind.FILE, 0), n_rows - n_hidden_rows
    )


def subtree_keys(connection: Connection, account_id: int, key: int) -> list[int]:
    """Return the keys of a context and of all that lies below it, expired or not."""
    query = """
    WITH RECURSIVE below (id) AS (
        SELECT ? UNION ALL SELECT c.id FROM below b JOIN context c ON c.account_id = ? AND c.parent_id = b.id
    )
    SELECT id FROM below
    """
    return [found for (found,) in connection.execute(query, (key, account_id))]


def parts(keys: Iterable[int]) -> Iterator[str]:
    """Yield keys as JSON arrays of a bounded length, for `IN (SELECT value FROM json_each(?))`."""
    ordered = sorted(keys)
    for lo in range(0, len(ordered), KEYS_PER_STATEMENT):
        yield json.dumps(ordered[lo : lo + KEYS_PER_STATEMENT])


def parse(uri: str) -> tuple[str, ...]:
    """Return the segments of a canonical URI."""
    return Uri.from_canonical(uri).segments


def _select(*, with_overview: bool, with_content: bool) -> str:
    if not (with_overview or with_content):
        return _CONTEXT + _NO_BODY
    overview, content = _text("overview", wanted=with_overview), _text("content", wanted=with_content)
    return _CONTEXT + _BODY.format(overview=overview, content=content)


def _text(column: str, *, wanted: bool) -> str:
    return f"COALESCE(b.{column}, '')" if wanted else "''"


def _context(found: Sequence[Any], parent: str) -> Context:
    key, name, kind, type_, title, abstract, tags, created, updated, expires, count, version, n_children = found[:13]
    relations, overview, content = found[13:]
    return Context(
        uri=f"{parent}{name}",
        kind=KIND_OF[kind],
        type=TYPE_OF[type_],
        title=title,
        abstract=abstract,
        overview=overview,
        content=content,
        tags=decode_tags(tags),
        create_us=created,
        update_us=updated,
        expire_us=expires,
        active_count=count,
        etag=etag_of(key, version),
        child_count=n_children,
        relations=() if relations == "[]" else decode_relations(json.loads(relations)),
    )


def _records(rows: Iterable[Sequence[Any]]) -> Generator[NodeRecord, None, None]:
    """Join the lines of one context, which differ in their row only."""
    last: Sequence[Any] | None = None
    found: list[Row] = []
    for line in rows:
        if last is not None and line[0] != last[0]:
            yield _record(last, tuple(found))
            found = []
        if line[14] is not None:
            found.append(decode_row(*line[14:]))
        last = line
    if last is not None:
        yield _record(last, tuple(found))


def _record(line: Sequence[Any], rows: tuple[Row, ...]) -> NodeRecord:
    key, parent, name, kind, type_, title, abstract, tags, created, updated, expires, count, version = line[:13]
    relations = line[13]
    return NodeRecord(
        key=key,
        parent_key=parent,
        name=name,
        kind=KIND_OF[kind],
        type=TYPE_OF[type_],
        title=title,
        abstract=abstract,
        tags=decode_tags(tags),
        create_us=created,
        update_us=updated,
        expire_us=expires,
        active_count=count,
        version=version,
        relations=() if relations == "[]" else decode_relations(json.loads(relations)),
        rows=rows,
    )


def _depths(records: Sequence[NodeRecord]) -> dict[int, int]:
    """Return by key how many ancestors of each record, without a gap, are among the records."""
    parent_of = {record.key: record.parent_key for record in records}
    depth_of: dict[int, int] = {}
    for start in parent_of:
        chain, key = [], start
        while key in parent_of and key not in depth_of:
            chain.append(key)
            key = parent_of[key]
        depth = depth_of.get(key, -1)
        for key in reversed(chain):
            depth += 1
            depth_of[key] = depth
    return depth_of
