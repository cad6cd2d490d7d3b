"""Libraries for vectors, each in its own process: one flat search among the rows that the caller may see.

The library's own filter where one can be given to the search without a callback in Python for each candidate (faiss,
lancedb, qdrant-edge); else more is asked for and the rest dropped, and again for more when too little is left. Each is
asked for 20 rows, for a directory has two and an answer is ten contexts. Graphs have 16 links, 100 candidates when
built and 100 when searched. What comes back are numbers of rows; texts, ancestors and the like are not part of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from benchmarks.peers.data import LIMIT, VISIBLE, Data
from benchmarks.peers.loop import run, timed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.peers.loop import Round

_N_ROWS = 2 * LIMIT
_LINKS, _EFFORT_ADD, _EFFORT = 16, 100, 100
_BATCH = 5000
_ESCALATION = 4


class Flat:
    """One library; subclasses fill `load`, `open` and set `search`."""

    name = ""
    note = ""

    def __init__(self, data: Data, store: Path) -> None:
        """Prepare."""
        self.numpy = importlib.import_module("numpy")
        self.library = importlib.import_module(self.name)
        self.data = data
        self.store = store
        rows = data.rows()
        self.owners = [row["owner"] for row in rows]
        self.uris = [row["uri"] for row in rows]
        self.is_visible = self.numpy.array([owner in VISIBLE for owner in self.owners])
        self.queries = self.numpy.fromfile(data.folder / "queries.f32", "f4").reshape(-1, data.dimensions)
        self.search: Callable[[Any], list[int]] = lambda _: []

    def vectors(self) -> Any:
        """Return all rows' vectors."""
        return self.numpy.fromfile(self.data.folder / "rows.f32", "f4").reshape(-1, self.data.dimensions)

    def load(self) -> None:
        """Fill the store."""
        raise NotImplementedError

    def reopen(self) -> None:
        """Open the store and set `search`: a vector to at least ten rows' numbers, best first, all visible."""
        raise NotImplementedError

    def open(self) -> dict[str, Any]:
        """Open the store."""
        self.reopen()
        return {"note": self.note}

    def masked(self, search: Callable[[Any, int], Any]) -> Callable[[Any], list[int]]:
        """Return a search that asks for more and drops what the caller may not see."""

        def ask(vector: Any) -> list[int]:
            k = 2 * _N_ROWS
            while True:
                keys = search(vector, k)
                keys = keys[self.is_visible[keys]]
                if len(keys) >= _N_ROWS or k >= len(self.uris):
                    return keys[:_N_ROWS].tolist()  # type: ignore[no-any-return]
                k = min(k * _ESCALATION, len(self.uris))

        return ask

    def round(self) -> Round:
        """Answer all queries."""
        times, rows = timed(lambda i: self.search(self.queries[i]), len(self.queries))
        found = [list(dict.fromkeys(self.uris[row] for row in answer))[:LIMIT] for answer in rows]
        return times, found

    def figures(self) -> dict[str, Any]:
        """Return what is known of the work."""
        return {"searches": 1}

    def close(self) -> None:
        """End; nothing is open."""


class Usearch(Flat):
    """usearch has no filter in Python."""

    name = "usearch.index"
    note = "float32 graph; no filter: 40 rows asked for and masked, more when needed"

    def load(self) -> None:  # noqa: D102
        index = self.library.Index(
            ndim=self.data.dimensions,
            metric="ip",
            dtype="f32",
            connectivity=_LINKS,
            expansion_add=_EFFORT_ADD,
            expansion_search=_EFFORT,
        )
        index.add(self.numpy.arange(self.data.n_rows), self.vectors())
        index.save(str(self.store / "index"))

    def reopen(self) -> None:  # noqa: D102
        index = self.library.Index.restore(str(self.store / "index"))
        index.expansion_search = _EFFORT
        self.search = self.masked(lambda vector, k: index.search(vector, k, threads=1).keys.astype("i8"))


class Hnswlib(Flat):
    """hnswlib's filter is a callback in Python for each candidate, which is slower than asking for more."""

    name = "hnswlib"
    note = "float32 graph; 40 rows asked for and masked, more when needed"

    def _index(self) -> Any:
        return self.library.Index("ip", self.data.dimensions)

    def load(self) -> None:  # noqa: D102
        index = self._index()
        index.init_index(self.data.n_rows, ef_construction=_EFFORT_ADD, M=_LINKS)
        index.add_items(self.vectors(), self.numpy.arange(self.data.n_rows))
        index.save_index(str(self.store / "index"))

    def reopen(self) -> None:  # noqa: D102
        index = self._index()
        index.load_index(str(self.store / "index"))
        index.set_num_threads(1)

        def search(vector: Any, k: int) -> Any:
            index.set_ef(max(_EFFORT, k))
            return index.knn_query(vector, k=k)[0][0].astype("i8")

        self.search = self.masked(search)


class Faiss(Flat):
    """faiss takes a bitmap of the rows allowed."""

    name = "faiss"
    note = "HNSW, float32; filter: a bitmap made once for the caller"

    def load(self) -> None:  # noqa: D102
        index = self.library.IndexHNSWFlat(self.data.dimensions, _LINKS, self.library.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _EFFORT_ADD
        index.add(self.vectors())
        self.library.write_index(index, str(self.store / "index"))

    def reopen(self) -> None:  # noqa: D102
        self.library.omp_set_num_threads(1)
        index = self.library.read_index(str(self.store / "index"))
        chosen = self.library.IDSelectorBitmap(self.numpy.packbits(self.is_visible, bitorder="little"))
        parameters = self.library.SearchParametersHNSW(sel=chosen, efSearch=_EFFORT)

        def search(vector: Any) -> list[int]:
            keys = index.search(vector[None], _N_ROWS, params=parameters)[1][0]
            return keys[keys >= 0].tolist()  # type: ignore[no-any-return]

        self.search = search


class Lancedb(Flat):
    """lancedb filters before the search, by an index over the owners."""

    name = "lancedb"
    note = "no index over vectors (all allowed rows are compared); bitmap index over owners"

    def load(self) -> None:  # noqa: D102
        arrow = importlib.import_module("pyarrow")
        vectors = arrow.FixedSizeListArray.from_arrays(arrow.array(self.vectors().ravel()), self.data.dimensions)
        columns = {"id": arrow.array(range(self.data.n_rows)), "owner": arrow.array(self.owners), "vector": vectors}
        table = self.library.connect(str(self.store)).create_table("rows", arrow.table(columns))
        table.create_scalar_index("owner", index_type="BITMAP")

    def reopen(self) -> None:  # noqa: D102
        table = self.library.connect(str(self.store)).open_table("rows")
        condition = "owner IN (" + ", ".join(f"'{owner}'" for owner in VISIBLE) + ")"

        def search(vector: Any) -> list[int]:
            query = table.search(vector).distance_type("cosine").where(condition, prefilter=True).limit(_N_ROWS)
            return query.select(["id"]).to_arrow()["id"].to_pylist()  # type: ignore[no-any-return]

        self.search = search


class QdrantEdge(Flat):
    """qdrant-edge filters while it searches, by an index over the owners."""

    name = "qdrant_edge"
    note = "float32, optimised after loading; keyword index over owners"

    def load(self) -> None:  # noqa: D102
        edge = self.library
        parameters = edge.EdgeVectorParams(size=self.data.dimensions, distance=edge.Distance.Cosine)
        shard = edge.EdgeShard.create(str(self.store), edge.EdgeConfig(vectors={"": parameters}))
        shard.update(edge.UpdateOperation.create_field_index("owner", edge.PayloadSchemaType.Keyword))
        vectors = self.vectors()
        for lo in range(0, len(vectors), _BATCH):
            points = [
                edge.Point(i, vectors[i].tolist(), {"owner": self.owners[i] or "shared"})
                for i in range(lo, min(lo + _BATCH, len(vectors)))
            ]
            shard.update(edge.UpdateOperation.upsert_points(points))
        shard.optimize()
        shard.close()

    def reopen(self) -> None:  # noqa: D102
        edge = self.library
        shard = edge.EdgeShard.load(str(self.store))
        any_of = edge.MatchAny([owner or "shared" for owner in VISIBLE])
        condition = edge.Filter(must=[edge.FieldCondition(key="owner", match=any_of)])

        def search(vector: Any) -> list[int]:
            request = edge.QueryRequest(limit=_N_ROWS, query=edge.Query.Nearest(vector.tolist()), filter=condition)
            return [point.id for point in shard.query(request)]

        self.search = search


LIBRARIES: dict[str, type[Flat]] = {
    "usearch": Usearch,
    "hnswlib": Hnswlib,
    "faiss": Faiss,
    "lancedb": Lancedb,
    "qdrant_edge": QdrantEdge,
}


if __name__ == "__main__":
    run(lambda arm, data, store: LIBRARIES[arm](data, store))
