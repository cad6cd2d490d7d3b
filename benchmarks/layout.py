"""The peak of a layout: the memory that laying a tree out takes at most, beside what stays of it.

    python -m benchmarks.layout --nodes 150000 --terms 80 --json

Measures: resident memory of this process, sampled every 20 ms while a tree is laid out from records that come one by
one, as they do from the database; then, in the same process, what is resident when only the snapshot is left. Terms are
drawn from 200,000 by Zipf's law; graphs are not part of it. `peak_ratio` is the first by the second.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import multiprocessing
import os
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.data import DIMENSIONS, make_tree
from benchmarks.scale import memory_of, peak_memory
from viking_rpc.index.layout import build_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from viking_rpc.index.records import NodeRecord

_N_TERMS = 200_000
_ZIPF = 1.2
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def write_records(path: Path, n_nodes: int, n_terms: int) -> None:
    """Write a tree's records to a file, one by one; of a process of its own, whose memory goes with it."""
    tree = make_tree(n_nodes, n_queries=1)
    rng = np.random.default_rng(11)
    with path.open("wb") as file:
        for record in tree.records:
            rows = []
            for row in record.rows:
                ranks = np.unique(rng.zipf(_ZIPF, 2 * n_terms) % _N_TERMS)
                hashes = np.sort(rng.permutation(ranks)[:n_terms].astype(np.uint64) * _SPREAD)
                rows.append(replace(row, terms=hashes, term_counts=np.ones(len(hashes), np.float32)))
            pickle.dump(replace(record, rows=tuple(rows)), file, pickle.HIGHEST_PROTOCOL)


def read_records(path: Path) -> Iterator[NodeRecord]:
    """Yield what was written."""
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)  # noqa: S301 - this run wrote it
            except EOFError:
                return


def measure(n_nodes: int, n_terms: int) -> dict[str, object]:
    """Lay out a tree and watch the memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records"
        process = multiprocessing.get_context("spawn").Process(target=write_records, args=(path, n_nodes, n_terms))
        process.start()
        process.join()
        build_snapshot(itertools.islice(read_records(path), 50), revision=1, dimensions=DIMENSIONS)  # what it imports
        n_rows = sum(len(record.rows) for record in read_records(path))
        gc.collect()
        before = memory_of(os.getpid())["VmRSS"]
        with peak_memory() as peak:
            snapshot = build_snapshot(read_records(path), revision=1, dimensions=DIMENSIONS, n_rows=n_rows)
        gc.collect()
        after = memory_of(os.getpid())["VmRSS"]
    return {
        "nodes": snapshot.n_contexts,
        "rows": snapshot.n_rows,
        "entries": len(snapshot.rows.term_id),
        "resident_mb": round((after - before) / 2**20),
        "peak_mb": round(peak[0] / 2**20),
        "peak_ratio": round(peak[0] / (after - before), 2),
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=150_000)
    parser.add_argument("--terms", type=int, default=80, help="of a row, about")
    parser.add_argument("--json", action="store_true", help="one line of JSON; else indented")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.nodes, arguments.terms), indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
