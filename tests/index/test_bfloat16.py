"""Rows of bfloat16: rounded as they should be, scored as what they hold, and nearly the same answers as float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from viking_kernels.arrays import frozen
from viking_kernels.score import score_range
from viking_rpc.domain.context import ContextType, Kind, Level, Row
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.query import Mode, Query, RetrieveOptions, RetrieveRequest
from viking_rpc.index.ann import AnnParameters
from viking_rpc.index.bfloat16 import MAX_ERROR, ROW_TYPES, decode, encode
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.owners import with_owners
from viking_rpc.index.records import ROOT_KEY, NodeRecord
from viking_rpc.retrieve.question import make_question
from viking_rpc.retrieve.retriever import Retrieval

DIM = 48
HALF = ROW_TYPES["bfloat16"]
_normal = st.floats(-1, 1, width=32, allow_subnormal=False)


@given(arrays_of.arrays(np.float32, arrays_of.array_shapes(min_dims=1, max_dims=2), elements=_normal))
def test_the_nearest_value_is_kept(vectors: np.ndarray) -> None:
    kept = decode(encode(vectors, HALF))
    assert kept.dtype == np.float32
    assert np.all(np.abs(kept - vectors) <= MAX_ERROR * np.abs(vectors))
    again = encode(kept, HALF)
    assert np.array_equal(decode(again), kept)
    for neighbour in (again - np.uint16(1), again + np.uint16(1)):
        further = np.abs(decode(neighbour).astype(float) - vectors) >= np.abs(kept.astype(float) - vectors)
        assert np.all(further | ~np.isfinite(decode(neighbour)))


@pytest.mark.parametrize(("value", "kept"), [(0x3F808000, 0x3F80), (0x3F818000, 0x3F82), (0x3F808001, 0x3F81)])
def test_halfway_goes_to_the_even_one(value: int, kept: int) -> None:
    assert encode(np.array([value], np.uint32).view(np.float32), HALF).tolist() == [kept]


def test_float32_rows_are_left_alone() -> None:
    vectors = np.ones((2, 3), np.float32)
    assert encode(vectors, ROW_TYPES["float32"]) is vectors
    assert decode(vectors) is vectors


def tree(n: int) -> list[NodeRecord]:
    rng = np.random.default_rng(n)
    records = [
        NodeRecord(1, ROOT_KEY, "resources", Kind.DIRECTORY, ContextType.RESOURCE),
        *(NodeRecord(2 + i, 1, f"d{i}", Kind.DIRECTORY, ContextType.RESOURCE) for i in range(20)),
    ]
    centers = rng.standard_normal((20, DIM))
    for i in range(n):
        vector = centers[i % 20] + 0.8 * rng.standard_normal(DIM)
        unit = (vector / np.linalg.norm(vector)).astype(np.float32)
        row = Row(Level.DETAIL, unit, np.empty(0, np.uint64), np.empty(0, np.float32))
        key = len(records) + 1
        records.append(NodeRecord(key, 2 + i % 20, f"f{i}", Kind.FILE, ContextType.RESOURCE, rows=(row,)))
    return records


def test_scores_are_those_of_what_the_rows_hold() -> None:
    records = tree(300)
    exact = build_snapshot(records, revision=1, dimensions=DIM)
    rounded = build_snapshot(records, revision=1, dimensions=DIM, rows="bfloat16")
    question = make_question(exact, exact.rows.vectors[7], "", lexical_weight=0.0, directory_lexical_weight=0.0)
    scores = []
    held = exact.rows._replace(vectors=frozen(decode(rounded.rows.vectors)))
    for rows in (rounded.rows, held, exact.rows):
        scores.append(np.empty(300, np.float32))
        score_range(rows, question, 0, 300, scores[-1])
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)
    # by Cauchy and Schwarz, the vectors being of unit length
    assert 0 < np.abs(scores[0] - scores[2]).max() <= MAX_ERROR


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("min_rows", [100, 10_000], ids=["approximate", "exact"])
def test_nearly_the_same_matches_are_found(mode: Mode, min_rows: int) -> None:
    records = tree(2000)
    kept = [
        with_owners(
            build_snapshot(records, revision=1, dimensions=DIM, rows=rows),
            min_rows=min_rows,
            parameters=AnnParameters(),
        )
        for rows in ("float32", "bfloat16")
    ]
    rng = np.random.default_rng(5)
    recall = []
    for row in rng.integers(0, 2000, 40).tolist():
        vector = kept[0].rows.vectors[row] + 0.1 * rng.standard_normal(DIM)
        query = Query(vector=(vector / np.linalg.norm(vector)).astype(np.float32))
        request = RetrieveRequest(query, limit=10, mode=mode, options=RetrieveOptions(), trace_level=1)
        found = []
        for snapshot in kept:
            retrieval = Retrieval(snapshot, replace(request), LOCAL, vector=query.vector, now_us=1)
            while not retrieval.advance():
                pass
            found.append({match.context.uri for match in retrieval.result().matches})
        recall.append(len(found[0] & found[1]) / 10)
    assert float(np.mean(recall)) >= 0.97
