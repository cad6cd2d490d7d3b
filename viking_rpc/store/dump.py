"""All that an account holds, as the writes that would make it again: for exports, and to compare two stores."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.domain.context import ContextWrite
from viking_rpc.errors import FailedPreconditionError
from viking_rpc.store import schema
from viking_rpc.store.codec import KIND_OF, TYPE_OF, decode_relations, decode_row, decode_tags
from viking_rpc.store.failures import map_errors
from viking_rpc.store.reading import find_account

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from sqlite3 import Connection

    from viking_rpc.domain.context import Row

# Breadth-first, as SQLite's queue gives it: a directory comes before what lies in it. CROSS keeps that order.
_ALL: Final = """
WITH RECURSIVE below (id, uri) AS (
    SELECT id, 'viking://' || name FROM context
        WHERE account_id = :account AND parent_id = 0 AND (expire_us = 0 OR expire_us > :now)
    UNION ALL SELECT c.id, b.uri || '/' || c.name
        FROM below b JOIN context c ON c.account_id = :account AND c.parent_id = b.id
        WHERE c.expire_us = 0 OR c.expire_us > :now
)
SELECT b.uri, c.kind, c.type, c.is_type_given, c.title, c.abstract, COALESCE(t.overview, ''), COALESCE(t.content, ''),
    c.tags, c.create_us, c.update_us, c.expire_us, c.active_count, c.source_hash,
    (SELECT json_group_array(json_array(l.uri, l.reason))
        FROM (SELECT uri, reason FROM relation WHERE context_id = c.id ORDER BY position) l),
    r.id, r.vector, r.terms, r.term_counts
FROM below b CROSS JOIN context c ON c.id = b.id LEFT JOIN body t ON t.context_id = c.id
    LEFT JOIN row r ON r.id BETWEEN c.id * 4 AND c.id * 4 + 3
"""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A context as the write that makes it again; `source_hash` says from which bytes it was imported."""

    write: ContextWrite
    source_hash: str = ""


@contextmanager
def state_of(path: Path) -> Iterator[Connection]:
    """Hold one state of a database, whoever else reads or writes it; nothing is changed, not even the schema.

    Args:
        path: the database file.

    Raises:
        NotFoundError: it is missing.
        FailedPreconditionError: SCHEMA_TOO_NEW; SCHEMA_TOO_OLD, nobody opened it since the upgrade.
        DataLossError: it is damaged.
    """
    with map_errors(path), closing(schema.connect(path, is_writer=False)) as connection:
        found = schema.read_version(connection, path)
        if found < schema.VERSION:
            raise FailedPreconditionError(
                "SCHEMA_TOO_OLD",
                f"{path} has schema version {found}, this release reads {schema.VERSION};"
                " open it once with this release, e.g. with `viking info`",
                {"path": str(path), "found": str(found), "supported": str(schema.VERSION)},
            )
        connection.execute("BEGIN")
        yield connection
        connection.execute("ROLLBACK")


def dump(connection: Connection, account: str, now_us: int) -> Iterator[Stored]:
    """Yield every context of an account that is not expired, parents first, with its texts, rows and relations.

    Args:
        connection: in a transaction (`state_of`).
        account: one without contexts yields nothing.
        now_us: says what is expired; 0 yields the expired too.
    """
    found = find_account(connection, account)
    if found is None:
        return
    last: Sequence[Any] | None = None
    rows: list[Row] = []
    for line in connection.execute(_ALL, {"account": found.id, "now": now_us}):
        if last is not None and line[0] != last[0]:
            yield _stored(last, tuple(rows))
            rows = []
        if line[15] is not None:
            rows.append(decode_row(*line[15:]))
        last = line
    if last is not None:
        yield _stored(last, tuple(rows))


def _stored(line: Sequence[Any], rows: tuple[Row, ...]) -> Stored:
    uri, kind, type_, is_type_given, title, abstract, overview, content, tags, *rest = line[:15]
    created, updated, expires, count, source_hash, relations = rest
    write = ContextWrite(
        uri=uri,
        kind=KIND_OF[kind],
        type=TYPE_OF[type_] if is_type_given else None,
        title=title,
        abstract=abstract,
        overview=overview,
        content=content,
        tags=decode_tags(tags),
        create_us=created,
        update_us=updated,
        expire_us=expires,
        active_count=count,
        relations=() if relations == "[]" else decode_relations(json.loads(relations)),
        rows=rows,
    )
    return Stored(write, source_hash)
