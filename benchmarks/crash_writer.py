"""The process that benchmarks.crash kills: threads that write to a store and report what they begin and what is done.

    python -m benchmarks.crash_writer DATA_DIRECTORY SEED [PLACE]

With a PLACE, a name, it shares the data directory with others: it writes to trees that are called by it, follows what
the others write, and keeps the checkpoints of all. Without one it is alone and holds the lock.

A line of JSON each, on standard output: `["opening"]`, `["ready"]`, then `["begin", n, WHAT, {uri: digest or null}]`
before a write is asked for and `["done", n]` after it was acknowledged. The first names every context that the write
makes, changes or (null) removes. Layouts report the same way, with no contexts.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.domain.context import ContextType, ContextWrite, Kind, Level, Relation, Row
from viking_rpc.index.ann import AnnParameters
from viking_rpc.ingest.pipeline import run_import
from viking_rpc.ingest.plan import IMPORT_TAG, ImportPlan
from viking_rpc.ingest.target import StoreTarget
from viking_rpc.ingest.tree import PlannedContext
from viking_rpc.store.backup import DATABASE_NAME
from viking_rpc.store.dump import dump, state_of
from viking_rpc.store.keeper import Keeper
from viking_rpc.store.lock import DataLock
from viking_rpc.store.operations import Delete, Move, Touch, Upsert
from viking_rpc.store.store import Store, StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from viking_rpc.store.operations import Operation

MODEL, DIMENSIONS, ACCOUNT = "crash", 16, "default"
#: Small numbers: layouts and approximate indexes are made all the time.
SETTINGS = StoreSettings(min_ann_rows=200, ann=AnnParameters(), max_fresh_rows=40, max_fresh_share=0.0)
N_WRITERS = 3
_MAX_FILES = 150
_N_IMPORTED = 60
_IMPORT_BATCH = 16

Effects = dict[str, str | None]


def digest_of(write: ContextWrite) -> str:
    """Return what must be found again of a context: texts, tags, counts, relations and rows. Times are the store's."""
    digest = blake2b(digest_size=12)
    facts = (write.kind, write.title, write.abstract, write.overview, write.content, sorted(write.tags.items()))
    links = [(link.uri, link.reason) for link in write.relations]
    digest.update(repr((*facts, write.active_count or 0, links)).encode())
    for row in sorted(write.rows, key=lambda row: row.level):
        for part in (bytes([row.level]), row.vector.tobytes(), row.terms.tobytes(), row.term_counts.tobytes()):
            digest.update(part)
    return digest.hexdigest()


def stored_in(folder: Path) -> dict[str, ContextWrite]:
    """Return everything that a data directory holds, by URI."""
    with state_of(folder / DATABASE_NAME) as connection:
        return {stored.write.uri: stored.write for stored in dump(connection, ACCOUNT, 0)}


def open_store(folder: Path, *, is_shared: bool = False) -> Store:
    """Open the store as the writer and the judge both do."""
    settings = replace(SETTINGS, is_shared=is_shared)
    return Store.open(folder, model=MODEL, dimensions=DIMENSIONS, settings=settings)


class Reporter:
    """Writes lines whole; what was written before a kill is in the pipe, a line cut by it is no line."""

    def __init__(self) -> None:
        """Number from 0."""
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def say(self, *line: object) -> None:
        """Write a line."""
        with self._lock:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    @contextmanager
    def writing(self, what: str, effects: Effects) -> Iterator[None]:
        """Report a write before and after it."""
        n = next(self._numbers)
        self.say("begin", n, what, effects)
        yield
        self.say("done", n)


class Writer:
    """A thread with a subtree of its own, whose contents it always knows."""

    def __init__(
        self, store: Store, reporter: Reporter, base: str, held: dict[str, ContextWrite], chance: random.Random
    ) -> None:
        """Begin with what is stored."""
        self._store = store
        self._reporter = reporter
        self._base = base
        self._held = {uri: write for uri, write in held.items() if uri.startswith(base + "/") or uri == base}
        self._chance = chance

    def run(self) -> None:
        """Write until killed."""
        if self._base not in self._held:
            self._write("upsert", [Upsert(ContextWrite(self._base, Kind.DIRECTORY))])
        while True:
            files = [uri for uri, write in self._held.items() if write.kind is Kind.FILE]
            folders = [uri for uri, write in self._held.items() if write.kind is Kind.DIRECTORY and uri != self._base]
            if len(files) > _MAX_FILES:
                self._write("delete", [Delete(uri, is_recursive=True) for uri in folders[: len(folders) // 2]])
                continue
            what = self._chance.choices(["upsert", "replace", "delete", "move", "touch"], [5, 3, 1, 2, 1])[0]
            if what == "upsert" or not files or not folders:
                self._write("upsert", [Upsert(self._new()) for _ in range(self._chance.randrange(1, 12))])
            elif what == "replace":
                chosen = self._chance.sample(files, min(len(files), 4))
                self._write("replace", [Upsert(self._file(uri)) for uri in chosen])
            elif what == "delete":
                self._write("delete", [Delete(self._chance.choice([*files, *folders]), is_recursive=True)])
            elif what == "move":
                moved = Move(self._chance.choice(folders), f"{self._base}/m{self._chance.getrandbits(40):x}")
                self._write("move", [moved])
            else:
                self._write("touch", [Touch(tuple(self._chance.sample(files, min(len(files), 3))))])

    def _new(self) -> ContextWrite:
        return self._file(f"{self._base}/d{self._chance.randrange(6)}/f{self._chance.getrandbits(40):x}")

    def _file(self, uri: str) -> ContextWrite:
        seed = self._chance.getrandbits(32)
        return ContextWrite(
            uri,
            Kind.FILE,
            title=f"t{seed}",
            content="x" * self._chance.choice((10, 300, 9000)),
            tags={"seed": str(seed)} if seed % 2 else {},
            relations=(Relation("viking://resources/elsewhere", str(seed)),) if seed % 3 == 0 else (),
            active_count=seed % 5,
            rows=(make_row(seed),),
        )

    def _write(self, what: str, operations: Sequence[Operation]) -> None:
        after = dict(self._held)
        for operation in operations:
            _apply(after, operation)
        changed = {uri for uri in {*after, *self._held} if after.get(uri) is not self._held.get(uri)}
        effects: Effects = {uri: digest_of(after[uri]) if uri in after else None for uri in sorted(changed)}
        with self._reporter.writing(what, effects):
            self._store.apply(ACCOUNT, operations, request_id=f"{self._chance.getrandbits(64):x}")
        self._held = after


def make_row(seed: int, level: Level = Level.DETAIL) -> Row:
    """Make a row that only this seed makes."""
    rng = np.random.default_rng(seed)
    vector = rng.standard_normal(DIMENSIONS).astype(np.float32)
    terms = np.unique(rng.integers(0, 500, 8, dtype=np.uint64))
    return Row(level, vector / np.linalg.norm(vector), terms, np.ones(len(terms), np.float32))


def _apply(held: dict[str, ContextWrite], operation: Operation) -> None:
    """Do to a dictionary what the store does to a tree."""
    match operation:
        case Upsert(write=write):
            parent = write.uri.rpartition("/")[0]
            if parent not in held and parent.count("/") > 3:
                held[parent] = ContextWrite(parent, Kind.DIRECTORY)
            held[write.uri] = write
        case Delete(uri=gone):
            for uri in [uri for uri in held if uri == gone or uri.startswith(gone + "/")]:
                del held[uri]
        case Move(source=source, destination=destination):
            for uri in [uri for uri in held if uri == source or uri.startswith(source + "/")]:
                held[destination + uri[len(source) :]] = held.pop(uri)
        case Touch(uris=uris):
            for uri in uris:
                write = held[uri]
                facts = {name: getattr(write, name) for name in write.__dataclass_fields__}
                held[uri] = ContextWrite(**{**facts, "active_count": (write.active_count or 0) + 1})
        case _:
            raise AssertionError(operation)


class _Embedder:
    """A vector for each text, out of its digest."""

    model, dimensions = MODEL, DIMENSIONS

    def embed_texts(
        self, texts: Sequence[str], titles: Sequence[str] | None = None, title_shares: Sequence[float] | None = None
    ) -> NDArray[np.float32]:
        del titles, title_shares
        seeds = [int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "little") for text in texts]
        return np.stack([make_row(seed).vector for seed in seeds])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_texts(texts)


class _ReportingTarget(StoreTarget):
    """Where an import writes, each of its batches reported."""

    def __init__(self, store: Store, reporter: Reporter, held: dict[str, ContextWrite], *, is_served: bool) -> None:
        super().__init__(store, ACCOUNT)
        self._served_store = store if is_served else None
        self._reporter = reporter
        self._held = held

    def write(self, batch: Sequence[ContextWrite]) -> None:
        with self._reporter.writing("import", {write.uri: digest_of(write) for write in batch}):
            if self._served_store:
                self._served_store.apply(ACCOUNT, [Upsert(write) for write in batch])
            else:
                super().write(batch)
        self._held.update((write.uri, write) for write in batch)

    def delete(self, uris: Sequence[str]) -> None:
        gone = [uri for uri in self._held for top in uris if uri == top or uri.startswith(top + "/")]
        with self._reporter.writing("import", dict.fromkeys(gone)):
            super().delete(uris)
        for uri in gone:
            del self._held[uri]


def run_imports(
    store: Store, reporter: Reporter, root: str, held: dict[str, ContextWrite], chance: random.Random
) -> None:
    """Import a folder that changes from time to time, until killed."""
    mine = {uri: write for uri, write in held.items() if uri.startswith(root + "/") or uri == root}
    target = _ReportingTarget(store, reporter, mine, is_served=chance.random() < 0.5)
    while True:
        contexts = [_planned(root, Kind.DIRECTORY, root, f"generation {chance.getrandbits(32)}")]
        contexts += (
            _planned(root, Kind.FILE, f"{root}/f{i}", f"text {i} {chance.randrange(3)}")
            for i in range(chance.randrange(_N_IMPORTED // 2, _N_IMPORTED))
        )
        plan = ImportPlan(root, tuple(contexts))
        run_import(plan, target, _Embedder(), allow_prune=True, batch_size=_IMPORT_BATCH)  # type: ignore[arg-type]


def _planned(root: str, kind: Kind, uri: str, text: str) -> PlannedContext:
    texts = {"content": text} if kind is Kind.FILE else {"abstract": text, "overview": text}
    return PlannedContext(uri, kind, ContextType.RESOURCE, title=uri[-3:], tags={IMPORT_TAG: root}, **texts)  # type: ignore[arg-type]


def run_layouts(folder: Path, store: Store, reporter: Reporter, chance: random.Random, *, is_shared: bool) -> None:
    """Lay the account out and save checkpoints, at odd moments, until killed."""
    keeper = Keeper(folder, store.database, replace(SETTINGS, is_shared=True)) if is_shared else None
    while True:
        with reporter.writing("layout", {}):
            if keeper is None:
                store.lay_out(ACCOUNT)
            else:
                keeper.keep()
        threading.Event().wait(chance.random() * 0.05)


def main() -> None:
    """Write until killed."""
    folder, seed, place = Path(sys.argv[1]), int(sys.argv[2]), "".join(sys.argv[3:])
    reporter = Reporter()
    with nullcontext() if place else DataLock.acquire(folder):
        reporter.say("opening")
        store = open_store(folder, is_shared=bool(place))
        store.snapshot(ACCOUNT)
        held = stored_in(folder)
        reporter.say("ready")
        chances = [random.Random(f"{seed} {i}") for i in range(N_WRITERS + 2)]
        base = f"viking://resources/{place}"
        writers = [Writer(store, reporter, f"{base}w{i}", held, chances[i]) for i in range(N_WRITERS)]
        threads = [threading.Thread(target=writer.run) for writer in writers]
        threads += (
            threading.Thread(target=run_imports, args=(store, reporter, f"{base}imported", held, chances[-2])),
            threading.Thread(
                target=run_layouts, args=(folder, store, reporter, chances[-1]), kwargs={"is_shared": bool(place)}
            ),
        )
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
