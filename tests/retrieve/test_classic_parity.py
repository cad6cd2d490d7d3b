"""CLASSIC answers the recorded cases of the published algorithm: order, scores, expansion, rerank counts."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.oracle.classic import load_cases
from viking_rpc.domain.context import ContextType, Kind, Level, Row
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.query import (
    Filter,
    Mode,
    Profile,
    Query,
    RerankScope,
    RetrieveOptions,
    RetrieveRequest,
    Scope,
    TraceLevel,
)
from viking_rpc.domain.rerank import RerankAnswer
from viking_rpc.domain.uri import Uri
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.records import NodeRecord
from viking_rpc.retrieve.reranked import RerankedRetrieval
from viking_rpc.retrieve.retriever import Retrieval

if TYPE_CHECKING:
    from viking_rpc.index.snapshot import Snapshot

NO_TERMS = (np.empty(0, np.uint64), np.empty(0, np.float32))
NOW_US = 1_780_000_000_000_000
CASES = list(load_cases())


def to_us(text: str | None) -> int:
    """Turn a recorded time into microseconds; 0 when it is unknown."""
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1e6) if text else 0


def snapshot_of(case: dict) -> Snapshot:
    """Build a tree whose rows have exactly the recorded cosines with [1, 0]."""
    rows: dict[str, list[Row]] = {}
    facts: dict[str, dict] = {}
    for record in case["records"]:
        s = record["s"]
        vector = np.array([s, math.sqrt(max(0.0, 1 - s * s))], np.float32)
        rows.setdefault(record["uri"], []).append(Row(Level(record["level"]), vector, *NO_TERMS))
        facts[record["uri"]] = record
    uris = {Uri.from_canonical(uri) for uri in [*rows, case["target"]]}
    uris |= {above for uri in uris for above in uri.ancestors() if not above.is_root}
    keys = {uri: key for key, uri in enumerate(sorted(uris, key=str), 1)}
    records = [
        NodeRecord(
            key,
            keys.get(uri.parent, 0),
            uri.name,
            Kind.FILE if uri.name.endswith(".md") else Kind.DIRECTORY,
            ContextType.RESOURCE,
            update_us=to_us(facts.get(str(uri), {}).get("updated_at")),
            active_count=facts.get(str(uri), {}).get("active_count", 0),
            rows=tuple(rows.get(str(uri), ())),
        )
        for uri, key in keys.items()
    ]
    return build_snapshot(records, revision=1, dimensions=2)


class RecordedReranker:
    """Answers with the recorded scores by text, which is the row's URI, and counts."""

    def __init__(self, snapshot: Snapshot, answers: dict[str, float]) -> None:
        self.snapshot, self.answers = snapshot, answers
        self.n_calls = self.n_rows = 0

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        self.n_calls += 1
        self.n_rows += len(rows)
        uris = [self.snapshot.uri(int(self.snapshot.rows.node[row])) for row in rows]
        return np.array([self.answers[uri] for uri in uris], np.float32)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["case"]))
def test_classic_answers_as_recorded(case: dict) -> None:
    """Same URIs in the same order, scores to 4 decimals, same directories opened in the same order."""
    params = case["params"]
    snapshot = snapshot_of(case)
    reranker = RecordedReranker(snapshot, case["rerank"]) if case["rerank"] is not None else None
    request = RetrieveRequest(
        query=Query(vector=np.array([1, 0], np.float32)),
        scope=Scope(target_uris=(case["target"],)),
        filter=Filter(levels=frozenset(Level(level) for level in params["level"] or ())),
        limit=params["limit"],
        mode=Mode[params["mode"].upper()],
        options=RetrieveOptions(
            profile=Profile.CLASSIC,
            score_threshold=params["score_threshold"],
            score_gte=params["score_gte"],
            score_propagation_alpha=params["score_propagation_alpha"],
            hotness_alpha=params["hotness_alpha"],
            rerank_scope=RerankScope.EACH_LEVEL,
            max_rerank_documents=1000,
        ),
        trace_level=TraceLevel.STEPS,
    )
    kind = Retrieval if reranker is None or request.mode == Mode.QUICK else RerankedRetrieval
    retrieval = kind(snapshot, request, LOCAL, vector=request.query.vector, now_us=NOW_US)
    while not retrieval.advance(max_rounds=1):
        if isinstance(retrieval, RerankedRetrieval) and reranker is not None and retrieval.wanted is not None:
            retrieval.supply(RerankAnswer(reranker(retrieval.wanted)))
    result = retrieval.result()
    expected = case["expected"]
    assert [match.display_uri for match in result.matches] == [uri for uri, _ in expected["matches"]]
    # a float32 cosine may lie on the other side of the fourth decimal's rounding edge
    assert [match.score for match in result.matches] == pytest.approx(
        [score for _, score in expected["matches"]], abs=6e-5
    )
    assert [step.uri for step in result.steps] == expected["expanded"]
    if reranker is not None:
        assert (reranker.n_calls, reranker.n_rows) == (case["rerank_calls"], case["rerank_documents"])
