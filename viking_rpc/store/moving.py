"""What a move drags along: the length of the URIs below, the types that follow from the position, and relations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viking_rpc.domain.uri import MAX_URI_BYTES, Uri
from viking_rpc.errors import InvalidArgumentError, Violation

if TYPE_CHECKING:
    from sqlite3 import Connection

    from viking_rpc.store.operations import Move


def check_length(connection: Connection, account_id: int, key: int, destination: str) -> int:
    """Return how many contexts move with one.

    Raises:
        InvalidArgumentError: a URI below the destination would be too long.
    """
    query = """
    WITH RECURSIVE below (id, n_bytes) AS (
        SELECT ?, ? UNION ALL SELECT c.id, b.n_bytes + 1 + length(CAST(c.name AS BLOB))
        FROM below b JOIN context c ON c.account_id = ? AND c.parent_id = b.id
    )
    SELECT COUNT(*), MAX(n_bytes) FROM below
    """
    n_moved: int
    n_moved, n_bytes = connection.execute(query, (key, len(destination.encode()), account_id)).fetchone()
    if n_bytes > MAX_URI_BYTES:
        description = f"a URI below it would have {n_bytes} bytes, at most {MAX_URI_BYTES} are allowed"
        raise InvalidArgumentError.of([Violation("destination_uri", description, "INVALID_URI")])
    return n_moved


def retype(connection: Connection, account_id: int, key: int, source: Uri, destination: Uri) -> list[int]:
    """Give what moved the types of its new position, unless a write named the type; returns the keys that changed."""
    if _has_one_type(source) and _has_one_type(destination) and source.type == destination.type:
        return []
    changed = []
    waiting = [(destination, key, *_facts(connection, key))]
    query = "SELECT id, name, type, is_type_given FROM context WHERE account_id = ? AND parent_id = ?"
    while waiting:
        uri, key, type_, is_type_given = waiting.pop()
        if not is_type_given and type_ != uri.type:
            connection.execute("UPDATE context SET type = ?, version = version + 1 WHERE id = ?", (int(uri.type), key))
            changed.append(key)
        for child, name, child_type, is_given in connection.execute(query, (account_id, key)).fetchall():
            waiting.append((uri.child(name), child, child_type, is_given))
    return changed


def redirect_relations(connection: Connection, account_id: int, move: Move) -> list[int]:
    """Let relations to what moved name its new place; returns the keys of the contexts whose relations changed."""
    # "0" is the character after "/": the range holds exactly the URIs below the source.
    those = "account_id = ? AND (uri = ? OR (uri >= ? AND uri < ?))"
    source = move.source
    values = (account_id, source, source + "/", source + "0")
    keys = connection.execute(f"SELECT DISTINCT context_id FROM relation WHERE {those}", values).fetchall()
    query = f"UPDATE relation SET uri = ? || substr(uri, ?) WHERE {those}"
    connection.execute(query, (move.destination, len(source) + 1, *values))
    connection.executemany("UPDATE context SET version = version + 1 WHERE id = ?", keys)
    return [key for (key,) in keys]


def moved_uri(uri: str, move: Move) -> str:
    """Return where a URI is after a move."""
    is_inside = uri == move.source or uri.startswith(move.source + "/")
    return move.destination + uri[len(move.source) :] if is_inside else uri


def _facts(connection: Connection, key: int) -> tuple[int, int]:
    type_, is_type_given = connection.execute("SELECT type, is_type_given FROM context WHERE id = ?", (key,)).fetchone()
    return type_, is_type_given


def _has_one_type(uri: Uri) -> bool:
    """Return whether all below a URI has its type, because the position is decided already."""
    match uri.segments:
        case ("user", _, "peers") | ("user", _, "peers", _) | ("user",) | ("user", _) | ("agent",):
            return False
    return True
