"""Made `store.db.gz` and `store.json` with the first release of schema 1. Not run again: they must open for ever.

    python -m tests.data.store.v1.make

The database has two accounts with everything that a context can have, after moves, deletions, touches and replacements,
remembered requests, and an expired subtree. The JSON is what must be read from it.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

from tests.store.test_golden import read
from tests.store.trees import DIMENSIONS, NOW, directory, file, row
from viking_rpc.domain.context import ContextType, Level, Relation
from viking_rpc.store.database import Database, Delete, Move, Touch

P = "viking://resources/p"
FOLDER = Path(__file__).parent


def main() -> None:
    """Write both files."""
    assert not (FOLDER / "store.db.gz").exists(), "golden files are never made again"
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "viking.db"
        with Database.open(path) as database:
            database.bind_model("golden", DIMENSIONS)
            database.bind_analysis("1")
            fill(database)
        (FOLDER / "store.json").write_text(json.dumps(read(path), indent=1, sort_keys=True) + "\n")
        (FOLDER / "store.db.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def fill(database: Database) -> None:
    """Write what the golden database holds."""
    texts = {"title": "\u9501 lock", "content": "L\u00e4nge \u4e2d\u6587\n" * 3, "abstract": "a", "overview": "o"}
    files = [file(f"{P}/d{i % 3}/f{i}", rows=(row(i),), **texts) for i in range(9)]
    database.apply("default", files, now_us=NOW, request_id="first")
    listing = directory(
        f"{P}/d0",
        abstract="short",
        overview="# long",
        content="both",
        tags={"b": "2", "a": "\u4e2d"},
        relations=(Relation(f"{P}/d1/f1", "near"), Relation("viking://user/u/memories")),
        rows=(row(100, Level.ABSTRACT), row(101, Level.OVERVIEW)),
    )
    given = file(f"{P}/given", type=ContextType.SKILL, create_us=NOW - 9, update_us=NOW - 4, active_count=7)
    later = file(f"{P}/later", expire_us=NOW * 2)
    gone = [directory(f"{P}/gone", expire_us=NOW + 10), file(f"{P}/gone/below", rows=(row(102),))]
    database.apply("default", [listing, given, later, *gone], now_us=NOW + 1)
    database.apply("default", [Move(f"{P}/d1", "viking://agent/skills/moved")], now_us=NOW + 2, request_id="second")
    database.apply("default", [Touch((f"{P}/given", f"{P}/d0/f0")), Delete(f"{P}/d2/f2")], now_us=NOW + 3)
    database.apply("default", [file(f"{P}/d2/f5", content="replaced", rows=(row(103),))], now_us=NOW + 4)
    database.apply("acme", [file("viking://user/u/memories/m", content="x", rows=(row(104),))], now_us=NOW + 5)


if __name__ == "__main__":
    main()
