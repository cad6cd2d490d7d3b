"""Side doors between callers, each tried by itself: what caches, statistics, repeats and facts could tell."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.conftest import Stubs, make_settings, serving
from tests.server.fakes import TableEmbedder
from tests.server.strangers import resolve, who
from tests.server.test_contexts_rpc import packed, refused
from viking_rpc.adapters.reranking import BatchReranker
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.plan import fall_back
from viking_rpc.pb.v1 import admin_service_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import LEVEL_ABSTRACT, Context
from viking_rpc.pb.v1.context_service_pb2 import (
    DeleteContextsRequest,
    GetContextRequest,
    ListContextsRequest,
    MoveContextRequest,
    UpsertContextsRequest,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.domain.plan import PlanRequest, PlanResult
    from viking_rpc.server.app import Server

ALICE = Identity("acme", "alice", Role.USER)
WITH_P = Identity("acme", "alice", Role.USER, "p")
WITH_Q = Identity("acme", "alice", Role.USER, "q")
BOB = Identity("acme", "bob", Role.USER)
ADMIN = Identity("acme", "carol", Role.ADMIN)
ROOT = Identity("acme", "", Role.ROOT)
STRANGER = Identity("other", "alice", Role.ADMIN)
INFO = admin_service_pb2.GetStoreInfoRequest()


class CountingScorer:
    """Gives every text the same score, and counts the texts."""

    name = "counting"

    def __init__(self) -> None:
        """Begin with none."""
        self.texts: list[str] = []

    async def score(self, query: str, texts: Sequence[str], out: NDArray[np.float32], allowed_s: float) -> None:
        """Score."""
        del query, allowed_s
        self.texts += texts
        out[:] = 0.5

    async def close(self) -> None:
        """Hold nothing."""


class CountingEmbedder(TableEmbedder):
    """Writes queries down, too."""

    def embed_query(self, text: str, timeout_s: float | None = None) -> NDArray[np.float32]:
        """Embed a query."""
        self.texts.append(text)
        return super().embed_query(text, timeout_s)


class CountingPlanner:
    """Plans nothing, and writes tasks down."""

    name = "counting"

    def __init__(self) -> None:
        """Begin with none."""
        self.tasks: list[str] = []

    async def plan(self, request: PlanRequest, timeout_s: float | None = None) -> PlanResult:
        """Plan."""
        del timeout_s
        self.tasks.append(request.task)
        return fall_back(request, "it only counts")

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Run a server that takes everybody at their word, with stand-ins that count."""
    parts = {
        "embedder": CountingEmbedder(),
        "reranker": BatchReranker(CountingScorer()),
        "planner": CountingPlanner(),
        "resolve": resolve,
    }
    async with serving(make_settings(tmp_path), **parts) as running:
        yield running


async def put(stubs: Stubs, identity: Identity, *contexts: Context, request_id: str = "") -> Any:
    """Write as somebody."""
    request = UpsertContextsRequest(contexts=contexts, request_id=request_id)
    return await stubs.contexts.UpsertContexts(request, metadata=who(identity))


async def test_callers_of_several_accounts_share_no_score_of_a_reranker(stubs: Stubs) -> None:
    """Else the count of texts that were sent would tell one account what another asks and stores."""
    request = pb.RetrieveRequest(query=pb.Query(text="x"))
    for identity in (ADMIN, STRANGER):
        await put(stubs, identity, Context(uri="viking://resources/a.md", content="the same"))
    sent = []
    for identity in (ADMIN, STRANGER, ADMIN, STRANGER):
        answer = await stubs.retrieval.Retrieve(request, metadata=who(identity))
        sent.append(answer.stats.rerank_documents)
        assert answer.matches[0].parts.rerank == 0.5
    assert sent == [1, 1, 0, 0]


async def test_nobody_s_query_or_task_is_answered_from_another_s(server: Server, stubs: Stubs) -> None:
    """Queries are embedded and tasks planned for each caller."""
    embedder, planner = server.runner.embedder, server.runner.planner
    assert isinstance(embedder, CountingEmbedder)
    assert isinstance(planner, CountingPlanner)
    for identity in (ADMIN, STRANGER):
        await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=pb.Query(text="q")), metadata=who(identity))
        await stubs.retrieval.Plan(pb.PlanRequest(task="t"), metadata=who(identity))
    assert embedder.texts.count("q") == 2
    assert planner.tasks == ["t", "t"]


async def test_accounts_with_the_same_uris_share_no_tree(stubs: Stubs) -> None:
    for identity in (ADMIN, STRANGER):
        await put(stubs, identity, Context(uri="viking://resources/a.md", content=identity.account, title="x"))
    for _ in range(2):
        for identity in (ADMIN, STRANGER):
            request = pb.RetrieveRequest(query=pb.Query(text="x"), view=4)
            answer = await stubs.retrieval.Retrieve(request, metadata=who(identity))
            assert [match.context.content for match in answer.matches] == [identity.account]


@pytest.mark.parametrize("other", [WITH_Q, ALICE, BOB, STRANGER, ROOT])
async def test_a_repeat_is_answered_to_the_caller_who_made_the_call(stubs: Stubs, other: Identity) -> None:
    request_id = str(uuid.uuid4())
    first = await put(
        stubs, WITH_P, Context(uri="viking://user/alice/peers/p/memories/hush", content="x"), request_id=request_id
    )
    again = await put(stubs, WITH_P, Context(uri="viking://~/memories/y", content="y"), request_id=request_id)
    assert again == first
    uri = f"viking://user/{other.user or 'dora'}/memories/mine"
    written = await put(stubs, other, Context(uri=uri, content="z"), request_id=request_id)
    assert [one.uri for one in written.contexts] == [uri]


@pytest.mark.parametrize("is_laid_out", [True, False])
async def test_the_words_of_another_peer_weigh_nothing_in_a_directory_above(
    server: Server, stubs: Stubs, is_laid_out: bool
) -> None:
    """A directory's row holds the words of what lies below it, and with a peer not all of that may be read."""
    await put(
        stubs,
        ALICE,
        Context(uri="viking://user/alice", kind=1, abstract="home", overview="the home of alice"),
        Context(uri="viking://user/alice/memories/a.md", content="nothing"),
        Context(uri="viking://user/alice/peers/q/memories/b.md", content="hush hush"),
    )
    if is_laid_out:
        server.runner.store.lay_out("acme")
    query = pb.Query(vector=packed(0.5, LEVEL_ABSTRACT).vector, lexical_text="hush")
    target = pb.RetrieveRequest(query=query, limit=1)
    explain = pb.ExplainRequest(request=target, uri="viking://user/alice/memories/a.md")
    told = await stubs.retrieval.Explain(explain, metadata=who(WITH_P))
    (step,) = [one for one in told.path if one.uri == "viking://user/alice"]
    assert not step.HasField("parts")
    told = await stubs.retrieval.Explain(explain, metadata=who(ALICE))
    (step,) = [one for one in told.path if one.uri == "viking://user/alice"]
    assert step.parts.lexical > 0


async def test_the_size_of_the_store_is_told_to_those_who_may_see_all_of_it(stubs: Stubs) -> None:
    await put(stubs, ADMIN, Context(uri="viking://resources/a.md", content="x"))

    async def is_told(identity: Identity) -> bool:
        return (await stubs.admin.GetStoreInfo(INFO, metadata=who(identity))).database_bytes > 0

    assert [await is_told(identity) for identity in (ALICE, ADMIN, ROOT)] == [False, True, True]
    await put(stubs, STRANGER, Context(uri="viking://resources/b.md", content="x"))
    assert [await is_told(identity) for identity in (ADMIN, STRANGER, ROOT)] == [False, False, True]


async def test_what_is_degraded_in_an_account_is_not_told_to_another(server: Server, stubs: Stubs) -> None:
    await put(stubs, ADMIN, Context(uri="viking://resources/a.md", content="x"))
    await put(stubs, STRANGER, Context(uri="viking://resources/a.md", content="x"))
    server.runner.store.note("acme", "the checkpoint of account acme was damaged")
    for identity, n in ((ADMIN, 1), (STRANGER, 0)):
        info = await stubs.admin.GetStoreInfo(INFO, metadata=who(identity))
        assert len(info.warnings) == n


async def test_containers_tell_that_they_are_there_and_nothing_else(stubs: Stubs) -> None:
    """`viking://user` and, with a peer, `user/<me>/peers` lead to what is the caller's; their texts are others'."""
    await put(
        stubs,
        ROOT,
        Context(uri="viking://user", kind=1, title="secret", abstract="secret", tags={"secret": "x"}),
        Context(uri="viking://user/alice/peers", kind=1, title="secret", abstract="secret"),
        Context(uri="viking://user/alice/peers/p/memories/a.md", content="x"),
        Context(uri="viking://user/alice/peers/q/memories/a.md", content="x"),
        Context(uri="viking://user/bob/memories/a.md", content="x"),
    )
    for parent, names in (
        ("", ["user"]),
        ("viking://user", ["alice"]),
        ("viking://user/alice", ["peers"]),
        ("viking://user/alice/peers", ["p"]),
    ):
        page = await stubs.contexts.ListContexts(ListContextsRequest(parent_uri=parent, view=4), metadata=who(WITH_P))
        assert [one.uri.rpartition("/")[2] for one in page.contexts] == names
        assert b"secret" not in page.SerializeToString()
    for uri in ("viking://user", "viking://user/alice/peers"):
        error = await refused(stubs.contexts.GetContext(GetContextRequest(uri=uri), metadata=who(WITH_P)))
        assert error.code().name == "PERMISSION_DENIED"


async def test_what_holds_an_unseen_peer_is_neither_moved_nor_removed(stubs: Stubs) -> None:
    """Else a caller who speaks with one peer could take along, or take away, what belongs to another."""
    caller = Identity("acme", "alice", Role.ADMIN, "p")
    hidden = "viking://user/alice/peers/q/memories/a.md"
    await put(stubs, ALICE, Context(uri=hidden, content="x"))
    for source in ("viking://user/alice", "viking://user/alice/peers", "viking://user/alice/peers/q"):
        moving = MoveContextRequest(source_uri=source, destination_uri="viking://resources/mine")
        removing = DeleteContextsRequest(uris=[source], recursive=True)
        for call in (
            stubs.contexts.MoveContext(moving, metadata=who(caller)),
            stubs.contexts.DeleteContexts(removing, metadata=who(caller)),
        ):
            assert (await refused(call)).code().name == "PERMISSION_DENIED"
    found = await stubs.contexts.GetContext(GetContextRequest(uri=hidden), metadata=who(ALICE))
    assert found.context.content == "x"
