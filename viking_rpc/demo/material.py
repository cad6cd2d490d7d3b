"""The packaged material of the demonstration: which folder goes where, and what is asked about it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONTENT: Final = Path(__file__).parent / "content"
#: Where each folder of the content goes.
PLACES: Final = {
    "handbook": "viking://resources/handbook",
    "memories": "viking://user/default/memories",
    "skills": "viking://agent/skills",
}
#: Positions in the file of the queries that are asked unless all are: one word with four meanings, an exact code, a
#: fact in no summary, a memory, a skill.
_FEW: Final = (0, 4, 7, 17, 20)


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """A prepared query.

    Args:
        text: what is asked.
        note: what makes it hard.
        expected: URIs that answer it; a long file is a directory of sections, of which any will do.
        type: the context type that is asked for; empty: any.
    """

    text: str
    note: str = ""
    expected: tuple[str, ...] = ()
    type: str = ""

    def rank_in(self, uris: list[str]) -> int | None:
        """Return the rank of the first URI, from 1, that is expected or part of what is; None when none is."""
        for rank, uri in enumerate(uris, 1):
            if any(uri == wanted or uri.startswith(wanted + "/") for wanted in self.expected):
                return rank
        return None


def load_queries(*, is_all: bool = False) -> list[DemoQuery]:
    """Return the prepared queries: a few of them, or all."""
    entries = json.loads((CONTENT / "queries.json").read_text(encoding="utf-8"))
    queries = [
        DemoQuery(entry["query"], entry["note"], tuple(map(_uri, entry["expect"])), entry.get("type", ""))
        for entry in entries
    ]
    return queries if is_all else [queries[i] for i in _FEW]


def _uri(path: str) -> str:
    """Return the URI under which a file of the content is imported."""
    place, _, rest = path.partition("/")
    return f"{PLACES[place]}/{rest}"
