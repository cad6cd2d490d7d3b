"""Lays a whole tree out: nodes breadth-first with siblings adjacent, rows in node order, terms counted and inverted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from viking_kernels.arrays import Rows, Tree, frozen
from viking_rpc.domain.context import Kind
from viking_rpc.domain.uri import SCHEME
from viking_rpc.index.bfloat16 import ROW_TYPES
from viking_rpc.index.blobs import Texts
from viking_rpc.index.gathering import Gathered, positions
from viking_rpc.index.grouping import grouping_of
from viking_rpc.index.growing import Growing, RowBuffers
from viking_rpc.index.lexicon import TermRuns, build_postings, build_vocabulary, digest_terms, mean_lengths, weigh
from viking_rpc.index.sketches import no_sketches
from viking_rpc.index.snapshot import Snapshot
from viking_rpc.index.subtree import add_subtrees

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from viking_rpc.index.lexicon import TermLists
    from viking_rpc.index.records import NodeRecord
    from viking_rpc.index.vocabulary import Vocabulary

#: Distance of two neighbours in the order of URIs, so that fresh nodes find a place between them.
TIE_STEP = 1 << 32


def build_snapshot(
    records: Iterable[NodeRecord], *, revision: int, dimensions: int, n_rows: int = 0, rows: str = "float32"
) -> Snapshot:
    """Lay out a tree from all records of an account, which are read once and not kept.

    Args:
        records: every context that is not deleted, in any order; each parent is among them.
        revision: the write that they reflect.
        dimensions: length of the rows' vectors.
        n_rows: how many rows the records have, where that is known.
        rows: how vectors are kept, `float32` or `bfloat16`.

    Returns:
        A snapshot without fresh nodes and without approximate indexes.
    """
    gathered = Gathered(dimensions, n_rows, ROW_TYPES[rows])
    gathered.add(records)
    order, parent, child_lo, depth = _breadth_first(gathered)
    n = len(order)
    columns = {name: frozen(gathered.column(name)[order]) for name in gathered.columns}
    texts: dict[str, Any] = {name: Texts(*slices.take(order)) for name, slices in gathered.texts.items()}
    gathered.texts.clear()
    tag_id, tag_lo = gathered.tags.take(order)
    row_lo, row_order = _row_order(gathered, order)
    level = np.frombuffer(gathered.level, np.uint8)[row_order]
    vocabulary, lists, digest = _lay_terms(gathered, row_order, level, row_lo, parent, depth)
    vectors = Growing(gathered.take_vectors(row_order), len(level))
    buffers = RowBuffers.of(vectors, lists.term_id, lists.weight)
    lists = replace(lists, term_id=buffers.term_id.view(), weight=buffers.term_weight.view())
    no_fresh = frozen(np.full(n, -1, np.int32))
    key = columns["key"]
    key_order = np.argsort(key).astype(np.int32)
    by_uri = _uri_order(texts["names"], parent)
    tie = np.empty(n, np.int64)
    tie[by_uri] = np.arange(1, n + 1, dtype=np.int64) * TIE_STEP
    tree = Tree(
        parent=frozen(parent),
        child_lo=frozen(child_lo),
        fresh_head=no_fresh,
        fresh_next=no_fresh,
        depth=frozen(depth),
        row_lo=frozen(row_lo[:-1]),
        row_hi=frozen(row_lo[1:]),
        is_directory=frozen((columns["kind"] == Kind.DIRECTORY).astype(np.uint8)),
        is_gone=frozen(np.zeros(n, np.uint8)),
        type=columns["type"],
        create_us=columns["create_us"],
        update_us=columns["update_us"],
        expire_us=columns["expire_us"],
        active_count=columns["active_count"],
        tag_lo=frozen(tag_lo[:-1].astype(np.int32)),
        tag_hi=frozen(tag_lo[1:].astype(np.int32)),
        tag_id=frozen(tag_id),
        tie=frozen(tie),
    )
    laid_out = Rows(
        vectors=buffers.vectors.view(),
        level=frozen(level),
        node=frozen(np.repeat(np.arange(n, dtype=np.int32), np.diff(row_lo))),
        term_lo=frozen(lists.offset[:-1]),
        term_hi=frozen(lists.offset[1:]),
        term_id=lists.term_id,
        term_weight=lists.weight,
    )
    return Snapshot(
        revision=revision,
        tree=tree,
        rows=laid_out,
        sketches=no_sketches(laid_out),
        postings=build_postings(lists, len(vocabulary)),
        base_row=frozen(row_lo),
        digest=frozen(digest),
        key=key,
        version=columns["version"],
        **texts,
        tag_ids=gathered.tag_ids,
        vocabulary=vocabulary,
        key_order=frozen(key_order),
        sorted_key=frozen(key[key_order]),
        tie_order=frozen(by_uri),
        buffers=buffers,
        has_expiry=bool(columns["expire_us"].any()),
        n_contexts=n - 1,
        grouping=grouping_of(tree),
    )


def _breadth_first(gathered: Gathered) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Number the nodes; return int32[n] gathered places in their order, parent, child_lo [n + 1] and depth."""
    key, parent_key, n = gathered.column("key"), gathered.column("parent_key"), len(gathered)
    names = gathered.texts["names"]
    by_key = np.argsort(key)
    above = by_key[np.searchsorted(key, parent_key, sorter=by_key).clip(max=n - 1)]
    rank = np.empty(n, np.int32)
    rank[sorted(range(n), key=names.get)] = np.arange(n, dtype=np.int32)
    above[0] = -1
    siblings = np.lexsort((rank, above)).astype(np.int32)[1:]  # the root is nobody's child, hence first
    first = np.searchsorted(above[siblings], np.arange(n + 1))
    levels = [np.zeros(1, np.int32)]
    while len(levels[-1]):
        places = levels[-1]
        levels.append(siblings[positions(first[places], first[places + 1] - first[places])])
    order = np.concatenate(levels)
    depth = np.repeat(np.arange(len(levels), dtype=np.int32), [len(level) for level in levels])
    n_children = (first[order + 1] - first[order]).astype(np.int32)
    child_lo = np.ones(len(order) + 1, np.int32)
    np.cumsum(n_children, out=child_lo[1:])
    child_lo[1:] += 1
    parent = np.concatenate([np.full(1, -1, np.int32), np.repeat(np.arange(len(order), dtype=np.int32), n_children)])
    return order, parent, child_lo, depth


def _row_order(gathered: Gathered, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return int32[n + 1], where each node's rows begin, and int64[n_rows], the gathered places of the rows."""
    first = np.frombuffer(gathered.first_row, np.int64)
    sizes = np.diff(first)[order]
    row_lo = np.zeros(len(order) + 1, np.int32)
    np.cumsum(sizes, out=row_lo[1:])
    return row_lo, positions(first[order], sizes)


def _lay_terms(
    gathered: Gathered,
    row_order: np.ndarray,
    level: np.ndarray,
    row_lo: np.ndarray,
    parent: np.ndarray,
    depth: np.ndarray,
) -> tuple[Vocabulary, TermLists, np.ndarray]:
    """Return the vocabulary, the weighed term lists of all rows, and the digests of their own terms."""
    hashes, offset = gathered.terms.take(row_order)
    terms = TermRuns(offset, hashes, gathered.counts.take(row_order)[0])
    del gathered.terms, gathered.counts
    digest = digest_terms(terms)
    vocabulary, counts = build_vocabulary(terms, level)
    del terms, hashes
    counts = add_subtrees(counts, level, row_lo, parent, depth)
    vocabulary = replace(vocabulary, mean_length=mean_lengths(counts, level))
    return vocabulary, weigh(counts, level, vocabulary.mean_length), digest


def _uri_order(names: Texts, parent: np.ndarray) -> np.ndarray:
    """Return int32[n], the nodes by their URIs as strings: the order of UTF-8 is that of code points."""
    scheme = SCHEME.encode()
    uris = [scheme]
    for i, above in enumerate(parent[1:].tolist(), 1):
        uris.append(b"%b/%b" % (uris[above], names.get_bytes(i)) if above else scheme + names.get_bytes(i))
    return np.array(sorted(range(len(uris)), key=uris.__getitem__), np.int32)


def tag_lists(tags: Sequence[Mapping[str, str]], ids: dict[tuple[str, str], int]) -> tuple[np.ndarray, np.ndarray]:
    """Return (int32[n + 1] offsets, int32[n_tags] ids ascending within each entry); new tags are added to `ids`."""
    lo = [0]
    flat: list[int] = []
    for one in tags:
        flat.extend(sorted(ids.setdefault(pair, len(ids)) for pair in one.items()))
        lo.append(len(flat))
    return np.array(lo, np.int32), np.array(flat, np.int32)
