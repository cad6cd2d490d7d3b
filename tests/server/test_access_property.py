"""Nobody is told of what is not theirs: every RPC, every identity, every way to name a place.

Trees are random, and every context has words that stand nowhere else (`tests/server/strangers.py`), so that whatever
an answer, an error or a trailer lets slip is found in its bytes. VIKING_FUZZ_S looks for so many seconds.
"""

from __future__ import annotations

import itertools
import re
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from tests.exploring import explore
from tests.server.background import Background, in_background
from tests.server.conftest import make_settings
from tests.server.fakes import cosine
from tests.server.messages import METHODS, message_class
from tests.server.strangers import (
    ACCOUNTS,
    ID,
    USERS,
    Stored,
    identities,
    known_to,
    may_change,
    may_see,
    plant,
    resolve,
    tokens,
    who,
)
from viking_rpc.config import Settings
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.plan import PlanResult, PlanStatus, QueryPlan, TypedQuery
from viking_rpc.domain.uri import Uri
from viking_rpc.index.records import decode_relations
from viking_rpc.pb.v1 import context_pb2, context_service_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context, Relation, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from google.protobuf.message import Message

    from viking_rpc.domain.plan import PlanRequest

    Draw = Callable[[st.SearchStrategy[Any]], Any]

_BY_NAME: Final = {method.name: method for method in METHODS}
_CALLS_PER_WORLD: Final = 12
_VECTOR: Final = context_pb2.Vector(packed=cosine(0.9).tobytes())
_numbers = itertools.count()


# --- the server


class TellingPlanner:
    """Tells in its plan all that it was given: nobody else's may come to a planner either."""

    name = "telling"

    async def plan(self, request: PlanRequest, timeout_s: float | None = None) -> PlanResult:
        """Plan."""
        del timeout_s
        plan = QueryPlan((TypedQuery("manual"),), request.target_abstract, request.summary)
        return PlanResult(plan, PlanStatus.PLANNED)

    def close(self) -> None:
        """Hold nothing."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    """Run a server that takes everybody at their word, and keeps few accounts in memory."""
    settings = make_settings(tmp_path_factory.mktemp("access"), max_deadline_s=30.0)
    settings = settings.model_copy(update={"index": settings.index.model_copy(update={"memory_budget_mb": 64})})
    assert isinstance(settings, Settings)
    with in_background(settings, resolve=resolve, planner=TellingPlanner()) as server:
        yield server


@dataclass
class World:
    """Several accounts, each with contexts of its own."""

    accounts: tuple[str, ...]
    contexts: dict[str, list[Context]]

    @property
    def tokens(self) -> set[bytes]:
        """Return every token there is."""
        return {
            token for stored in self.contexts.values() for one in stored for token in tokens(one.SerializeToString())
        }

    def hidden_uris(self, identity: Identity) -> list[str]:
        """Return the URIs of the account's contexts that a caller may not know of."""
        return [one.uri for one in self.contexts[identity.account] if not may_see(identity, one.uri)]


def build(running: Background, seed: int) -> World:
    """Write new accounts through the server, as their root."""
    n = next(_numbers)
    accounts = tuple(f"{name}{n}" for name in ACCOUNTS)
    world = World(accounts, {})
    for i, account in enumerate(accounts):
        stored = plant(seed + i, first=1 + i * 1000)
        write(running, account, stored)
        world.contexts[account] = [one.message for one in stored]
    return world


def write(running: Background, account: str, stored: Sequence[Stored]) -> None:
    """Write contexts as the root of an account."""
    for lo in range(0, len(stored), 200):
        request = context_service_pb2.UpsertContextsRequest(contexts=[one.message for one in stored[lo : lo + 200]])
        told = ask(running, Identity(account, "", Role.ROOT), "UpsertContexts", [request])
        assert told.code == "OK", told


def refresh(running: Background, world: World) -> None:
    """Read what is stored by now, after calls that write; long texts hold no other tokens than the rest."""
    store = running.server.runner.store
    for account in world.accounts:
        snapshot = store.snapshot(account)
        world.contexts[account] = [
            Context(
                uri=snapshot.uri(node),
                title=snapshot.titles.get(node),
                abstract=snapshot.abstracts.get(node),
                active_count=int(snapshot.tree.active_count[node]),
                relations=[
                    Relation(uri=one.uri, reason=one.reason)
                    for one in decode_relations(snapshot.relations.get_bytes(node))
                ],
            )
            for node in range(1, snapshot.n_nodes)
            if not snapshot.tree.is_gone[node]
        ]


@dataclass(frozen=True)
class Told:
    """All that a call tells: its messages, its status with details, its trailers."""

    code: str
    answers: tuple[bytes, ...]
    status: bytes
    text: bytes

    @property
    def everything(self) -> bytes:
        """Return all bytes."""
        return b"\0".join((*self.answers, self.status, self.text))


def ask(running: Background, identity: Identity, name: str, sent: Sequence[Message]) -> Told:
    """Make a call as somebody."""
    method = _BY_NAME[name]
    path = f"/{method.containing_service.full_name}/{method.name}"
    options: dict[str, Any] = {"timeout": 60, "metadata": who(identity)}
    encoded = [message.SerializeToString() for message in sent]
    answers: list[bytes] = []
    try:
        if method.client_streaming:
            answers += running.channel.stream_stream(path)(iter(encoded), **options)
        elif method.server_streaming:
            answers += running.channel.unary_stream(path)(encoded[0], **options)
        else:
            answers.append(running.channel.unary_unary(path)(encoded[0], **options))
    except grpc.RpcError as error:
        raised: Any = error
        trailers = dict(raised.trailing_metadata() or ())
        text = f"{raised.details()} {sorted(trailers.items())}".encode()
        return Told(raised.code().name, tuple(answers), trailers.get("grpc-status-details-bin", b""), text)
    return Told("OK", tuple(answers), b"", b"")


# --- requests


class Namer:
    """Draws URIs: of stored contexts of any account, of what lies above and near them, in any spelling."""

    def __init__(self, draw: Draw, world: World, identity: Identity) -> None:
        """Bind to a world and to who names."""
        self.draw = draw
        self.identity = identity
        own = [one.uri for one in world.contexts[identity.account]]
        every = [one.uri for stored in world.contexts.values() for one in stored]
        hidden = world.hidden_uris(identity) or every
        self._pools = [own or every, hidden, hidden, every]

    def uri(self) -> str:
        """Return a URI."""
        draw = self.draw
        uri: str = draw(st.sampled_from(draw(st.sampled_from(self._pools))))
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
            uri = draw(st.sampled_from(_SPELLINGS))(uri)
        return uri

    def own_uri(self) -> str:
        """Return the URI of a place that the caller may change, or of its home."""
        own = [uri for uri in self._pools[0] if may_change(self.identity, uri)]
        return str(self.draw(st.sampled_from([*own, f"viking://user/{self.identity.user or 'bobzq'}"])))

    def uris(self, most: int = 3) -> list[str]:
        """Return some URIs, often none."""
        return [self.uri() for _ in range(self.draw(st.integers(0, most)))]

    def maybe(self) -> bool:
        """Return whether to."""
        return bool(self.draw(st.booleans()))

    def one_of(self, *values: Any) -> Any:
        """Return one of some values."""
        return self.draw(st.sampled_from(values))


def _parent(uri: str) -> str:
    return uri.rpartition("/")[0] or "viking://"


_SPELLINGS: Final[tuple[Callable[[str], str], ...]] = (
    _parent,
    lambda uri: _parent(_parent(uri)),
    lambda uri: f" {uri}/ ",
    lambda uri: uri.replace("//", "///", 1).replace("/u", "//u"),
    lambda uri: f"{uri}/.abstract.md",
    lambda uri: f"{uri}/.overview.md",
    lambda uri: f"{uri}/..",
    lambda uri: f"viking://resources/../{uri.removeprefix('viking://')}",
    lambda uri: f"{uri}/./x",
    lambda uri: f"{uri}/{{calendar:today}}",
    lambda uri: re.sub(r"viking://user/[^/]+", "viking://~", uri),
    lambda uri: re.sub(r"viking://user/[^/]+/", "viking://user/", uri),
    lambda uri: re.sub(r"viking://user/[^/]+/sessions", "viking://session", uri),
    lambda uri: uri.swapcase().replace("VIKING://USER", "viking://user").replace("VIKING://", "viking://"),
    lambda uri: uri.replace("alizq", "ALIZQ").replace("/memories", "/Memories"),
    lambda uri: uri[:-1],
    lambda uri: f"{uri}x",
    lambda uri: f"{uri}/below",
    lambda uri: uri.replace("/", "%2f"),
    lambda uri: uri.replace("/peers/", "/peers/../peers/"),
    lambda uri: uri.replace("z", "\uff5a"),
    lambda _: "viking://",
    lambda _: "viking://user",
)


def _scope(namer: Namer) -> Scope:
    return Scope(target_uris=namer.uris(), types=namer.one_of([], [], [1], [2], [3], [1, 2]))


def _filter(namer: Namer) -> context_pb2.Filter:
    return context_pb2.Filter(tags=namer.one_of({}, {}, {"word": "c000001zq"}), exclude_uris=namer.uris(2))


def _options(namer: Namer) -> pb.RetrieveOptions:
    return pb.RetrieveOptions(
        profile=namer.one_of(0, 1, 2, 3),
        score_threshold=namer.one_of(None, -2.0, 0.3),
        lexical_weight=namer.one_of(None, 0.0, 0.5, 1.0),
        global_top_k=namer.one_of(None, 0, 5),
        leaf_seeds=namer.one_of(None, 0, 5),
        max_scored_rows=namer.one_of(None, None, 3),
    )


def _query(namer: Namer) -> pb.Query:
    form = namer.one_of("text", "vector", "like")
    if form == "text":
        return pb.Query(text=namer.one_of("manual", "about c000003zq", "text of c001004zq manual", "all"))
    words = namer.one_of("", "manual c000002zq")
    if form == "vector":
        return pb.Query(vector=_VECTOR, lexical_text=words)
    return pb.Query(like_uri=namer.uri(), lexical_text=words)


def _retrieve(namer: Namer) -> pb.RetrieveRequest:
    return pb.RetrieveRequest(
        query=_query(namer),
        scope=_scope(namer) if namer.maybe() else None,
        filter=_filter(namer) if namer.maybe() else None,
        limit=namer.one_of(0, 3, 1000),
        view=namer.one_of(0, 1, 2, 3, 4),
        mode=namer.one_of(0, 1, 2),
        options=_options(namer),
        trace_level=namer.one_of(1, 2, 3, 4, 4),
    )


def _planning(namer: Namer) -> pb.PlanRequest:
    task = namer.one_of("find the manual", "what does c000002zq mean", f"look at {namer.uri()}")
    return pb.PlanRequest(task=task, scope=_scope(namer))


def _search(namer: Namer) -> pb.SearchRequest:
    request = pb.SearchRequest(
        scope=_scope(namer) if namer.maybe() else None,
        limit=1000,
        view=namer.one_of(0, 2, 4),
        mode=namer.one_of(0, 1, 2),
        options=_options(namer),
        trace_level=4,
    )
    if namer.maybe():
        request.planning.CopyFrom(_planning(namer))
    else:
        queries = [pb.TypedQuery(query="manual", type=namer.one_of(0, 2), target_uris=namer.uris()) for _ in range(2)]
        request.plan.CopyFrom(pb.QueryPlan(queries=queries))
    return request


def _assemble(namer: Namer) -> pb.AssembleContextRequest:
    request = pb.AssembleContextRequest(max_tokens=namer.one_of(0, 100, 100_000), exclude_uris=namer.uris(2))
    if namer.maybe():
        request.retrieve.CopyFrom(_retrieve(namer))
    else:
        request.search.CopyFrom(_search(namer))
    return request


def _contexts(namer: Namer) -> list[Context]:
    return [
        Context(
            uri=namer.uri(),
            kind=namer.one_of(0, 1, 2),
            title=f"c{namer.draw(st.integers(900_000, 999_999)):06}zq",
            abstract="new",
            etag=namer.one_of("", "", "AAAA"),
            relations=[Relation(uri=uri, reason="x") for uri in namer.uris(2)],
        )
        for _ in range(namer.one_of(1, 1, 2))
    ]


#: How to ask each RPC; a new one has to be added.
REQUESTS: Final[dict[str, Callable[[Namer], list[Message]]]] = {
    "Retrieve": lambda n: [_retrieve(n)],
    "WatchRetrieve": lambda n: [pb.WatchRetrieveRequest(request=_retrieve(n))],
    "Plan": lambda n: [_planning(n)],
    "Search": lambda n: [_search(n)],
    "Explain": lambda n: [pb.ExplainRequest(request=_retrieve(n), uri=n.uri())],
    "AssembleContext": lambda n: [_assemble(n)],
    "GetContext": lambda n: [context_service_pb2.GetContextRequest(uri=n.uri(), view=n.one_of(0, 1, 2, 3, 4))],
    "ListContexts": lambda n: [
        context_service_pb2.ListContextsRequest(
            parent_uri=n.one_of(n.uri(), _parent(n.uri()), ""),
            page_size=n.one_of(0, 1, 2, 1000),
            view=n.one_of(0, 1, 4),
            filter=_filter(n) if n.maybe() else None,
        )
    ],
    "UpsertContexts": lambda n: [
        context_service_pb2.UpsertContextsRequest(contexts=_contexts(n), request_id=n.one_of("", str(uuid.UUID(int=7))))
    ],
    "ImportContexts": lambda n: [
        context_service_pb2.ImportContextsRequest(sequence=i, contexts=_contexts(n)) for i in (1, 2)
    ],
    "DeleteContexts": lambda n: [
        context_service_pb2.DeleteContextsRequest(
            uris=[n.one_of(n.uri(), n.own_uri()), *n.uris(1)], recursive=n.maybe(), allow_missing=n.maybe()
        )
    ],
    "MoveContext": lambda n: [
        context_service_pb2.MoveContextRequest(
            source_uri=n.one_of(n.uri(), n.own_uri()),
            destination_uri=f"{n.one_of(n.uri(), n.own_uri())}{n.one_of('', '-moved', '/moved')}",
        )
    ],
    "TouchContexts": lambda n: [context_service_pb2.TouchContextsRequest(uris=[n.uri(), *n.uris(2)])],
    "GetStoreInfo": lambda _: [message_class(_BY_NAME["GetStoreInfo"].input_type)()],
    "GetRetrievalStats": lambda _: [message_class(_BY_NAME["GetRetrievalStats"].input_type)()],
    "CreateCheckpoint": lambda _: [message_class(_BY_NAME["CreateCheckpoint"].input_type)()],
}
_WRITING: Final = frozenset({"UpsertContexts", "ImportContexts", "DeleteContexts", "MoveContext", "TouchContexts"})
#: What the unforeseen is called.
_BROKEN: Final = frozenset({"INTERNAL", "UNKNOWN", "DATA_LOSS"})


def test_every_rpc_is_asked() -> None:
    assert set(REQUESTS) == {method.name for method in METHODS}


# --- what is told


def require_silence(world: World, identity: Identity, sent: bytes, told: Told) -> None:
    """Refuse whatever a call tells of what is not the caller's and what the caller has not said."""
    known = known_to(identity, world.contexts[identity.account]) | tokens(sent)
    slipped = tokens(told.everything) & world.tokens - known
    assert not slipped, (told.code, slipped)
    said = set(ID.findall(sent))
    ids = {one for one in ID.findall(told.everything) if one not in said}
    own = {identity.user.encode()} | {one for uri in _seen(world, identity) for one in ID.findall(uri.encode())}
    own |= {identity.peer.encode()}
    assert ids <= own, (told.code, ids - own)
    others = [name.encode() for name in world.accounts if name != identity.account]
    assert not any(re.search(rb"\b%s\b" % name, told.everything) for name in others)


def _seen(world: World, identity: Identity) -> Iterable[str]:
    return (one.uri for one in world.contexts[identity.account] if may_see(identity, one.uri))


def require_untouched(before: World, after: World, identity: Identity) -> None:
    """Refuse changes of what the caller may not change, and counts of what it may not read."""
    for account in before.accounts:
        for is_other in (True,) if account != identity.account else (False,):
            old = {one.uri: one for one in before.contexts[account] if is_other or not may_change(identity, one.uri)}
            new = {one.uri: one for one in after.contexts[account] if is_other or not may_change(identity, one.uri)}
            assert old.keys() == new.keys()
            for uri, one in old.items():
                for mine, theirs in zip(one.relations, new[uri].relations, strict=True):
                    mine.uri = theirs.uri  # a relation follows what moves, whoever moves it
                if not is_other and may_see(identity, uri):
                    one.active_count = new[uri].active_count  # who may read may touch
                assert new[uri] == one, (str(one), str(new[uri]))


def test_nothing_of_others_is_told_or_changed(running: Background) -> None:
    @given(st.data())
    def check(data: st.DataObject) -> None:
        world = build(running, data.draw(st.integers(0, 1 << 30)))
        refresh(running, world)
        answered: dict[Identity, bytes] = {}
        for _ in range(_CALLS_PER_WORLD):
            identity = data.draw(st.sampled_from(identities(data.draw(st.sampled_from(world.accounts)))))
            name = data.draw(st.sampled_from(sorted(REQUESTS)))
            sent = REQUESTS[name](Namer(data.draw, world, identity))
            said = b"".join(one.SerializeToString() for one in sent)
            told = ask(running, identity, name, sent)
            assert told.code not in _BROKEN, told
            if name in _WRITING:
                after = World(world.accounts, {})
                refresh(running, after)
                require_untouched(world, after, identity)
                # a repeat is answered as the first call was, to the same caller only
                said = answered[identity] = answered.get(identity, b"") + said
                after.contexts = {**after.contexts}
                every = world.tokens
                world = after
                require_silence(_with(world, every), identity, said, told)
            else:
                require_silence(world, identity, said, told)

    explore(check, 25, 0.5)


def _with(world: World, every: set[bytes]) -> World:
    """Return the world with more tokens that nobody may be told: those that were overwritten or removed."""
    gone = Context(uri="viking://user/nobody", title=b" ".join(sorted(every)).decode())
    contexts = {name: [*stored, gone] for name, stored in world.contexts.items()}
    return World(world.accounts, contexts)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_no_rpc_tells_of_others(running: Background, name: str) -> None:
    """As above, for each RPC, so that none is met seldom."""

    @given(st.data())
    def check(data: st.DataObject) -> None:
        seed = data.draw(st.integers(0, 3))
        world = _worlds(running, seed) if name not in _WRITING else build(running, seed)
        if name in _WRITING:
            refresh(running, world)
        for _ in range(6):
            identity = data.draw(st.sampled_from(identities(world.accounts[0])))
            sent = REQUESTS[name](Namer(data.draw, world, identity))
            told = ask(running, identity, name, sent)
            assert told.code not in _BROKEN, told
            if name not in _WRITING or told.code == "PERMISSION_DENIED":
                require_silence(world, identity, b"".join(one.SerializeToString() for one in sent), told)
            if name in _WRITING:
                after = World(world.accounts, {})
                refresh(running, after)
                require_untouched(world, after, identity)
                world = after

    explore(check, 10 if name in _WRITING else 15, 0.2 / len(REQUESTS))


_known_worlds: dict[tuple[str, int], World] = {}


def _worlds(running: Background, seed: int) -> World:
    """Return a world that nobody writes to."""
    key = (running.server.address, seed)
    if key not in _known_worlds:
        _known_worlds[key] = build(running, seed)
    return _known_worlds[key]


# --- whether something exists


def test_what_is_hidden_and_what_is_not_there_are_answered_alike(running: Background) -> None:
    names = [name for name in REQUESTS if _has_uri(_BY_NAME[name].input_type)]
    assert len(names) >= 13

    @given(st.data())
    def check(data: st.DataObject) -> None:
        world = _worlds(running, data.draw(st.integers(0, 3)))
        identity = data.draw(st.sampled_from(identities(world.accounts[0])))
        hidden = [uri for uri in world.hidden_uris(identity) if re.search(r"u\d{6}zq", uri)]
        if not hidden:
            return
        uri = data.draw(st.sampled_from(hidden))
        absent = re.sub(r"u\d{6}zq(?!.*u\d{6}zq)", "u999999zq", uri)
        name = data.draw(st.sampled_from(names))
        messages = REQUESTS[name](_Fixed(data.draw, world, identity, uri))
        told = ask(running, identity, name, messages)
        others = [_renamed(message, uri, absent) for message in messages]
        told_of_absent = ask(running, identity, name, others)
        assert told.code == told_of_absent.code
        if name in _WRITING and told.code == "OK":
            return  # two writes have two revisions; what they changed is another property
        assert _plain(name, told, uri) == _plain(name, told_of_absent, absent)

    explore(check, 180, 0.15)


class _Fixed(Namer):
    """Names one URI only."""

    def __init__(self, draw: Draw, world: World, identity: Identity, uri: str) -> None:
        """Bind to the URI."""
        super().__init__(draw, world, identity)
        self._uri = uri

    def uri(self) -> str:
        """Return it."""
        return self._uri

    own_uri = uri


def _has_uri(descriptor: Any, depth: int = 0) -> bool:
    return any(
        "uri" in field.name
        or (field.message_type is not None and depth < 3 and _has_uri(field.message_type, depth + 1))
        for field in descriptor.fields
    )


def _renamed(message: Message, uri: str, other: str) -> Message:
    return type(message).FromString(message.SerializeToString().replace(uri.encode(), other.encode()))


def _plain(name: str, told: Told, uri: str) -> tuple[Any, ...]:
    """Return what was told, without times and ids of the call, and with the URI as `*`."""
    answers = [message_class(_BY_NAME[name].output_type).FromString(one) for one in told.answers]
    for answer in answers:
        forget(answer)
    status = status_pb2.Status.FromString(told.status)
    details = [one for one in status.details if not one.Is(error_details_pb2.RequestInfo.DESCRIPTOR)]
    seen = [*map(str, answers), status.message, *map(str, map(_unpacked, details))]
    return tuple(_CUT.sub("", text.replace(uri, "*")) for text in seen)


def _unpacked(detail: Any) -> Message:
    for kind in (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo):
        if detail.Is(kind.DESCRIPTOR):
            found = kind()
            detail.Unpack(found)
            return found
    raise AssertionError(detail.type_url)


_OWN_OF_A_CALL: Final = {"google.protobuf.Duration", "google.rpc.RequestInfo", "google.protobuf.Timestamp"}
#: The end of a long text, perhaps in the middle of a URI.
_CUT: Final = re.compile(r"[^;]*\.\.\.(?=\W|$)")
_OWN_OF_A_STORE: Final = {"revision", "etag", "database_bytes", "pending_row_count", "checkpoint_revision"}


def forget(message: Message, also: frozenset[str] | set[str] = frozenset()) -> None:
    """Clear durations, times and, of two stores that are compared, what differs between any two."""
    for field, value in message.ListFields():
        kind = field.message_type
        if field.name in also or (kind is not None and kind.full_name in _OWN_OF_A_CALL):
            message.ClearField(field.name)
        elif field.name == "next_page_token":  # bound to the caller and the request
            setattr(message, field.name, "more")
        elif kind is not None and kind.GetOptions().map_entry:
            continue
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for one in value if field.is_repeated else [value]:
                if one.DESCRIPTOR.full_name == "google.rpc.Status":
                    del one.details[:]
                else:
                    forget(one, also)


# --- whether anything is counted


def test_an_account_without_what_is_hidden_is_answered_alike(running: Background) -> None:
    """Nothing hidden is counted, ranked, or weighs anywhere, but in the statistics of words of the account."""
    names = sorted(set(REQUESTS) - _WRITING - {"Search", "Plan", "GetRetrievalStats", "CreateCheckpoint"})

    @given(st.data())
    def check(data: st.DataObject) -> None:
        world = _worlds(running, data.draw(st.integers(0, 3)))
        whole = world.accounts[0]
        user, peer = data.draw(st.sampled_from([(user, peer) for user in USERS for peer in ("", "pzq")]))
        identity = Identity(whole, user, Role.USER, peer)
        alone = _without_hidden(running, world, identity)
        name = data.draw(st.sampled_from(names))
        sent = REQUESTS[name](_Seeing(data.draw, world, identity))
        hidden = [one for one in world.contexts[whole] if not may_see(identity, one.uri) and one.title]
        words = data.draw(st.sampled_from(["", *(one.title for one in hidden)]))
        for message in sent:
            _ask_by_vector(message, words)
        told = ask(running, identity, name, sent)
        told_alone = ask(running, replace(identity, account=alone), name, sent)
        assert told.code == told_alone.code
        assert _compared(name, told) == _compared(name, told_alone)

    explore(check, 150, 0.15)


class _Seeing(Namer):
    """Names what the caller may see."""

    def uri(self) -> str:
        """Return a URI."""
        pool = [uri for uri in self._pools[0] if may_see(self.identity, uri)] or ["viking://resources"]
        return str(
            self.draw(st.sampled_from([*pool, "viking://", "viking://user", f"viking://user/{self.identity.user}"]))
        )


_alone: dict[tuple[Identity, str], str] = {}


def _without_hidden(running: Background, world: World, identity: Identity) -> str:
    """Return the name of an account that has only what a caller may see, and the places on the way."""
    key = (identity, running.server.address)
    if key not in _alone:
        account = f"alone{next(_numbers)}"
        shown = []
        for one in world.contexts[identity.account]:
            copy = Context()
            copy.CopyFrom(one)
            if may_see(identity, one.uri):
                shown.append(copy)
        places = {uri for one in world.contexts[identity.account] for uri in _above(one.uri)}
        have = {one.uri for one in shown}
        is_way = {"viking://user", f"viking://user/{identity.user}/peers"}
        shown += [Context(uri=uri, kind=1) for uri in places - have if may_see(identity, uri) or uri in is_way]
        write(running, account, [Stored(one.uri, one) for one in sorted(shown, key=lambda one: one.uri)])
        _alone[key] = account
    return _alone[key]


def _above(uri: str) -> list[str]:
    return [str(above) for above in (*Uri.from_canonical(uri).ancestors()[1:], uri)]


def _ask_by_vector(message: Message, words: str) -> None:
    """Leave no words in a request but hidden ones, and set what parents count.

    What a word weighs, and what directories tell when nobody says it, are statistics of the whole account, by design.
    """
    if isinstance(message, pb.RetrieveRequest):
        message.options.score_propagation_alpha = 0.6
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in value if field.is_repeated else [value]:
            if isinstance(one, pb.Query):
                if one.WhichOneof("input") == "text":
                    one.vector.CopyFrom(_VECTOR)
                one.lexical_text = words
            elif isinstance(one, pb.SearchRequest):
                message.ClearField("search")
                message.retrieve.query.vector.CopyFrom(_VECTOR)  # type: ignore[attr-defined]
                message.retrieve.options.score_propagation_alpha = 0.6  # type: ignore[attr-defined]
            else:
                _ask_by_vector(one, words)


def _compared(name: str, told: Told) -> tuple[Any, ...]:
    answers = [message_class(_BY_NAME[name].output_type).FromString(one) for one in told.answers]
    for answer in answers:
        forget(answer, _OWN_OF_A_STORE)
    status = status_pb2.Status.FromString(told.status)
    return (
        *(one.SerializeToString(deterministic=True) for one in answers),
        re.sub(r"(?:Acme|acme|alone)q?\d+", "*", status.message),
    )
