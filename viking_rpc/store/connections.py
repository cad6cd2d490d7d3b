"""The connections of a process: one that writes for all threads at once, and a pool of readers."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viking_rpc.errors import UnavailableError, VikingError
from viking_rpc.store import schema
from viking_rpc.store.batch import Batch
from viking_rpc.store.codec import encode_answer
from viking_rpc.store.failures import map_errors, translate
from viking_rpc.store.operations import Committed
from viking_rpc.store.reading import REQUEST_MEMORY_US, Account, find_account, read_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from viking_rpc.store.operations import Operation

#: A transaction takes waiting batches until it has this many operations.
MAX_GROUP_OPERATIONS = 1024
_MAX_IDLE_READERS = 8
#: Forgotten requests that one batch cleans away.
_REQUESTS_PER_SWEEP = 64


@dataclass(slots=True, eq=False)
class _Pending:
    """A batch that waits for the writer, then what came of it: `committed` or `error`."""

    account: str
    operations: Sequence[Operation]
    now_us: int
    request_id: str
    is_followed: bool = True
    committed: Committed | None = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.committed is not None or self.error is not None


class Writer:
    """The one connection that writes. Threads that come together share one transaction and one flush to the disk.

    A thread queues its batch, then asks for the lock. Whoever gets it commits all that is queued, each batch in a
    savepoint of its own; the others find their batch done when their turn comes.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        """Open or create the database and bring its schema up to date."""
        self._path = path
        self._lock = threading.Lock()
        self._waiting: deque[_Pending] = deque()
        self._is_closed = False
        #: Told what was committed, in order, before whoever committed it goes on.
        self.on_committed: Callable[[str, Committed], None] | None = None
        #: Says of an account whether anybody needs the change sets of its batches.
        self.is_followed: Callable[[str], bool] = _always
        self._connection = schema.connect(path, is_writer=True, create=create)
        try:
            schema.prepare(self._connection, path)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Wait for the transaction that runs, then close."""
        with self._lock:
            self._is_closed = True
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the writer for one transaction of the caller's own."""
        with self._lock, self._begun():
            yield self._connection

    def apply(self, account: str, operations: Sequence[Operation], now_us: int, request_id: str) -> Committed:
        """Commit a batch, together with whatever else waits.

        Raises:
            VikingError: why it was refused; nothing of it is stored then.
        """
        pending = _Pending(account, operations, now_us, request_id)
        self._waiting.append(pending)
        while not pending.is_done:
            with self._lock:
                if not pending.is_done:
                    self._commit(self._next_group())
        if pending.committed is None:
            raise pending.error or UnavailableError("WRITE_INTERRUPTED", "the write was interrupted")
        return pending.committed

    def _next_group(self) -> list[_Pending]:
        group: list[_Pending] = []
        n_operations = 0
        while self._waiting and n_operations < MAX_GROUP_OPERATIONS:
            group.append(self._waiting.popleft())
            n_operations += len(group[-1].operations)
        return group

    def _commit(self, group: Sequence[_Pending]) -> None:
        done: list[Committed | BaseException] = []
        try:
            with self._begun():
                done += [self._apply(pending) for pending in group]
        except (sqlite3.Error, VikingError) as error:
            told = translate(error, self._path) if isinstance(error, sqlite3.Error) else error
            for pending in group:  # an exception each: threads that share one would share its traceback
                pending.error = replace(told)
        except BaseException:
            for pending in group:
                pending.error = UnavailableError(
                    "WRITE_INTERRUPTED", "the write was interrupted; nothing of it is stored", retry_after_s=1.0
                )
            raise
        else:
            for pending, outcome in zip(group, done, strict=True):
                if isinstance(outcome, Committed):
                    if self.on_committed is not None and pending.is_followed and not outcome.is_repeat:
                        self.on_committed(pending.account, outcome)
                    pending.committed = outcome
                else:
                    pending.error = outcome

    def _apply(self, pending: _Pending) -> Committed | BaseException:
        """Apply one batch of a group; its error undoes it alone and is raised in the thread that it belongs to."""
        connection = self._connection
        connection.execute("SAVEPOINT batch")
        outcome: Committed | BaseException
        pending.is_followed = self.is_followed(pending.account)
        try:
            outcome = _run(connection, pending)
        except Exception as error:  # whatever it is, it is the owner's to see, not its neighbours'
            if not connection.in_transaction:  # a full disk may end the whole transaction
                raise
            outcome = translate(error, self._path) if isinstance(error, sqlite3.Error) else error
            connection.execute("ROLLBACK TO batch")
        connection.execute("RELEASE batch")
        return outcome

    @contextmanager
    def _begun(self) -> Iterator[None]:
        if self._is_closed:
            raise UnavailableError("DATABASE_CLOSED", "the store is closed")
        # IMMEDIATE: waits for other processes here, where nothing is lost by waiting.
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


class Watch:
    """A connection that notices that somebody has committed, for a few microseconds a look. Of one thread."""

    def __init__(self, path: Path) -> None:
        """Open it; the first look finds a change."""
        self._path = path
        self._connection = schema.connect(path, is_writer=False)
        self._version = -1

    def has_changed(self) -> bool:
        """Return whether any connection, of whatever process, has committed since the last look."""
        with map_errors(self._path):
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        is_new = version != self._version
        self._version = version
        return is_new

    def close(self) -> None:
        """Close it."""
        self._connection.close()


class Readers:
    """Connections that read, each in use by one thread at a time; as many as there are threads that read at once."""

    def __init__(self, path: Path) -> None:
        """Open none yet."""
        self._path = path
        self._idle: deque[sqlite3.Connection] = deque()
        self._is_closed = False

    def close(self) -> None:
        """Close the idle ones; those in use follow when their transaction ends."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold a connection that sees one state of the database until the block ends."""
        if self._is_closed:
            raise UnavailableError("DATABASE_CLOSED", "the store is closed")
        with map_errors(self._path):
            connection = self._take()
            try:
                connection.execute("BEGIN")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)

    def _take(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return schema.connect(self._path, is_writer=False)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if self._is_closed or len(self._idle) >= _MAX_IDLE_READERS:
            connection.close()
            return
        self._idle.append(connection)
        if self._is_closed:  # closed meanwhile by another thread
            self.close()


def _always(account: str) -> bool:
    del account
    return True


def _run(connection: sqlite3.Connection, pending: _Pending) -> Committed:
    account = find_account(connection, pending.account)
    if account is None:
        made = connection.execute("INSERT INTO account (name) VALUES (?)", (pending.account,))
        account = Account(made.lastrowid or 0, revision=0, log_start=0, n_changes=0)
    if not pending.request_id:
        return Batch(connection, account, pending.now_us, is_followed=pending.is_followed).run(pending.operations)
    first = read_answer(connection, account.id, pending.request_id, pending.now_us)
    if first is not None:
        return first
    committed = Batch(connection, account, pending.now_us, is_followed=pending.is_followed).run(pending.operations)
    query = "SELECT id FROM request WHERE created_us <= ? ORDER BY created_us LIMIT ?"
    forgotten = (pending.now_us - REQUEST_MEMORY_US, _REQUESTS_PER_SWEEP)
    connection.execute(f"DELETE FROM request WHERE id IN ({query})", forgotten)
    answer = encode_answer(committed.revision, committed.n_deleted, committed.contexts)
    query = "INSERT OR REPLACE INTO request (account_id, request_id, created_us, answer) VALUES (?, ?, ?, ?)"
    connection.execute(query, (account.id, pending.request_id, pending.now_us, answer))
    return committed
