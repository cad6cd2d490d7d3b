"""Terms of subtrees: against a plain count over all descendants, whatever the shape, in parts or at once."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viking_rpc.domain.context import ContextType, Kind, Level, Row
from viking_rpc.index import subtree
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.lexicon import K1, B
from viking_rpc.index.records import ROOT_KEY, ChangeSet, NodeRecord
from viking_rpc.index.text import count_terms
from viking_rpc.index.update import apply_changes

if TYPE_CHECKING:
    from viking_rpc.index.snapshot import Snapshot

WORDS = ("pump", "seal", "valv", "flow", "tank")
VECTOR = np.array([1.0, 0.0], np.float32)


def row(level: Level, text: str) -> Row:
    terms = count_terms(text)
    return Row(level, VECTOR, terms.hashes, terms.frequencies)


def record(key: int, parent: int, rows: tuple[Row, ...]) -> NodeRecord:
    kind = Kind.FILE if any(each.level == Level.DETAIL for each in rows) else Kind.DIRECTORY
    return NodeRecord(key, parent, f"n{key:03}", kind, ContextType.RESOURCE, rows=rows)


@st.composite
def trees(draw: st.DrawFn) -> list[NodeRecord]:
    """Draw records whose directories have no row, one or two, and some of whose rows have no term."""
    records: list[NodeRecord] = []
    directories = [ROOT_KEY]
    text = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
    for key in range(1, draw(st.integers(1, 25))):
        parent = draw(st.sampled_from(directories))
        if draw(st.booleans()):
            levels = draw(st.sampled_from([(), (Level.ABSTRACT,), (Level.OVERVIEW,), (Level.ABSTRACT, Level.OVERVIEW)]))
            directories.append(key)
        else:
            levels = (Level.DETAIL,)
        records.append(record(key, parent, tuple(row(level, draw(text)) for level in levels)))
    return records


def expected_counts(records: list[NodeRecord]) -> dict[tuple[int, Level], dict[int, float]]:
    """Return the counts of each row by term hash, subtrees included."""
    by_key = {each.key: each for each in records}
    below: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for each in records:
        parent = each.parent_key
        while parent != ROOT_KEY:
            for told in each.rows:
                if told.level != Level.OVERVIEW:
                    for term, count in zip(told.terms.tolist(), told.term_counts.tolist(), strict=True):
                        below[parent][term] += count
            parent = by_key[parent].parent_key
    counts = {}
    for each in records:
        for own in each.rows:
            found = dict(zip(own.terms.tolist(), own.term_counts.tolist(), strict=True))
            if own is each.rows[-1]:
                for term, count in below[each.key].items():
                    found[term] = found.get(term, 0.0) + count**0.5
            counts[each.key, Level(own.level)] = found
    return counts


def lists_of(snapshot: Snapshot) -> dict[tuple[int, Level], dict[int, float]]:
    """Return each row's weights by term hash."""
    hashes, rows = snapshot.vocabulary.hashes, snapshot.rows
    found = {}
    for i in range(snapshot.n_rows):
        lo, hi = int(rows.term_lo[i]), int(rows.term_hi[i])
        ids = rows.term_id[lo:hi]
        assert (np.diff(ids) > 0).all()
        weights = rows.term_weight[lo:hi].tolist()
        key = int(snapshot.key[rows.node[i]])
        found[key, Level(int(rows.level[i]))] = dict(zip(hashes[ids].tolist(), weights, strict=True))
    return found


@settings(max_examples=150, deadline=None)
@given(trees(), st.sampled_from([1, 3, 1 << 22]))
def test_rows_hold_their_own_terms_and_the_roots_of_those_below(records: list[NodeRecord], n_entries: int) -> None:
    counts = expected_counts(records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subtree, "_MAX_ENTRIES", n_entries)
        snapshot = build_snapshot(records, revision=1, dimensions=2)
    lengths: dict[Level, list[float]] = defaultdict(list)
    for (_, level), found in counts.items():
        if found:
            lengths[level].append(sum(found.values()))
    lists = lists_of(snapshot)
    assert lists.keys() == counts.keys()
    for at, found in counts.items():
        mean = float(np.mean(lengths[at[1]] or [1.0]))
        norm = K1 * (1 - B + B * sum(found.values()) / mean)
        assert lists[at] == pytest.approx({term: n / (n + norm) for term, n in found.items()}, rel=1e-4)


@settings(max_examples=50, deadline=None)
@given(trees())
def test_postings_are_the_inverted_lists(records: list[NodeRecord]) -> None:
    snapshot = build_snapshot(records, revision=1, dimensions=2)
    rows, postings = snapshot.rows, snapshot.postings
    wanted = sorted(
        (int(rows.term_id[j]), -float(rows.term_weight[j]), i)
        for i in range(snapshot.n_rows)
        for j in range(int(rows.term_lo[i]), int(rows.term_hi[i]))
    )
    terms = np.repeat(np.arange(len(postings.lo) - 1), np.diff(postings.lo))
    assert list(zip(terms.tolist(), (-postings.weight).tolist(), postings.row.tolist(), strict=True)) == wanted


TREE = [
    record(1, ROOT_KEY, (row(Level.ABSTRACT, "pumps"), row(Level.OVERVIEW, "pumps seals"))),
    record(2, 1, (row(Level.DETAIL, "valves valves"),)),
    record(3, 1, (row(Level.DETAIL, "seals"),)),
]


def test_rarity_is_that_of_files() -> None:
    vocabulary = build_snapshot(TREE, revision=1, dimensions=2).vocabulary
    held = dict(zip(vocabulary.hashes.tolist(), vocabulary.n_rows_of_term.tolist(), strict=True))
    pump, seal, valve = (int(count_terms(word).hashes[0]) for word in ("pumps", "seals", "valves"))
    assert held == {pump: 0, seal: 1, valve: 1}
    assert vocabulary.n_rows == 2
    idf = vocabulary.idf(vocabulary.ids_of(np.array([pump, seal, 12345], np.uint64)))
    assert idf == pytest.approx(np.log1p([2.5 / 0.5, 1.5 / 1.5, 2.5 / 0.5]))


def test_without_files_directories_count() -> None:
    vocabulary = build_snapshot(TREE[:1], revision=1, dimensions=2).vocabulary
    assert (vocabulary.n_rows, sorted(vocabulary.n_rows_of_term.tolist())) == (2, [1, 2])


def test_a_touch_appends_no_row_but_a_changed_count_does() -> None:
    snapshot = build_snapshot(TREE, revision=1, dimensions=2)
    touched = apply_changes(snapshot, ChangeSet(2, tuple(TREE)))
    assert touched.n_rows == snapshot.n_rows
    changed = record(1, ROOT_KEY, (row(Level.ABSTRACT, "pumps"), row(Level.OVERVIEW, "pumps seals seals")))
    changed = apply_changes(touched, ChangeSet(3, (changed,)))
    assert changed.n_rows == snapshot.n_rows + 2
    assert apply_changes(changed, ChangeSet(4, (TREE[1],))).n_rows == changed.n_rows
