"""Sketches bound scores from above, and a scan that looks at them first finds what a scan of the rows finds."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.model import Conditions, Context, Question, Row, World
from viking_kernels import arrays, scan
from viking_kernels.score import score_range
from viking_kernels.sketch import sketch_rows
from viking_rpc.index.bfloat16 import encode

from . import trees
from .driver import make_pool, slots_of
from .trees import NOW_US, build, condition_arrays, few, make_conditions, make_layout, make_question, make_world

if TYPE_CHECKING:
    from numpy.typing import NDArray

BFLOAT16 = np.dtype(np.uint16)
TINIEST = np.float32(1e-45)


def vectors_of(kind: str, n: int, dim: int, seed: int) -> NDArray[np.float32]:
    """Make vectors that are hard to bound, each kind in its own way."""
    rng = np.random.default_rng(seed)
    plain = rng.standard_normal((n, dim)).astype(np.float32)
    unit = plain / np.linalg.norm(plain, axis=1, keepdims=True)
    made = {
        "unit": unit,
        "near": unit[:1] + unit * np.float32(0.001),
        "equal": np.repeat(unit[:1], n, axis=0),
        "constant": np.repeat(rng.choice([-1.0, 1.0, 0.125], (n, 1)), dim, axis=1) / np.sqrt(dim),
        "zero": unit * (rng.random((n, 1)) < 0.5),
        "peaked": np.where(rng.random((n, dim)) < 2 / dim, 1.0, unit * 1e-3),
        "denormal": plain * TINIEST * 100,
        "tiny": unit * np.float32(1e-20),
        "long": unit * np.float32(900.0),
        "huge": unit * rng.choice([1.0, 1e4, 1e12], (n, 1)),
    }
    return made[kind].astype(np.float32)


KINDS = ("unit", "near", "equal", "constant", "zero", "peaked", "denormal", "tiny", "long", "huge")


@pytest.mark.parametrize("dim", [1, 3, 17, 96])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sketch_is_its_row_but_for_its_error(kind: str, dim: int) -> None:
    vectors = vectors_of(kind, 9, dim, dim)
    code, scale, error = np.empty(vectors.shape, np.int8), *np.empty((2, len(vectors)), np.float32)
    sketch_rows(arrays.frozen(vectors), code, scale, error)
    near = scale[:, None].astype(np.float64) * code
    assert code.min() >= -127
    # float32 holds nothing much smaller; the bounds have room for that
    assert (np.linalg.norm(vectors - near, axis=1) <= error + 1e-40).all()
    is_short = np.linalg.norm(vectors.astype(np.float64), axis=1) <= 1000
    assert (np.isfinite(error) == is_short).all()
    norms = np.linalg.norm(vectors[is_short].astype(np.float64), axis=1)
    # half a step in each dimension, and the room for rounding: a sketch that says nothing would never be wrong either
    assert (error[is_short] <= norms * (np.sqrt(dim) / 254 + 0.001) + 1e-40).all()


def scanned(
    snapshot: trees.Snapshot,
    sketches: arrays.Sketches,
    question: arrays.Question,
    conditions: arrays.Conditions,
    *how: int,
) -> list[object]:
    """Scan the whole scope; tell all of the pools, parts included, and the counts."""
    is_by_row, k, k_directories = how
    matches, directories = make_pool(k), make_pool(k_directories)
    counts = np.zeros(scan.N_SCAN_COUNTS, np.int64)
    arguments = snapshot.tree, snapshot.rows, sketches, question, conditions, is_by_row, 1
    scan.scan_nodes(*arguments, arrays.frozen(np.empty(0, np.int32)), 0, 1, matches, directories, counts)
    return [
        [
            (int(pool.node[i]), int(pool.row[i]), pool.score[i].tobytes(), pool.parts[i].tobytes())
            for i in slots_of(pool)
        ]
        for pool in (matches, directories)
    ] + [counts.tolist()]


@few
@given(
    seed=trees.seeds,
    n=trees.sizes,
    kind=st.sampled_from(KINDS),
    dim=st.sampled_from([1, 3, 24]),
    k=st.sampled_from([1, 3, 10, 1000]),
    k_directories=st.sampled_from([0, 1, 4]),
    is_bfloat16=st.booleans(),
    is_by_row=st.booleans(),
)
def test_the_pools_are_those_without_sketches(
    seed: int, n: int, kind: str, dim: int, k: int, k_directories: int, *, is_bfloat16: bool, is_by_row: bool
) -> None:
    """Fresh, replaced and gone nodes, filters, expiry, and vectors that are hard to bound."""
    random = Random(seed)
    world = make_world(seed, n)
    snapshot = build(world, make_layout(seed + 1, world))
    n_rows = len(snapshot.rows.level)
    vectors = vectors_of(kind, n_rows + 1, dim, seed)
    asked = vectors[-1] if random.random() < 0.5 else vectors_of("unit", 1, dim, seed + 1)[0]
    length = np.linalg.norm(asked.astype(np.float64))
    asked = (asked / length).astype(np.float32) if length > 0 else asked
    held = encode(vectors[:-1], BFLOAT16) if is_bfloat16 else vectors[:-1]
    rows = snapshot.rows._replace(vectors=arrays.frozen(held))
    snapshot = trees.Snapshot(snapshot.tree, rows, snapshot.sketches, snapshot.postings, snapshot.paths)
    question = trees.question_arrays(make_question(seed + 2))
    question = question._replace(vector=arrays.frozen(asked), saturation=random.choice([0.0, 0.5]))
    conditions = condition_arrays(snapshot, make_conditions(seed + 3, world, is_filtered=random.random() < 0.7))
    how = int(is_by_row), k, 0 if is_by_row else k_directories
    expected = scanned(snapshot, trees.sketches_of(rows, n_rows), question, conditions, *how)
    for first in (0, n_rows // 2, snapshot.sketches.first):
        assert scanned(snapshot, trees.sketches_of(rows, first), question, conditions, *how) == expected


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_rows_that_cannot_enter_are_not_read(weight: float) -> None:
    """All rows but the best, which come first, are spoilt behind their sketches: nobody looks."""
    n, dim = 400, 64
    vectors = vectors_of("unit", n, dim, 7)
    world: World = {(): Context(is_directory=True)}
    for i in range(n):
        world[f"f{i:03}",] = Context(is_directory=False, rows=(Row(2, tuple(vectors[i]), {}),))
    snapshot = build(world, dim=dim)
    rows = snapshot.rows
    sketches = trees.sketches_of(rows, 0)
    question = trees.question_arrays(Question(tuple(vectors[:3].sum(0) / 2), {}, weight))
    out = np.empty(n, np.float32)
    score_range(rows, question, 0, n, out)
    spoilt = vectors.copy()
    assert out[3:].max() < out[:3].min() - 0.05
    spoilt[3:] = 9.0
    whole = snapshot, sketches, question, condition_arrays(snapshot, Conditions(now_us=NOW_US)), 0, 3, 0
    expected = scanned(*whole)
    dirty = trees.Snapshot(
        snapshot.tree, rows._replace(vectors=arrays.frozen(spoilt)), sketches, snapshot.postings, snapshot.paths
    )
    assert [row for _, row, *_ in expected[0]] == np.argsort(-out, kind="stable")[:3].tolist()  # type: ignore[attr-defined]
    assert scanned(dirty, *whole[1:]) == expected
