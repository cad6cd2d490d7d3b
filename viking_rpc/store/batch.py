"""One batch inside a transaction: applies operations, gathers what failed, and leaves a revision and a change log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from viking_rpc.domain.context import ContextWrite, Kind
from viking_rpc.domain.uri import Uri
from viking_rpc.errors import VikingError
from viking_rpc.index.records import ROOT_KEY, ChangeSet
from viking_rpc.store import moving, refusals
from viking_rpc.store.codec import encode_row, encode_tags, etag_of, row_id
from viking_rpc.store.operations import Committed, Delete, Move, Operation, PurgeExpired, Touch, Upsert, named
from viking_rpc.store.reading import (
    Account,
    Change,
    parse,
    parts,
    read_context,
    read_counts_of,
    read_records,
    subtree_keys,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from sqlite3 import Connection

#: Entries of an account's change log that are kept; whoever is further behind scans.
KEPT_CHANGES = 100_000


class _Place(NamedTuple):
    """What is stored at a URI."""

    key: int
    kind: int
    version: int


class Batch:
    """Applies the operations of one batch to one account; the caller holds a savepoint and rolls back on an error."""

    def __init__(self, connection: Connection, account: Account, now_us: int, *, is_followed: bool = True) -> None:
        """Begin with nothing changed; only where somebody follows it does the batch read back what it wrote."""
        self._is_followed = is_followed
        self._sql = connection.execute
        self._sql_many = connection.executemany
        self._connection = connection
        self._account = account
        self._now_us = now_us
        self._change_of: dict[int, Change] = {}
        self._answered: list[tuple[int, str]] = []
        self._directory_key: dict[tuple[str, ...], int] = {}
        self._n_made = {Kind.DIRECTORY: 0, Kind.FILE: 0}
        self._n_rows = 0
        self._n_deleted = 0
        self._n_moved = 0

    def run(self, operations: Sequence[Operation]) -> Committed:
        """Apply all operations.

        Raises:
            VikingError: of the first operation that failed, with the violations of all that did.
        """
        failures: list[VikingError] = []
        for path, operation in named(operations):
            try:
                self._apply(path, operation)
            except VikingError as error:
                failures.append(error)
            except UnicodeEncodeError:
                failures.append(refusals.not_unicode(path))
        if failures:
            raise refusals.combined(failures)
        return self._finish()

    def _apply(self, path: str, operation: Operation) -> None:
        match operation:
            case Upsert():
                self._upsert(path, operation)
            case Delete():
                self._delete(path, operation)
            case Move():
                self._move(operation)
            case Touch():
                self._touch(path, operation)
            case PurgeExpired(limit=limit):
                self._purge_expired(limit)

    # -- operations

    def _upsert(self, path: str, upsert: Upsert) -> None:
        write = upsert.write
        segments = parse(write.uri)
        parent = self._make_directories(f"{path}.uri", segments[:-1])
        place = self._find(parent, segments[-1])
        if write.etag and (place is None or write.etag != etag_of(place.key, place.version)):
            raise refusals.etag_mismatch(f"{path}.etag", write, etag_of(place.key, place.version) if place else "")
        if place is None:
            key = self._insert(parent, segments, write, upsert.source_hash)
        else:
            self._replace(path, place, segments, write, upsert.source_hash)
            key = place.key
        if write.overview or write.content:
            query = "INSERT INTO body (context_id, overview, content) VALUES (?, ?, ?)"
            self._sql(query, (key, write.overview, write.content))
        if write.rows:
            query = "INSERT INTO row (id, vector, terms, term_counts) VALUES (?, ?, ?, ?)"
            self._sql_many(query, [encode_row(key, row) for row in write.rows])
            self._n_rows += len(write.rows)
        if write.relations:
            query = "INSERT INTO relation (context_id, position, account_id, uri, reason) VALUES (?, ?, ?, ?, ?)"
            lines = [(key, i, self._account.id, link.uri, link.reason) for i, link in enumerate(write.relations)]
            self._sql_many(query, lines)
        self._change_of[key] = Change.WRITTEN
        self._answered.append((key, write.uri))

    def _delete(self, path: str, delete: Delete) -> None:
        place = self._resolve(parse(delete.uri))
        if place is None:
            if delete.allow_missing:
                return
            raise refusals.missing(path, delete.uri)
        if not delete.is_recursive and self._has_children(place.key):
            raise refusals.not_empty(path, delete.uri, "delete it with its subtree (recursive), or its children first")
        self._n_deleted += self._remove([place.key])

    def _move(self, move: Move) -> None:
        source, destination = parse(move.source), parse(move.destination)
        place = self._resolve(source)
        if place is None:
            raise refusals.missing("source_uri", move.source)
        parent = self._make_directories("destination_uri", destination[:-1])
        if self._find(parent, destination[-1]) is not None:
            raise refusals.exists("destination_uri", move.destination)
        self._n_moved += moving.check_length(self._connection, self._account.id, place.key, move.destination)
        query = "UPDATE context SET parent_id = ?, name = ?, version = version + 1, update_us = ? WHERE id = ?"
        self._sql(query, (parent, destination[-1], self._now_us, place.key))
        self._directory_key.clear()
        retyped = moving.retype(self._connection, self._account.id, place.key, Uri(source), Uri(destination))
        self._change_of.update(dict.fromkeys([place.key, *retyped], Change.MOVED))
        for key in moving.redirect_relations(self._connection, self._account.id, move):
            self._change_of.setdefault(key, Change.MOVED)
        self._answered = [(key, moving.moved_uri(uri, move)) for key, uri in self._answered]
        self._answered.append((place.key, move.destination))

    def _touch(self, path: str, touch: Touch) -> None:
        missing = []
        for uri, n_times in Counter(touch.uris).items():
            place = self._resolve(parse(uri))
            if place is None:
                missing.append(refusals.missing(f"{path}[{touch.uris.index(uri)}]", uri))
                continue
            self._sql("UPDATE context SET active_count = active_count + ? WHERE id = ?", (n_times, place.key))
            self._change_of.setdefault(place.key, Change.TOUCHED)
        if missing and not touch.allow_missing:
            raise refusals.combined(missing)

    def _purge_expired(self, limit: int) -> None:
        query = (
            "SELECT id FROM context INDEXED BY context_expiry WHERE account_id = ? AND expire_us > 0"
            " AND expire_us <= ? ORDER BY expire_us LIMIT ?"
        )
        found = self._sql(query, (self._account.id, self._now_us, limit))
        self._n_deleted += self._remove([key for (key,) in found])

    # -- contexts

    def _insert(self, parent: int, segments: tuple[str, ...], write: ContextWrite, source_hash: str) -> int:
        created = self._now_us if write.create_us is None else write.create_us
        query = (
            "INSERT INTO context (account_id, parent_id, name, version, create_us, active_count, kind, type,"
            " is_type_given, update_us, expire_us, source_hash, title, tags, abstract)"
            " VALUES (?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        values = (self._account.id, parent, segments[-1], created, write.active_count or 0)
        key = self._sql(query, values + self._facts(segments, write, source_hash)).lastrowid
        if key is None:  # an INSERT always has one; this tells the type checker
            raise VikingError("DATABASE_ERROR", "no key for a new context")
        self._n_made[write.kind] += 1
        return key

    def _replace(
        self, path: str, place: _Place, segments: tuple[str, ...], write: ContextWrite, source_hash: str
    ) -> None:
        if place.kind != write.kind:
            if write.kind is Kind.FILE and self._has_children(place.key):
                raise refusals.not_empty(f"{path}.kind", write.uri, "a directory with children cannot become a file")
            self._directory_key.pop(segments, None)
            self._n_made[Kind(place.kind)] -= 1
            self._n_made[write.kind] += 1
        query = (
            "UPDATE context SET version = version + 1, create_us = COALESCE(?, create_us),"
            " active_count = COALESCE(?, active_count), kind = ?, type = ?, is_type_given = ?, update_us = ?,"
            " expire_us = ?, source_hash = ?, title = ?, tags = ?, abstract = ? WHERE id = ?"
        )
        values = (write.create_us, write.active_count, *self._facts(segments, write, source_hash), place.key)
        self._sql(query, values)
        self._sql("DELETE FROM body WHERE context_id = ?", (place.key,))
        self._sql("DELETE FROM relation WHERE context_id = ?", (place.key,))
        deleted = self._sql("DELETE FROM row WHERE id BETWEEN ? AND ?", (row_id(place.key, 0), row_id(place.key, 3)))
        self._n_rows -= deleted.rowcount

    def _facts(self, segments: tuple[str, ...], write: ContextWrite, source_hash: str) -> tuple[int | str, ...]:
        """Return the columns that a first and a later write set alike."""
        type_ = Uri(segments).type if write.type is None else write.type
        updated = self._now_us if write.update_us is None else write.update_us
        return (
            *(int(write.kind), int(type_), int(write.type is not None), updated, write.expire_us),
            *(source_hash, write.title, encode_tags(write.tags), write.abstract),
        )

    def _make_directories(self, path: str, segments: tuple[str, ...]) -> int:
        """Return the key of a directory; it and those above it are made when they are missing."""
        parent = ROOT_KEY
        for n in range(1, len(segments) + 1):
            prefix = segments[:n]
            key = self._directory_key.get(prefix)
            if key is None:
                place = self._find(parent, prefix[-1])
                if place is None:
                    key = self._insert(parent, prefix, ContextWrite(str(Uri(prefix)), Kind.DIRECTORY), "")
                    self._change_of[key] = Change.WRITTEN
                elif place.kind == Kind.FILE:
                    raise refusals.parent_is_file(path, str(Uri(prefix)))
                else:
                    key = place.key
                self._directory_key[prefix] = key
            parent = key
        return parent

    def _find(self, parent: int, name: str) -> _Place | None:
        """Return the child of a directory; an expired one is removed first, so that nothing below it comes back."""
        query = "SELECT id, kind, version, expire_us FROM context WHERE account_id = ? AND parent_id = ? AND name = ?"
        found = self._sql(query, (self._account.id, parent, name)).fetchone()
        if found is None:
            return None
        if 0 < found[3] <= self._now_us:
            self._remove([found[0]])
            return None
        return _Place(*found[:3])

    def _resolve(self, segments: tuple[str, ...]) -> _Place | None:
        parent, place = ROOT_KEY, None
        for name in segments:
            place = self._find(parent, name)
            if place is None:
                return None
            parent = place.key
        return place

    def _has_children(self, key: int) -> bool:
        """Return whether a directory has children; expired ones are removed first."""
        query = (
            "SELECT id FROM context INDEXED BY context_expiry"
            " WHERE account_id = ? AND expire_us > 0 AND expire_us <= ? AND parent_id = ?"
        )
        self._remove([child for (child,) in self._sql(query, (self._account.id, self._now_us, key))])
        query = "SELECT EXISTS (SELECT 1 FROM context WHERE account_id = ? AND parent_id = ?)"
        return bool(self._sql(query, (self._account.id, key)).fetchone()[0])

    def _remove(self, roots: Iterable[int]) -> int:
        """Delete whole subtrees; returns how many contexts that were."""
        gone = {key for root in roots for key in subtree_keys(self._connection, self._account.id, root)}
        if not gone:
            return 0
        for part in parts(gone):
            chosen = "(SELECT value FROM json_each(?))"
            counted = f"SELECT kind, COUNT(*) FROM context WHERE id IN {chosen} GROUP BY kind"
            for kind, n_contexts in self._sql(counted, (part,)):
                self._n_made[Kind(kind)] -= n_contexts
            deleted = "DELETE FROM row WHERE id IN (SELECT r.id FROM json_each(?) JOIN row r"
            self._n_rows -= self._sql(f"{deleted} ON r.id BETWEEN value * 4 AND value * 4 + 3)", (part,)).rowcount
            self._sql(f"DELETE FROM context WHERE id IN {chosen}", (part,))  # body and relation follow
        self._change_of.update(dict.fromkeys(gone, Change.DELETED))
        self._answered = [(key, uri) for key, uri in self._answered if key not in gone]
        self._directory_key.clear()
        return len(gone)

    # -- the end

    def _finish(self) -> Committed:
        account = self._account
        if not self._change_of:
            return Committed(account.revision, ChangeSet(account.revision))
        revision = account.revision + 1
        query = "INSERT INTO change (account_id, revision, context_id, op) VALUES (?, ?, ?, ?)"
        lines = ((account.id, revision, key, int(change)) for key, change in sorted(self._change_of.items()))
        self._sql_many(query, lines)
        n_changes, log_start = self._trim_log(account.n_changes + len(self._change_of))
        query = (
            "UPDATE account SET revision = ?, log_start = ?, n_changes = ?, n_directories = n_directories + ?,"
            " n_files = n_files + ?, n_rows = n_rows + ? WHERE id = ?"
        )
        made = self._n_made
        values = (revision, log_start, n_changes, made[Kind.DIRECTORY], made[Kind.FILE], self._n_rows, account.id)
        self._sql(query, values)
        gone = [key for key, change in self._change_of.items() if change is Change.DELETED]
        touched = [key for key, change in self._change_of.items() if change is Change.TOUCHED]
        change_set = ChangeSet(revision)
        if self._is_followed:
            records = read_records(self._connection, self._change_of.keys() - {*gone, *touched})
            counts = read_counts_of(self._connection, touched)
            change_set = ChangeSet(revision, tuple(records), tuple(sorted(gone)), counts)
        return Committed(
            revision=revision,
            change_set=change_set,
            contexts=tuple(read_context(self._connection, key, uri, self._now_us) for key, uri in self._answered),
            n_deleted=self._n_deleted,
            n_moved=self._n_moved,
        )

    def _trim_log(self, n_changes: int) -> tuple[int, int]:
        """Drop the oldest whole revisions over the limit, a few with each batch, so that no batch pays for many."""
        account = self._account
        n_over = n_changes - KEPT_CHANGES
        if n_over <= 0:
            return n_changes, account.log_start
        query = "SELECT revision FROM change WHERE account_id = ? ORDER BY revision LIMIT 1 OFFSET ?"
        log_start: int = self._sql(query, (account.id, n_over - 1)).fetchone()[0]
        deleted = self._sql("DELETE FROM change WHERE account_id = ? AND revision <= ?", (account.id, log_start))
        return n_changes - deleted.rowcount, log_start
