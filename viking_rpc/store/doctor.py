"""Check a data directory, and put right what can be without guessing: what is sound stays as it is."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from viking_rpc.index.text import ANALYSIS_VERSION
from viking_rpc.store import schema
from viking_rpc.store.backup import CHECKPOINT_FOLDER, DATABASE_NAME, copy_database
from viking_rpc.store.checkpoint import DamagedCheckpointError, StaleCheckpointError, remove_checkpoint
from viking_rpc.store.checks import MAX_EXAMPLES, RULES, Finding, TermsOf, check_rows, check_rules, repair_rows
from viking_rpc.store.derived import load_snapshot
from viking_rpc.store.dump import state_of
from viking_rpc.store.failures import map_errors
from viking_rpc.store.keys import check_keys
from viking_rpc.store.layouts import StoreSettings, checkpoint_name, layout_of
from viking_rpc.store.lock import DataLock, holder_of
from viking_rpc.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from sqlite3 import Connection

_MAX_MESSAGES: Final = 100
#: What SQLite says of an index that does not agree with its table; the table is whole.
_OF_INDEXES: Final = ("missing from index", "entries in index", "in index")


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in a data directory.

    Args:
        folder: the data directory.
        store_id, model, dimensions, analysis: what it remembers of itself.
        schema_version: of its database.
        n_accounts, n_contexts, n_rows: what it holds, expired contexts included.
        holder: the process that has it open, empty when there is none.
        findings: what is wrong, and notes.
        saved_as: where the database was copied before it was repaired; empty when it was not changed.
        elapsed_s: how long it took.
    """

    folder: str
    store_id: str = ""
    model: str = ""
    dimensions: int = 0
    analysis: str = ""
    schema_version: int = 0
    n_accounts: int = 0
    n_contexts: int = 0
    n_rows: int = 0
    holder: str = ""
    findings: tuple[Finding, ...] = ()
    saved_as: str = ""
    elapsed_s: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Return whether nothing is left that is wrong."""
        return all(finding.is_note or finding.is_repaired for finding in self.findings)


def examine(
    folder: Path, *, settings: StoreSettings, terms_of: TermsOf | None = None, is_quick: bool = False
) -> Report:
    """Check a data directory, whoever has it open; nothing is changed.

    Args:
        folder: the data directory.
        settings: how a server would make its trees.
        terms_of: makes terms as writes do; None does not compare term lists with texts.
        is_quick: neither compare indexes with tables, nor term lists with texts.

    Raises:
        NotFoundError: there is no database.
        FailedPreconditionError: its schema is of another release.
        DataLossError: it cannot be read at all.
    """
    started = time.monotonic()
    findings: list[Finding] = []
    with state_of(folder / DATABASE_NAME) as connection:
        report = _facts(folder, connection)
        findings += _integrity(connection, is_quick=is_quick)
        if not _is_damaged(findings):
            try:
                findings += check_rules(connection)
                findings += check_rows(connection, report.dimensions, None if is_quick else terms_of)
                findings += _analysis(report)
            except sqlite3.DatabaseError as error:
                findings.append(_damage([str(error)]))
        if not _is_damaged(findings):
            findings += _checkpoints(folder, connection, report, settings)
    findings += _keys(folder)
    return replace(report, findings=tuple(findings), elapsed_s=time.monotonic() - started)


def repair(folder: Path, *, settings: StoreSettings, terms_of: TermsOf, is_quick: bool = False) -> Report:
    """Check a data directory and put right what was found, after a copy of its database was saved.

    Args:
        folder: the data directory; no server may have it open.
        settings, terms_of, is_quick: as for `examine`.

    Returns:
        What was found before; what is gone now says so.

    Raises:
        FailedPreconditionError: DATA_DIRECTORY_LOCKED.
        As `examine`; ResourceExhaustedError: DISK_FULL, nothing was changed then.
    """
    started = time.monotonic()
    path = folder / DATABASE_NAME
    with state_of(path):  # before the lock, which would make the folder
        pass
    with DataLock.acquire(folder):
        before = examine(folder, settings=settings, terms_of=terms_of, is_quick=is_quick)
        broken = [finding for finding in before.findings if finding.repair]
        if not broken or _is_damaged(before.findings):
            return replace(before, holder="")
        saved_as = ""
        if any(finding.check not in ("checkpoints", "files") for finding in broken):
            saved_as = _repair_database(path, before, broken, terms_of)
        _repair_derived(folder, before, settings, has_changed=bool(saved_as))
        after = examine(folder, settings=settings, terms_of=terms_of, is_quick=is_quick)
    left = {(finding.check, finding.message) for finding in after.findings}
    found_before = {(finding.check, finding.message) for finding in before.findings}
    findings = [
        replace(finding, is_repaired=(finding.check, finding.message) not in left) for finding in before.findings
    ]
    findings += (finding for finding in after.findings if (finding.check, finding.message) not in found_before)
    elapsed_s = time.monotonic() - started
    return replace(after, holder="", findings=tuple(findings), saved_as=saved_as, elapsed_s=elapsed_s)


# -- checks


def _facts(folder: Path, connection: Connection) -> Report:
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    counts = (
        connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in ("account", "context", "row")
    )
    n_accounts, n_contexts, n_rows = counts
    return Report(
        folder=str(folder),
        store_id=meta.get("store_id", ""),
        model=meta.get("model", ""),
        dimensions=int(meta.get("dimensions", 0)),
        analysis=meta.get("analysis", ""),
        schema_version=schema.VERSION,
        n_accounts=n_accounts,
        n_contexts=n_contexts,
        n_rows=n_rows,
        holder=_holder(folder),
    )


def _holder(folder: Path) -> str:
    """Return who has the data directory open."""
    holder = holder_of(folder)
    if holder is None:
        return ""
    return f"process {holder.pid} on {holder.host}" + (f", serving {holder.address}" if holder.address else "")


def _integrity(connection: Connection, *, is_quick: bool) -> Iterator[Finding]:
    pragma = "quick_check" if is_quick else "integrity_check"
    try:
        messages = [text for (text,) in connection.execute(f"PRAGMA {pragma}({_MAX_MESSAGES})")]
    except sqlite3.DatabaseError as error:
        messages = [str(error)]
    if messages == ["ok"]:
        changed = schema.differences(connection)
        if changed:
            message = "somebody changed the schema; restore a backup"
            yield Finding("integrity", message, len(changed), tuple(changed[:MAX_EXAMPLES]))
    elif all(any(words in text for words in _OF_INDEXES) for text in messages):
        yield Finding(
            "integrity", "indexes disagree with their tables", len(messages), tuple(messages[:3]), "reindexes"
        )
    else:
        yield _damage(messages)


def _keys(folder: Path) -> Iterator[Finding]:
    wrong = check_keys(folder)
    if wrong:
        message = (
            "the keys cannot be read, and a server lets nobody in; restore keys.db, or delete it and make new keys"
        )
        yield Finding("keys", message, 1, (wrong,))


def _damage(messages: list[str]) -> Finding:
    message = "the database is damaged; restore a backup, or recover with `sqlite3 FILE .recover`"
    return Finding("integrity", message, len(messages), tuple(messages[:MAX_EXAMPLES]))


def _is_damaged(findings: Iterable[Finding]) -> bool:
    """Return whether the file itself cannot be trusted, so that nothing more may be read from or written to it."""
    return any(finding.check == "integrity" and not finding.repair for finding in findings)


def _analysis(report: Report) -> Iterator[Finding]:
    if report.analysis not in ("", ANALYSIS_VERSION):
        message = f"terms were made by text analysis {report.analysis}, this release has {ANALYSIS_VERSION}"
        yield Finding("analysis", message, report.n_rows, repair="makes all term lists again")


def _checkpoints(folder: Path, connection: Connection, report: Report, settings: StoreSettings) -> Iterator[Finding]:
    derived = folder / CHECKPOINT_FOLDER
    names = set()
    for key, account, revision, log_start, n_contexts, n_rows in connection.execute(
        "SELECT id, name, revision, log_start, n_directories + n_files, n_rows FROM account ORDER BY name"
    ).fetchall():
        name = checkpoint_name(account)
        names.add(name)
        try:
            snapshot = load_snapshot(
                derived,
                name,
                model=report.model,
                dimensions=report.dimensions,
                layout=layout_of(report.store_id, settings),
                max_revision=revision,
                parameters=settings.ann,
            )
        except StaleCheckpointError as error:
            if n_contexts and n_rows >= settings.min_checkpoint_rows:
                message = f"the tree of account {account} is laid out at the next start: {error.message}"
                yield Finding("checkpoints", message, 1, repair="lays it out now", is_note=True)
            continue
        except DamagedCheckpointError as error:
            yield Finding("checkpoints", error.message, 1, (account,), "rebuilds it")
            continue
        except OSError:  # replaced by a process that serves, between two looks at it
            continue
        if log_start <= snapshot.revision:
            stored = _unchanged(connection, key, snapshot.revision)
            held = dict(zip(snapshot.key[1:].tolist(), snapshot.version[1:].tolist(), strict=True))
            n_wrong = sum(held.get(context) != version for context, version in stored.items())
            if n_wrong:
                message = f"the checkpoint of account {account} holds other contexts than the database"
                yield Finding("checkpoints", message, n_wrong, (account,), "rebuilds it")
    strays = _strays(derived, names)
    if strays:
        examples = tuple(path.name for path in strays[:MAX_EXAMPLES])
        message = "files in the folder of checkpoints belong to none"
        yield Finding("files", message, len(strays), examples, "deletes them", is_note=True)


def _unchanged(connection: Connection, account_id: int, revision: int) -> dict[int, int]:
    """Return key -> version of the contexts that are as they were at a revision."""
    query = (
        "SELECT id, version FROM context WHERE account_id = ? AND id NOT IN"
        " (SELECT context_id FROM change WHERE account_id = ? AND revision > ?)"
    )
    return dict(connection.execute(query, (account_id, account_id, revision)).fetchall())


def _strays(derived: Path, names: set[str]) -> list[Path]:
    """Return files that no account's checkpoint can have left, half-written ones included."""
    if not derived.is_dir():
        return []
    found = (path for path in derived.iterdir() if path.is_file())
    return sorted(path for path in found if path.name.split(".")[0] not in names or path.suffix == ".tmp")


# -- repairs


def _repair_database(path: Path, report: Report, broken: list[Finding], terms_of: TermsOf) -> str:
    """Save a copy, then repair in one transaction; returns the copy's path."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    saved_as = path.with_name(f"{path.name}.before-repair-{now}")
    with map_errors(path), closing(schema.connect(path, is_writer=True)) as connection:
        copy_database(connection, path, saved_as)
        checks = {finding.check for finding in broken}
        connection.execute("PRAGMA foreign_keys = OFF")  # orphans would be in the way of one another
        if "integrity" in checks:
            connection.execute("REINDEX")
        connection.execute("BEGIN IMMEDIATE")
        try:
            for rule in RULES:
                for statement in rule.statements:
                    connection.execute(statement)
            if checks & {"vectors", "lengths", "terms", "analysis"}:
                repair_rows(connection, report.dimensions, terms_of)
                connection.execute("UPDATE meta SET value = ? WHERE key = 'analysis'", (ANALYSIS_VERSION,))
                for rule in RULES:
                    if rule.check == "counts":
                        connection.execute(rule.statements[0])
            # A new revision without a log: nothing that was derived from an earlier one is taken for current.
            connection.execute("DELETE FROM change")
            connection.execute("UPDATE account SET revision = revision + 1, log_start = revision + 1, n_changes = 0")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return str(saved_as)


def _repair_derived(folder: Path, report: Report, settings: StoreSettings, *, has_changed: bool) -> None:
    """Rebuild the checkpoints that cannot be used, all of them after a change of the database."""
    derived = folder / CHECKPOINT_FOLDER
    with state_of(folder / DATABASE_NAME) as connection:
        accounts = [name for (name,) in connection.execute("SELECT name FROM account ORDER BY name")]
        broken = list(_checkpoints(folder, connection, report, settings))
    for stray in _strays(derived, {checkpoint_name(account) for account in accounts}):
        stray.unlink(missing_ok=True)
    named = {account for finding in broken for account in finding.examples}
    for account in accounts:
        if has_changed or account in named:
            remove_checkpoint(derived, checkpoint_name(account))
    if not report.model:
        return
    alone = replace(settings, is_shared=False)  # writes the checkpoints itself
    with Store.open(folder, model=report.model, dimensions=report.dimensions, settings=alone) as store:
        for account in accounts:
            store.snapshot(account)
