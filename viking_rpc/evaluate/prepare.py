"""Bring a set into a store of its own, or take the store that an earlier run left when nothing changed since."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import viking_rpc
from viking_rpc.engine import open_store
from viking_rpc.errors import InvalidArgumentError, NotFoundError
from viking_rpc.evaluate.run import EVALUATOR, JudgedQuery
from viking_rpc.ingest.corpus import read_judgments, read_queries
from viking_rpc.ingest.pipeline import run_import
from viking_rpc.ingest.plan import plan_corpus
from viking_rpc.ingest.target import StoreTarget
from viking_rpc.store.lock import DataLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from viking_rpc.config import Settings
    from viking_rpc.domain.ports import Embedder
    from viking_rpc.index.snapshot import Snapshot

    Progress = Callable[[int, int, str], None]

_STAMP: Final = "evaluated.json"
_FILES: Final = ("corpus.jsonl.gz", "dirs.jsonl.gz")
#: What decides how a corpus becomes rows; a change of it makes stored rows stale.
_CODE: Final = ("adapters", "index", "ingest")


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSet:
    """A set that can be measured; `n_dropped` queries have no relevant judgment and are left out."""

    name: str
    snapshot: Snapshot
    queries: tuple[JudgedQuery, ...]
    n_dropped: int
    is_reused: bool


def default_folder() -> Path:
    """Return where sets are kept unless somebody says otherwise: under XDG_CACHE_HOME, or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "viking-rpc" / "evaluate"


def read_judged(folder: Path) -> tuple[tuple[JudgedQuery, ...], int]:
    """Read the queries of a set with their judgments.

    Returns:
        Those with at least one relevant judgment, and the number of the others.

    Raises:
        NotFoundError, InvalidArgumentError: a file is missing or cannot be read; no query has a judgment.
    """
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for judgment in read_judgments(folder):
        grades[judgment.query_id][judgment.uri] = judgment.grade
    queries = list(read_queries(folder))
    judged = tuple(
        JudgedQuery(query.id, query.text, query.target_uri, grades[query.id])
        for query in queries
        if any(grade > 0 for grade in grades.get(query.id, {}).values())
    )
    if not judged:
        raise InvalidArgumentError("BAD_CORPUS", f"no query of {folder} has a judgment", {"path": str(folder)})
    return judged, len(queries) - len(judged)


@contextmanager
def prepared(
    folder: Path,
    settings: Settings,
    embedder: Embedder,
    *,
    cache: Path | None = None,
    on_progress: Progress | None = None,
) -> Iterator[PreparedSet]:
    """Open the store of a set, which is imported first when it, the model or the code changed.

    Args:
        folder: the set.
        settings: in effect; their data directory is not touched.
        embedder: makes the vectors.
        cache: holds one data directory for each set; None means the user's cache.
        on_progress: as for `run_import`.

    Raises:
        NotFoundError, InvalidArgumentError: the set cannot be read.
        FailedPreconditionError: another process works on the same set.
    """
    if not folder.is_dir():
        raise NotFoundError("FILE_NOT_FOUND", f"there is no folder {folder}", {"path": str(folder)})
    queries, n_dropped = read_judged(folder)
    folder = folder.resolve()
    place = hashlib.blake2b(f"{folder}\0{embedder.model}".encode(), digest_size=6).hexdigest()
    data = (cache or default_folder()) / f"{folder.name}-{place}"
    stamp = _stamp(folder, embedder)
    with DataLock.acquire(data):
        is_reused = _read_stamp(data) == stamp
        if not is_reused:
            _clear(data)
        with open_store(settings, embedder, folder=data) as store:
            if not is_reused:
                plan = plan_corpus(folder)
                run_import(plan, StoreTarget(store, EVALUATOR.account), embedder, on_progress=on_progress)
                store.lay_out(EVALUATOR.account)
                (data / _STAMP).write_text(json.dumps(stamp), encoding="utf-8")
            snapshot = store.snapshot(EVALUATOR.account)
            yield PreparedSet(folder.name, snapshot, queries, n_dropped, is_reused)


def _stamp(folder: Path, embedder: Embedder) -> dict[str, str]:
    """Say of what a store was made."""
    package = Path(viking_rpc.__file__).parent
    sources = [path for name in _CODE for path in sorted((package / name).glob("*.py"))]
    return {
        "corpus": _digest([path for name in _FILES if (path := folder / name).exists()]),
        "code": _digest(sources),
        "model": f"{embedder.model} {embedder.dimensions}",
    }


def _digest(paths: Sequence[Path]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _read_stamp(data: Path) -> object:
    try:
        return json.loads((data / _STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _clear(data: Path) -> None:
    """Remove what an earlier import made; the lock stays, it is held."""
    for path in (data / _STAMP, *data.glob("viking.db*")):
        path.unlink(missing_ok=True)
    shutil.rmtree(data / "checkpoints", ignore_errors=True)
