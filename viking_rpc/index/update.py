"""Applies one committed batch to a snapshot: new nodes and rows are appended, small columns copied, the rest is shared.

Fresh nodes and rows are exact at once (kernels read them beside the base); `index.layout` folds them in later. One
thing waits for it: a directory's fresh row holds its own terms only, and a directory above fresh files does not hold
theirs yet (see `index.subtree`). Files are found by their own rows meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from viking_kernels.arrays import Rows, Tree, frozen
from viking_rpc.domain.context import Kind
from viking_rpc.domain.uri import SCHEME
from viking_rpc.index.layout import TIE_STEP, tag_lists
from viking_rpc.index.lexicon import count_rows, digest_terms, weigh
from viking_rpc.index.snapshot import ROOT

if TYPE_CHECKING:
    from viking_rpc.domain.context import Row
    from viking_rpc.index.records import ChangeSet, NodeRecord
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.index.vocabulary import Vocabulary


class NeedsLayoutError(Exception):
    """A batch cannot be expressed beside the present layout: it moves something."""


def apply_changes(snapshot: Snapshot, changes: ChangeSet) -> Snapshot:
    """Return the snapshot with a batch applied; the given one stays as it is.

    Raises:
        NeedsLayoutError: the tree has to be laid out anew from all records.
    """
    for record in changes.upserted:
        node = snapshot.node_of_key(record.key)
        if node < 0 or snapshot.tree.is_gone[node]:
            continue
        parent = int(snapshot.tree.parent[node])
        if snapshot.names.get(node) != record.name or int(snapshot.key[parent]) != record.parent_key:
            raise NeedsLayoutError
    return _Update(snapshot).run(changes)


class _Update:
    """The columns of the next snapshot while they are written."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.old = snapshot
        self.columns: dict[str, list[np.ndarray]] = {}
        self.node_of_fresh = dict(snapshot.node_of_fresh)
        self.node_of_fresh_key = dict(snapshot.node_of_fresh_key)
        self.texts: dict[str, dict[int, bytes]] = {"names": {}, "titles": {}, "abstracts": {}}
        self.new_rows: list[Row] = []
        self.new_row_nodes: list[int] = []
        self.tag_ids = dict(snapshot.tag_ids)
        self.n_replaced_rows = snapshot.n_replaced_rows
        self.replaced = set(snapshot.replaced.tolist())

    def run(self, changes: ChangeSet) -> Snapshot:
        old = self.old
        known = {record.key: old.node_of_key(record.key) for record in changes.upserted}
        added = [record for record in changes.upserted if known[record.key] < 0]
        for i, record in enumerate(added):
            known[record.key] = old.n_nodes + i
        tree, key, version = self._grow(len(added))
        gone = [node for node in map(old.node_of_key, changes.deleted_keys) if node >= 0]
        tree["is_gone"][gone] = 1
        for record in added:
            self._link(tree, key, record, known)
        for record in changes.upserted:
            self._write(tree, version, record, known[record.key])
        self._set_tags(tree, changes, known)
        tie_order = self._set_ties(tree, [known[record.key] for record in added])
        vocabulary, rows = self._append_rows()
        digest = frozen(np.concatenate([old.digest, digest_terms(self.new_rows)])) if self.new_rows else old.digest
        return replace(
            old,
            revision=changes.revision,
            tree=Tree(**{name: frozen(column) for name, column in tree.items()}),
            rows=rows,
            digest=digest,
            key=frozen(key),
            version=frozen(version),
            names=old.names.updated(self.texts["names"]),
            titles=old.titles.updated(self.texts["titles"]),
            abstracts=old.abstracts.updated(self.texts["abstracts"]),
            tag_ids=self.tag_ids,
            vocabulary=vocabulary,
            tie_order=frozen(tie_order),
            node_of_fresh=self.node_of_fresh,
            node_of_fresh_key=self.node_of_fresh_key,
            has_expiry=old.has_expiry or any(r.expire_us for r in changes.upserted),
            n_gone=old.n_gone + len(gone),
            n_contexts=old.n_contexts + len(added) - len(gone),
            n_replaced_rows=self.n_replaced_rows,
            replaced=frozen(np.array(sorted(self.replaced), np.int32)),
            memo={},
        )

    def _grow(self, n_added: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
        """Return writable copies of the columns with room for the added nodes; `child_lo` and `tag_id` stay."""
        tree = {}
        for name, column in self.old.tree._asdict().items():
            if name in ("child_lo", "tag_id"):
                tree[name] = column
            else:
                fill = -1 if name in ("parent", "fresh_head", "fresh_next") else 0
                tree[name] = np.concatenate([column, np.full(n_added, fill, column.dtype)])
        zeros = np.zeros(n_added, np.int64)
        return tree, np.concatenate([self.old.key, zeros]), np.concatenate([self.old.version, zeros])

    def _link(self, tree: dict[str, np.ndarray], key: np.ndarray, record: NodeRecord, known: dict[int, int]) -> None:
        """Hang a new node into its parent's chain; parents come first."""
        node = known[record.key]
        parent = known.get(record.parent_key, -1)
        if parent < 0:
            parent = self.old.node_of_key(record.parent_key) if record.parent_key else ROOT
        key[node] = record.key
        tree["parent"][node] = parent
        tree["depth"][node] = tree["depth"][parent] + 1
        tree["fresh_next"][node] = tree["fresh_head"][parent]
        tree["fresh_head"][parent] = node
        self.node_of_fresh[parent, record.name] = node
        self.node_of_fresh_key[record.key] = node
        self.texts["names"][node] = record.name.encode()

    def _write(self, tree: dict[str, np.ndarray], version: np.ndarray, record: NodeRecord, node: int) -> None:
        """Set what a record says of its node, and append its rows when they changed."""
        tree["is_directory"][node] = record.kind == Kind.DIRECTORY
        tree["type"][node] = record.type
        tree["create_us"][node] = record.create_us
        tree["update_us"][node] = record.update_us
        tree["expire_us"][node] = record.expire_us
        tree["active_count"][node] = record.active_count
        version[node] = record.version
        self.texts["titles"][node] = record.title.encode()
        self.texts["abstracts"][node] = record.abstract.encode()
        rows = sorted(record.rows, key=lambda row: row.level)
        if node < self.old.n_nodes:
            if self._has_rows(node, rows):
                return
            self.n_replaced_rows += int(self.old.tree.row_hi[node] - self.old.tree.row_lo[node])
            if node < self.old.n_base:
                self.replaced.add(node)
        tree["row_lo"][node] = self.old.n_rows + len(self.new_rows)
        tree["row_hi"][node] = self.old.n_rows + len(self.new_rows) + len(rows)
        self.new_rows.extend(rows)
        self.new_row_nodes.extend([node] * len(rows))

    def _has_rows(self, node: int, rows: list[Row]) -> bool:
        """Return whether the node's rows are these already, so that a touch costs no row."""
        lo, hi = int(self.old.tree.row_lo[node]), int(self.old.tree.row_hi[node])
        if hi - lo != len(rows):
            return False
        old = self.old.rows
        if not np.array_equal(digest_terms(rows), self.old.digest[lo:hi]):
            return False
        return all(
            old.level[i] == row.level and np.array_equal(old.vectors[i], row.vector) for i, row in enumerate(rows, lo)
        )

    def _set_tags(self, tree: dict[str, np.ndarray], changes: ChangeSet, known: dict[int, int]) -> None:
        """Append the tag lists of the written nodes."""
        lo, ids = tag_lists([record.tags for record in changes.upserted], self.tag_ids)
        first = len(self.old.tree.tag_id)
        for i, record in enumerate(changes.upserted):
            tree["tag_lo"][known[record.key]] = first + lo[i]
            tree["tag_hi"][known[record.key]] = first + lo[i + 1]
        tree["tag_id"] = np.concatenate([self.old.tree.tag_id, ids])

    def _set_ties(self, tree: dict[str, np.ndarray], added: list[int]) -> np.ndarray:
        """Give the added nodes their places in the order of URIs; return that order."""
        old = self.old
        uris: dict[int, str] = {}
        for node in added:  # parents come first
            parent = int(tree["parent"][node])
            above = uris.get(parent) or (old.uri(parent) if parent else "")
            name = self.texts["names"][node].decode()
            uris[node] = f"{above}/{name}" if parent else SCHEME + name
        before = old.tie_order
        ranked = sorted(added, key=uris.__getitem__)
        places = [bisect_left(before, uris[node], key=lambda i: old.uri(int(i))) for node in ranked]
        order = np.insert(before, places, ranked)
        for place, group in groupby(range(len(ranked)), key=places.__getitem__):
            nodes = [ranked[i] for i in group]
            left = int(old.tree.tie[before[place - 1]])
            right = int(old.tree.tie[before[place]]) if place < len(before) else left + TIE_STEP * (len(nodes) + 1)
            step = (right - left) // (len(nodes) + 1)
            if step == 0:  # no place left here: all get new ones
                tree["tie"][order] = np.arange(1, len(order) + 1, dtype=np.int64) * TIE_STEP
                break
            tree["tie"][nodes] = left + step * np.arange(1, len(nodes) + 1)
        return order

    def _append_rows(self) -> tuple[Vocabulary, Rows]:
        """Return the vocabulary and the rows with the new ones at their end."""
        old = self.old.rows
        if not self.new_rows:
            return self.old.vocabulary, old
        vocabulary = self.old.vocabulary.learn(np.concatenate([row.terms for row in self.new_rows]))
        level = np.array([row.level for row in self.new_rows], np.uint8)
        lists = weigh(count_rows(self.new_rows, vocabulary), level, vocabulary.mean_length)
        first = len(old.term_id)
        buffers = self.old.buffers
        return vocabulary, Rows(
            vectors=buffers.vectors.append(np.stack([row.vector for row in self.new_rows]), self.old.n_rows),
            level=frozen(np.concatenate([old.level, level])),
            node=frozen(np.concatenate([old.node, np.array(self.new_row_nodes, np.int32)])),
            term_lo=frozen(np.concatenate([old.term_lo, first + lists.offset[:-1]])),
            term_hi=frozen(np.concatenate([old.term_hi, first + lists.offset[1:]])),
            term_id=buffers.term_id.append(lists.term_id, first),
            term_weight=buffers.term_weight.append(lists.weight, first),
        )
