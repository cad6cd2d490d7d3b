"""The target of an import into a store of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from viking_rpc.domain.context import Kind
from viking_rpc.domain.ports import SystemClock
from viking_rpc.ingest.pipeline import Stored, describe_stored
from viking_rpc.store.operations import Delete, Upsert
from viking_rpc.store.store import pending_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from viking_rpc.domain.context import Context, ContextWrite
    from viking_rpc.store.store import Store

_PAGE: Final = 512
#: Below this many fresh rows, and below this share of all, the next start catches up faster than it would lay out.
_MAX_FRESH_ROWS: Final = 256
_MAX_FRESH_SHARE: Final = 0.1


class StoreTarget:
    """Writes to the database alone: nobody searches meanwhile, so the tree is laid out once, by `finish`.

    Args:
        store: whose lock this process holds.
        account: to write to.
    """

    def __init__(self, store: Store, account: str) -> None:
        """Remember where to write."""
        self._store = store
        self._account = account

    def existing(self, uri: str) -> Mapping[str, Stored]:
        """Return every context at and below a URI; empty when there is none."""
        is_root = uri == "viking://"
        context = None if is_root else self._store.get(self._account, uri, with_overview=True, with_content=True)
        if context is None and not is_root:
            return {}
        found = {} if context is None else {context.uri: describe_stored(context)}
        if context is None or context.kind is Kind.DIRECTORY:
            found |= ((child.uri, describe_stored(child)) for child in self._below(uri))
        return found

    def write(self, batch: Sequence[ContextWrite]) -> None:
        """Create or replace contexts, all or none."""
        self._apply([Upsert(write) for write in batch])

    def delete(self, uris: Sequence[str]) -> None:
        """Delete contexts with everything below them."""
        self._apply([Delete(uri, is_recursive=True, allow_missing=True) for uri in uris])

    def finish(self) -> None:
        """Lay the tree out and save it, so that the next start is quick; small changes wait for a bigger one."""
        snapshot = self._store.follow(self._account)
        if pending_rows(snapshot) > max(_MAX_FRESH_ROWS, _MAX_FRESH_SHARE * snapshot.n_rows):
            self._store.lay_out(self._account)

    def _apply(self, operations: Sequence[Upsert | Delete]) -> None:
        self._store.database.apply(self._account, operations, now_us=SystemClock().now_us())

    def _below(self, uri: str) -> Iterator[Context]:
        waiting = [uri]
        while waiting:
            parent = waiting.pop()
            after_name = ""
            while True:
                page = self._store.children(
                    self._account, parent, after_name=after_name, limit=_PAGE, with_overview=True, with_content=True
                )
                yield from page
                waiting += (child.uri for child in page if child.kind is Kind.DIRECTORY and child.child_count)
                if len(page) < _PAGE:
                    break
                after_name = page[-1].uri.rpartition("/")[2]
