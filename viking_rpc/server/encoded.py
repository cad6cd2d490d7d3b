"""Remember contexts as bytes of the field they stand in: answers name the same ones again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from viking_rpc.domain.query import View
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.server.convert_context import ancestor_message, context_message

if TYPE_CHECKING:
    from viking_rpc.domain.context import Context
    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.trace import Match

_MAX_ENTRIES: Final = 16_384
#: Longer ones are cheap to write for their size, and would fill the memory.
_MAX_BYTES: Final = 2_048

#: Everything that can differ between two readings of a context, its texts included, changes one of these.
_Key = tuple[str, str, int, int, int]


class EncodedContexts:
    """Writes the parts of a `Match` that answers repeat; of one event loop, so it takes no lock.

    Callers share no entry: what one may see of a context, another may not.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._of: dict[Identity, EncodedFor] = {}
        self.n_entries = 0

    def of(self, identity: Identity) -> EncodedFor:
        """Return the writer for one caller."""
        if self.n_entries > _MAX_ENTRIES:
            self._of.clear()
            self.n_entries = 0
        found = self._of.get(identity)
        if found is None:
            found = self._of[identity] = EncodedFor(self, identity)
            self.n_entries += 1
        return found


class EncodedFor:
    """Writes contexts for one caller."""

    __slots__ = ("_all", "_chains", "_entries", "_identity")

    def __init__(self, every: EncodedContexts, identity: Identity) -> None:
        """Use `EncodedContexts.of`."""
        self._all = every
        self._identity = identity
        self._entries: dict[_Key, bytes] = {}
        # By the tuple itself, which a snapshot keeps for each directory; held here, so that no other can get its id.
        self._chains: dict[int, tuple[tuple[Context, ...], bytes]] = {}

    def match(self, match: Match, view: View) -> bytes:
        """Return the bytes of a `Match` that has this one's context, display URI and level only."""
        context = match.context
        if view > View.ABSTRACT:
            return self._write(match, view)
        # by the display URI, which tells the context's and the level
        key = (match.display_uri, context.etag, context.child_count, context.active_count, view)
        found = self._entries.get(key)
        if found is None:
            found = self._write(match, view)
            self._remember(key, found)
        return found

    def _write(self, match: Match, view: View) -> bytes:
        message = pb.Match(
            context=context_message(match.context, view, self._identity),
            display_uri=match.display_uri,
            level=match.level + 1,  # type: ignore[arg-type]
        )
        return message.SerializeToString()

    def chain(self, ancestors: tuple[Context, ...]) -> bytes:
        """Return the bytes of a `Match` that has these ancestors only."""
        known = self._chains.get(id(ancestors))
        if known is not None:
            return known[1]
        found = b"".join(map(self._ancestor, ancestors))
        if len(found) <= _MAX_BYTES:
            self._chains[id(ancestors)] = (ancestors, found)
            self._all.n_entries += 1
        return found

    def _ancestor(self, context: Context) -> bytes:
        has_abstract = -1 if context.abstract else 0  # beside the views of matches
        key = (context.uri, context.etag, context.child_count, context.active_count, has_abstract)
        found = self._entries.get(key)
        if found is None:
            found = pb.Match(ancestors=[ancestor_message(context, self._identity)]).SerializeToString()
            self._remember(key, found)
        return found

    def _remember(self, key: _Key, encoded: bytes) -> None:
        # Without an etag (a directory that was never written as such) nothing says whether it changed.
        if len(encoded) <= _MAX_BYTES and key[1]:
            self._entries[key] = encoded
            self._all.n_entries += 1
