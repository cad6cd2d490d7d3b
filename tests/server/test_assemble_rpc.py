"""AssembleContext over the wire: one text for a prompt, made of what Retrieve or Search finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from tests.server.details import violations_of
from tests.server.test_contexts_rpc import R, packed, put, refused
from tests.server.test_retrieve_rpc import OWN, QUERY, fill
from viking_rpc.domain.tokens import estimate_tokens
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context, Scope

if TYPE_CHECKING:
    from tests.server.conftest import Stubs

CJK = "\u4ee4\u724c\u6bcf\u5929\u8f6e\u6362\u4e00\u6b21\u3002"


async def assemble(
    stubs: Stubs, max_tokens: int = 0, exclude_uris: tuple[str, ...] = (), **retrieve: Any
) -> pb.AssembleContextResponse:
    """Assemble what Retrieve finds with own scores."""
    retrieve.setdefault("query", QUERY)
    retrieve.setdefault("options", OWN)
    message = pb.AssembleContextRequest(
        retrieve=pb.RetrieveRequest(**retrieve), max_tokens=max_tokens, exclude_uris=exclude_uris
    )
    return await stubs.retrieval.AssembleContext(message)


def entries(response: pb.AssembleContextResponse) -> list[str]:
    """Return the URIs of the entries."""
    return [entry.uri for entry in response.entries]


async def test_matches_become_one_text(stubs: Stubs) -> None:
    await fill(stubs)
    made = await assemble(stubs, limit=4)
    assert entries(made) == [f"{R}/a/1.md", f"{R}/b/3.md", "viking://user/default/memories/m.md", f"{R}/a"]
    assert [entry.level for entry in made.entries] == [3, 3, 3, 1]
    assert all(word in made.text for word in ("one", "three", "five", "about a", "about b"))
    assert made.text.startswith("<context>\n")
    assert made.stats.used_tokens == estimate_tokens(made.text)
    assert (made.stats.max_tokens, made.stats.matched_count, made.stats.detail_count) == (2_000, 4, 3)
    assert made.revision == 1
    assert made.empty_reason == pb.EMPTY_REASON_UNSPECIFIED


async def test_a_small_budget_of_cjk_holds_and_the_next_turn_tells_others(stubs: Stubs) -> None:
    """users.md 73 (pull 3534): 600 tokens with CJK text; what was shown before is excluded, others take its place."""
    await put(
        stubs,
        *(
            Context(
                uri=f"{R}/{i}.md", abstract=CJK * 2 + str(i), content=f"{i}" + CJK * 90, vectors=[packed(0.9 - i / 20)]
            )
            for i in range(12)
        ),
    )
    first = await assemble(stubs, 600, limit=5)
    assert 300 < estimate_tokens(first.text) <= 600
    assert all(entry.tokens <= 600 for entry in first.entries)
    assert entries(first) == [f"{R}/{i}.md" for i in range(5)]
    second = await assemble(stubs, 600, tuple(entries(first)), limit=5)
    assert entries(second) == [f"{R}/{i}.md" for i in range(5, 10)]
    assert second.stats.excluded_count == 5


async def test_a_search_is_assembled_too(stubs: Stubs) -> None:
    await fill(stubs)
    plan = pb.QueryPlan(queries=[pb.TypedQuery(query="x", target_uris=[f"{R}/a"]), pb.TypedQuery(query="y")])
    search = pb.SearchRequest(plan=plan, limit=20)
    made = await stubs.retrieval.AssembleContext(pb.AssembleContextRequest(search=search))
    assert f"{R}/a/1.md" in entries(made)
    assert len(entries(made)) == len(set(entries(made)))
    talk = pb.SearchRequest(planning=pb.PlanRequest(task="thanks!"))
    made = await stubs.retrieval.AssembleContext(pb.AssembleContextRequest(search=talk))
    assert (made.text, made.empty_reason) == ("", pb.EMPTY_REASON_PLAN_SKIPPED)


async def test_nothing_to_tell_says_why(stubs: Stubs) -> None:
    """users.md 55 (issue 1576)."""
    made = await assemble(stubs)
    assert (made.text, made.empty_reason) == ("", pb.EMPTY_REASON_NO_CONTEXTS)
    await fill(stubs)
    made = await assemble(stubs, exclude_uris=(f"{R}/b/3.md",), scope=Scope(target_uris=[f"{R}/b/3.md"]))
    assert (made.text, made.empty_reason) == ("", pb.EMPTY_REASON_FILTERED_OUT)
    assert made.stats.excluded_count == 1


async def test_all_violations_are_told_by_field_path(stubs: Stubs) -> None:
    error = await refused(stubs.retrieval.AssembleContext(pb.AssembleContextRequest(max_tokens=10)))
    assert violations_of(error) == {"source": "REQUIRED", "max_tokens": "OUT_OF_RANGE"}
    error = await refused(assemble(stubs, 300_000, ("nothing", f"{R}/a"), limit=-1))
    assert violations_of(error) == {
        "retrieve.limit": "OUT_OF_RANGE",
        "max_tokens": "OUT_OF_RANGE",
        "exclude_uris[0]": "INVALID_URI",
    }
    search = pb.SearchRequest(plan=pb.QueryPlan(queries=[pb.TypedQuery(query="")]), limit=-1)
    error = await refused(stubs.retrieval.AssembleContext(pb.AssembleContextRequest(search=search)))
    assert violations_of(error) == {"search.limit": "OUT_OF_RANGE", "search.plan.queries[0].query": "EMPTY_QUERY"}
    error = await refused(assemble(stubs, scope=Scope(target_uris=["viking://user/bob"])))
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED


async def test_what_has_no_text_is_named_and_the_rest_told(stubs: Stubs) -> None:
    """users.md 40 (pull 4261): a context without texts is named, and the rest is told."""
    await fill(stubs)
    await put(stubs, Context(uri=f"{R}/bare.md", vectors=[packed(0.99)]))
    made = await assemble(stubs, limit=3)
    assert list(made.more_uris) == [f"{R}/bare.md"]
    assert len(made.entries) == 2
    assert made.entries[0].type == context_pb2.CONTEXT_TYPE_RESOURCE
