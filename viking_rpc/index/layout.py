"""Lays a whole tree out: nodes breadth-first with siblings adjacent, rows in node order, terms counted and inverted."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from viking_kernels.arrays import Rows, Tree, frozen
from viking_rpc.domain.context import ContextType, Kind
from viking_rpc.domain.uri import SCHEME
from viking_rpc.index.blobs import Texts
from viking_rpc.index.growing import RowBuffers
from viking_rpc.index.lexicon import build_postings, build_vocabulary, digest_terms, mean_lengths, weigh
from viking_rpc.index.records import ROOT_KEY, NodeRecord, encode_relations
from viking_rpc.index.snapshot import Snapshot
from viking_rpc.index.subtree import add_subtrees

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Distance of two neighbours in the order of URIs, so that fresh nodes find a place between them.
TIE_STEP = 1 << 32

_ROOT_RECORD = NodeRecord(ROOT_KEY, -1, "", Kind.DIRECTORY, ContextType.RESOURCE)


def build_snapshot(records: Iterable[NodeRecord], *, revision: int, dimensions: int) -> Snapshot:
    """Lay out a tree from all records of an account.

    Args:
        records: every context that is not deleted, in any order; each parent is among them.
        revision: the write that they reflect.
        dimensions: length of the rows' vectors.

    Returns:
        A snapshot without fresh nodes and without approximate indexes.
    """
    ordered, parent, child_lo, depth = _breadth_first(records)
    n = len(ordered)
    rows_of_node = [sorted(record.rows, key=attrgetter("level")) for record in ordered]
    row_lo = np.zeros(n + 1, np.int32)
    np.cumsum([len(rows) for rows in rows_of_node], out=row_lo[1:])
    flat = [row for rows in rows_of_node for row in rows]
    level = np.fromiter((row.level for row in flat), np.uint8, len(flat))
    vocabulary, counts = build_vocabulary(flat)
    counts = add_subtrees(counts, level, row_lo, parent, depth)
    vocabulary = replace(vocabulary, mean_length=mean_lengths(counts, level))
    lists = weigh(counts, level, vocabulary.mean_length)
    vectors = np.empty((len(flat), dimensions), np.float32)
    for i, row in enumerate(flat):
        vectors[i] = row.vector
    tag_ids: dict[tuple[str, str], int] = {}
    tag_lo, tag_id = tag_lists([record.tags for record in ordered], tag_ids)
    no_fresh = np.full(n, -1, np.int32)
    keys = np.fromiter((record.key for record in ordered), np.int64, n)
    key_order = np.argsort(keys).astype(np.int32)
    by_uri = _uri_order(ordered, parent)
    tie = np.empty(n, np.int64)
    tie[by_uri] = np.arange(1, n + 1, dtype=np.int64) * TIE_STEP
    buffers = RowBuffers.of(vectors, lists.term_id, lists.weight)
    tree = Tree(
        parent=frozen(parent),
        child_lo=frozen(child_lo),
        fresh_head=frozen(no_fresh),
        fresh_next=frozen(no_fresh),
        depth=frozen(depth),
        row_lo=frozen(row_lo[:-1]),
        row_hi=frozen(row_lo[1:]),
        is_directory=frozen(np.fromiter((r.kind == Kind.DIRECTORY for r in ordered), np.uint8, n)),
        is_gone=frozen(np.zeros(n, np.uint8)),
        type=frozen(np.fromiter((r.type for r in ordered), np.uint8, n)),
        create_us=frozen(np.fromiter((r.create_us for r in ordered), np.int64, n)),
        update_us=frozen(np.fromiter((r.update_us for r in ordered), np.int64, n)),
        expire_us=frozen(np.fromiter((r.expire_us for r in ordered), np.int64, n)),
        active_count=frozen(np.fromiter((r.active_count for r in ordered), np.int32, n)),
        tag_lo=frozen(tag_lo[:-1]),
        tag_hi=frozen(tag_lo[1:]),
        tag_id=frozen(tag_id),
        tie=frozen(tie),
    )
    return Snapshot(
        revision=revision,
        tree=tree,
        rows=Rows(
            vectors=buffers.vectors.view(),
            level=frozen(level),
            node=frozen(np.repeat(np.arange(n, dtype=np.int32), np.diff(row_lo))),
            term_lo=frozen(lists.offset[:-1]),
            term_hi=frozen(lists.offset[1:]),
            term_id=buffers.term_id.view(),
            term_weight=buffers.term_weight.view(),
        ),
        postings=build_postings(lists, len(vocabulary)),
        base_row=frozen(row_lo),
        digest=frozen(digest_terms(flat)),
        key=frozen(keys),
        version=frozen(np.fromiter((r.version for r in ordered), np.int64, n)),
        names=Texts.pack(r.name.encode() for r in ordered),
        titles=Texts.pack(r.title.encode() for r in ordered),
        abstracts=Texts.pack(r.abstract.encode() for r in ordered),
        relations=Texts.pack(encode_relations(r.relations) for r in ordered),
        tag_ids=tag_ids,
        vocabulary=vocabulary,
        key_order=frozen(key_order),
        sorted_key=frozen(keys[key_order]),
        tie_order=frozen(by_uri),
        buffers=buffers,
        has_expiry=any(r.expire_us for r in ordered),
        n_contexts=n - 1,
    )


def _breadth_first(
    records: Iterable[NodeRecord],
) -> tuple[list[NodeRecord], np.ndarray, np.ndarray, np.ndarray]:
    """Number the nodes; return them in order with parent int32[n], child_lo int32[n + 1] and depth int32[n]."""
    children: dict[int, list[NodeRecord]] = {}
    for record in records:
        children.setdefault(record.parent_key, []).append(record)
    for siblings in children.values():
        siblings.sort(key=lambda record: record.name.encode())
    ordered = [_ROOT_RECORD]
    parents = [-1]
    depths = [0]
    child_lo = [0]
    for i, record in enumerate(ordered):  # grows while it is walked: that is breadth first
        child_lo[i] = len(ordered)
        siblings = children.get(record.key, [])
        ordered.extend(siblings)
        parents.extend([i] * len(siblings))
        depths.extend([depths[i] + 1] * len(siblings))
        child_lo.extend([0] * len(siblings))
    child_lo.append(len(ordered))
    return ordered, np.array(parents, np.int32), np.array(child_lo, np.int32), np.array(depths, np.int32)


def _uri_order(ordered: Sequence[NodeRecord], parent: np.ndarray) -> np.ndarray:
    """Return int32[n], the nodes by their URIs as strings."""
    uris = [SCHEME]
    for i in range(1, len(ordered)):
        above = int(parent[i])
        uris.append(f"{uris[above]}/{ordered[i].name}" if above else SCHEME + ordered[i].name)
    return np.array(sorted(range(len(uris)), key=uris.__getitem__), np.int32)


def tag_lists(tags: Sequence[Mapping[str, str]], ids: dict[tuple[str, str], int]) -> tuple[np.ndarray, np.ndarray]:
    """Return (int32[n + 1] offsets, int32[n_tags] ids ascending within each entry); new tags are added to `ids`."""
    lo = [0]
    flat: list[int] = []
    for one in tags:
        flat.extend(sorted(ids.setdefault(pair, len(ids)) for pair in one.items()))
        lo.append(len(flat))
    return np.array(lo, np.int32), np.array(flat, np.int32)
