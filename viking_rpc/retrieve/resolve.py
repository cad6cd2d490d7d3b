"""Where a request looks and which vector it asks with: targets to node ranges, a stored context to its vector."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from viking_rpc.domain.access import check_targets, readable_roots, select_roots
from viking_rpc.domain.uri import check_uri
from viking_rpc.errors import InvalidArgumentError, NotFoundError, Violation
from viking_rpc.index.scopes import Place, compile_place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.uri import Uri
    from viking_rpc.index.snapshot import Snapshot

#: Directories that the rules of URIs name; they may be empty without being a mistake of the caller's.
_NAMED_IN_HOME = frozenset({"memories", "resources", "skills", "peers", "sessions", "privacy"})


def resolve_place(
    snapshot: Snapshot, request: RetrieveRequest, identity: Identity, now_us: int
) -> tuple[Place, tuple[str, ...]]:
    """Turn a request's targets into node ranges and the URIs of the searched roots.

    Remembered with the snapshot, for most requests ask for the same places. Permission is decided by URI alone, before
    existence.

    Raises:
        InvalidArgumentError: all targets and excluded URIs that are none.
        PermissionDeniedError: all targets that the caller may not read.
        NotFoundError: all targets that do not exist.
    """
    key = (identity, request.scope, request.filter.exclude_uris)
    is_timeless = not _has_variables((*request.scope.target_uris, *request.filter.exclude_uris))
    found: tuple[Place, tuple[str, ...]] | None = snapshot.memo.get(key) if is_timeless else None  # type: ignore[assignment]
    if found is None or (
        snapshot.has_expiry and any(_is_expired(snapshot, int(root), now_us) for root in found[0].roots)
    ):
        targets, violations = check_targets(request.scope.target_uris, identity, now_us)
        excluded, more = _check_excluded(request.filter.exclude_uris, identity, now_us)
        if violations or more:
            raise InvalidArgumentError.of((*violations, *more))
        scope = select_roots(targets, request.scope.types, identity)
        _require(snapshot, targets, now_us)
        visible = replace(scope, roots=tuple(root for root in scope.roots if _find(snapshot, root, now_us) >= 0))
        found = (compile_place(snapshot, visible, excluded), tuple(str(root) for root in scope.roots))
        if is_timeless:
            snapshot.remember(key, found)
    return found


def row_like(snapshot: Snapshot, text: str, identity: Identity, now_us: int) -> int:
    """Return the row of a stored context that is asked with: of the level which a display URI names, else its first.

    Raises:
        InvalidArgumentError: the URI is none, or NO_VECTOR.
        NotFoundError: it does not exist, or the caller may not know.
    """
    parsed = check_uri(text, identity, now_us, "query.like_uri")
    if isinstance(parsed, Violation):
        raise InvalidArgumentError.of([parsed])
    node = _find(snapshot, parsed.uri, now_us) if readable_roots(identity).contains(parsed.uri) else -1
    if node < 0:
        raise NotFoundError("CONTEXT_NOT_FOUND", f"{parsed.uri} does not exist", {"uri": str(parsed.uri)})
    for row in range(int(snapshot.tree.row_lo[node]), int(snapshot.tree.row_hi[node])):
        if parsed.level is None or snapshot.rows.level[row] == parsed.level:
            return row
    raise InvalidArgumentError.of([Violation("query.like_uri", f"{text} has no vector", "NO_VECTOR")])


def target_abstract(snapshot: Snapshot, targets: Sequence[str], identity: Identity, now_us: int) -> str:
    """Return the abstract of the first target; empty where there is none, or where the caller may not read it.

    Targets above what a caller may read, such as the root, stand for the caller's own roots and tell nothing.

    Raises:
        InvalidArgumentError: all targets that are none.
        NotFoundError: all targets that do not exist.
    """
    uris, violations = check_targets(targets, identity, now_us)
    if violations:
        raise InvalidArgumentError.of(violations)
    _require(snapshot, uris, now_us)
    if not uris or uris[0].is_root or not readable_roots(identity).contains(uris[0]):
        return ""
    node = _find(snapshot, uris[0], now_us)
    return snapshot.abstracts.get(node) if node >= 0 else ""


def _require(snapshot: Snapshot, targets: Sequence[Uri], now_us: int) -> None:
    """Refuse targets that do not exist; the tops of the tree may be empty."""
    missing = [str(uri) for uri in targets if not _is_named(uri) and _find(snapshot, uri, now_us) < 0]
    if missing:
        what = ", ".join(missing)
        raise NotFoundError("CONTEXT_NOT_FOUND", f"no such target: {what}", {"uris": what})


def _is_named(uri: Uri) -> bool:
    """Return whether a URI is a scope, a user's home, or one of the directories that these have by rule."""
    match uri.segments:
        case () | (_,) | ("agent", "skills") | ("user", _):
            return True
        case ("user", _, name):
            return name in _NAMED_IN_HOME
    return False


def _find(snapshot: Snapshot, uri: Uri, now_us: int) -> int:
    """Return the node of a URI, -1 when there is none or it cannot be seen any more."""
    node = snapshot.find(uri)
    return -1 if node >= 0 and _is_expired(snapshot, node, now_us) else node


def _is_expired(snapshot: Snapshot, node: int, now_us: int) -> bool:
    """Return whether a node, or a directory above it, is expired."""
    if not snapshot.has_expiry:
        return False
    return any(0 < int(snapshot.tree.expire_us[above]) <= now_us for above in snapshot.path(node))


def _has_variables(texts: Iterable[str]) -> bool:
    """Return whether a URI may mean another place at another time."""
    return any("{" in text for text in texts)


def _check_excluded(
    texts: Sequence[str], identity: Identity, now_us: int
) -> tuple[tuple[Uri, ...], tuple[Violation, ...]]:
    """Parse the subtrees to leave out."""
    parsed = [check_uri(text, identity, now_us, f"filter.exclude_uris[{i}]") for i, text in enumerate(texts)]
    uris = tuple(one.uri for one in parsed if not isinstance(one, Violation))
    return uris, tuple(one for one in parsed if isinstance(one, Violation))
