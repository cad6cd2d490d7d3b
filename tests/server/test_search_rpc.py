"""Search over the wire: a plan run on one state, merged, with the provenance of every query."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import reason_of, violations_of
from tests.server.fakes import TableEmbedder
from tests.server.test_contexts_rpc import R, packed, put, refused
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import PlanResult, PlanStatus, QueryPlan, TypedQuery, fall_back
from viking_rpc.errors import UnavailableError
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import CONTEXT_TYPE_MEMORY, CONTEXT_TYPE_RESOURCE, CONTEXT_TYPE_SKILL, Context, Scope

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.domain.plan import PlanRequest

OWN = pb.RetrieveOptions(score_propagation_alpha=1.0, lexical_weight=0.0)
#: Cosines to [1, 0]: "one" points along it, "two" across.
TABLE = {"one": 1.0, "two": 0.0, "half": 0.7}
ME = "viking://user/default"


class Planner:
    """Answers every task with one result."""

    name = "fixed"

    def __init__(self, result: PlanResult | None = None) -> None:
        """Remember the result; None falls back."""
        self.result = result
        self.asked: list[PlanRequest] = []

    async def plan(self, request: PlanRequest, timeout_s: float | None = None) -> PlanResult:
        """Give the result."""
        del timeout_s
        self.asked.append(request)
        return self.result or fall_back(request, "the planner broke")

    def close(self) -> None:
        """Do nothing."""


class Moody(TableEmbedder):
    """Cannot embed one text."""

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Refuse "moody" and "cross"."""
        if text in {"moody", "cross"}:
            raise UnavailableError("EMBEDDER_UNAVAILABLE", "the embedder does not answer")
        return super().embed_query(text, timeout_s)


@pytest.fixture
def embedder() -> TableEmbedder:
    """Return an embedder that cannot embed one text."""
    return Moody(TABLE)


async def fill(stubs: Stubs) -> None:
    """Write resources, a memory and a skill, each by its cosine to "one"."""
    await put(
        stubs,
        Context(uri=f"{R}/a", kind=1, abstract="about a", vectors=[packed(0.5, context_pb2.LEVEL_ABSTRACT)]),
        Context(uri=f"{R}/a/1.md", content="text of one", abstract="1", vectors=[packed(0.95)]),
        Context(uri=f"{R}/a/2.md", content="text of two", abstract="2", vectors=[packed(0.05)]),
        Context(uri=f"{R}/a/3.md", content="text of three", abstract="3", vectors=[packed(0.7)]),
        Context(uri=f"{ME}/memories/m.md", content="memory", abstract="m", vectors=[packed(0.8)]),
        Context(uri="viking://agent/skills/s.md", content="skill", abstract="s", vectors=[packed(0.6)]),
    )


@pytest.fixture
async def filled(stubs: Stubs) -> Stubs:
    """Fill the server."""
    await fill(stubs)
    return stubs


def query(text: str, kind: int = 0, priority: int = 0, *targets: str) -> pb.TypedQuery:
    """Make a query of a plan."""
    return pb.TypedQuery(query=text, type=kind, priority=priority, target_uris=targets)  # type: ignore[arg-type]


async def search(stubs: Stubs, *queries: pb.TypedQuery, **request: Any) -> pb.SearchResponse:
    """Search with a plan and with own scores; files only."""
    request.setdefault("options", OWN)
    request.setdefault("filter", context_pb2.Filter(levels=[context_pb2.LEVEL_DETAIL]))
    plan = request.pop("plan", pb.QueryPlan(queries=queries, reasoning="because"))
    return await stubs.retrieval.Search(pb.SearchRequest(plan=plan, **request))


def uris(response: pb.SearchResponse) -> list[str]:
    """Return the URIs of the matches."""
    return [match.match.context.uri for match in response.matches]


async def test_queries_are_merged_by_weighted_reciprocal_rank(filled: Stubs) -> None:
    """Every score is the sum over queries of weight / (k + rank); one entry for each context."""
    response = await search(
        filled,
        query("one", CONTEXT_TYPE_RESOURCE, 1),
        query("two", CONTEXT_TYPE_RESOURCE, 3),
        merge=pb.MergeOptions(rrf_k=4),
    )
    first = [f"{R}/a/1.md", f"{R}/a/3.md", f"{R}/a/2.md"]
    assert [list(result.uris) for result in response.query_results] == [first, first[::-1]]
    expected = {
        first[0]: 1 / 5 + 0.25 / 7,
        first[1]: 1 / 6 + 0.25 / 6,
        first[2]: 1 / 7 + 0.25 / 5,
    }
    assert {m.match.context.uri: m.match.score for m in response.matches} == pytest.approx(expected)
    assert uris(response) == sorted(expected, key=lambda uri: -expected[uri])
    assert [list(match.query_indexes) for match in response.matches] == [[0, 1]] * 3
    assert response.total_matched == 3


async def test_the_best_rank_of_a_match_is_shown(filled: Stubs) -> None:
    response = await search(filled, query("one", CONTEXT_TYPE_RESOURCE), query("two", CONTEXT_TYPE_RESOURCE))
    parts = {m.match.context.uri: m.match.parts.dense for m in response.matches}
    assert parts[f"{R}/a/1.md"] == pytest.approx(0.95, abs=1e-6)
    assert parts[f"{R}/a/2.md"] == pytest.approx((1 - 0.05**2) ** 0.5, abs=1e-6)


async def test_weights_and_k_are_the_callers_to_set(filled: Stubs) -> None:
    queries = query("one", CONTEXT_TYPE_RESOURCE, 1), query("two", CONTEXT_TYPE_RESOURCE, 5)
    last_only = pb.MergeOptions(rrf_k=0, priority_weights=[0, 0, 0, 0, 1])
    response = await search(filled, *queries, merge=last_only)
    assert uris(response) == [f"{R}/a/2.md", f"{R}/a/3.md", f"{R}/a/1.md"]
    assert [m.match.score for m in response.matches] == pytest.approx([1, 1 / 2, 1 / 3])


async def test_matches_are_grouped_by_type_and_types_choose_the_roots(filled: Stubs) -> None:
    """users.md 14 (issue 216): a context that two queries find is one entry, in one group."""
    response = await search(
        filled,
        query("one", CONTEXT_TYPE_MEMORY),
        query("one", CONTEXT_TYPE_SKILL),
        query("one", CONTEXT_TYPE_RESOURCE),
        query("half"),
    )
    found = uris(response)
    assert len(found) == len(set(found)) == 5
    assert [found[i] for i in response.memories] == [f"{ME}/memories/m.md"]
    assert [found[i] for i in response.skills] == ["viking://agent/skills/s.md"]
    assert sorted(found[i] for i in response.resources) == [f"{R}/a/{i}.md" for i in (1, 2, 3)]
    assert [list(result.searched_roots) for result in response.query_results] == [
        [ME],
        [f"{ME}/skills", "viking://agent/skills"],
        [R, ME],
        [ME, R],
    ]


async def test_a_querys_targets_stand_in_place_of_the_requests(filled: Stubs) -> None:
    response = await search(
        filled, query("one", 0, 0, f"{ME}/memories"), query("one"), scope=Scope(target_uris=[f"{R}/a"])
    )
    assert [list(result.searched_roots) for result in response.query_results] == [[f"{ME}/memories"], [f"{R}/a"]]


async def test_equal_searches_give_equal_orders(filled: Stubs) -> None:
    """users.md 16 (issue 204) and 32 (pull 2155): ties go by URI, and no order depends on what ends first."""
    for i in range(8):
        await put(filled, Context(uri=f"{R}/t/{7 - i}.md", content="tie", vectors=[packed(0.9)]))
    queries = [query("one", CONTEXT_TYPE_RESOURCE, 1), query("half", CONTEXT_TYPE_RESOURCE, 1)]
    answers = {tuple(uris(await search(filled, *queries))) for _ in range(10)}
    assert len(answers) == 1
    ties = [uri for uri in answers.pop() if "/t/" in uri]
    assert ties == sorted(ties)
    mirrored = uris(await search(filled, *queries[::-1]))
    assert mirrored == uris(await search(filled, *queries))


async def test_one_limit_holds_over_all_queries(filled: Stubs) -> None:
    response = await search(filled, query("one"), query("two"), limit=2)
    assert len(response.matches) == 2
    assert all(len(result.uris) == 2 for result in response.query_results)
    assert response.total_matched == 4


async def test_provenance_has_stats_and_steps_by_trace_level(filled: Stubs) -> None:
    response = await search(filled, query("one"), query("two"), trace_level=pb.TRACE_LEVEL_NONE)
    assert not any(result.HasField("stats") for result in response.query_results)
    response = await search(filled, query("one"), query("two"))
    assert all(result.stats.rows_scored for result in response.query_results)
    assert not any(result.steps for result in response.query_results)
    assert response.HasField("total_duration")
    response = await search(filled, query("one"), query("two"), trace_level=pb.TRACE_LEVEL_STEPS)
    assert all(len(result.steps) > 2 for result in response.query_results)


async def test_a_row_budget_is_shared(filled: Stubs) -> None:
    options = pb.RetrieveOptions(max_scored_rows=12, global_top_k=0, leaf_seeds=0)
    alone = await search(filled, query("one"), options=options)
    shared = await search(filled, *(query("one") for _ in range(4)), options=options)
    assert alone.query_results[0].stats.stop_reason == pb.STOP_REASON_EXHAUSTED
    assert [result.stats.stop_reason for result in shared.query_results] == [pb.STOP_REASON_BUDGET] * 4


async def test_a_view_adds_texts_after_the_merge(filled: Stubs) -> None:
    response = await search(filled, query("one"), limit=1, view=context_pb2.CONTEXT_VIEW_FULL)
    assert response.matches[0].match.context.content == "text of one"


async def test_empty_answers_say_why(stubs: Stubs) -> None:
    """users.md 55 (issue 1576): the reason of the query that came furthest."""
    response = await search(stubs, query("one"), query("two"))
    assert response.empty_reason == pb.EMPTY_REASON_NO_CONTEXTS
    await fill(stubs)
    options = pb.RetrieveOptions(score_threshold=2.0)
    response = await search(stubs, query("one"), query("two", 0, 0, f"{ME}/skills"), options=options)
    assert response.empty_reason == pb.EMPTY_REASON_BELOW_THRESHOLD
    assert [result.empty_reason for result in response.query_results] == [
        pb.EMPTY_REASON_BELOW_THRESHOLD,
        pb.EMPTY_REASON_NO_CONTEXTS,
    ]


async def test_a_query_that_cannot_be_embedded_does_not_fail_the_others(filled: Stubs) -> None:
    """users.md 40 (pull 4261): what fails for one is told, and the rest is valid."""
    response = await search(filled, query("moody"), query("one"))
    assert len(response.matches) > 2
    assert [[w.reason for w in result.warnings] for result in response.query_results] == [["QUERY_FAILED"], []]
    error = await refused(search(filled, query("moody"), query("cross")))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAVAILABLE, "EMBEDDER_UNAVAILABLE")


async def test_all_violations_are_told_by_field_path(filled: Stubs) -> None:
    bad = pb.SearchRequest(
        plan=pb.QueryPlan(
            queries=[
                query("one"),
                query(" ", 9, 6),
                query("x" * 9000, 0, -1, "http://nowhere", "viking://resources/../x"),
            ]
        ),
        limit=-1,
        options=pb.RetrieveOptions(hotness_alpha=3),
        scope=Scope(target_uris=["resources"]),
        filter=context_pb2.Filter(exclude_uris=["nothing"]),
        merge=pb.MergeOptions(rrf_k=-1, priority_weights=[1, 2]),
    )
    assert violations_of(await refused(filled.retrieval.Search(bad))) == {
        "limit": "OUT_OF_RANGE",
        "options.hotness_alpha": "OUT_OF_RANGE",
        "filter.exclude_uris[0]": "INVALID_URI",
        "scope.target_uris[0]": "INVALID_URI",
        "plan.queries[1].query": "EMPTY_QUERY",
        "plan.queries[1].type": "UNKNOWN_VALUE",
        "plan.queries[1].priority": "OUT_OF_RANGE",
        "plan.queries[2].query": "TOO_LONG",
        "plan.queries[2].priority": "OUT_OF_RANGE",
        "plan.queries[2].target_uris[0]": "INVALID_URI",
        "plan.queries[2].target_uris[1]": "INVALID_URI",
        "merge.rrf_k": "OUT_OF_RANGE",
        "merge.priority_weights": "WRONG_COUNT",
    }


@pytest.mark.parametrize(
    ("request_", "violations"),
    [
        (pb.SearchRequest(), {"source": "REQUIRED"}),
        (pb.SearchRequest(plan=pb.QueryPlan()), {"plan.queries": "REQUIRED"}),
        (pb.SearchRequest(plan=pb.QueryPlan(queries=[query("a")] * 6)), {"plan.queries": "TOO_MANY"}),
        (
            pb.SearchRequest(planning=pb.PlanRequest(max_queries=-1)),
            {"planning.task": "EMPTY_TASK", "planning.max_queries": "OUT_OF_RANGE"},
        ),
        (
            pb.SearchRequest(
                plan=pb.QueryPlan(queries=[query("a", CONTEXT_TYPE_SKILL)]), scope=Scope(types=[CONTEXT_TYPE_MEMORY])
            ),
            {"plan.queries[0].type": "CONTRADICTION"},
        ),
        (
            pb.SearchRequest(
                plan=pb.QueryPlan(queries=[query("a")]), merge=pb.MergeOptions(priority_weights=[0, 0, -1, 0, 0])
            ),
            {"merge.priority_weights[2]": "OUT_OF_RANGE"},
        ),
    ],
)
async def test_what_cannot_be_searched_is_refused(
    stubs: Stubs, request_: pb.SearchRequest, violations: dict[str, str]
) -> None:
    assert violations_of(await refused(stubs.retrieval.Search(request_))) == violations


async def test_every_target_that_may_not_be_read_is_told(filled: Stubs) -> None:
    error = await refused(
        search(
            filled,
            query("one", 0, 0, "viking://user/bob/x", f"{R}/a"),
            query("one", 0, 0, f"{R}/a", "viking://user/eve"),
            scope=Scope(target_uris=["viking://user/mallory"]),
        )
    )
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED
    assert violations_of(error) == {
        "scope.target_uris[0]": "PERMISSION_DENIED",
        "plan.queries[0].target_uris[0]": "PERMISSION_DENIED",
        "plan.queries[1].target_uris[1]": "PERMISSION_DENIED",
    }
    error = await refused(search(filled, query("one", 0, 0, f"{R}/nothing")))
    assert (error.code(), reason_of(error)) == (grpc.StatusCode.NOT_FOUND, "CONTEXT_NOT_FOUND")


async def test_a_search_waits_for_a_revision(filled: Stubs) -> None:
    first = await search(filled, query("one"))
    waiting = asyncio.ensure_future(search(filled, query("one"), min_revision=first.revision + 1))
    await put(filled, Context(uri=f"{R}/new.md", content="new", vectors=[packed(0.99)]))
    assert (await waiting).revision == first.revision + 1
    error = await refused(
        filled.retrieval.Search(
            pb.SearchRequest(plan=pb.QueryPlan(queries=[query("one")]), min_revision=99), timeout=0.3
        )
    )
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED


# -- with a planner


def planned(*queries: TypedQuery) -> PlanResult:
    """Return what a planner made."""
    return PlanResult(QueryPlan(queries, "because"), PlanStatus.PLANNED)


async def plan_and_search(tmp_path: Path, planner: Planner | None, **request: Any) -> pb.SearchResponse:
    """Search for a task with a planner."""
    parts = {"planner": planner} if planner is not None else {}
    settings = make_settings(tmp_path)
    async with (
        serving(settings, embedder=TableEmbedder(TABLE), **parts) as server,
        calling(server) as stubs,
    ):
        await fill(stubs)
        planning = request.pop("planning", pb.PlanRequest(task="one"))
        return await stubs.retrieval.Search(pb.SearchRequest(planning=planning, options=OWN, **request))


async def test_a_task_is_planned_and_its_plan_is_told(tmp_path: Path) -> None:
    planner = Planner(planned(TypedQuery("one", priority=1), TypedQuery("two", ContextType.SKILL)))
    response = await plan_and_search(tmp_path, planner, scope=Scope(types=[]))
    assert response.plan_status == pb.PLAN_STATUS_PLANNED
    assert [q.query for q in response.plan.queries] == ["one", "two"]
    assert response.plan.reasoning == "because"
    assert len(response.query_results) == 2
    assert response.matches


async def test_a_skipped_plan_is_an_empty_answer(tmp_path: Path) -> None:
    """users.md 55 (issue 1184): nothing to look up is no failure, and says so."""
    result = PlanResult(QueryPlan(reasoning="small talk"), PlanStatus.SKIPPED)
    response = await plan_and_search(tmp_path, Planner(result))
    assert (len(response.matches), response.empty_reason) == (0, pb.EMPTY_REASON_PLAN_SKIPPED)
    assert (response.plan_status, response.plan.reasoning) == (pb.PLAN_STATUS_SKIPPED, "small talk")
    assert not response.query_results
    assert response.revision == 1


async def test_a_planner_that_fails_never_fails_a_search(tmp_path: Path) -> None:
    """The task itself is the one query, with a Warning."""
    response = await plan_and_search(tmp_path, Planner())
    assert response.plan_status == pb.PLAN_STATUS_FALLBACK
    assert [q.query for q in response.plan.queries] == ["one"]
    assert [warning.reason for warning in response.warnings] == ["PLAN_FALLBACK"]
    assert response.matches[0].match.context.uri == f"{R}/a/1.md"


async def test_targets_that_a_planner_made_up_are_dropped(tmp_path: Path) -> None:
    """Neither what does not exist, nor what the caller may not read, nor what lies outside of the request's scope."""
    made_up = (f"{R}/nothing", "viking://user/bob", "nonsense", f"{ME}/memories", f"{R}/a")
    planner = Planner(planned(TypedQuery("one", target_uris=made_up), TypedQuery("two", target_uris=made_up[:2])))
    response = await plan_and_search(tmp_path, planner, scope=Scope(target_uris=[R]))
    assert [list(q.target_uris) for q in response.plan.queries] == [[f"{R}/a"], []]
    assert [list(result.searched_roots) for result in response.query_results] == [[f"{R}/a"], [R]]
    assert [warning.reason for warning in response.warnings] == ["PLAN_TARGET_DROPPED"]


async def test_the_scope_reaches_the_planner(tmp_path: Path) -> None:
    planner = Planner()
    await plan_and_search(tmp_path, planner, scope=Scope(target_uris=[f"{R}/a"]))
    assert planner.asked[0].target_abstract == "about a"
    planner = Planner()
    planning = pb.PlanRequest(task="one", scope=Scope(target_uris=[f"{R}/a"]))
    response = await plan_and_search(tmp_path / "other", planner, planning=planning)
    assert list(response.query_results[0].searched_roots) == [f"{R}/a"]


async def test_the_raw_task_is_among_what_the_embedded_planner_searches(tmp_path: Path) -> None:
    task = "How do I rotate the access token of the billing service?"
    response = await plan_and_search(tmp_path, None, planning=pb.PlanRequest(task=task))
    assert response.plan_status == pb.PLAN_STATUS_PLANNED
    assert task in [q.query for q in response.plan.queries]
    response = await plan_and_search(tmp_path / "talk", None, planning=pb.PlanRequest(task="thanks!"))
    assert response.empty_reason == pb.EMPTY_REASON_PLAN_SKIPPED
