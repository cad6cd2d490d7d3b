"""Applies committed changes to a snapshot: new nodes and rows are appended, changed columns copied, the rest is shared.

Fresh nodes and rows are exact at once (kernels read them beside the base); `index.layout` folds them in later. One
thing waits for it: a directory's fresh row holds its own terms only, and a directory above fresh files does not hold
theirs yet (see `index.subtree`). Files are found by their own rows meanwhile.

What moved is appended too: new nodes with copies of their vectors, the old nodes are marked gone. A row names its node,
so that a node left behind cannot lend its rows; term lists are shared, for nothing in them names a row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from viking_kernels.arrays import Rows, Sketches, frozen
from viking_rpc.domain.context import Kind
from viking_rpc.domain.uri import SCHEME
from viking_rpc.index.bfloat16 import encode
from viking_rpc.index.growing import Column, Growing
from viking_rpc.index.layout import TIE_STEP, tag_lists
from viking_rpc.index.lexicon import RowCounts, digest_terms, join_terms, weigh
from viking_rpc.index.records import encode_relations
from viking_rpc.index.sketches import make_sketches
from viking_rpc.index.snapshot import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from viking_rpc.domain.context import Row
    from viking_rpc.index.blobs import Texts
    from viking_rpc.index.records import ChangeSet, NodeRecord
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.index.vocabulary import Vocabulary


#: Columns of a node that do not say where it lies, nor which rows it has.
_FACTS = (
    *("is_directory", "type", "create_us", "update_us", "expire_us", "active_count", "tag_lo", "tag_hi"),
    *("row_lo", "row_hi"),
)
_TEXTS = ("names", "titles", "abstracts", "relations")


#: What a column holds for a node that nobody has written yet, where that is not 0.
_FILL = {"parent": -1, "fresh_head": -1, "fresh_next": -1}


def apply_changes(snapshot: Snapshot, changes: ChangeSet) -> Snapshot:
    """Return the snapshot with a batch applied; the given one stays as it is."""
    if changes.upserted or changes.deleted_keys:
        return _Update(snapshot).run(changes)
    buffers = snapshot.buffers
    counts = Column(snapshot.tree.active_count, buffers.columns.get("active_count"), 0)
    _set_counts(counts, snapshot, changes, {})
    active_count, growing = counts.finish()
    buffers = replace(buffers, columns={**buffers.columns, "active_count": growing})
    return snapshot.with_counts(changes.revision, active_count, buffers)


class _Update:
    """The columns of the next snapshot while they are written."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.old = snapshot
        self.columns: dict[str, Column] = {}
        self.buffers = dict(snapshot.buffers.columns)
        self.fresh: dict[tuple[int, str], int] = {}
        self.fresh_keys: dict[int, int] = {}
        self.texts: dict[str, dict[int, bytes]] = {name: {} for name in _TEXTS}
        self.source_of: dict[int, int] = {}  # a node that moved: where it was
        self.copied_rows = np.empty(0, np.int64)
        self.copied_row_nodes = np.empty(0, np.int32)
        self.new_rows: list[Row] = []
        self.new_row_nodes: list[int] = []
        self.tag_ids = snapshot.tag_ids
        self.n_replaced_rows = snapshot.n_replaced_rows
        self.replaced: set[int] = set()

    def run(self, changes: ChangeSet) -> Snapshot:
        old = self.old
        gone = [node for node in map(old.node_of_key, changes.deleted_keys) if node >= 0]
        left = self._left_behind(changes, gone)
        place_of = self._places(changes, left)
        known = {record.key: old.node_of_key(record.key) for record in changes.upserted}
        known |= {key: old.n_nodes + i for i, key in enumerate(place_of)}
        added = list(range(old.n_nodes, old.n_nodes + len(place_of)))
        self._grow(len(added))
        self._copy(left, [known[int(old.key[node])] for node in left])
        for node in (*gone, *left):
            self.columns["is_gone"][node] = 1
        for node_key, (parent_key, name) in place_of.items():
            self._link(known, node_key, parent_key, name)
        for record in changes.upserted:
            self._write(record, known[record.key])
        tag_id = self._set_tags(changes, known)
        _set_counts(self.columns["active_count"], old, changes, known)
        tie_order = self._set_ties(added)
        vocabulary, rows, sketches, digest = self._append_rows()
        columns = {}
        for name, column in self.columns.items():
            columns[name], self.buffers[name] = column.finish()
        key, version = columns.pop("key"), columns.pop("version")
        n_made = len(added) - len(left)
        return replace(
            old,
            revision=changes.revision,
            tree=old.tree._replace(tag_id=tag_id, **columns),
            rows=rows,
            sketches=sketches,
            digest=digest,
            key=key,
            version=version,
            names=old.names.updated(self.texts["names"]),
            titles=old.titles.updated(self.texts["titles"]),
            abstracts=old.abstracts.updated(self.texts["abstracts"]),
            relations=old.relations.updated(self.texts["relations"]),
            tag_ids=self.tag_ids,
            vocabulary=vocabulary,
            tie_order=tie_order,
            buffers=replace(old.buffers, columns=self.buffers),
            node_of_fresh=old.node_of_fresh.updated(self.fresh),
            node_of_fresh_key=old.node_of_fresh_key.updated(self.fresh_keys),
            has_expiry=old.has_expiry or any(r.expire_us for r in changes.upserted),
            n_gone=old.n_gone + len(gone) + len(left),
            n_contexts=old.n_contexts + n_made - len(gone),
            n_replaced_rows=self.n_replaced_rows,
            replaced=_with_all(old.replaced, self.replaced),
            memo={},
        )

    def _left_behind(self, changes: ChangeSet, gone: list[int]) -> list[int]:
        """Return the nodes that lie elsewhere from now on: what moved, with all below it that is not deleted."""
        old, is_gone = self.old, self.old.columns.is_gone
        waiting = []
        for record in changes.upserted:
            node = old.node_of_key(record.key)
            if node < 0 or is_gone[node]:
                continue
            parent = old.columns.parent[node]
            if old.names.get(node) != record.name or old.key[parent] != record.parent_key:
                waiting.append(node)
        if not waiting:
            return []
        found: set[int] = set()
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting += [child for child in old.children(node) if not is_gone[child]]
        return sorted(found.difference(gone))

    def _places(self, changes: ChangeSet, left: list[int]) -> dict[int, tuple[int, str]]:
        """Return by key the (parent key, name) of every node to make: what is new and what moved, parents first."""
        old = self.old
        place_of: dict[int, tuple[int, str]] = {}
        for node in left:
            place_of[int(old.key[node])] = int(old.key[old.columns.parent[node]]), old.names.get(node)
        for record in changes.upserted:
            if record.key in place_of or old.node_of_key(record.key) < 0:
                place_of[record.key] = record.parent_key, record.name
        ordered: dict[int, tuple[int, str]] = {}
        for start in place_of:
            chain, key = [], start
            while key in place_of and key not in ordered:
                chain.append(key)
                key = place_of[key][0]
            ordered |= {above: place_of[above] for above in reversed(chain)}
        return ordered

    def _grow(self, n_added: int) -> None:
        """Make room for the added nodes in every column that is indexed by node; `child_lo` stays."""
        old = self.old
        for name, column in (*old.tree._asdict().items(), ("key", old.key), ("version", old.version)):
            if name not in ("child_lo", "tag_id"):
                self.columns[name] = Column(column, self.buffers.get(name), n_added, _FILL.get(name, 0))

    def _append(self, name: str, column: np.ndarray, entries: np.ndarray) -> np.ndarray:
        """Return a column with entries at its end, which is all that ever happens to it."""
        growing = self.buffers.get(name)
        if growing is None:
            growing = self.buffers[name] = Growing.of(column)
        return growing.append(entries, len(column))

    def _copy(self, left: list[int], nodes: list[int]) -> None:
        """Give the nodes that moved what they had where they were; their rows are copied, in the same order."""
        if not left:
            return
        old, columns = self.old, self.columns
        for name in _FACTS:
            columns[name].set_added(nodes, getattr(old.tree, name)[left])
        columns["version"].set_added(nodes, old.version[left])
        for name in ("titles", "abstracts", "relations"):
            texts: Texts = getattr(old, name)
            self.texts[name].update((node, texts.get_bytes(source)) for node, source in zip(nodes, left, strict=True))
        self.source_of.update(zip(nodes, left, strict=True))
        lo, hi = old.tree.row_lo[left], old.tree.row_hi[left]
        end = old.n_rows + np.cumsum(hi - lo)
        columns["row_lo"].set_added(nodes, end - (hi - lo))
        columns["row_hi"].set_added(nodes, end)
        self.copied_rows = np.concatenate([np.arange(i, j) for i, j in zip(lo, hi, strict=True)])
        self.copied_row_nodes = np.repeat(np.array(nodes, np.int32), hi - lo)

    def _link(self, known: dict[int, int], key: int, parent_key: int, name: str) -> None:
        """Hang a new node into its parent's chain; parents come first."""
        tree = self.columns
        node = known[key]
        parent = known.get(parent_key, -1)
        if parent < 0:
            parent = self.old.node_of_key(parent_key) if parent_key else ROOT
        tree["key"][node] = key
        tree["parent"][node] = parent
        tree["depth"][node] = tree["depth"][parent] + 1
        tree["fresh_next"][node] = tree["fresh_head"][parent]
        tree["fresh_head"][parent] = node
        self.fresh[parent, name] = node
        self.fresh_keys[key] = node
        self.texts["names"][node] = name.encode()

    def _write(self, record: NodeRecord, node: int) -> None:
        """Set what a record says of its node, and append its rows when they changed."""
        tree = self.columns
        tree["is_directory"][node] = record.kind == Kind.DIRECTORY
        tree["type"][node] = record.type
        tree["create_us"][node] = record.create_us
        tree["update_us"][node] = record.update_us
        tree["expire_us"][node] = record.expire_us
        tree["active_count"][node] = record.active_count
        tree["version"][node] = record.version
        written = (record.title.encode(), record.abstract.encode(), encode_relations(record.relations))
        for name, text in zip(("titles", "abstracts", "relations"), written, strict=True):
            texts: Texts = getattr(self.old, name)
            if node >= self.old.n_nodes or texts.get_bytes(node) != text:
                self.texts[name][node] = text
        rows = sorted(record.rows, key=lambda row: row.level)
        source = self.source_of.get(node, node)
        if source < self.old.n_nodes:
            if self._has_rows(source, rows):
                return
            self.n_replaced_rows += int(self.old.tree.row_hi[source] - self.old.tree.row_lo[source])
            if node < self.old.n_base:
                self.replaced.add(node)
        first = self.old.n_rows + len(self.copied_rows) + len(self.new_rows)
        tree["row_lo"][node], tree["row_hi"][node] = first, first + len(rows)
        self.new_rows.extend(rows)
        self.new_row_nodes.extend([node] * len(rows))

    def _has_rows(self, node: int, rows: list[Row]) -> bool:
        """Return whether the node's rows are these already, so that a write of the same costs no row."""
        lo, hi = int(self.old.tree.row_lo[node]), int(self.old.tree.row_hi[node])
        if hi - lo != len(rows):
            return False
        old = self.old.rows
        if not np.array_equal(digest_terms(join_terms(rows)), self.old.digest[lo:hi]):
            return False
        return all(
            old.level[i] == row.level and np.array_equal(old.vectors[i], encode(row.vector, old.vectors.dtype))
            for i, row in enumerate(rows, lo)
        )

    def _set_tags(self, changes: ChangeSet, known: dict[int, int]) -> np.ndarray:
        """Append the tag lists of the nodes whose tags changed; return all of them."""
        old = self.old
        if any(pair not in self.tag_ids for record in changes.upserted for pair in record.tags.items()):
            self.tag_ids = dict(self.tag_ids)
        lo, ids = tag_lists([record.tags for record in changes.upserted], self.tag_ids)  # type: ignore[arg-type]
        first = len(old.tree.tag_id)
        for i, record in enumerate(changes.upserted):
            node = known[record.key]
            if node < old.n_nodes:
                tags = old.tree.tag_id[old.tree.tag_lo[node] : old.tree.tag_hi[node]]
                if np.array_equal(tags, ids[lo[i] : lo[i + 1]]):
                    continue
            self.columns["tag_lo"][node] = first + int(lo[i])
            self.columns["tag_hi"][node] = first + int(lo[i + 1])
        return self._append("tag_id", old.tree.tag_id, ids)

    def _set_ties(self, added: list[int]) -> np.ndarray:
        """Give the added nodes their places in the order of URIs; return that order."""
        old, tree = self.old, self.columns
        if not added:
            return old.tie_order
        uri_of: dict[int, str] = {ROOT: SCHEME[:-1]}

        def uri(node: int) -> str:
            """Return a node's URI; those of directories stay at hand, for neighbours have the same."""
            found = uri_of.get(node)
            if found is None:
                parent = old.columns.parent[node]
                above = uri_of.get(parent)
                if above is None:
                    above = uri_of[parent] = uri(parent)
                found = f"{above}/{old.names.get(node)}"
            return found

        for node in added:  # parents come first
            uri_of[node] = f"{uri(int(tree['parent'][node]))}/{self.texts['names'][node].decode()}"
        before = old.tie_order
        ranked = sorted(added, key=uri_of.__getitem__)
        least = [self._place_after_parent(int(tree["parent"][node])) for node in ranked]
        places = _places_among([uri_of[node] for node in ranked], least, lambda i: uri(int(before[i])), len(before))
        order = _inserted(before, places, ranked)
        for place, group in groupby(range(len(ranked)), key=places.__getitem__):
            nodes = [ranked[i] for i in group]
            left = int(old.tree.tie[before[place - 1]])
            right = int(old.tree.tie[before[place]]) if place < len(before) else left + TIE_STEP * (len(nodes) + 1)
            step = (right - left) // (len(nodes) + 1)
            if step == 0:  # no place left here: all get new ones
                tree["tie"].set_all(order, np.arange(1, len(order) + 1, dtype=np.int64) * TIE_STEP)
                break
            tree["tie"].set_added(nodes, left + step * np.arange(1, len(nodes) + 1))
        return order

    def _place_after_parent(self, parent: int) -> int:
        """Return a place in the order of URIs that none below a directory comes before."""
        if parent >= self.old.n_nodes:
            return 0
        before, tie = self.old.tie_order, self.old.columns.tie
        return bisect_right(range(len(before)), tie[parent], key=lambda place: tie[before[place]])

    def _append_rows(self) -> tuple[Vocabulary, Rows, Sketches, np.ndarray]:
        """Return vocabulary, rows, sketches and digests with what is copied, then what is new, at their end."""
        snapshot, old, copied = self.old, self.old.rows, self.copied_rows
        if not self.new_rows and not len(copied):
            return snapshot.vocabulary, old, snapshot.sketches, snapshot.digest
        new_terms = join_terms(self.new_rows)
        vocabulary, buffers, first = snapshot.vocabulary, snapshot.buffers, len(old.term_id)
        level, node, term_lo, term_hi = (
            old.level[copied],
            self.copied_row_nodes,
            old.term_lo[copied],
            old.term_hi[copied],
        )
        vectors, term_id, term_weight = old.vectors[copied], old.term_id, old.term_weight
        if self.new_rows:
            vocabulary, term_ids = vocabulary.learn(new_terms.hashes)
            new_level = np.array([row.level for row in self.new_rows], np.uint8)
            counts = RowCounts(new_terms.offset, term_ids, new_terms.count)
            lists = weigh(counts, new_level, vocabulary.mean_length)
            level = np.concatenate([level, new_level])
            node = np.concatenate([node, np.array(self.new_row_nodes, np.int32)])
            term_lo = np.concatenate([term_lo, first + lists.offset[:-1]])
            term_hi = np.concatenate([term_hi, first + lists.offset[1:]])
            vectors = np.concatenate([vectors, encode(np.stack([row.vector for row in self.new_rows]), vectors.dtype)])
            term_id = buffers.term_id.append(lists.term_id, first)
            term_weight = buffers.term_weight.append(lists.weight, first)
        rows = Rows(
            vectors=buffers.vectors.append(vectors, snapshot.n_rows),
            level=self._append("row_level", old.level, level),
            node=self._append("row_node", old.node, node),
            term_lo=self._append("term_lo", old.term_lo, term_lo),
            term_hi=self._append("term_hi", old.term_hi, term_hi),
            term_id=term_id,
            term_weight=term_weight,
        )
        made = np.concatenate([snapshot.digest[copied], digest_terms(new_terms)])
        code, scale, error = make_sketches(vectors)
        sketches = Sketches(
            code=self._append("sketch_code", snapshot.sketches.code, code),
            scale=self._append("sketch_scale", snapshot.sketches.scale, scale),
            error=self._append("sketch_error", snapshot.sketches.error, error),
            first=snapshot.sketches.first,
        )
        return vocabulary, rows, sketches, self._append("digest", snapshot.digest, made)


def _set_counts(active_count: Column, old: Snapshot, changes: ChangeSet, known: Mapping[int, int]) -> None:
    """Set the counts of what was touched."""
    for key, count in changes.touched:
        node = known.get(key, -1)
        active_count[node if node >= 0 else old.node_of_key(key)] = count


def _places_among(texts: Sequence[str], least: Sequence[int], present: Callable[[int], str], n: int) -> list[int]:
    """Return where each of some ascending texts belongs among `n` others, which ascend too.

    Neighbours often belong to one place, as a subtree does that moved; they are told with it, without a look of
    their own.

    Args:
        texts: to be placed.
        least: no text belongs before this place, and most belong soon after it.
        present: the text at a place.
        n: how many places there are.
    """
    places = [0] * len(texts)
    waiting = [(0, len(texts), 0, n)]
    while waiting:
        lo, hi, first, last = waiting.pop()
        if lo == hi:
            continue
        if first == last:
            places[lo:hi] = [first] * (hi - lo)
            continue
        middle = (lo + hi) // 2
        text, start, end, step = texts[middle], max(first, least[middle]), last, 1
        while start + step < last:  # in steps that double
            if present(start + step) >= text:
                end = start + step
                break
            start, step = start + step + 1, 2 * step
        place = places[middle] = bisect_left(range(n), text, start, end, key=present)
        waiting += [(lo, middle, first, place), (middle + 1, hi, place, last)]
    return places


def _inserted(before: np.ndarray, places: list[int], entries: list[int]) -> np.ndarray:
    """Return the array with entry i put before `places[i]`, which ascend; one copy, where `np.insert` makes several."""
    after = np.empty(len(before) + len(entries), before.dtype)
    lo = 0
    for i, (place, entry) in enumerate(zip(places, entries, strict=True)):
        after[lo + i : place + i] = before[lo:place]
        after[place + i] = entry
        lo = place
    after[lo + len(entries) :] = before[lo:]
    return frozen(after)


def _with_all(nodes: np.ndarray, more: set[int]) -> np.ndarray:
    """Return ascending nodes with some more."""
    return frozen(np.union1d(nodes, np.array(sorted(more), np.int32))) if more else nodes
