"""A synthetic context tree of any size, with vectors that cluster by directory, and queries near its rows.

Data model: a user's 200 memories beside shared resources, the rest; leaf directories hold about 20 files; depth grows
with size. A directory's vector is the mean of what lies below it plus noise, at L0 and L1. A query is the vector of a
random row plus noise (cosine to its row about 0.7); every fifth is near a directory. The clusters flatter every method:
speed is measured on this tree, quality never.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.domain.context import ContextType, ContextWrite, Kind, Level, Row
from viking_rpc.index.records import NodeRecord
from viking_rpc.store.operations import Upsert

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

DIMENSIONS = 384
FILES_A_DIRECTORY = 20
N_MEMORIES = 200
_NO_TERMS = (np.empty(0, np.uint64), np.empty(0, np.float32))


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticTree:
    """A tree and queries for it: `queries` is float32[n_queries, DIMENSIONS], unit length."""

    records: list[NodeRecord]
    queries: NDArray[np.float32]


def make_tree(n_contexts: int, *, n_queries: int = 300, n_others: int = 0, seed: int = 7) -> SyntheticTree:
    """Make a tree of about `n_contexts` contexts, the same for the same arguments.

    Args:
        n_contexts: of them all.
        n_queries: near rows of them all.
        n_others: how many of them are memories of a second user, `other`.
        seed: of the random numbers.
    """
    rng = np.random.default_rng(seed + n_contexts)
    builder = _Builder(rng)
    resources = builder.directory(0, "resources", ContextType.RESOURCE)
    users = builder.directory(0, "user", ContextType.RESOURCE)
    home = builder.directory(users, "default", ContextType.RESOURCE)
    memories = builder.directory(home, "memories", ContextType.MEMORY)
    n_memories = min(N_MEMORIES, n_contexts // 5)
    builder.fill(resources, ContextType.RESOURCE, n_contexts - n_memories - n_others)
    builder.fill(memories, ContextType.MEMORY, n_memories)
    if n_others:
        other = builder.directory(users, "other", ContextType.RESOURCE)
        builder.fill(builder.directory(other, "memories", ContextType.MEMORY), ContextType.MEMORY, n_others)
    return SyntheticTree(builder.records, builder.queries(n_queries))


def upserts_of(tree: SyntheticTree) -> Iterator[Upsert]:
    """Yield the tree as operations of a store, parents first; the scopes are made with what they hold."""
    uris = {0: "viking:/"}
    for record in tree.records:
        uri = uris[record.key] = f"{uris[record.parent_key]}/{record.name}"
        if uri.count("/") > 2:
            write = ContextWrite(uri, record.kind, title=record.title, abstract=record.abstract, rows=record.rows)
            yield Upsert(write)


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)
    return scaled


class _Builder:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.records: list[NodeRecord] = []
        self.base = _unit(rng.standard_normal(DIMENSIONS))
        self.file_vectors: list[NDArray[np.float32]] = []
        self.directory_vectors: list[NDArray[np.float32]] = []

    def directory(self, parent: int, name: str, kind: ContextType, vector: NDArray[np.float32] | None = None) -> int:
        rows: tuple[Row, ...] = ()
        if vector is not None:
            near = [_unit(vector + noise * self._noise()) for noise in (0.30, 0.20)]
            self.directory_vectors.append(near[0])
            rows = tuple(Row(Level(level), near[level], *_NO_TERMS) for level in (0, 1))
        key = len(self.records) + 1
        self.records.append(
            NodeRecord(key, parent, name, Kind.DIRECTORY, kind, title=name, abstract=f"About {name}.", rows=rows)
        )
        return key

    def _noise(self, n: int | None = None) -> NDArray[np.float32]:
        return _unit(self.rng.standard_normal(DIMENSIONS if n is None else (n, DIMENSIONS)))

    def fill(self, root: int, kind: ContextType, budget: int) -> None:
        """Put directories and files below a root: leaf directories of about 20 files, in levels of equal fan-out."""
        n_leaf = max(1, round(budget / (FILES_A_DIRECTORY + 1.1)))
        depth = 1 if budget <= 400 else 2 if budget <= 20_000 else 3
        fan = max(2, round(n_leaf ** (1 / depth)))
        level = [(root, _unit(0.6 * self.base + self._noise()))]
        for d in range(1, depth + 1):
            n_here = n_leaf if d == depth else min(n_leaf, fan**d)
            centers = [level[i % len(level)] for i in range(n_here)]
            noise = self._noise(n_here) * (1.1, 0.9, 0.8)[d - 1]
            level = [
                (self.directory(parent, f"topic-{d}-{i:05d}", kind, vector), vector)
                for i, ((parent, _), vector) in enumerate(
                    zip(centers, _unit(np.stack([c for _, c in centers]) + noise), strict=True)
                )
            ]
        shares = self.rng.gamma(6.0, 1.0, len(level))
        counts = np.maximum(1, np.round(shares / shares.sum() * (budget - len(level) * 1.1))).astype(int)
        for (parent, center), n in zip(level, counts.tolist(), strict=True):
            vectors = _unit(center + 0.85 * self._noise(n))
            self.file_vectors.append(vectors)
            for i in range(n):
                key = len(self.records) + 1
                name = f"note-{key:07d}.md"
                row = Row(Level.DETAIL, vectors[i], *_NO_TERMS)
                self.records.append(
                    NodeRecord(
                        key,
                        parent,
                        name,
                        Kind.FILE,
                        kind,
                        title=f"Note {key}",
                        abstract=f"Note {key} says what was decided about topic {parent}, by whom, and why it was.",
                        update_us=1_780_000_000_000_000 + key,
                        rows=(row,),
                    )
                )

    def queries(self, n: int) -> NDArray[np.float32]:
        files = np.concatenate(self.file_vectors)
        near_files = files[self.rng.integers(0, len(files), n)]
        directories = np.stack(self.directory_vectors)
        near_directories = directories[self.rng.integers(0, len(directories), n)]
        is_directory = (np.arange(n) % 5 == 4)[:, None]
        return _unit(np.where(is_directory, near_directories, near_files) + 0.9 * self._noise(n))
