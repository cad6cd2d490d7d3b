"""Retrieve page by page and by groups over the wire: tokens are bound to the request, and say what they cannot keep."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.conftest import calling
from tests.server.details import violations_of
from tests.server.fakes import TableEmbedder
from tests.server.test_client import Caller, caller, kind
from tests.server.test_contexts_rpc import R, packed, put, refused
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.query import Grouping, Page, RetrieveOptions
from viking_rpc.pb.v1 import context_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.server.pages import make_page_token, read_page_token

if TYPE_CHECKING:
    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.errors import Violation
    from viking_rpc.server.app import Server

__all__ = ["caller", "kind"]  # fixtures

OWN = {"score_propagation_alpha": 1.0, "lexical_weight": 0.0}
N = 25


@pytest.fixture
def embedder() -> TableEmbedder:
    """Return an embedder of two texts."""
    return TableEmbedder({"one": 1.0, "half": 0.5})


@pytest.fixture
async def filled(server: Server) -> Server:
    """Write files of two directories; five have the same score."""
    async with calling(server) as stubs:
        scores = [0.9] * 5 + [0.85 - i / 50 for i in range(N - 5)]
        await put(
            stubs,
            *(
                Context(uri=f"{R}/{'ab'[i % 2]}/{i:02}.md", content=f"{i}", vectors=[packed(x)])
                for i, x in enumerate(scores)
            ),
        )
    return server


def asking(text: str = "one", **fields: Any) -> pb.RetrieveRequest:
    """Ask for files."""
    levels = context_pb2.Filter(levels=[context_pb2.LEVEL_DETAIL])
    return pb.RetrieveRequest(
        query=pb.Query(text=text),
        options=pb.RetrieveOptions(**OWN, **fields.pop("options", {})),
        filter=levels,
        **fields,
    )


def uris(response: pb.RetrieveResponse) -> list[str]:
    """Return the URIs of the matches."""
    return [match.context.uri for match in response.matches]


@pytest.mark.parametrize("mode", [pb.RETRIEVE_MODE_QUICK, pb.RETRIEVE_MODE_THINKING])
async def test_all_pages_hold_every_match_once(filled: Server, mode: int) -> None:
    """Users: letta issues/405. Page sizes may differ, ties may lie on a border."""
    async with calling(filled) as stubs:
        whole = await stubs.retrieval.Retrieve(asking(limit=1000, mode=mode))
        assert (len(whole.matches), whole.next_page_token) == (N, "")
        told: list[str] = []
        token = ""
        for limit in (3, 1, 7, 10, 10):
            response = await stubs.retrieval.Retrieve(asking(limit=limit, mode=mode, page_token=token, view=2))
            told += uris(response)
            token = response.next_page_token
            if not token:
                break
    assert told == uris(whole)


async def test_a_token_is_of_one_request_of_one_caller(filled: Server) -> None:
    async with calling(filled) as stubs:
        token = (await stubs.retrieval.Retrieve(asking(limit=2))).next_page_token
        others = [
            asking("half", page_token=token),
            asking(mode=pb.RETRIEVE_MODE_QUICK, page_token=token),
            asking(options={"score_threshold": 0.5}, page_token=token),
            asking(scope=context_pb2.Scope(target_uris=[f"{R}/a"]), page_token=token),
            asking(grouping=pb.Grouping(max_per_group=1), page_token=token),
            asking(page_token="no token"),
            asking(page_token=token[:7]),
            asking(page_token=base64.urlsafe_b64encode(base64.urlsafe_b64decode(token + "==")[:20] + b"\xff").decode()),
        ]
        for request in others:
            error = await refused(stubs.retrieval.Retrieve(request))
            assert violations_of(error) == {"page_token": "INVALID_PAGE_TOKEN"}
        watched = [
            one
            async for one in stubs.retrieval.WatchRetrieve(pb.WatchRetrieveRequest(request=asking(page_token=token)))
        ]
    assert len(watched[-1].result.matches) == 10


@pytest.mark.parametrize(
    "other",
    [
        Identity(user="you"),
        Identity(user="me", account="b"),
        Identity(user="me", peer="p"),
        Identity(user="me", role=Role.ROOT),
    ],
)
def test_a_token_is_nobody_elses(other: Identity) -> None:
    request, page = asking(limit=3), Page(f"{R}/a/1.md", 3, 7)
    request.page_token = make_page_token(request, Identity(user="me"), page)
    found: list[Violation] = []
    assert read_page_token(request, Identity(user="me"), found) == page
    assert found == []
    assert read_page_token(request, other, found) is None
    assert [violation.reason for violation in found] == ["INVALID_PAGE_TOKEN"]


async def test_a_state_that_has_changed_is_told(filled: Server) -> None:
    async with calling(filled) as stubs:
        first = await stubs.retrieval.Retrieve(asking(limit=2))
        await put(stubs, Context(uri=f"{R}/a/new.md", content="new", vectors=[packed(0.99)]))
        second = await stubs.retrieval.Retrieve(asking(limit=2, page_token=first.next_page_token))
        again = await stubs.retrieval.Retrieve(asking(limit=2, page_token=second.next_page_token))
    assert [warning.reason for warning in second.warnings] == ["PAGE_MOVED"]
    assert second.revision > first.revision
    assert not set(uris(second)) & set(uris(first))
    assert list(again.warnings) == []


async def test_what_groups_and_pages_cannot_be(filled: Server) -> None:
    classic = {"profile": pb.PROFILE_CLASSIC}
    async with calling(filled) as stubs:
        token = (await stubs.retrieval.Retrieve(asking(limit=2))).next_page_token
        wrong = asking(grouping=pb.Grouping(max_per_group=0, depth=33))
        assert violations_of(await refused(stubs.retrieval.Retrieve(wrong))) == {
            "grouping.max_per_group": "OUT_OF_RANGE",
            "grouping.depth": "OUT_OF_RANGE",
        }
        both = asking(options=classic, grouping=pb.Grouping(max_per_group=1), page_token=token)
        assert set(violations_of(await refused(stubs.retrieval.Retrieve(both)))) == {"grouping", "page_token"}
        assert (await stubs.retrieval.Retrieve(asking(limit=2, options=classic))).next_page_token == ""
        plan = pb.QueryPlan(queries=[pb.TypedQuery(query="one")])
        search = pb.SearchRequest(plan=plan, grouping=pb.Grouping(max_per_group=-1))
        error = await refused(stubs.retrieval.Search(search))
    assert violations_of(error) == {"grouping.max_per_group": "OUT_OF_RANGE"}


async def test_groups_hold_in_a_merged_answer_too(filled: Server) -> None:
    """Two queries that favour different files of a directory together tell no more of it than one may."""
    plan = pb.QueryPlan(queries=[pb.TypedQuery(query="one", priority=1), pb.TypedQuery(query="half", priority=1)])
    levels = context_pb2.Filter(levels=[context_pb2.LEVEL_DETAIL])
    async with calling(filled) as stubs:
        search = pb.SearchRequest(
            plan=plan, grouping=pb.Grouping(max_per_group=2), filter=levels, options=pb.RetrieveOptions(**OWN)
        )
        response = await stubs.retrieval.Search(search)
    directories = [match.match.context.uri.rpartition("/")[0] for match in response.matches]
    assert sorted(directories) == [f"{R}/a", f"{R}/a", f"{R}/b", f"{R}/b"]
    assert all(len(result.uris) == 4 for result in response.query_results)
    assert response.total_matched > 4


async def test_clients_page_and_group(filled: Server, caller: Caller) -> None:
    del filled
    how: dict[str, Any] = {"limit": 3, "grouping": Grouping(2), "options": RetrieveOptions(**OWN)}
    first: RetrieveResult = await caller.call("retrieve", "one", **how)
    assert [match.context.uri.rpartition("/")[0] for match in first.matches].count(f"{R}/a") == 2
    assert first.has_more
    second: RetrieveResult = await caller.call("retrieve", "one", page_token=first.next_page_token, **how)
    assert len(second.matches) == 1
    assert not second.has_more
