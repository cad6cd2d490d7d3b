"""The truth on disk: one SQLite file that holds every account's contexts, rows and change log."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from viking_rpc.store import reading
from viking_rpc.store.connections import Readers, Watch, Writer
from viking_rpc.store.failures import map_errors
from viking_rpc.store.operations import Committed, Delete, Move, PurgeExpired, Touch, Upsert, violations_of
from viking_rpc.store.reading import Counts

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from viking_rpc.domain.context import Context
    from viking_rpc.index.records import ChangeSet, NodeRecord
    from viking_rpc.store.operations import Operation

__all__ = ["Committed", "Counts", "Database", "Delete", "Meta", "Move", "PurgeExpired", "Scan", "Touch", "Upsert"]


@dataclass(frozen=True, slots=True)
class Meta:
    """What a data directory remembers about itself; model empty and dimensions 0 until a model is bound."""

    store_id: str
    created_us: int
    model: str = ""
    dimensions: int = 0
    analysis: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """All contexts of an account in one state, `records` in the order of their keys, to be read once.

    `n_contexts` and `n_rows` count what `records` will give, expired contexts included.
    """

    revision: int
    n_contexts: int
    n_rows: int
    records: Iterator[NodeRecord]


class Database:
    """Reads and writes of one data directory's truth. Safe for threads; other processes may use the same file."""

    def __init__(self, path: Path, writer: Writer) -> None:
        """Use `open`."""
        self._path = path
        self._writer = writer
        self._readers = Readers(path)
        self._meta: Meta | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = True) -> Self:
        """Open a database file, or create it.

        Raises:
            NotFoundError: it is missing and `create` is False.
            FailedPreconditionError: a newer schema, another program's database, no permission.
            DataLossError: it is damaged.
            UnavailableError: another process holds it locked.
        """
        path = Path(path)
        with map_errors(path):
            return cls(path, Writer(path, create=create))

    def close(self) -> None:
        """Close every connection; a second call does nothing."""
        with map_errors(self._path):
            self._readers.close()
            self._writer.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    # -- the data directory

    @property
    def meta(self) -> Meta:
        """Return what the data directory remembers about itself."""
        if self._meta is None or not self._meta.model:  # a model is bound once and stays
            self._meta = self._read_meta()
        return self._meta

    def bind_model(self, model: str, dimensions: int, *, allow_mismatch: bool = False) -> Meta:
        """Say which model makes the vectors; the first one is remembered for good.

        Returns:
            What is remembered: with `allow_mismatch` that may be another model.

        Raises:
            FailedPreconditionError: reason MODEL_MISMATCH, another model or dimension is remembered.
        """
        with map_errors(self._path), self._writer.transaction() as connection:
            query = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING"
            connection.executemany(query, [("model", model), ("dimensions", str(dimensions))])
        stored = self._meta = self._read_meta()
        if (stored.model, stored.dimensions) != (model, dimensions) and not allow_mismatch:
            raise FailedPreconditionError(
                "MODEL_MISMATCH",
                f"the store holds vectors of {stored.model} with {stored.dimensions} dimensions,"
                f" the embedder is {model} with {dimensions}",
                {
                    "stored_model": stored.model,
                    "stored_dimensions": str(stored.dimensions),
                    "model": model,
                    "dimensions": str(dimensions),
                },
            )
        return stored

    def bind_analysis(self, version: str) -> str:
        """Say by which rules texts become terms; returns the version that was said first."""
        with map_errors(self._path), self._writer.transaction() as connection:
            query = "INSERT INTO meta (key, value) VALUES ('analysis', ?) ON CONFLICT DO NOTHING"
            connection.execute(query, (version,))
        self._meta = self._read_meta()
        return self._meta.analysis

    def accounts(self) -> tuple[str, ...]:
        """Return the names of all accounts that were ever written to, sorted."""
        with self._readers.transaction() as connection:
            return tuple(name for (name,) in connection.execute("SELECT name FROM account ORDER BY name"))

    # -- writes

    def apply(self, account: str, operations: Sequence[Operation], *, now_us: int, request_id: str = "") -> Committed:
        """Apply a batch: all of it or nothing; it is on the disk when this returns.

        Args:
            account: made with its first batch.
            operations: applied in order.
            now_us: the time of the write, microseconds since the epoch, UTC; what expired by then is gone.
            request_id: a repeat within ten minutes is answered from the first answer and changes nothing.

        Raises:
            InvalidArgumentError: the operations are wrong by themselves; all violations.
            FailedPreconditionError: PARENT_IS_FILE, DIRECTORY_NOT_EMPTY, MODEL_UNBOUND, DATABASE_READ_ONLY.
            AbortedError: ETAG_MISMATCH.
            NotFoundError, AlreadyExistsError: CONTEXT_NOT_FOUND, CONTEXT_EXISTS.
            ResourceExhaustedError: DISK_FULL.
            UnavailableError: DATABASE_BUSY, DATABASE_CLOSED.
        """
        dimensions = self.meta.dimensions
        if not dimensions and any(isinstance(operation, Upsert) and operation.write.rows for operation in operations):
            raise FailedPreconditionError("MODEL_UNBOUND", "no model is bound to the store, so it takes no vectors")
        violations = violations_of(operations, dimensions)
        if violations:
            raise InvalidArgumentError.of(violations)
        return self._writer.apply(account, operations, now_us, request_id)

    def on_committed(self, tell: Callable[[str, Committed], None], is_followed: Callable[[str], bool]) -> None:
        """Have a function told of the batches of this process, in order, before whoever wrote one goes on.

        Args:
            tell: called with the account and what was committed.
            is_followed: says of an account whether its batches are to be told. Those of others are not, and their
                change sets are empty: an import need not read back what it has just written.
        """
        self._writer.on_committed = tell
        self._writer.is_followed = is_followed

    def answered(self, account: str, request_id: str, *, now_us: int) -> Committed | None:
        """Return the first answer to a request id within ten minutes of it, None when there is none."""
        with self._readers.transaction() as connection:
            found = reading.find_account(connection, account)
            return reading.read_answer(connection, found.id, request_id, now_us) if found else None

    # -- reads

    def watch(self) -> Watch:
        """Return what notices commits of any process; the caller closes it."""
        with map_errors(self._path):
            return Watch(self._path)

    def revisions(self, accounts: Iterable[str] | None = None) -> Mapping[str, int]:
        """Return the last committed revision of some accounts, or of all that were ever written to."""
        with self._readers.transaction() as connection:
            if accounts is None:
                return dict(connection.execute("SELECT name, revision FROM account").fetchall())
            return reading.read_revisions(connection, accounts)

    def staleness(self, account: str, revision: int) -> tuple[int, int]:
        """Return (rows, contexts whose rows were written or removed after a revision), expired ones included."""
        with self._readers.transaction() as connection:
            found = reading.find_account(connection, account)
            return reading.read_staleness(connection, found, revision) if found else (0, 0)

    def revision(self, account: str) -> int:
        """Return the last committed revision of an account, 0 when there is none."""
        with self._readers.transaction() as connection:
            found = reading.find_account(connection, account)
        return found.revision if found else 0

    def get(
        self, account: str, uri: str, *, now_us: int, with_overview: bool = False, with_content: bool = False
    ) -> Context | None:
        """Return a context, None when it does not exist, is expired or lies under an expired directory."""
        with self._place(account, uri, now_us) as (connection, _, key):
            if not key:
                return None
            return reading.read_context(
                connection, key, uri, now_us, with_overview=with_overview, with_content=with_content
            )

    def children(
        self,
        account: str,
        uri: str,
        *,
        now_us: int,
        after_name: str = "",
        limit: int = 100,
        with_overview: bool = False,
        with_content: bool = False,
    ) -> list[Context]:
        """Return children in the order of their names' bytes; the root `viking://` has the scopes.

        Args:
            after_name: the last name of the page before; pages stay true while others write.
            limit: at most this many.

        Raises:
            NotFoundError: CONTEXT_NOT_FOUND, there is no such directory.
        """
        with self._place(account, uri, now_us) as (connection, account_id, key):
            if key is not None:
                return reading.read_children(
                    connection,
                    account_id,
                    key,
                    uri,
                    now_us=now_us,
                    after_name=after_name,
                    limit=limit,
                    with_overview=with_overview,
                    with_content=with_content,
                )
        raise NotFoundError("CONTEXT_NOT_FOUND", f"{uri} does not exist", {"uri": uri})

    def hydrate(
        self, account: str, keys: Iterable[int], *, overview: bool = True, content: bool = True
    ) -> dict[int, tuple[str, str]]:
        """Return key -> (overview, content) of those keys that still exist; what is not asked for is empty."""
        with self._readers.transaction() as connection:
            found = reading.find_account(connection, account)
            return reading.read_bodies(connection, found.id, keys, overview=overview, content=content) if found else {}

    @contextmanager
    def scan(self, account: str) -> Iterator[Scan]:
        """Hold one state of an account, to be read whole; writers go on meanwhile, the log of the file grows."""
        with self._readers.transaction() as connection:
            found = reading.find_account(connection, account)
            if found is None:
                yield Scan(0, 0, 0, iter(()))
                return
            stored = reading.read_counts(connection, found.id, now_us=0)
            # Closed, or a cursor that stands in the middle would hold this state for as long as somebody holds it.
            with closing(reading.scan_records(connection, found.id)) as records:
                yield Scan(found.revision, stored.n_directories + stored.n_files, stored.n_rows, records)

    def changes_since(self, account: str, revision: int) -> list[ChangeSet] | None:
        """Return what was committed after a revision, as at most one change set that leads to the current state.

        `deleted_keys` may hold keys that the reader never saw: made and deleted in between.

        Returns:
            The empty list when there is nothing new; None when only a scan can tell (the log does not reach back
            that far, too much changed, or the revision is from the future of a restored database).
        """
        with self._readers.transaction() as connection:
            found = reading.find_account(connection, account)
            if found is None:
                return [] if revision == 0 else None
            if found.revision == revision:
                return []
            changes = reading.read_changes(connection, found, revision)
            return None if changes is None else [changes]

    def source_hashes(self, account: str, uri: str, *, now_us: int) -> dict[str, str]:
        """Return URI -> source hash of everything visible at and below a URI that was imported with one."""
        with self._place(account, uri, now_us) as (connection, account_id, key):
            return reading.read_source_hashes(connection, account_id, key, uri, now_us) if key else {}

    def expired_accounts(self, *, now_us: int) -> tuple[str, ...]:
        """Return the accounts that hold something expired."""
        with self._readers.transaction() as connection:
            return tuple(reading.read_expired_accounts(connection, now_us))

    def counts(self, account: str, *, now_us: int) -> Counts:
        """Return how many directories, files and rows are visible; costs what is expired, not what is stored."""
        with self._readers.transaction() as connection:
            found = reading.find_account(connection, account)
            return reading.read_counts(connection, found.id, now_us) if found else Counts()

    # -- inside

    @contextmanager
    def _place(self, account: str, uri: str, now_us: int) -> Iterator[tuple[sqlite3.Connection, int, int | None]]:
        """Yield a connection, the account's id and the key at a canonical URI: ROOT_KEY for the root, None for none."""
        segments = reading.parse(uri)
        with self._readers.transaction() as connection:
            found = reading.find_account(connection, account)
            account_id = found.id if found else 0
            yield connection, account_id, reading.find_key(connection, account_id, segments, now_us)

    def _read_meta(self) -> Meta:
        with self._readers.transaction() as connection:
            stored: dict[str, str] = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        return Meta(
            store_id=stored["store_id"],
            created_us=int(stored["created_us"]),
            model=stored.get("model", ""),
            dimensions=int(stored.get("dimensions", 0)),
            analysis=stored.get("analysis", ""),
        )
