"""List the children of a directory page by page: filtered, never larger than an answer may be, stable under writes."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.access import check_traverse, may_read, readable_roots
from viking_rpc.domain.context import Kind
from viking_rpc.domain.query import Filter, View
from viking_rpc.domain.uri import Uri, check_uri
from viking_rpc.errors import InvalidArgumentError, Violation
from viking_rpc.server.convert_answer import MAX_RESPONSE_BYTES
from viking_rpc.server.convert_context import context_message, is_visible, signpost_message
from viking_rpc.server.convert_request import read_enum, read_filter, read_limit
from viking_rpc.server.validate import check_filter
from viking_rpc.store.refusals import missing

if TYPE_CHECKING:
    from viking_rpc.domain.context import Context
    from viking_rpc.domain.identity import Identity
    from viking_rpc.pb.v1 import context_pb2
    from viking_rpc.pb.v1 import context_service_pb2 as pb
    from viking_rpc.store.store import Store

DEFAULT_PAGE_SIZE: Final = 100

_MAX_PAGE_BYTES: Final = MAX_RESPONSE_BYTES - 64 * 1024
#: How many contexts are read at once, so that what is thrown away stays small.
_READ_AT_ONCE: Final = {View.BASIC: 512, View.ABSTRACT: 256, View.OVERVIEW: 32, View.FULL: 8}
#: A page that a filter keeps empty is answered after so many contexts; its token goes on.
_MAX_SCANNED: Final = 5_000
_DIGEST_BYTES: Final = 8
_MAX_TOKEN_CHARS: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class ListRequest:
    """A request for one page.

    Args:
        parent: the directory, canonical; the root has the scopes.
        excluded: subtrees that the filter leaves out.
        after_name: the last name of the page before.
        digest: of all that must be the same on every page.
    """

    identity: Identity
    parent: Uri
    page_size: int
    filter: Filter
    excluded: tuple[Uri, ...]
    view: View
    after_name: str
    digest: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """One page of children."""

    contexts: list[context_pb2.Context]
    next_page_token: str


def read_list_request(message: pb.ListContextsRequest, identity: Identity, now_us: int) -> ListRequest:
    """Read and check a request.

    Raises:
        InvalidArgumentError: all violations.
        PermissionDeniedError: the directory is not the caller's to list.
    """
    found: list[Violation] = []
    parent = Uri()
    if message.parent_uri.strip():
        parsed = check_uri(message.parent_uri, identity, now_us, "parent_uri")
        if isinstance(parsed, Violation):
            found.append(parsed)
        else:
            parent = parsed.uri
    condition = read_filter(message.filter, found)
    found += check_filter(condition, identity, now_us)
    if condition.levels:
        found.append(Violation("filter.levels", "must be empty: children are contexts, not levels", "NOT_ALLOWED"))
    view = read_enum(View, message.view, View.ABSTRACT, "view", found)
    page_size = read_limit(message.page_size, DEFAULT_PAGE_SIZE, "page_size", found)
    if message.min_revision < 0:
        found.append(Violation("min_revision", f"{message.min_revision} is negative", "OUT_OF_RANGE"))
    digest = _digest(message, parent, identity)
    after_name = _read_token(message.page_token, digest, found)
    if found:
        raise InvalidArgumentError.of(found)
    check_traverse(identity, parent, "parent_uri")
    excluded = [check_uri(text, identity, now_us) for text in condition.exclude_uris]
    uris = tuple(parsed.uri for parsed in excluded if not isinstance(parsed, Violation))
    return ListRequest(identity, parent, page_size, condition, uris, view, after_name, digest)


def list_page(store: Store, request: ListRequest) -> Page:
    """Read one page; blocking.

    Raises:
        NotFoundError: there is no such directory.
        InvalidArgumentError: NOT_A_DIRECTORY.
    """
    contexts: list[context_pb2.Context] = []
    n_bytes = n_scanned = 0
    after_name = request.after_name
    while True:
        found, has_more = _read_children(store, request, after_name)
        for i, child in enumerate(found):
            n_scanned += 1
            if _passes(child, request):
                message = _message(child, request)
                n_bytes += message.ByteSize() + 8
                if n_bytes > _MAX_PAGE_BYTES and contexts:
                    return Page(contexts, _make_token(after_name, request.digest))
                contexts.append(message)
            after_name = child.uri.rpartition("/")[2]
            is_last = i + 1 == len(found) and not has_more
            if not is_last and (len(contexts) >= request.page_size or n_scanned >= _MAX_SCANNED):
                return Page(contexts, _make_token(after_name, request.digest))
        if not has_more:
            return Page(contexts, "")


def _read_children(store: Store, request: ListRequest, after_name: str) -> tuple[list[Context], bool]:
    """Return the next children, and whether there are more behind them."""
    account, parent = request.identity.account, request.parent
    with_overview, with_content = request.view >= View.OVERVIEW, request.view >= View.FULL
    if not parent.is_root and not may_read(request.identity, parent):
        # A directory of many owners: its visible children are known by name, so the others are not even read.
        depth = len(parent.segments)
        roots = readable_roots(request.identity).roots
        names = {root.segments[depth] for root in roots if root.is_under(parent) and len(root.segments) > depth}
        ordered = sorted((name for name in names if name.encode() > after_name.encode()), key=str.encode)
        stored = [
            store.get(account, str(parent.child(name)), with_overview=with_overview, with_content=with_content)
            for name in ordered
        ]
        return [context for context in stored if context is not None], False
    n_read = min(request.page_size, _READ_AT_ONCE[request.view])
    if not parent.is_root and not after_name:
        directory = store.get(account, str(parent))
        if directory is None:
            raise missing("parent_uri", str(parent))
        if directory.kind is not Kind.DIRECTORY:
            raise InvalidArgumentError.of([Violation("parent_uri", f"{parent} is a file", "NOT_A_DIRECTORY")])
    found = store.children(
        account,
        str(parent),
        after_name=after_name,
        limit=n_read + 1,
        with_overview=with_overview,
        with_content=with_content,
    )
    return found[:n_read], len(found) > n_read


def _passes(child: Context, request: ListRequest) -> bool:
    """Return whether a child is shown."""
    wanted = request.filter
    return (
        is_visible(child, request.identity)
        and all(child.tags.get(key) == value for key, value in wanted.tags.items())
        and (wanted.updated_since_us is None or child.update_us >= wanted.updated_since_us)
        and (wanted.updated_before_us is None or child.update_us < wanted.updated_before_us)
        and (wanted.created_since_us is None or child.create_us >= wanted.created_since_us)
        and (wanted.created_before_us is None or child.create_us < wanted.created_before_us)
        and not any(Uri.from_canonical(child.uri).is_under(uri) for uri in request.excluded)
    )


def _message(child: Context, request: ListRequest) -> context_pb2.Context:
    if may_read(request.identity, Uri.from_canonical(child.uri)):
        return context_message(child, request.view, request.identity)
    return signpost_message(child)


def _digest(message: pb.ListContextsRequest, parent: Uri, identity: Identity) -> bytes:
    """Return what a token is bound to: the caller, the directory, the filter and the view."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    who = (identity.account, identity.user, identity.peer, str(parent), str(message.view))
    for part in who:
        digest.update(part.encode() + b"\0")
    digest.update(message.filter.SerializeToString(deterministic=True))
    return digest.digest()


def _make_token(after_name: str, digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest + after_name.encode()).decode().rstrip("=")


def _read_token(token: str, digest: bytes, found: list[Violation]) -> str:
    """Return the name that a token stands for; empty for none."""
    if not token:
        return ""
    token = token[:_MAX_TOKEN_CHARS]  # ours are shorter
    try:
        decoded = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        name = decoded[_DIGEST_BYTES:].decode()
    except (binascii.Error, ValueError):
        found.append(Violation("page_token", "is not a token of this server", "INVALID_PAGE_TOKEN"))
        return ""
    if decoded[:_DIGEST_BYTES] != digest or not name:
        text = "is of another request: the directory, the filter and the view must stay the same"
        found.append(Violation("page_token", text, "INVALID_PAGE_TOKEN"))
    return name
