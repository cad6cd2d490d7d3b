"""Page tokens of Retrieve: where the next page begins, bound to the caller and to all that decides what matches."""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from typing import TYPE_CHECKING, Final, Literal

from viking_rpc.domain.query import Page
from viking_rpc.domain.uri import SCHEME
from viking_rpc.errors import Violation
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.retrieve.paging import MAX_TOLD

if TYPE_CHECKING:
    from viking_rpc.domain.identity import Identity

_DIGEST_BYTES: Final = 8
_HEAD: Final = struct.Struct(f"<{_DIGEST_BYTES}sqI")
_Field = Literal["limit", "view", "trace_level", "min_revision", "page_token"]
#: What may differ between pages, by the names of the request's fields.
_FREE: Final[tuple[_Field, ...]] = ("limit", "view", "trace_level", "min_revision", "page_token")


def make_page_token(request: pb.RetrieveRequest, identity: Identity, page: Page) -> str:
    """Write the token by which a request goes on.

    Args:
        request: as it was received.
        identity: whose it is.
        page: where it goes on.
    """
    head = _HEAD.pack(_digest(request, identity), page.revision, page.n_told)
    return base64.urlsafe_b64encode(head + page.last_uri.encode()).decode().rstrip("=")


def read_page_token(request: pb.RetrieveRequest, identity: Identity, found: list[Violation]) -> Page | None:
    """Read the token of a request; None where it has none, or a bad one.

    Args:
        request: as it was received.
        identity: whose it is.
        found: receives what is wrong with the token.
    """
    token = request.page_token
    if not token:
        return None
    try:
        decoded = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        digest, revision, n_told = _HEAD.unpack_from(decoded)
        last_uri = decoded[_HEAD.size :].decode()
    except (binascii.Error, ValueError, struct.error):
        found.append(Violation("page_token", "is not a token of this server", "INVALID_PAGE_TOKEN"))
        return None
    if digest != _digest(request, identity):
        text = "is of another request: only limit, view, trace_level and min_revision may differ between pages"
        found.append(Violation("page_token", text, "INVALID_PAGE_TOKEN"))
        return None
    if not (last_uri.startswith(SCHEME) and 0 < n_told < MAX_TOLD):
        found.append(Violation("page_token", "is not a token of this server", "INVALID_PAGE_TOKEN"))
        return None
    return Page(last_uri, n_told, revision)


def _digest(request: pb.RetrieveRequest, identity: Identity) -> bytes:
    """Return what a token is bound to: the caller, and what decides which contexts match, and how well."""
    bound = pb.RetrieveRequest()
    bound.CopyFrom(request)
    for name in _FREE:
        bound.ClearField(name)
    who = f"{identity.account}\0{identity.user}\0{identity.peer}\0{identity.role.value}\0"
    told = who.encode() + bound.SerializeToString(deterministic=True)
    return hashlib.blake2b(told, digest_size=_DIGEST_BYTES).digest()
