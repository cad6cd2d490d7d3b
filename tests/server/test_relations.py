"""Relations in every answer that shows an abstract; and which parts of a score are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.conftest import calling, make_settings, serving
from tests.server.fakes import cosine
from tests.server.test_contexts_rpc import R, get, packed, put
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.pb.v1 import context_pb2, retrieval_service_pb2
from viking_rpc.pb.v1.context_pb2 import Context, Relation
from viking_rpc.pb.v1.context_service_pb2 import ListContextsRequest, MoveContextRequest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Stubs

VECTOR = context_pb2.Vector(packed=cosine(1.0).astype("<f4").tobytes())


async def matches(stubs: Stubs, **request: object) -> dict[str, retrieval_service_pb2.Match]:
    """Return every match by its URI."""
    request.setdefault("query", retrieval_service_pb2.Query(vector=VECTOR))
    response = await stubs.retrieval.Retrieve(retrieval_service_pb2.RetrieveRequest(limit=50, **request))
    return {match.context.uri: match for match in response.matches}


def related(context: Context) -> list[str]:
    """Return the URIs of a context's relations."""
    return [relation.uri for relation in context.relations]


@pytest.mark.parametrize("is_laid_out", [True, False])
@pytest.mark.parametrize("view", [0, 1, 2, 3, 4])
async def test_matches_have_relations_from_the_view_abstract_on(stubs: Stubs, view: int, is_laid_out: bool) -> None:
    if not is_laid_out:
        await put(stubs, Context(uri=f"{R}/first.md", content="x"))
    links = [Relation(uri=f"{R}/{i}", reason=f"reason {i}") for i in range(8)]
    await put(
        stubs,
        Context(uri=f"{R}/d", kind=1, abstract="about", relations=links[:1]),
        Context(uri=f"{R}/d/a.md", content="x", vectors=[packed(0.9)], relations=links),
        Context(uri=f"{R}/d/b.md", content="x", vectors=[packed(0.5)]),
    )
    answered = await matches(stubs, view=view)
    has_relations = view != context_pb2.CONTEXT_VIEW_BASIC
    assert related(answered[f"{R}/d/a.md"].context) == [link.uri for link in links[:5]] * has_relations
    assert related(answered[f"{R}/d/b.md"].context) == []
    assert all(related(above) == [] for above in answered[f"{R}/d/a.md"].ancestors)
    assert related(await get(stubs, f"{R}/d/a.md", view)) == [link.uri for link in links[:5]] * has_relations
    page = await stubs.contexts.ListContexts(ListContextsRequest(parent_uri=f"{R}/d", view=view))
    assert related(page.contexts[0]) == [link.uri for link in links[:5]] * has_relations


async def test_an_answer_follows_a_change_of_relations(stubs: Stubs) -> None:
    a = Context(uri=f"{R}/a.md", content="x", vectors=[packed(0.9)], relations=[Relation(uri=f"{R}/b/c")])
    await put(stubs, a, Context(uri=f"{R}/b/c", content="x"))
    assert related((await matches(stubs))[f"{R}/a.md"].context) == [f"{R}/b/c"]
    await stubs.contexts.MoveContext(MoveContextRequest(source_uri=f"{R}/b", destination_uri=f"{R}/new"))
    assert related((await matches(stubs))[f"{R}/a.md"].context) == [f"{R}/new/c"]
    await stubs.contexts.MoveContext(MoveContextRequest(source_uri=f"{R}/a.md", destination_uri=f"{R}/d/a.md"))
    assert related((await matches(stubs))[f"{R}/d/a.md"].context) == [f"{R}/new/c"]
    await put(stubs, Context(uri=f"{R}/d/a.md", content="x", vectors=[packed(0.9)]))
    assert related((await matches(stubs))[f"{R}/d/a.md"].context) == []


async def test_relations_to_what_may_not_be_read_are_left_out_before_the_cut(tmp_path: Path) -> None:
    identity = Identity("acme", "alice", Role.USER)
    links = [Relation(uri=f"viking://user/bob/memories/{i}") for i in range(6)] + [Relation(uri=f"{R}/shared")]
    async with serving(make_settings(tmp_path), resolve=lambda _: identity) as server, calling(server) as stubs:
        await put(stubs, Context(uri="viking://~/memories/a", content="x", vectors=[packed(0.9)], relations=links))
        found = await matches(stubs)
        assert related(found["viking://user/alice/memories/a"].context) == [f"{R}/shared"]


async def test_relations_survive_a_restart(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        link = Relation(uri=f"{R}/b", reason="\u5173\u7cfb")
        await put(stubs, Context(uri=f"{R}/a", content="x", vectors=[packed(0.9)], relations=[link]))
        server.runner.store.lay_out("default")
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        found = (await matches(stubs))[f"{R}/a"].context
        assert [(r.uri, r.reason) for r in found.relations] == [(f"{R}/b", "\u5173\u7cfb")]


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize(
    ("query", "has_lexical"),
    [
        (retrieval_service_pb2.Query(vector=VECTOR), False),
        (retrieval_service_pb2.Query(like_uri=f"{R}/b.md"), False),
        (retrieval_service_pb2.Query(vector=VECTOR, lexical_text="apple"), True),
        (retrieval_service_pb2.Query(vector=VECTOR, lexical_text="unknown"), True),
        (retrieval_service_pb2.Query(text="apple"), True),
    ],
)
async def test_a_query_without_text_has_no_lexical_part(
    stubs: Stubs, mode: int, query: retrieval_service_pb2.Query, has_lexical: bool
) -> None:
    await put(stubs, *(Context(uri=f"{R}/{name}.md", content="apple", vectors=[packed(0.9)]) for name in "ab"))
    match = (await matches(stubs, query=query, mode=mode))[f"{R}/a.md"]
    assert match.parts.HasField("lexical") is has_lexical
