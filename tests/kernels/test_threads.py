"""Kernels release the interpreter lock and share nothing: many threads get what one gets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from tests.oracle.model import Conditions
from viking_kernels import arrays as a
from viking_kernels.scan import N_SCAN_COUNTS, scan_nodes

from .driver import descend, make_pool, ranking
from .trees import (
    NOW_US,
    build,
    condition_arrays,
    make_layout,
    make_question,
    make_rules,
    make_world,
    question_arrays,
)

if TYPE_CHECKING:
    from tests.oracle.flat import Ranking

N_THREADS = 16
WORLD = make_world(3, 400)
SNAPSHOT = build(WORLD, make_layout(4, WORLD))
HERE = Conditions(now_us=NOW_US)


def answer(seed: int) -> tuple[Ranking, Ranking, Ranking, list[int]]:
    """Ask three kernels one question."""
    question = make_question(seed)
    conditions = condition_arrays(SNAPSHOT, HERE)
    arguments = SNAPSHOT.tree, SNAPSHOT.rows, SNAPSHOT.sketches, question_arrays(question), conditions
    counts = np.zeros(N_SCAN_COUNTS, np.int64)
    nodes, directories, rows = make_pool(7), make_pool(3), make_pool(7)
    whole = 1, np.empty(0, np.int32), 0, 1
    scan_nodes(*arguments, 0, *whole, nodes, directories, counts)
    scan_nodes(*arguments, 1, *whole, rows, make_pool(0), counts)
    outcome = descend(SNAPSHOT, question, HERE, make_rules(seed), [()], k=7, max_rounds=1)
    counters = outcome.frontier.counters[[a.COUNT_ROWS, a.COUNT_MATCHED, a.COUNT_EXPANDED]]
    found = [ranking(pool, SNAPSHOT.paths) for pool in (nodes, rows, outcome.pool)]
    return found[0], found[1], found[2], [*counts.tolist(), *counters.tolist()]


def test_threads_get_what_one_gets() -> None:
    questions = range(24)
    expected = {seed: answer(seed) for seed in questions}
    with ThreadPoolExecutor(N_THREADS) as threads:
        asked = [seed for _, seed in product(range(4), questions)]
        for seed, found in zip(asked, threads.map(answer, asked, timeout=120), strict=True):
            assert found == expected[seed]
