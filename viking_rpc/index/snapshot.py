"""One immutable state of one account's tree: arrays for the kernels, texts for people, and ways to find a node."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from viking_kernels.arrays import Postings, Rows, Sketches, Tree
from viking_rpc.domain.identity import Identity
from viking_rpc.domain.uri import SCHEME, Uri
from viking_rpc.index.grouping import USUAL_GROUPING, Grouping
from viking_rpc.index.layered import Layered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from viking_rpc.index.blobs import Texts
    from viking_rpc.index.growing import RowBuffers
    from viking_rpc.index.owners import Owner
    from viking_rpc.index.vocabulary import Vocabulary

#: The node of `viking://`, in every snapshot.
ROOT = 0
#: Derived values that a snapshot keeps, such as compiled scopes.
_MAX_REMEMBERED = 10_000
#: What an entry of a dictionary of fresh nodes takes, and what a snapshot takes without any node.
_ENTRY_BYTES = 160
_FIXED_BYTES = 16_384
#: Kinds of remembered values that hold no active count; places are kept too, by the identity that they are for.
_WITHOUT_COUNTS = frozenset({"directories", "max_depth", "narrow", "scratch", "split", "tags", "uris"})


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """An account's tree at one revision; a query pins one and holds it to the end.

    Args:
        revision: number of the last write that it contains.
        tree, rows, postings: what the kernels read, see `viking_kernels.arrays`.
        sketches: of the rows that are not laid out, the same.
        base_row: int32[n_base + 1], first row of each base node as laid out.
        digest: uint64[n_rows], of the terms that each row was given; its term list may hold those of a subtree too.
        key: int64[n_nodes], the contexts' numbers in the store; 0 for the root.
        version: int64[n_nodes], the contexts' write counts.
        names, titles, abstracts: texts by node.
        relations: by node, see `records.encode_relations`.
        tag_ids: (key, value) to tag id.
        vocabulary: term hashes to ids and rarity.
        node_of_fresh: (parent node, name) to fresh node.
        key_order: int32[n_base], base nodes by ascending key.
        sorted_key: int64[n_base], their keys.
        node_of_fresh_key: key to fresh node.
        owners: the approximate indexes, per large top subtree.
        replaced: int32[n], base nodes whose rows were replaced since the tree was laid out, ascending.
        has_expiry: whether any context may expire, so that flat searches must ask ancestors.
        n_gone: nodes that were deleted, or left behind by a move, since the tree was laid out.
        n_contexts: contexts that are not deleted, without the root.
        n_replaced_rows: rows that no node uses any more.
        grouping: by type of context, how many files share a directory, see `grouping`; as laid out.
        tie_order: int32[n_nodes], the nodes by their URIs as strings.
        buffers: where the writer appends rows; readers never touch it.
    """

    revision: int
    tree: Tree
    rows: Rows
    sketches: Sketches
    postings: Postings
    base_row: NDArray[np.int32]
    digest: NDArray[np.uint64]
    key: NDArray[np.int64]
    version: NDArray[np.int64]
    names: Texts
    titles: Texts
    abstracts: Texts
    relations: Texts
    tag_ids: Mapping[tuple[str, str], int]
    vocabulary: Vocabulary
    key_order: NDArray[np.int32]
    sorted_key: NDArray[np.int64]
    tie_order: NDArray[np.int32]
    buffers: RowBuffers
    node_of_fresh: Layered[tuple[int, str], int] = field(default_factory=Layered)
    node_of_fresh_key: Layered[int, int] = field(default_factory=Layered)
    replaced: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    owners: tuple[Owner, ...] = ()
    has_expiry: bool = False
    n_gone: int = 0
    n_contexts: int = 0
    n_replaced_rows: int = 0
    grouping: Grouping = USUAL_GROUPING
    #: Values derived from the snapshot that queries share, such as compiled scopes; filled lazily, never invalidated.
    memo: dict[object, object] = field(default_factory=dict)

    @property
    def n_base(self) -> int:
        """Return the number of base nodes."""
        return len(self.tree.child_lo) - 1

    @property
    def n_nodes(self) -> int:
        """Return the number of nodes, gone ones included."""
        return len(self.tree.parent)

    @property
    def n_rows(self) -> int:
        """Return the number of rows, replaced ones included."""
        return len(self.rows.node)

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors."""
        return int(self.rows.vectors.shape[1])

    @property
    def size_bytes(self) -> int:
        """Return about how much memory it takes, pages of a mapped checkpoint included."""
        texts = [getattr(self, name) for name in ("names", "titles", "abstracts", "relations")]
        vocabulary = self.vocabulary
        arrays = (
            *(
                *self.tree,
                *self.rows,
                *self.sketches[:-1],
                *self.postings,
                self.base_row,
                self.digest,
                self.key,
                self.version,
            ),
            *(self.key_order, self.sorted_key, self.tie_order, vocabulary.hashes, vocabulary.n_rows_of_term),
            *(part for text in texts for part in (text.data, text.offset)),
        )
        n_entries = 2 * len(self.node_of_fresh) + len(vocabulary.extra) + sum(len(text.extra) for text in texts)
        total = sum(int(array.nbytes) for array in arrays) + self.buffers.room_bytes()
        return total + n_entries * _ENTRY_BYTES + _FIXED_BYTES

    @property
    def max_depth(self) -> int:
        """Return the greatest depth of any node."""
        found = self.memo.get("max_depth")
        if found is None:
            found = self.memo["max_depth"] = int(self.tree.depth.max())
        return found  # type: ignore[return-value]

    @property
    def columns(self) -> Tree:
        """Return the tree's columns as views that give Python numbers: faster for single values than numpy scalars."""
        found = self.memo.get("columns")
        if found is None:
            found = self.memo["columns"] = Tree(*(memoryview(column) for column in self.tree))  # type: ignore[arg-type]
        return found  # type: ignore[return-value]

    def with_counts(self, revision: int, active_count: NDArray[np.int32], buffers: RowBuffers) -> Snapshot:
        """Return the snapshot with other active counts, and with all that it remembers of its shape."""
        memo = {key: value for key, value in list(self.memo.items()) if not _has_counts(key)}
        tree = self.tree._replace(active_count=active_count)
        return replace(self, revision=revision, tree=tree, buffers=buffers, memo=memo)

    def remember(self, key: object, value: object) -> None:
        """Keep a derived value for later queries; the memory of a snapshot is bounded."""
        if len(self.memo) >= _MAX_REMEMBERED:
            self.memo.clear()
        self.memo[key] = value

    def find(self, uri: Uri) -> int:
        """Return the node of a URI, -1 when there is none (or it is deleted)."""
        node = ROOT
        for name in uri.segments:
            node = self.child(node, name)
            if node < 0:
                return -1
        return node

    def child(self, parent: int, name: str) -> int:
        """Return the child of that name, -1 when there is none."""
        fresh = self.node_of_fresh.get((parent, name), -1)
        if fresh >= 0:
            return -1 if self.tree.is_gone[fresh] else fresh
        if parent >= self.n_base:
            return -1
        wanted = name.encode()
        lo, hi = int(self.tree.child_lo[parent]), int(self.tree.child_lo[parent + 1])
        end = hi
        while lo < hi:
            middle = (lo + hi) // 2
            if self.names.get_bytes(middle) < wanted:
                lo = middle + 1
            else:
                hi = middle
        if lo < end and self.names.get_bytes(lo) == wanted and not self.tree.is_gone[lo]:
            return lo
        return -1

    def node_of_key(self, key: int) -> int:
        """Return the node of a context's number in the store, -1 when there is none; deleted nodes are found."""
        fresh = self.node_of_fresh_key.get(key)
        if fresh is not None:
            return fresh
        position = bisect_left(self.sorted_key.data, key)
        if position < len(self.sorted_key) and self.sorted_key[position] == key:
            return int(self.key_order[position])
        return -1

    def path(self, node: int) -> list[int]:
        """Return the nodes from below the root down to a node."""
        nodes = []
        parent = self.columns.parent
        while node > ROOT:
            nodes.append(node)
            node = parent[node]
        nodes.reverse()
        return nodes

    def uri(self, node: int) -> str:
        """Return a node's canonical URI."""
        return SCHEME + "/".join(self.names.get(above) for above in self.path(node))

    def child_count(self, node: int, now_us: int) -> int:
        """Return the number of a directory's children that are neither deleted nor expired."""
        if self.n_gone == 0 and not self.has_expiry:
            child_lo = self.columns.child_lo
            n_base = child_lo[node + 1] - child_lo[node] if node < self.n_base else 0
            if self.n_nodes == self.n_base:
                return n_base
        nodes = np.fromiter(self.children(node), np.int64)
        expire_us = self.tree.expire_us[nodes]
        return int(((self.tree.is_gone[nodes] == 0) & ((expire_us == 0) | (expire_us > now_us))).sum())

    def tags_between(self, lo: int, hi: int) -> dict[str, str]:
        """Return the tags of a node whose list is `[lo, hi)`."""
        pairs = self.memo.get("tags")
        if pairs is None:
            pairs = self.memo["tags"] = tuple(self.tag_ids)  # ids are numbered in order of insertion
        return dict(sorted(pairs[tag] for tag in self.tree.tag_id[lo:hi]))  # type: ignore[index]

    def children(self, node: int) -> Iterator[int]:
        """Yield a directory's children, gone ones included: base ones by name, then fresh ones."""
        if node < self.n_base:
            yield from range(int(self.tree.child_lo[node]), int(self.tree.child_lo[node + 1]))
        child = int(self.tree.fresh_head[node])
        while 0 <= child < self.n_nodes:
            yield child
            child = int(self.tree.fresh_next[child])


def _has_counts(key: object) -> bool:
    """Return whether a remembered value may hold active counts; what nobody vouches for here is taken to."""
    kind = key[0] if isinstance(key, tuple) and key else key
    return not (isinstance(kind, Identity) or kind in _WITHOUT_COUNTS)
