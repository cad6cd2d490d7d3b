"""What must hold in a database beside what SQLite itself sees to, and what puts each thing right again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from viking_rpc.domain.context import ContextWrite, Level
from viking_rpc.domain.uri import SCHEME, SCOPES
from viking_rpc.store.codec import KIND_OF

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from sqlite3 import Connection

    from numpy.typing import NDArray

#: Examples that a finding names.
MAX_EXAMPLES: Final = 5
_UNIT_TOLERANCE: Final = 1e-3
_ROWS_PER_PART: Final = 2000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it must be.

    Args:
        check: the name of what was checked.
        message: what is wrong, and what helps where no repair can.
        n: how many contexts, rows or files it concerns.
        examples: some of them.
        repair: what a repair does about it; empty when it cannot without guessing.
        is_note: nothing is wrong: a start does it by itself, or a person should know.
        is_repaired: it was found, and is gone now.
    """

    check: str
    message: str
    n: int
    examples: tuple[str, ...] = ()
    repair: str = ""
    is_note: bool = False
    is_repaired: bool = False


class TermsOf(Protocol):
    """Makes the terms of a context's row of a level from its texts, as writes do."""

    def __call__(self, write: ContextWrite, level: Level) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
        """Return terms and counts as in `Row`."""


class Rule(NamedTuple):
    """A query that finds what breaks the rule, as keys of contexts (or words), and the statements that end it."""

    check: str
    message: str
    query: str
    repair: str = ""
    statements: tuple[str, ...] = ()
    is_of_contexts: bool = True


_REACHED: Final = """
WITH RECURSIVE below (id, account_id) AS (
    SELECT c.id, c.account_id FROM context c JOIN account a ON a.id = c.account_id WHERE c.parent_id = 0
    UNION ALL SELECT c.id, c.account_id
        FROM below b JOIN context c ON c.account_id = b.account_id AND c.parent_id = b.id
)
"""
_UNREACHED: Final = f"{_REACHED} SELECT id FROM context WHERE id NOT IN (SELECT id FROM below)"
_LOST_ROW: Final = "SELECT r.id FROM row r LEFT JOIN context c ON c.id = r.id / 4 WHERE c.id IS NULL"
_LOST_RELATION: Final = (
    "NOT EXISTS (SELECT 1 FROM context c WHERE c.id = relation.context_id AND c.account_id = relation.account_id)"
)
_WRONG_LEVEL: Final = """
SELECT r.id FROM row r JOIN context c ON c.id = r.id / 4
WHERE NOT (c.kind = 1 AND r.id % 4 IN (0, 1) OR c.kind = 2 AND r.id % 4 = 2)
"""
_COUNTS: Final = """
SELECT a.id, a.name,
    (SELECT COUNT(*) FROM context c WHERE c.account_id = a.id AND c.kind = 1) AS n_directories,
    (SELECT COUNT(*) FROM context c WHERE c.account_id = a.id AND c.kind = 2) AS n_files,
    (SELECT COUNT(*) FROM context c JOIN row r ON r.id BETWEEN c.id * 4 AND c.id * 4 + 3 WHERE c.account_id = a.id)
        AS n_rows
FROM account a
"""
_BROKEN_LOG: Final = """
SELECT a.id FROM account a
WHERE a.n_changes <> (SELECT COUNT(*) FROM change WHERE account_id = a.id) OR a.log_start > a.revision
    OR EXISTS (SELECT 1 FROM change WHERE account_id = a.id AND (revision > a.revision OR revision <= a.log_start))
"""

#: In the order of their repair: what hangs on nothing goes first, then what hung on it, then the counts.
RULES: Final = (
    Rule(
        "parents",
        "contexts hang on nothing: their directory is missing, in another account, or below themselves",
        _UNREACHED,
        "removes them",
        (f"DELETE FROM context WHERE id IN ({_UNREACHED})",),
    ),
    Rule(
        "orphans",
        "rows belong to no context",
        _LOST_ROW.replace("SELECT r.id", "SELECT 'row ' || r.id"),
        "removes them",
        (f"DELETE FROM row WHERE id IN ({_LOST_ROW})",),
        is_of_contexts=False,
    ),
    Rule(
        "orphans",
        "texts belong to no context",
        "SELECT 'text ' || context_id FROM body WHERE context_id NOT IN (SELECT id FROM context)",
        "removes them",
        ("DELETE FROM body WHERE context_id NOT IN (SELECT id FROM context)",),
        is_of_contexts=False,
    ),
    Rule(
        "orphans",
        "relations belong to no context",
        f"SELECT 'relation of ' || context_id FROM relation WHERE {_LOST_RELATION}",
        "removes them",
        (f"DELETE FROM relation WHERE {_LOST_RELATION}",),
        is_of_contexts=False,
    ),
    Rule(
        "orphans",
        "entries of the change log or remembered requests belong to no account",
        "SELECT 'account ' || account_id FROM change WHERE account_id NOT IN (SELECT id FROM account)"
        " UNION SELECT 'account ' || account_id FROM request WHERE account_id NOT IN (SELECT id FROM account)",
        "removes them",
        (
            "DELETE FROM change WHERE account_id NOT IN (SELECT id FROM account)",
            "DELETE FROM request WHERE account_id NOT IN (SELECT id FROM account)",
        ),
        is_of_contexts=False,
    ),
    Rule(
        "rows",
        "contexts have rows at a level that their kind does not have",
        _WRONG_LEVEL.replace("SELECT r.id", "SELECT DISTINCT r.id / 4"),
        "removes these rows",
        (f"DELETE FROM row WHERE id IN ({_WRONG_LEVEL})",),
    ),
    Rule(
        "kinds",
        "files have children; move the children into a directory, or remove them",
        "SELECT id FROM context p WHERE kind = 2 AND EXISTS"
        " (SELECT 1 FROM context c WHERE c.account_id = p.account_id AND c.parent_id = p.id)",
    ),
    Rule(
        "scopes",
        "contexts stand at the top and are none of the scopes, which are directories; no request reaches them",
        "SELECT id FROM context WHERE parent_id = 0"
        f" AND (kind <> 1 OR name NOT IN ({', '.join(repr(scope) for scope in SCOPES)}))",
    ),
    Rule(
        "names",
        "names hold a slash; no request reaches these contexts",
        "SELECT id FROM context WHERE instr(name, '/') > 0",
    ),
    Rule(
        "tags",
        "tags cannot be read; write these contexts again",
        "SELECT id FROM context WHERE tags <> '' AND NOT json_valid(tags)",
    ),
    Rule(
        "counts",
        "accounts count other numbers of directories, files or rows than they have",
        f"SELECT 'account ' || s.name FROM ({_COUNTS}) s JOIN account a ON a.id = s.id WHERE"
        " (a.n_directories, a.n_files, a.n_rows) <> (s.n_directories, s.n_files, s.n_rows)",
        "counts again",
        (
            (
                "UPDATE account SET (n_directories, n_files, n_rows) ="
                f" (SELECT n_directories, n_files, n_rows FROM ({_COUNTS}) s WHERE s.id = account.id)"
            ),
        ),
        is_of_contexts=False,
    ),
    Rule(
        "log",
        "accounts have a change log that contradicts their revision",
        f"SELECT 'account ' || name FROM account WHERE id IN ({_BROKEN_LOG})",
        "empties it; whoever follows it reads the account anew",
        (
            f"DELETE FROM change WHERE account_id IN ({_BROKEN_LOG})",
            f"UPDATE account SET log_start = revision, n_changes = 0 WHERE id IN ({_BROKEN_LOG})",
        ),
        is_of_contexts=False,
    ),
)


def check_rules(connection: Connection) -> Iterator[Finding]:
    """Yield a finding for each rule that is broken; the connection is in a transaction."""
    for rule in RULES:
        n, examples = 0, []
        for (found,) in connection.execute(rule.query):
            n += 1
            if n <= MAX_EXAMPLES:
                examples.append(found)
        if n:
            named = (uri_of(connection, key) for key in examples) if rule.is_of_contexts else map(str, examples)
            yield Finding(rule.check, rule.message, n, tuple(named), rule.repair)


class RowFault(NamedTuple):
    """A row that is not as it must be: its id, what is wrong, and its terms as they should be (None: remove it)."""

    row_id: int
    check: str
    terms: tuple[NDArray[np.uint64], NDArray[np.float32]] | None
    vector: NDArray[np.float32] | None


_ROWS: Final = """
SELECT r.id, r.vector, r.terms, r.term_counts, c.kind, c.title, c.abstract, COALESCE(b.overview, ''),
    COALESCE(b.content, '')
FROM row r JOIN context c ON c.id = r.id / 4 LEFT JOIN body b ON b.context_id = c.id WHERE r.id > ? ORDER BY r.id
"""
_SAYS: Final = {
    "vectors": (
        "rows have a vector of another size than the model's, or with values that are not finite",
        "removes these rows: their contexts are found by name only until they are written again",
    ),
    "lengths": ("rows have a vector that is neither of unit length nor zero", "scales it"),
    "terms": ("rows have a term list that does not follow from their texts", "makes the list again"),
}


def faulty_rows(
    connection: Connection, dimensions: int, terms_of: TermsOf | None, after: int = -1
) -> Generator[RowFault, None, None]:
    """Yield every row whose vector or term list is wrong.

    Args:
        connection: in a transaction.
        dimensions: of the store's model.
        terms_of: None checks the form of term lists, not whether they are those of the texts.
        after: rows up to this id are left out.
    """
    for row_id, vector, terms, counts, kind, title, abstract, overview, content in connection.execute(_ROWS, (after,)):
        level_number = row_id % 4
        if len(vector) != 4 * dimensions or not np.isfinite(values := np.frombuffer(vector, "<f4")).all():
            yield RowFault(row_id, "vectors", None, None)
            continue
        length = float(np.sqrt(np.square(values, dtype=np.float64).sum()))
        scaled = (values / length).astype("<f4") if length and abs(length - 1) > _UNIT_TOLERANCE else None
        made = None
        if level_number in (0, 1, 2) and (terms_of is not None or not _is_term_list(terms, counts)):
            write = ContextWrite("", KIND_OF[kind], title=title, abstract=abstract, overview=overview, content=content)
            made = terms_of(write, Level(level_number)) if terms_of else (np.empty(0, "<u8"), np.empty(0, "<f4"))
            if terms_of and (made[0].astype("<u8").tobytes(), made[1].astype("<f4").tobytes()) == (terms, counts):
                made = None
        if made is not None:
            yield RowFault(row_id, "terms", made, scaled)
        elif scaled is not None:
            yield RowFault(row_id, "lengths", None, scaled)


def check_rows(connection: Connection, dimensions: int, terms_of: TermsOf | None) -> Iterator[Finding]:
    """Yield a finding for each kind of fault that rows have."""
    found: dict[str, list[int]] = {}
    n_of = dict.fromkeys(_SAYS, 0)
    for fault in faulty_rows(connection, dimensions, terms_of):
        n_of[fault.check] += 1
        keys = found.setdefault(fault.check, [])
        if len(keys) < MAX_EXAMPLES:
            keys.append(fault.row_id // 4)
    for check, keys in found.items():
        message, repair = _SAYS[check]
        examples = tuple(uri_of(connection, key) for key in keys)
        yield Finding(check, message, n_of[check], examples, repair)


def repair_rows(connection: Connection, dimensions: int, terms_of: TermsOf) -> None:
    """Put every faulty row right, or remove it where only its writer could."""
    after = -1
    while True:  # by parts: all may be faulty, after a change of the rules by which texts become terms
        with closing(faulty_rows(connection, dimensions, terms_of, after)) as found:
            faults = list(islice(found, _ROWS_PER_PART))
        for fault in faults:
            _repair_row(connection, fault)
        if len(faults) < _ROWS_PER_PART:
            return
        after = faults[-1].row_id


def _repair_row(connection: Connection, fault: RowFault) -> None:
    if fault.check == "vectors":
        connection.execute("DELETE FROM row WHERE id = ?", (fault.row_id,))
    if fault.terms is not None:
        terms, counts = (fault.terms[0].astype("<u8").tobytes(), fault.terms[1].astype("<f4").tobytes())
        query = "UPDATE row SET terms = ?, term_counts = ? WHERE id = ?"
        connection.execute(query, (terms, counts, fault.row_id))
    if fault.vector is not None:
        connection.execute("UPDATE row SET vector = ? WHERE id = ?", (fault.vector.tobytes(), fault.row_id))


def uri_of(connection: Connection, key: int) -> str:
    """Return where a context is, as far as its directories can be followed; for people to read."""
    names: list[str] = []
    seen: set[int] = set()
    while key and key not in seen:
        seen.add(key)
        found = connection.execute("SELECT parent_id, name FROM context WHERE id = ?", (key,)).fetchone()
        if found is None:
            return f"context {key}" + "".join(f"/{name}" for name in reversed(names))
        key, name = found
        names.append(name)
    text = "/".join(reversed(names))
    return f"context {key}/{text}" if key else SCHEME + text


def _is_term_list(terms: bytes, counts: bytes) -> bool:
    if len(terms) % 8 or len(counts) % 4 or len(terms) != 2 * len(counts):
        return False
    hashes, numbers = np.frombuffer(terms, "<u8"), np.frombuffer(counts, "<f4")
    return bool((hashes[1:] > hashes[:-1]).all() and np.isfinite(numbers).all() and (numbers > 0).all())
