"""A target that does not exist is told, unless the rules of URIs name it."""

from __future__ import annotations

import numpy as np
import pytest

from viking_rpc.domain.context import ContextType, Kind, Level, Row
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.query import Mode, Query, RetrieveRequest, Scope
from viking_rpc.domain.trace import EmptyReason
from viking_rpc.errors import NotFoundError
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.records import NodeRecord
from viking_rpc.retrieve.retriever import Retrieval

SNAPSHOT = build_snapshot(
    [NodeRecord(1, 0, "resources", Kind.DIRECTORY, ContextType.RESOURCE)], revision=1, dimensions=2
)
VECTOR = np.array([1, 0], np.float32)


def ask(target: str) -> Retrieval:
    request = RetrieveRequest(Query(vector=VECTOR), Scope((target,)))
    return Retrieval(SNAPSHOT, request, LOCAL, vector=VECTOR, now_us=1)


@pytest.mark.parametrize("target", ["viking://resources/none", "viking://~/memories/none", "viking://agent/none"])
def test_a_missing_target_is_told(target: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        ask(target)
    assert caught.value.reason == "CONTEXT_NOT_FOUND"


@pytest.mark.parametrize("target", ["", "viking://agent", "viking://~", "viking://~/memories", "viking://agent/skills"])
def test_a_new_users_places_are_empty_not_missing(target: str) -> None:
    retrieval = ask(target)
    while not retrieval.advance():
        pass
    assert retrieval.result().empty_reason == EmptyReason.NO_CONTEXTS


def like(uri: str, mode: Mode, limit: int) -> list[str]:
    """Ask with the vector of a stored context."""
    rows = {"a": ((0, [1, 0]), (1, [0, 1])), "b.md": ((2, [0.6, 0.8]),), "c.md": ((2, [0.8, 0.6]),)}
    none = (np.empty(0, np.uint64), np.empty(0, np.float32))
    records = [NodeRecord(1, 0, "resources", Kind.DIRECTORY, ContextType.RESOURCE)]
    for key, (name, levels) in enumerate(rows.items(), 2):
        kind = Kind.FILE if name.endswith(".md") else Kind.DIRECTORY
        made = tuple(Row(Level(level), np.array(vector, np.float32), *none) for level, vector in levels)
        records.append(NodeRecord(key, 1, name, kind, ContextType.RESOURCE, rows=made))
    snapshot = build_snapshot(records, revision=1, dimensions=2)
    request = RetrieveRequest(Query(like_uri=uri), limit=limit, mode=mode)
    retrieval = Retrieval(snapshot, request, LOCAL, vector=None, now_us=1)
    while not retrieval.advance():
        pass
    result = retrieval.result()
    assert result.total_matched == 2
    return [match.context.uri.rpartition("/")[2] for match in result.matches]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_context_is_not_like_itself(mode: Mode) -> None:
    """Its first level asks, so `a` asks with its abstract; the limit is filled with others."""
    assert like("viking://resources/a", mode, limit=2) == ["c.md", "b.md"]
    assert like("viking://resources/a/.overview.md", mode, limit=2) == ["b.md", "c.md"]
    assert like("viking://resources/b.md", mode, limit=1) == ["c.md"]
