"""Explain over the wire: one case for each verdict, and the access rules of Retrieve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf import timestamp_pb2

from tests.server.details import reason_of, violations_of
from tests.server.fakes import START_US
from tests.server.test_contexts_rpc import R, packed, put, refused
from tests.server.test_retrieve_rpc import OWN, QUERY, fill
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context, Scope

if TYPE_CHECKING:
    from tests.server.conftest import Stubs
    from tests.server.fakes import FakeClock

NARROW = pb.RetrieveOptions(
    score_propagation_alpha=1.0, lexical_weight=0.0, global_top_k=0, leaf_seeds=0, parallelism=1, convergence_rounds=1
)


async def explain(stubs: Stubs, uri: str, **request: Any) -> pb.ExplainResponse:
    """Explain a URI in a request with own scores."""
    request.setdefault("query", QUERY)
    request.setdefault("options", OWN)
    return await stubs.retrieval.Explain(pb.ExplainRequest(request=pb.RetrieveRequest(**request), uri=uri))


async def test_a_match_is_told_with_the_numbers_of_the_answer(stubs: Stubs) -> None:
    """users.md 55 (issue 43): the path from the root with every score, consistent with the answer."""
    await fill(stubs)
    options = pb.RetrieveOptions(lexical_weight=0.0)
    answer = await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=QUERY, options=options))
    for rank, match in enumerate(answer.matches, 1):
        told = await explain(stubs, match.context.uri, options=options)
        assert (told.verdict, told.rank) == (pb.VERDICT_RETURNED, rank)
        assert told.path[-1].parts == match.parts
        assert [step.uri for step in told.path[:-1]] == [ancestor.uri for ancestor in match.ancestors]
        assert told.exhaustive_rank == rank
        assert told.summary.startswith(f"It is match {rank} of {len(answer.matches)}")
    told = await explain(stubs, f"{R}/a/1.md", options=options)
    top, directory, file = told.path
    assert directory.parts.relevance == pytest.approx(file.parts.parent, abs=1e-6)
    assert (top.expanded, directory.expanded, file.expanded) == (True, True, False)
    assert directory.HasField("step_index")
    assert not file.HasField("round")
    assert (directory.sibling_rank, directory.sibling_count) == (1, 2)
    assert (file.sibling_rank, file.sibling_count) == (1, 2)
    assert not top.HasField("parts")


async def test_verdicts(stubs: Stubs, clock: FakeClock) -> None:
    await fill(stubs)
    soon = timestamp_pb2.Timestamp(seconds=START_US // 1_000_000 + 60)
    await put(
        stubs,
        Context(uri=f"{R}/b/old.md", content="old", vectors=[packed(0.9)], expire_time=soon),
        Context(uri=f"{R}/empty", kind=1),
    )
    clock.us += 61_000_000
    only_tagged = context_pb2.Filter(tags={"x": "1"})
    cases = [
        (f"{R}/a/1.md", {}, pb.VERDICT_RETURNED, "match 1 of"),
        (f"{R}/b/4.md", {"limit": 2}, pb.VERDICT_OUTRANKED, "the last of 2 matches"),
        (f"{R}/b/4.md", {"limit": 2, "mode": pb.RETRIEVE_MODE_QUICK}, pb.VERDICT_OUTRANKED, "the last of 2 matches"),
        (
            f"{R}/b/4.md",
            {"options": pb.RetrieveOptions(score_threshold=0.5, score_propagation_alpha=1, lexical_weight=0)},
            pb.VERDICT_BELOW_THRESHOLD,
            "does not pass the threshold, 0.5",
        ),
        (f"{R}/b/4.md", {"filter": only_tagged}, pb.VERDICT_FILTERED_OUT, "tags"),
        (f"{R}/b/old.md", {}, pb.VERDICT_FILTERED_OUT, "expired"),
        (f"{R}/b/3.md", {"filter": context_pb2.Filter(exclude_uris=[f"{R}/b"])}, pb.VERDICT_FILTERED_OUT, f"{R}/b"),
        (f"{R}/a", {"filter": context_pb2.Filter(levels=[context_pb2.LEVEL_DETAIL])}, pb.VERDICT_FILTERED_OUT, "level"),
        (f"{R}/a/1.md", {"query": pb.Query(like_uri=f"{R}/a/1.md")}, pb.VERDICT_FILTERED_OUT, "the query names"),
        (f"{R}/b/3.md", {"scope": Scope(target_uris=[f"{R}/a"])}, pb.VERDICT_OUT_OF_SCOPE, f"{R}/a"),
        (f"{R}/b/3.md", {"scope": Scope(types=[context_pb2.CONTEXT_TYPE_SKILL])}, pb.VERDICT_OUT_OF_SCOPE, "searched"),
        (
            f"{R}/b/3.md",
            {"scope": Scope(types=[context_pb2.CONTEXT_TYPE_MEMORY], target_uris=[R])},
            pb.VERDICT_OUT_OF_SCOPE,
            "another type",
        ),
        (f"{R}/empty", {}, pb.VERDICT_NOT_INDEXED, "no text"),
    ]
    for uri, request, verdict, words in cases:
        told = await explain(stubs, uri, **request)
        assert (pb.Verdict.Name(told.verdict), words in told.summary) == (pb.Verdict.Name(verdict), True), told.summary
        assert told.path[-1].uri == uri
        assert told.revision == 2


async def test_a_way_that_was_not_taken_is_named(stubs: Stubs) -> None:
    """users.md 55 (issue 1195): why a file that matches best was not found, and where the descent stopped."""
    await put(
        stubs,
        Context(uri=f"{R}/good", kind=1, abstract="good", vectors=[packed(0.9, context_pb2.LEVEL_ABSTRACT)]),
        *(Context(uri=f"{R}/good/{i}.md", content="x", vectors=[packed(0.8 - i / 100)]) for i in range(4)),
        Context(uri=f"{R}/good/deep", kind=1, abstract="deep", vectors=[packed(0.85, context_pb2.LEVEL_ABSTRACT)]),
        Context(uri=f"{R}/good/deep/x.md", content="x", vectors=[packed(0.1)]),
        Context(uri=f"{R}/bad", kind=1, abstract="bad", vectors=[packed(0.2, context_pb2.LEVEL_ABSTRACT)]),
        Context(uri=f"{R}/bad/hidden.md", content="x", vectors=[packed(0.99)]),
    )
    scope = Scope(target_uris=[R])
    told = await explain(stubs, f"{R}/bad/hidden.md", options=NARROW, limit=2, scope=scope)
    assert told.verdict == pb.VERDICT_NOT_REACHED
    assert told.blocked_uri == f"{R}/bad"
    assert told.blocked_score == pytest.approx(0.2, abs=1e-6)
    assert told.stop_reason == pb.STOP_REASON_CONVERGED
    assert told.exhaustive_rank == 1
    assert told.directories_expanded > 0
    assert f"before it opened {R}/bad, which waited with the relevance 0.2000" in told.summary
    assert [step.expanded for step in told.path] == [True, False, False]
    assert told.path[-1].parts.own == pytest.approx(0.99, abs=1e-6)


async def test_access_is_decided_by_uri_alone(stubs: Stubs) -> None:
    await fill(stubs)
    for uri in ("viking://user/bob/memories/x.md", "viking://user/bob"):
        error = await refused(explain(stubs, uri))
        assert error.code() == grpc.StatusCode.PERMISSION_DENIED
        assert violations_of(error) == {"uri": "PERMISSION_DENIED"}
    error = await refused(explain(stubs, f"{R}/nothing"))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.NOT_FOUND, "CONTEXT_NOT_FOUND")
    assert [step.uri for step in (await explain(stubs, "viking://~/memories/m.md")).path] == [
        "viking://user/default",
        "viking://user/default/memories",
        "viking://user/default/memories/m.md",
    ]


async def test_all_violations_are_told_by_field_path(stubs: Stubs) -> None:
    error = await refused(stubs.retrieval.Explain(pb.ExplainRequest()))
    assert violations_of(error) == {"request": "REQUIRED", "uri": "INVALID_URI"}
    error = await refused(explain(stubs, "viking://", limit=-1, query=pb.Query()))
    assert violations_of(error) == {
        "uri": "INVALID_URI",
        "request.limit": "OUT_OF_RANGE",
        "request.query": "EMPTY_QUERY",
    }


async def test_levels_of_a_directory_are_accepted(stubs: Stubs) -> None:
    await fill(stubs)
    assert (await explain(stubs, f"{R}/a/.abstract.md")).path[-1].uri == f"{R}/a"
