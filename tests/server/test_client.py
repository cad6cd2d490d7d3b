"""The Python client against a real server: domain types in and out, both kinds alike."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.server.conftest import make_settings, serving
from tests.server.fakes import START_US, StuckEmbedder, TableEmbedder, cosine
from viking_rpc import client as clients
from viking_rpc.client.requests import as_request, retrieve_message
from viking_rpc.domain.context import Context, ContextType, ContextWrite, Kind, Level, Relation, Row
from viking_rpc.domain.query import (
    Filter,
    Mode,
    Profile,
    Query,
    RetrieveOptions,
    RetrieveRequest,
    Scope,
    TraceLevel,
    View,
)
from viking_rpc.domain.trace import RetrieveResult, TraceStep
from viking_rpc.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    Violation,
)
from viking_rpc.server.convert_request import read_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from viking_rpc.server.app import Server

R = "viking://resources"
NO_TERMS = (np.empty(0, np.uint64), np.empty(0, np.float32))


class Caller:
    """Calls either client the same way."""

    def __init__(self, client: clients.Client | clients.AsyncClient) -> None:
        """Remember the client."""
        self._client = client

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method; the blocking client in a thread."""
        if isinstance(self._client, clients.AsyncClient):
            return await getattr(self._client, method)(*args, **kwargs)
        return await asyncio.to_thread(getattr(self._client, method), *args, **kwargs)

    async def all(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        """Return everything that a method yields."""
        if isinstance(self._client, clients.AsyncClient):
            return [item async for item in getattr(self._client, method)(*args, **kwargs)]
        return await asyncio.to_thread(lambda: list(getattr(self._client, method)(*args, **kwargs)))


@asynccontextmanager
async def connected(kind: str, address: str, **who: str) -> AsyncIterator[Caller]:
    """Connect a client of a kind."""
    if kind == "async":
        async with clients.connect_async(address, **who) as opened:
            yield Caller(opened)
    else:
        with clients.connect(address, **who) as blocking:
            yield Caller(blocking)


@pytest.fixture(params=["async", "sync"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return which client is tested."""
    return str(request.param)


@pytest.fixture
async def caller(kind: str, server: Server) -> AsyncIterator[Caller]:
    """Connect a client to the server."""
    async with connected(kind, server.address) as opened:
        yield opened


def file(uri: str, value: float, **fields: Any) -> ContextWrite:
    """Return a file with a vector of that cosine to [1, 0]."""
    return ContextWrite(uri, Kind.FILE, rows=(Row(Level.DETAIL, cosine(value), *NO_TERMS),), **fields)


async def test_what_is_written_comes_back(caller: Caller) -> None:
    relation = Relation(f"{R}/b.md", "why")
    write = file(
        f"{R}/a.md",
        0.5,
        title="A",
        abstract="short",
        content="text",
        tags={"k": "v"},
        create_us=1_000_000,
        update_us=2_000_001,
        expire_us=START_US * 2,
        relations=(relation,),
    )
    written = await caller.call("upsert", [write])
    assert written.revision == 1
    found = await caller.call("get", f"{R}/a.md", min_revision=1)
    assert found == Context(
        uri=f"{R}/a.md",
        kind=Kind.FILE,
        type=ContextType.RESOURCE,
        title="A",
        abstract="short",
        content="text",
        tags={"k": "v"},
        create_us=1_000_000,
        update_us=2_000_001,
        expire_us=START_US * 2,
        etag=written.contexts[0].etag,
        relations=(relation,),
    )
    assert (await caller.call("get", f"{R}/a.md", view=View.BASIC)).abstract == ""


async def test_every_form_of_a_query_finds(kind: str, tmp_path: Path) -> None:
    embedder = TableEmbedder({"q": 1.0})
    async with serving(make_settings(tmp_path), embedder=embedder) as server, connected(kind, server.address) as caller:
        await caller.call("upsert", [file(f"{R}/{i}.md", 0.9 - i / 10) for i in range(5)])
        options = RetrieveOptions(score_propagation_alpha=1.0, lexical_weight=0.0)
        for query in ("q", [2, 0], np.array([1, 0]), Query(text="q"), Query(vector=cosine(1.0), lexical_text="q")):
            result = await caller.call("retrieve", query, limit=2, options=options)
            assert [match.context.uri for match in result.matches] == [f"{R}/0.md", f"{R}/1.md"]
            assert result.matches[0].score == pytest.approx(0.9, abs=1e-6)
        whole = RetrieveRequest(Query(text="q"), mode=Mode.QUICK, limit=1)
        assert (await caller.call("retrieve", whole)).mode is Mode.QUICK
        with pytest.raises(TypeError, match="limit"):
            await caller.call("retrieve", whole, limit=2)


async def test_watching_yields_steps_and_then_the_result(caller: Caller) -> None:
    await caller.call("upsert", [file(f"{R}/a/b/{i}.md", 0.9 - i / 10) for i in range(5)])
    events = await caller.all("watch", [1, 0], limit=3)
    assert all(isinstance(event, TraceStep) for event in events[:-1])
    assert [event.index for event in events[:-1]] == list(range(len(events) - 1))
    assert isinstance(events[-1], RetrieveResult)
    assert events[-1].matches == (await caller.call("retrieve", [1, 0], limit=3)).matches


async def test_listing_reads_page_after_page(caller: Caller) -> None:
    names = [f"{i:03}.md" for i in range(250)]
    await caller.call("upsert", [file(f"{R}/d/{name}", 0.5, tags={"i": name[0]}) for name in names])
    found = await caller.all("list", f"{R}/d")
    assert [context.uri.rpartition("/")[2] for context in found] == names
    assert len(await caller.all("list", f"{R}/d", filter=Filter(tags={"i": "2"}), view=View.BASIC)) == 50
    assert [context.uri for context in await caller.all("list")] == [R]
    page = await caller.call("list_page", f"{R}/d", page_size=7)
    assert (len(page.contexts), bool(page.next_page_token), page.revision) == (7, True, 1)


async def test_removing_and_facts(caller: Caller) -> None:
    await caller.call("upsert", [file(f"{R}/a/{i}.md", 0.5) for i in range(3)])
    info = await caller.call("info")
    assert (info.n_files, info.n_directories, info.n_contexts, info.n_rows, info.revision) == (3, 2, 5, 3, 1)
    assert (info.embedder, info.dimensions, info.index_state) == ("table", 2, "READY")
    assert info.contexts_by_type == {"RESOURCE": 5}
    assert info.rows_by_level == {"DETAIL": 3}
    assert info.start_us == START_US
    assert await caller.call("delete", [f"{R}/a"], recursive=True) == (4, 2)
    assert await caller.call("delete", [f"{R}/a"], allow_missing=True) == (0, 2)


async def test_errors_are_those_that_the_server_raised(caller: Caller) -> None:
    with pytest.raises(InvalidArgumentError) as invalid:
        await caller.call("retrieve", "", limit=-1, options=RetrieveOptions(hotness_alpha=2.0))
    assert invalid.value.reason == "INVALID_REQUEST"
    assert {v.field: v.reason for v in invalid.value.violations} == {
        "limit": "OUT_OF_RANGE",
        "options.hotness_alpha": "OUT_OF_RANGE",
        "query.text": "EMPTY_QUERY",
    }
    assert invalid.value.message == "the request has 3 violations"
    assert str(invalid.value).count("hotness_alpha") == 1
    with pytest.raises(NotFoundError) as missing:
        await caller.call("get", f"{R}/nothing")
    assert (missing.value.reason, missing.value.metadata) == ("CONTEXT_NOT_FOUND", {"uri": f"{R}/nothing"})
    with pytest.raises(PermissionDeniedError):
        await caller.call("get", "viking://user/bob/x")
    with pytest.raises(FailedPreconditionError, match="3"):
        await caller.call("retrieve", [1, 2, 3])
    await caller.call("upsert", [file(f"{R}/a", 0.5)])
    with pytest.raises(AbortedError):
        await caller.call("upsert", [file(f"{R}/a", 0.5, etag="0-0")])
    with pytest.raises(InvalidArgumentError):
        await caller.all("watch", " ")


async def test_a_deadline_is_kept(kind: str, tmp_path: Path) -> None:
    embedder = StuckEmbedder()
    async with serving(make_settings(tmp_path), embedder=embedder) as server, connected(kind, server.address) as caller:
        with pytest.raises(DeadlineExceededError):
            await caller.call("retrieve", "x", timeout_s=0.05)
        await asyncio.wait_for(embedder.is_given_up.wait(), 5)


async def test_who_calls_is_said_with_every_call(kind: str, server: Server) -> None:
    async with connected(kind, server.address, peer="p") as caller:
        result = await caller.call("retrieve", [1, 0])
        assert "viking://user/default/peers/p/memories" in result.searched_roots
    async with connected(kind, server.address, user="bob") as caller:
        with pytest.raises(PermissionDeniedError) as caught:
            await caller.call("info")
        assert caught.value.reason == "IDENTITY_NOT_ALLOWED"


async def test_a_server_that_is_not_there_is_unavailable(kind: str) -> None:
    async with connected(kind, "127.0.0.1:9") as caller:
        with pytest.raises((UnavailableError, DeadlineExceededError)) as caught:
            await caller.call("info", timeout_s=2)
        assert caught.value.reason in {"UNAVAILABLE", "DEADLINE_EXCEEDED"}


async def test_who_stops_watching_stops_the_search(server: Server) -> None:
    async with clients.connect_async(server.address) as client:
        await client.upsert([file(f"{R}/{'abcdefgh'[i % 8]}/{i}.md", 0.5) for i in range(64)])
        events = client.watch([1, 0])
        assert isinstance(await anext(events), TraceStep)
        await events.aclose()  # type: ignore[attr-defined]
        await client.info()


VALUES = st.none() | st.floats(0, 1, width=32)
TIMES = st.none() | st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
COUNTS = st.none() | st.integers(0, 1000)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(
    st.builds(
        RetrieveRequest,
        query=st.builds(Query, text=TEXTS) | st.builds(Query, like_uri=TEXTS, lexical_text=TEXTS),
        scope=st.builds(Scope, st.lists(TEXTS).map(tuple), st.frozensets(st.sampled_from(ContextType))),
        filter=st.builds(
            Filter,
            st.dictionaries(TEXTS, TEXTS),
            st.frozensets(st.sampled_from(Level)),
            TIMES,
            TIMES,
            TIMES,
            TIMES,
            st.lists(TEXTS).map(tuple),
        ),
        limit=st.integers(1, 1000),
        view=st.sampled_from(View),
        mode=st.sampled_from(Mode),
        options=st.builds(
            RetrieveOptions,
            profile=st.sampled_from(Profile),
            score_threshold=VALUES,
            score_gte=st.booleans(),
            score_propagation_alpha=VALUES,
            hotness_alpha=VALUES,
            lexical_weight=VALUES,
            global_top_k=COUNTS,
            leaf_seeds=COUNTS,
            parallelism=COUNTS,
            convergence_rounds=COUNTS,
            max_scored_rows=COUNTS,
            time_budget_s=st.none() | st.sampled_from([0.001, 0.25, 5.0]),
        ),
        trace_level=st.sampled_from(TraceLevel),
        min_revision=st.integers(0, 2**60),
    )
)
def test_the_server_reads_what_the_client_wrote(request: RetrieveRequest) -> None:
    found: list[Violation] = []
    read = read_request(retrieve_message(request), found)
    assert not found
    for name in ("scope", "filter", "limit", "view", "mode", "options", "trace_level", "min_revision"):
        assert getattr(read, name) == getattr(request, name)
    assert (read.query.text, read.query.like_uri) == (request.query.text, request.query.like_uri)
    assert read.query.lexical_text == request.query.lexical_text


@given(arrays.arrays(np.float32, st.integers(1, 50), elements=st.floats(width=32, allow_nan=False)))
def test_the_server_reads_the_vector_that_the_client_wrote(vector: np.ndarray) -> None:
    for given_ in (vector, vector.astype(np.float64), np.repeat(vector, 2)[::2]):
        read = read_request(retrieve_message(as_request(given_)), [])
        np.testing.assert_array_equal(read.query.vector, vector)


def test_two_forms_of_a_query_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        retrieve_message(RetrieveRequest(Query(text="a", like_uri="b")))


def test_both_clients_have_the_same_methods() -> None:
    def methods(cls: type) -> set[str]:
        return {name for name in vars(cls) if not name.startswith("_")}

    assert methods(clients.Client) == methods(clients.AsyncClient)
