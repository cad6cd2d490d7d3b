"""A target that does not exist is told, unless the rules of URIs name it."""

from __future__ import annotations

import numpy as np
import pytest

from viking_rpc.domain.context import ContextType, Kind
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.query import Query, RetrieveRequest, Scope
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
