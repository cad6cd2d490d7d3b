"""Accounts as plain values: random trees under every scope, laid out at once or grown by change sets, and requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from tests.kernels.trees import DIM, NOW_US, make_world
from viking_rpc.domain.context import ContextType, Kind, Level, Row
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.query import Query, RetrieveRequest
from viking_rpc.domain.uri import SCHEME
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.records import ChangeSet, NodeRecord
from viking_rpc.index.text import hash_terms
from viking_rpc.index.update import apply_changes
from viking_rpc.retrieve.retriever import Retrieval, SearchSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from tests.oracle.model import Context, Path, World
    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.index.snapshot import Snapshot

ME = Identity(user="me")
OPERATOR = Identity(user="", role=Role.ROOT)
NO_TERMS = (np.empty(0, np.uint64), np.empty(0, np.float32))
#: The axis whose products are exact: an own score is the vector's first value.
AXIS = np.eye(1, DIM, dtype=np.float32)[0]
WORDS = ("apple", "pear", "plum", "fig", "quince", "ERR-4711", "medlar", "sloe")
_TOPS = (("resources",), ("agent", "skills"), ("user", "me"), ("user", "me", "sessions"), ("user", "you"))


def uri_text(path: Path) -> str:
    """Write a path as a URI."""
    return SCHEME + "/".join(path)


def make_account(seed: int, n: int) -> World:
    """Put random trees under the scopes and users; the root has no rows, and no scope expires."""
    random = Random(seed)
    bare = replace(make_world(seed, 0)[()], rows=(), tags=frozenset(), type=1, create_us=0, update_us=0, active_count=0)
    world: World = {(): bare}
    for i, top in enumerate(_TOPS):
        for length in range(1, len(top)):
            world.setdefault(top[:length], bare)
        grown = make_world(seed + i, random.randrange(n))
        world |= {(*top, *path): replace(context, type=context.type or 1) for path, context in grown.items()}
    return world


def vector_row(level: int, vector: Iterable[float]) -> Row:
    """Make a row without terms."""
    return Row(Level(level), np.array(list(vector), np.float32), *NO_TERMS)


def wordy(row: Row, path: Path) -> Row:
    """Give a row words that its path decides."""
    random = Random(f"{row.level} {path}")
    counts = Counter(random.choice(WORDS) for _ in range(random.randrange(6)))
    terms = sorted((int(hash_terms([word])[0]), count) for word, count in counts.items())
    hashes = np.array([term for term, _ in terms], np.uint64)
    return replace(row, terms=hashes, term_counts=np.array([count for _, count in terms], np.float32))


def record_of(key: int, parent_key: int, path: Path, context: Context, *, has_words: bool = False) -> NodeRecord:
    """Make the record of a context."""
    rows = [vector_row(row.level, row.vector) for row in context.rows]
    return NodeRecord(
        key,
        parent_key,
        path[-1],
        Kind.DIRECTORY if context.is_directory else Kind.FILE,
        ContextType(context.type),
        title=f"title of {path[-1]}",
        abstract=f"abstract of {uri_text(path)}",
        tags={f"tag{tag}": "x" for tag in context.tags},
        create_us=context.create_us,
        update_us=context.update_us,
        expire_us=context.expire_us,
        active_count=context.active_count,
        rows=tuple(wordy(row, path) if has_words else row for row in rows),
    )


def records_of(world: World, keys: Mapping[Path, int], *, has_words: bool = False) -> list[NodeRecord]:
    """Make the records of all contexts of an account."""
    return [
        record_of(keys[path], keys.get(path[:-1], 0), path, context, has_words=has_words)
        for path, context in world.items()
        if path
    ]


def lay_out(world: World, *, has_words: bool = False) -> Snapshot:
    """Build an account's snapshot at once."""
    keys = {path: key for key, path in enumerate(sorted(world))}
    return build_snapshot(records_of(world, keys, has_words=has_words), revision=1, dimensions=DIM)


def grow(seed: int, world: World, *, has_words: bool = False) -> Snapshot:
    """Build the same snapshot in steps: some contexts come later, some with other rows first, some go again."""
    random = Random(seed)
    shuffled = sorted(world)
    random.shuffle(shuffled)
    keys = {path: key for key, path in enumerate(sorted(world, key=lambda path: (bool(path), shuffled.index(path))))}
    late = {path for path in world if path and random.random() < 0.15}
    late = {path for path in world if any(path[:length] in late for length in range(1, len(path) + 1))}
    wrong = {path for path in world if path and path not in late and random.random() < 0.2}
    gone = [path for path, context in world.items() if path and context.is_directory and random.random() < 0.1]
    records = {record.key: record for record in records_of(world, keys, has_words=has_words)}
    first = []
    for path in world:
        if path and path not in late:
            record = records[keys[path]]
            level = Level.ABSTRACT if record.kind is Kind.DIRECTORY else Level.DETAIL
            rows = (vector_row(level, [1.0] * DIM),)
            first.append(replace(record, rows=rows, tags={"tag9": "x"}) if path in wrong else record)
    n = len(keys)
    ghosts = [
        replace(record_of(n + i, keys[path], (*path, f"ghost{i}"), world[path]), rows=(vector_row(0, [1.0] * DIM),))
        for i, path in enumerate(gone)
    ]
    early = [ghost for ghost, path in zip(ghosts, gone, strict=True) if path not in late]
    snapshot = build_snapshot([*first, *early], revision=1, dimensions=DIM)
    later = sorted(late, key=len)
    half = len(later) // 2
    batches: list[tuple[list[NodeRecord], list[int]]] = [
        ([records[keys[path]] for path in later[:half]], []),
        ([records[keys[path]] for path in [*later[half:], *sorted(wrong)]], []),
        ([ghost for ghost in ghosts if ghost not in early], []),
        ([], [ghost.key for ghost in ghosts]),
    ]
    for i, (upserted, deleted) in enumerate(batches):
        snapshot = apply_changes(snapshot, ChangeSet(i + 2, tuple(upserted), tuple(deleted)))
    return snapshot


@dataclass(frozen=True)
class Answered:
    """A finished retrieval and its answer."""

    retrieval: Retrieval
    result: RetrieveResult

    @property
    def ranking(self) -> list[tuple[float, str]]:
        """Return (score, URI) of the matches."""
        return [(match.score, match.context.uri) for match in self.result.matches]


def run(
    snapshot: Snapshot,
    request: RetrieveRequest | None = None,
    identity: Identity = OPERATOR,
    *,
    settings: SearchSettings | None = None,
    max_rounds: int = 64,
    now_us: int = NOW_US,
    vector: NDArray[np.float32] | None = None,
    **fields: Any,
) -> Answered:
    """Run a request to its end; `fields` make one that asks along the axis; `vector` is its text, embedded."""
    if request is None:
        request = RetrieveRequest(query=fields.pop("query", None) or Query(vector=AXIS), **fields)
    asked = request.query.vector if vector is None else vector
    retrieval = Retrieval(snapshot, request, identity, vector=asked, now_us=now_us, settings=settings)
    while not retrieval.advance(max_rounds):
        pass
    return Answered(retrieval, retrieval.result())
