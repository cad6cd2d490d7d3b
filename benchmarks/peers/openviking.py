"""OpenViking in its own process: its retriever on its local store, with ready vectors instead of an embedder.

Run by the interpreter of an environment that has the version to be measured; used as a package, as its documentation
and its behaviour show it. What is timed is one call of its retriever in the event loop it runs in, the same arguments
for all versions: THINKING, ten results. Its queries to its store are counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import logging
import os
import time
from typing import TYPE_CHECKING, Any

from benchmarks.peers.data import CALLER, LIMIT, Data
from benchmarks.peers.loop import run

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.peers.loop import Round

_ACCOUNT = "acme"
_BATCH = 500
_WRITTEN = "2026-06-01T12:00:00.000Z"
_SUFFIXES = ("/.abstract.md", "/.overview.md")


def _take(module: str, *names: str) -> list[Any]:
    found = importlib.import_module(module)
    return [getattr(found, name) for name in names]


class OpenViking:
    """One version of it; which one is the environment's."""

    def __init__(self, arm: str, data: Data, store: Path) -> None:
        """Prepare; nothing is opened yet."""
        self.arm = arm
        self.data = data
        self.store = store
        self.n_searches = 0
        self.n_asked = 0
        os.environ["OPENVIKING_CONFIG_FILE"] = str(store.parent / f"{arm}.conf")
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.queries: dict[str, list[float]] = {}

    def _open_backend(self) -> None:
        """Open its local store, made when it is not there."""
        (backend,) = _take("openviking.storage.viking_vector_index_backend", "VikingVectorIndexBackend")
        (config,) = _take("openviking_cli.utils.config.vectordb_config", "VectorDBBackendConfig")
        context, role = _take("openviking.server.identity", "RequestContext", "Role")
        (user,) = _take("openviking_cli.session.user_id", "UserIdentifier")
        for name in list(logging.root.manager.loggerDict):
            if name.startswith("openviking"):
                logging.getLogger(name).setLevel("ERROR")
        dimension = self.data.dimensions
        self.backend = backend(
            config(
                backend="local",
                name="context",
                path=str(self.store / "store"),
                dimension=dimension,
                distance_metric="cosine",
            )
        )

        class Settings:
            dedicated_vectordb = False
            vectordb = type("vectordb", (), {"dimension": dimension})

        class Resolver:
            async def resolve(self, account_id: str) -> type[Settings]:
                del account_id
                return Settings

        if hasattr(self.backend, "set_vector_config_resolver"):
            self.backend.set_vector_config_resolver(Resolver())
        self.context = context(user=user(_ACCOUNT, CALLER), role=role(role.USER))

    def load(self) -> None:
        """Put the rows in."""
        self._open_backend()
        self.loop.run_until_complete(self._load())

    async def _load(self) -> None:
        (schemas,) = _take("openviking.storage.collection_schemas", "CollectionSchemas")
        schema = schemas.context_collection("context", self.data.dimensions)
        if not await self.backend.create_collection("context", schema):
            message = "the collection was not made"
            raise RuntimeError(message)
        rows, vectors = self.data.rows(), self.data.vectors()
        for lo in range(0, len(rows), _BATCH):
            records = []
            for row, vector in zip(rows[lo : lo + _BATCH], vectors[lo : lo + _BATCH], strict=True):
                key = f"{_ACCOUNT}:{row['uri']}:{row['level']}"
                records.append(
                    {
                        "id": hashlib.md5(key.encode(), usedforsecurity=False).hexdigest(),
                        "uri": row["uri"],
                        "level": row["level"],
                        "context_type": row["type"],
                        "type": "file" if row["level"] == 2 else "directory",
                        "name": row["name"],
                        "abstract": row["abstract"],
                        "active_count": 0,
                        "created_at": _WRITTEN,
                        "updated_at": _WRITTEN,
                        "account_id": _ACCOUNT,
                        "owner_user_id": row["owner"],
                        "vector": list(vector),
                    }
                )
            await self.backend.upsert_many(records, ctx=self.context)

    def open(self) -> dict[str, Any]:
        """Open the store and make the retriever."""
        self._open_backend()
        (retriever,) = _take("openviking.retrieve.hierarchical_retriever", "HierarchicalRetriever")
        (result,) = _take("openviking.models.embedder.base", "EmbedResult")
        (self.typed_query,) = _take("openviking_cli.retrieve.types", "TypedQuery")
        self.queries = {f"q{i:05d}": list(query) for i, query in enumerate(self.data.queries())}
        queries = self.queries

        class Embedder:
            supports_multimodal = False
            model_name = "ready"

            def prepare_embedding_input(self, text: str) -> str:
                return text

            async def embed_async(self, text: str, is_query: bool = False) -> Any:  # noqa: FBT001, FBT002
                del is_query
                return result(dense_vector=queries[text])

        more = []
        if self.arm.endswith("_0_4_22"):
            (config,) = _take("openviking_cli.utils.config", "RetrievalConfig")
            more = [config(score_propagation_alpha=1.0, hotness_alpha=0.0)]
        self.retriever = retriever(self.backend, Embedder(), None, *more)
        self.retriever._rerank_client = None  # noqa: SLF001 - what its constructor leaves open without a configuration
        adapter = self.backend._shared_adapter  # noqa: SLF001 - where its searches can be counted
        search = adapter.query

        def counted(*values: Any, **named: Any) -> Any:
            self.n_searches += 1
            return search(*values, **named)

        adapter.query = counted
        n_rows = self.loop.run_until_complete(self.backend.count(ctx=self.context))
        return {"note": f"{n_rows} rows; int8 vectors, local store"}

    def round(self) -> Round:
        """Answer all queries, timed inside the event loop."""
        return self.loop.run_until_complete(self._round())

    async def _round(self) -> Round:
        times, found = [], []
        for text in self.queries:
            query = self.typed_query(query=text, context_type=None, intent="", target_directories=[])
            started = time.perf_counter_ns()
            answer = await self.retriever.retrieve(
                query, self.context, limit=LIMIT, mode="thinking", score_threshold=None
            )
            times.append((time.perf_counter_ns() - started) / 1e6)
            found.append([_plain(match.uri) for match in answer.matched_contexts])
        self.n_asked += len(times)
        return times, found

    def figures(self) -> dict[str, Any]:
        """Return the searches of its store a query."""
        return {"searches": round(self.n_searches / self.n_asked, 1)}

    def close(self) -> None:
        """Close the store."""
        self.loop.run_until_complete(self.backend.close())


def _plain(uri: str) -> str:
    for suffix in _SUFFIXES:
        uri = uri.removesuffix(suffix)
    return uri.rstrip("/")


if __name__ == "__main__":
    run(OpenViking)
