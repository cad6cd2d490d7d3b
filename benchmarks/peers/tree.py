"""Writes the tree and the queries of a comparison for all its systems, and knows the exact answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.data import DIMENSIONS, SyntheticTree, make_tree
from benchmarks.peers.data import LIMIT, VISIBLE, Data

if TYPE_CHECKING:
    from pathlib import Path

#: One context in so many is another user's.
_OTHERS_SHARE = 20


def make(n_contexts: int, n_queries: int) -> SyntheticTree:
    """Make the tree; the same for the same arguments."""
    return make_tree(n_contexts, n_queries=n_queries, n_others=n_contexts // _OTHERS_SHARE)


def write(folder: Path, n_contexts: int, n_queries: int) -> Data:
    """Make the tree and write it into a folder that is made."""
    folder.mkdir(parents=True)
    tree = make(n_contexts, n_queries)
    uris = {0: "viking:/"}
    n_rows = 0
    with (folder / "rows.f32").open("wb") as vectors, (folder / "rows.jsonl").open("w") as lines:
        for record in tree.records:
            parent = uris[record.parent_key]
            uri = uris[record.key] = f"{parent}/{record.name}"
            for row in record.rows:
                vectors.write(row.vector.tobytes())
                line = {
                    "uri": uri,
                    "level": int(row.level),
                    "type": record.type.name.lower(),
                    "owner": uri.split("/")[3] if uri.startswith("viking://user/") else "",
                    "name": record.name,
                    "abstract": record.abstract,
                }
                lines.write(json.dumps(line) + "\n")
                n_rows += 1
    (folder / "queries.f32").write_bytes(np.ascontiguousarray(tree.queries, np.float32).tobytes())
    meta = {"n_contexts": n_contexts, "n_rows": n_rows, "n_queries": n_queries, "dimensions": DIMENSIONS}
    (folder / "meta.json").write_text(json.dumps(meta))
    return Data(folder, **meta)


def exact_answers(data: Data) -> list[set[str]]:
    """Return the URIs of the ten contexts whose best row is nearest, among those that the caller may see, by query."""
    rows = data.rows()
    uris = [row["uri"] for row in rows]
    is_visible = np.array([row["owner"] in VISIBLE for row in rows])
    vectors = np.fromfile(data.folder / "rows.f32", np.float32).reshape(-1, data.dimensions)
    queries = np.fromfile(data.folder / "queries.f32", np.float32).reshape(-1, data.dimensions)
    answers = []
    for query in queries:
        scores = np.where(is_visible, vectors @ query, -np.inf)
        best = np.argpartition(-scores, 2 * LIMIT)[: 2 * LIMIT]
        ranked = dict.fromkeys(uris[row] for row in best[np.argsort(-scores[best])])
        answers.append(set(list(ranked)[:LIMIT]))
    return answers
