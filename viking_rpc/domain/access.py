"""Who may see and change what, and where a search looks: decided by identity and URI alone, before anything is read."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.context import ContextType
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.subtrees import SearchScope, SubtreePattern
from viking_rpc.domain.uri import Uri, check_uri
from viking_rpc.errors import InvalidArgumentError, PermissionDeniedError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ROOT: Final = Uri()
_RESOURCES: Final = Uri(("resources",))
_USERS: Final = Uri(("user",))
_AGENT: Final = Uri(("agent",))

#: Raw transcripts: found only when a target names them or something inside.
SESSIONS: Final = SubtreePattern(("user", "*", "sessions"))


def home(identity: Identity) -> Uri:
    """Return `viking://user/<me>`; not for ROOT, who has none."""
    return _USERS.child(identity.user)


@lru_cache(maxsize=4096)
def readable_roots(identity: Identity) -> SearchScope:
    """Return all that a caller may read; every path intersects with it.

    With a peer set, `user/<me>/peers` holds that peer only. The directories `viking://`, `viking://user` and, with a
    peer, `user/<me>/peers` are not in it, as their texts tell of others, but `can_traverse` is true of them.
    """
    return _owned(identity, shared=(_RESOURCES, _AGENT))


@lru_cache(maxsize=4096)
def writable_roots(identity: Identity) -> SearchScope:
    """Return all that a caller may change: USER its own subtree, ADMIN also the shared scopes, ROOT everything."""
    return _owned(identity, shared=(_RESOURCES, _AGENT) if identity.role is Role.ADMIN else ())


def _owned(identity: Identity, shared: tuple[Uri, ...]) -> SearchScope:
    if identity.role is Role.ROOT:
        return SearchScope((_ROOT,))
    me = home(identity)
    if not identity.peer:
        return SearchScope((*shared, me))
    peers = me.child("peers")
    return SearchScope((*shared, me, peers.child(identity.peer)), (SubtreePattern(peers.segments),))


def may_read(identity: Identity, uri: Uri) -> bool:
    """Return whether a caller may read the context of a URI, whether or not it exists."""
    return readable_roots(identity).contains(uri)


def can_traverse(identity: Identity, uri: Uri) -> bool:
    """Return whether a caller may list a directory; what it shows are the children for which this is true again."""
    return readable_roots(identity).leads_to(uri)


def may_write(identity: Identity, uri: Uri, *, recursive: bool = False) -> bool:
    """Return whether a caller may change a context; `recursive`: it and all below it, unseen peers included."""
    allowed = writable_roots(identity)
    return allowed.contains_subtree(uri) if recursive else allowed.contains(uri)


def check_read(identity: Identity, uri: Uri, field: str = "uri") -> None:
    """Raise PermissionDeniedError (reason PERMISSION_DENIED, with a hint) unless the caller may read."""
    if not may_read(identity, uri):
        raise denied(identity, [denial(identity, uri, "read", field)])


def check_traverse(identity: Identity, uri: Uri, field: str = "uri") -> None:
    """Raise PermissionDeniedError (reason PERMISSION_DENIED, with a hint) unless the caller may list."""
    if not can_traverse(identity, uri):
        raise denied(identity, [denial(identity, uri, "list", field)])


def check_write(identity: Identity, uri: Uri, field: str = "uri", *, recursive: bool = False) -> None:
    """Raise PermissionDeniedError (reason PERMISSION_DENIED, with a hint) unless the caller may change."""
    if not may_write(identity, uri, recursive=recursive):
        raise denied(identity, [denial(identity, uri, "change", field)])


def check_operator(identity: Identity, what: str, *, of_all_accounts: bool = False) -> None:
    """Refuse whoever does not answer for the account: what its users ask together is no user's to know.

    Args:
        identity: the caller.
        what: is asked for, e.g. "statistics".
        of_all_accounts: it concerns every account of the server.

    Raises:
        PermissionDeniedError: reason PERMISSION_DENIED unless the role is ADMIN or ROOT; of all accounts, ROOT.
    """
    allowed = (Role.ROOT,) if of_all_accounts else (Role.ADMIN, Role.ROOT)
    if identity.role not in allowed:
        whose = "of all accounts" if of_all_accounts else f"of account {identity.account!r}"
        roles = " and ".join(role.value for role in allowed)
        message = f"{what} {whose} are for the role{'s' * (len(allowed) > 1)} {roles}, not for {identity.role.value!r}"
        raise PermissionDeniedError("PERMISSION_DENIED", message, _who(identity))


def denial(identity: Identity, uri: Uri, verb: str, field: str) -> Violation:
    """Describe one refusal, so that a caller of many URIs hears of all."""
    return Violation(field, f"may not {verb} {uri}: {_hint(identity, uri)}", "PERMISSION_DENIED")


def denied(identity: Identity, violations: Iterable[Violation]) -> PermissionDeniedError:
    """Build one error of all refusals."""
    return PermissionDeniedError(
        reason="PERMISSION_DENIED",
        message=f"user {identity.user!r} of account {identity.account!r} lacks the permission",
        metadata=_who(identity),
        violations=tuple(violations),
    )


def _who(identity: Identity) -> dict[str, str]:
    return {"user": identity.user, "account": identity.account, "role": identity.role.value}


def _hint(identity: Identity, uri: Uri) -> str:
    me = home(identity)
    if uri.scope == "user" and len(uri.segments) > 1 and not uri.is_under(me):
        other = uri.segments[1]
        if other == identity.account:
            return f"{other!r} is the account, not the user; your own root is {me}"
        return f"it belongs to another user; your own root is {me}"
    if identity.peer and (uri.is_under(me.child("peers")) or uri == me):
        return f"this call is made with peer {identity.peer!r} and sees no other peer"
    if uri.scope in {"resources", "agent"}:
        return "the shared scopes are changed by the admin and root roles only"
    return f"only its children can be seen; your own root is {me}"


def default_roots(identity: Identity, types: frozenset[ContextType] = frozenset()) -> tuple[Uri, ...]:
    """Return where a search looks that names no target: the row of each type, or the row for none."""
    if identity.role is Role.ROOT:
        return (_ROOT,)
    if not types:
        own = _own_roots(identity)
        return (_RESOURCES, *own) if identity.peer else (*own, _RESOURCES)
    return tuple(root for kind in sorted(types) for root in _type_roots(identity, kind))


def _type_roots(identity: Identity, kind: ContextType) -> tuple[Uri, ...]:
    me = home(identity)
    if kind is ContextType.SKILL:
        return (me.child("skills"), _AGENT.child("skills"))
    shared = (_RESOURCES,) if kind is ContextType.RESOURCE else ()
    if not identity.peer:
        return (*shared, me)
    memories, resources = _peer_roots(identity)
    if kind is ContextType.MEMORY:
        return (me.child("memories"), memories)
    return (*shared, me.child("resources"), resources)


def _own_roots(identity: Identity) -> tuple[Uri, ...]:
    """Return what "my root" means: all of it, or with a peer what concerns the caller and that peer."""
    me = home(identity)
    if not identity.peer:
        return (me,)
    return (*(me.child(name) for name in ("memories", "resources", "skills")), *_peer_roots(identity))


def _peer_roots(identity: Identity) -> tuple[Uri, Uri]:
    peer = home(identity).child("peers").child(identity.peer)
    return peer.child("memories"), peer.child("resources")


def resolve_roots(
    targets: Sequence[str],
    types: frozenset[ContextType],
    identity: Identity,
    now_us: int,
    field: str = "scope.target_uris",
) -> SearchScope:
    """Turn the targets of a request into what is searched.

    What is wrong comes before what is forbidden: if any target is invalid, all invalid ones are told, and only a list
    of valid targets is held against the permissions, again all at once. Nothing here depends on what exists.

    Args:
        targets: as the caller wrote them; none, or a blank, `/` or `viking://` among them, means the default roots.
        types: the context types asked for, which choose the default roots.
        identity: the caller.
        now_us: the server's time for path variables, microseconds since the epoch, UTC.
        field: where the targets stood in the request.

    Returns:
        The roots in the order of the targets, each searched once, and the sessions that nobody named as excluded.

    Raises:
        InvalidArgumentError: INVALID_URI, or INVALID_ARGUMENT for what cannot be searched.
        PermissionDeniedError: a target is not the caller's to read.
    """
    uris, violations = check_targets(targets, identity, now_us, field)
    if violations:
        raise InvalidArgumentError.of(violations)
    return select_roots(uris, types, identity, field)


def check_targets(
    targets: Sequence[str],
    identity: Identity,
    now_us: int,
    field: str = "scope.target_uris",
) -> tuple[tuple[Uri, ...], tuple[Violation, ...]]:
    """Parse the targets of a request; the root stands for the default roots.

    Returns:
        The valid ones, in order, and what is wrong with the others.
    """
    uris: list[Uri] = []
    violations: list[Violation] = []
    for i, text in enumerate(targets):
        where = f"{field}[{i}]"
        if text.strip() in {"", "/"}:
            uris.append(_ROOT)
            continue
        parsed = check_uri(text, identity, now_us, where)
        if isinstance(parsed, Violation):
            violations.append(parsed)
        elif _is_unsearchable(identity, parsed.uri):
            message = f"cannot search {parsed.uri}: of a peer, memories and resources are searched"
            violations.append(Violation(where, message, "INVALID_ARGUMENT"))
        else:
            uris.append(parsed.uri)
    return tuple(uris), tuple(violations)


def _is_unsearchable(identity: Identity, uri: Uri) -> bool:
    """Return whether the URI lies in the caller's peer, but in none of the parts that are searched."""
    if identity.role is Role.ROOT or not identity.peer:
        return False
    parts = _peer_roots(identity)
    peer = parts[0].parent
    return uri != peer and uri.is_under(peer) and not any(uri.is_under(part) for part in parts)


def select_roots(
    targets: Sequence[Uri],
    types: frozenset[ContextType],
    identity: Identity,
    field: str = "scope.target_uris",
) -> SearchScope:
    """Do the rest of `resolve_roots` for targets that `check_targets` accepted (all of them, in order)."""
    roots: list[Uri] = []
    violations: list[Violation] = []
    for i, uri in enumerate(targets or (_ROOT,)):
        narrowed = _narrow(identity, uri, types)
        if narrowed:
            roots.extend(narrowed)
        elif may_read(identity, uri):
            roots.append(uri)
        else:
            violations.append(denial(identity, uri, "search", f"{field}[{i}]"))
    if violations:
        raise denied(identity, violations)
    return _searched_once(roots, identity)


def _narrow(identity: Identity, uri: Uri, types: frozenset[ContextType]) -> tuple[Uri, ...]:
    """Return the roots that a directory above them stands for; empty for a URI that stands for itself or nothing."""
    if uri.is_root:
        return default_roots(identity, types)
    if identity.role is Role.ROOT:
        return ()
    me = home(identity)
    if uri in (_USERS, me):
        return _own_roots(identity)
    peers = me.child("peers")
    if identity.peer and uri in (peers, peers.child(identity.peer)):
        return _peer_roots(identity)
    return ()


def _searched_once(roots: Sequence[Uri], identity: Identity) -> SearchScope:
    """Drop roots that repeat or that another one holds, and exclusions that touch no root."""
    sessions = SESSIONS if identity.role is Role.ROOT else SubtreePattern((*home(identity).segments, "sessions"))
    distinct = tuple(dict.fromkeys(roots))
    alone = {root: SearchScope((root,), (sessions,)) for root in distinct}
    kept = tuple(r for r in distinct if not any(alone[other].contains(r) for other in distinct if other != r))
    return SearchScope(kept, (sessions,) if any(sessions.reaches_below(root) for root in kept) else ())
