"""Keys over the wire: who a caller is, for whom they may act, what is refused and how, and what a change does."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.details import detail, reason_of, status_of, violations_of
from tests.server.fakes import START_US, FakeClock, StuckEmbedder, TableEmbedder
from viking_rpc.config import Settings
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.domain.keys import Key, KeyLimits, Token
from viking_rpc.errors import ResourceExhaustedError, UnauthenticatedError, VikingError
from viking_rpc.pb.v1 import admin_service_pb2, context_service_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.server.allowance import Allowance
from viking_rpc.server.app import Server
from viking_rpc.server.identity import resolve_key
from viking_rpc.server.keys import KeyCallers
from viking_rpc.store.keys import KEYS_NAME, add_key, list_keys, revoke_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INFO = admin_service_pb2.GetStoreInfoRequest()
RETRIEVE = pb.RetrieveRequest(query=pb.Query(text="x"))
NOWHERE = Token.new()
#: Far over what a server needs to notice a change, for machines that have other things to do.
_PATIENCE_S = 20.0


def make(folder: Path, user: str = "alice", role: Role = Role.USER, account: str = "acme", **how: Any) -> str:
    """Make a key; return what its holder sends."""
    return add_key(folder, account=account, user=user, role=role, now_us=START_US, **how)[1].reveal()


def who(key: str = "", *, account: str = "", user: str = "", peer: str = "") -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call."""
    named = {
        "authorization": f"Bearer {key}" if key else "",
        "viking-account": account,
        "viking-user": user,
        "viking-peer": peer,
    }
    return tuple((name, value) for name, value in named.items() if value)


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """Return the error of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def put(stubs: Stubs, uri: str, metadata: Any) -> None:
    """Write a file."""
    request = context_service_pb2.UpsertContextsRequest(contexts=[Context(uri=uri, content="x")])
    await stubs.contexts.UpsertContexts(request, metadata=metadata)


async def get(stubs: Stubs, uri: str, metadata: Any) -> str:
    """Read a file; return its URI."""
    request = context_service_pb2.GetContextRequest(uri=uri)
    return (await stubs.contexts.GetContext(request, metadata=metadata)).context.uri


def everything_in(folder: Path) -> bytes:
    """Return the bytes of all files."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def until(condition: Any) -> None:
    """Ask again until the answer is true."""
    async with asyncio.timeout(_PATIENCE_S):
        while not await condition():
            pass


# -- who may call


async def test_every_call_wants_a_key_but_health_and_reflection(tmp_path: Path) -> None:
    make(tmp_path)
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        for call in (stubs.admin.GetStoreInfo(INFO), stubs.retrieval.Retrieve(RETRIEVE)):
            error = await refused(call)
            assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAUTHENTICATED, "KEY_MISSING")
        watching = stubs.retrieval.WatchRetrieve(pb.WatchRetrieveRequest(request=RETRIEVE))
        assert (await refused(watching.read())).code() == grpc.StatusCode.UNAUTHENTICATED
        async with grpc.aio.insecure_channel(server.address) as channel:
            health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert health.status == health_pb2.HealthCheckResponse.SERVING
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            answers = [one async for one in stub.ServerReflectionInfo(iter([request]))]
            assert answers[0].list_services_response.service


async def test_a_key_says_who_calls(tmp_path: Path) -> None:
    alice, bob, admin, root = (
        make(tmp_path),
        make(tmp_path, "bob"),
        make(tmp_path, "ada", Role.ADMIN),
        make(tmp_path, "rob", Role.ROOT, account="default"),
    )
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await put(stubs, "viking://~/memories/a.md", who(alice))
        assert await get(stubs, "viking://user/alice/memories/a.md", who(alice))
        error = await refused(get(stubs, "viking://user/alice/memories/a.md", who(bob)))
        assert error.code() == grpc.StatusCode.PERMISSION_DENIED
        error = await refused(put(stubs, "viking://resources/a.md", who(alice)))
        assert error.code() == grpc.StatusCode.PERMISSION_DENIED
        await put(stubs, "viking://resources/a.md", who(admin))
        assert await get(stubs, "viking://resources/a.md", who(bob))
        error = await refused(get(stubs, "viking://resources/a.md", who(root)))
        assert error.code() == grpc.StatusCode.NOT_FOUND  # of its own account, which is another one
        assert await get(stubs, "viking://user/alice/memories/a.md", who(root, account="acme"))


async def test_accounts_do_not_meet(tmp_path: Path) -> None:
    ours, theirs = make(tmp_path, role=Role.ADMIN), make(tmp_path, role=Role.ADMIN, account="other")
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await put(stubs, "viking://resources/a.md", who(ours))
        assert (await refused(get(stubs, "viking://resources/a.md", who(theirs)))).code() == grpc.StatusCode.NOT_FOUND
        error = await refused(get(stubs, "viking://resources/a.md", who(theirs, account="acme")))
        assert reason_of(error) == "DELEGATION_NOT_ALLOWED"


KEYS = {
    "user": Key("a", "acme", "alice", Role.USER, may_act_for=False, created_us=0),
    "user for others": Key("b", "acme", "alice", Role.USER, may_act_for=True, created_us=0),
    "admin": Key("c", "acme", "alice", Role.ADMIN, may_act_for=False, created_us=0),
    "admin for others": Key("d", "acme", "alice", Role.ADMIN, may_act_for=True, created_us=0),
    "root": Key("e", "acme", "alice", Role.ROOT, may_act_for=False, created_us=0),
    "root for others": Key("f", "acme", "alice", Role.ROOT, may_act_for=True, created_us=0),
}


@pytest.mark.parametrize(
    ("key", "account", "user", "wanted"),
    [
        ("user", "", "", Identity("acme", "alice", Role.USER)),
        ("user", "acme", "alice", Identity("acme", "alice", Role.USER)),
        ("user", "", "bob", None),
        ("user", "other", "", None),
        ("user for others", "", "bob", Identity("acme", "bob", Role.USER)),
        ("user for others", "other", "bob", None),
        ("admin", "", "", Identity("acme", "alice", Role.ADMIN)),
        ("admin", "acme", "alice", Identity("acme", "alice", Role.ADMIN)),
        ("admin", "", "bob", None),
        ("admin", "other", "", None),
        ("admin for others", "", "bob", Identity("acme", "bob", Role.USER)),
        ("admin for others", "other", "", None),
        ("root", "", "", Identity("acme", "", Role.ROOT)),
        ("root", "other", "", Identity("other", "", Role.ROOT)),
        ("root", "", "alice", None),
        ("root for others", "", "alice", Identity("acme", "alice", Role.USER)),
        ("root for others", "other", "bob", Identity("other", "bob", Role.USER)),
    ],
)
def test_for_whom_a_key_may_act(key: str, account: str, user: str, wanted: Identity | None) -> None:
    try:
        found = resolve_key(KEYS[key], account, user, "")
    except VikingError as error:
        assert (error.code, error.reason) == ("PERMISSION_DENIED", "DELEGATION_NOT_ALLOWED")
        assert wanted is None
    else:
        assert found == wanted


_IDS = st.sampled_from(["", "acme", "other", "alice", "bob", "a/b", "..", "ALICE", "alice ", "a@b@c"])
_RANK = {Role.USER: 0, Role.ADMIN: 1, Role.ROOT: 2}


@given(st.sampled_from(sorted(KEYS)), _IDS, _IDS, _IDS)
def test_naming_others_never_widens_what_a_key_may_do(name: str, account: str, user: str, peer: str) -> None:
    key = KEYS[name]
    try:
        found = resolve_key(key, account, user, peer)
    except VikingError as error:
        assert error.code in {"INVALID_ARGUMENT", "PERMISSION_DENIED"}
        return
    assert _RANK[found.role] <= _RANK[key.role]
    assert found.account == key.account or (key.role is Role.ROOT and found.account == account)
    assert found.user in {key.user, ""} or (key.may_act_for and found.user == user)
    assert (found.user == "") == (found.role is Role.ROOT)
    assert found.peer == peer
    if found.user != key.user:
        assert found.role is not Role.ADMIN


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyCallers]:
    """Return what resolves callers where there is one key."""
    folder = tmp_path_factory.mktemp("keys")
    make(folder)
    callers = KeyCallers(folder, Settings().keys, FakeClock())
    yield callers
    callers.close()


@given(
    st.sampled_from(["", "Bearer", "bearer ", "Bearer vk_", "Basic ", f"Bearer vk_{NOWHERE.id}_"]),
    st.text(max_size=80) | st.from_regex(r"[a-z2-7]{8}_[a-z2-7]{52}", fullmatch=True),
)
def test_whatever_is_sent_instead_of_a_key_is_refused_alike(callers: KeyCallers, start: str, rest: str) -> None:
    with pytest.raises(UnauthenticatedError) as caught:
        callers({"authorization": start + rest, "viking-user": rest})
    assert caught.value.reason == ("KEY_INVALID" if start + rest else "KEY_MISSING")
    assert caught.value.metadata == {}


async def test_who_acts_for_another_has_their_rights_and_not_its_own(tmp_path: Path) -> None:
    gateway = make(tmp_path, "gateway", Role.ADMIN, may_act_for=True)
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await put(stubs, "viking://~/memories/a.md", who(gateway, user="bob"))
        assert await get(stubs, "viking://~/memories/a.md", who(gateway, user="bob")) == (
            "viking://user/bob/memories/a.md"
        )
        error = await refused(get(stubs, "viking://user/bob/memories/a.md", who(gateway, user="carol")))
        assert error.code() == grpc.StatusCode.PERMISSION_DENIED
        error = await refused(put(stubs, "viking://resources/a.md", who(gateway, user="bob")))
        assert error.code() == grpc.StatusCode.PERMISSION_DENIED
        await put(stubs, "viking://resources/a.md", who(gateway))


async def test_any_caller_names_a_peer_and_then_sees_no_other(tmp_path: Path) -> None:
    alice = make(tmp_path)
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await put(stubs, "viking://~/peers/bob/memories/a.md", who(alice, peer="bob"))
        assert await get(stubs, "viking://~/peers/bob/memories/a.md", who(alice, peer="bob"))
        error = await refused(get(stubs, "viking://~/peers/bob/memories/a.md", who(alice, peer="carol")))
        assert error.code() == grpc.StatusCode.PERMISSION_DENIED


async def test_names_that_are_no_ids_are_told_together(tmp_path: Path) -> None:
    root = make(tmp_path, role=Role.ROOT, may_act_for=True)
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        metadata = who(root, account="a/b", user="..", peer="a@b@c")
        error = await refused(stubs.admin.GetStoreInfo(INFO, metadata=metadata))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert violations_of(error) == {
            "metadata.viking-account": "INVALID_ACCOUNT",
            "metadata.viking-user": "INVALID_USER",
            "metadata.viking-peer": "INVALID_PEER",
        }


# -- what is refused


async def test_a_wrong_key_is_refused_alike_whether_or_not_its_id_exists(tmp_path: Path) -> None:
    right = Token.parse(make(tmp_path))
    assert right is not None
    revoked, expired = make(tmp_path), make(tmp_path, expires_us=START_US + 1)
    revoke_key(tmp_path, revoked.split("_")[1], now_us=START_US)
    other = NOWHERE.secret
    sent = [
        f"Bearer {NOWHERE.reveal()}",
        f"Bearer vk_{right.id}_{other}",
        f"Bearer vk_{revoked.split('_')[1]}_{other}",
        f"Bearer vk_{expired.split('_')[1]}_{other}",
        f"Bearer {right.reveal()}x",
        f"Bearer {right.reveal().upper()}",
        f"Basic {right.reveal()}",
        right.reveal(),
        "Bearer ",
        "Bearer vk__",
        "Bearer ' OR 1=1 --",
    ]
    clock = FakeClock()
    clock.us = START_US + 2
    statuses = set()
    async with serving(make_settings(tmp_path), clock=clock) as server, calling(server) as stubs:
        for text in sent:
            metadata = (("authorization", text), ("x-request-id", "same"))
            error = await refused(stubs.admin.GetStoreInfo(INFO, metadata=metadata))
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED, text
            statuses.add(status_of(error).SerializeToString(deterministic=True))
            assert reason_of(error) == "KEY_INVALID"
    assert len(statuses) == 1


async def test_the_scheme_is_read_in_any_case(tmp_path: Path) -> None:
    key = make(tmp_path)
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await stubs.admin.GetStoreInfo(INFO, metadata=(("authorization", f"bearer  {key} "),))


async def test_two_keys_at_once_are_refused(tmp_path: Path) -> None:
    one, other = make(tmp_path), make(tmp_path, "bob")
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        error = await refused(stubs.admin.GetStoreInfo(INFO, metadata=(*who(one), *who(other))))
        assert violations_of(error) == {"metadata.authorization": "REPEATED_METADATA"}
        assert one.encode() not in status_of(error).SerializeToString()


async def test_a_key_expires_while_it_is_used(tmp_path: Path) -> None:
    key = make(tmp_path, expires_us=START_US + 10)
    clock = FakeClock()
    async with serving(make_settings(tmp_path), clock=clock) as server, calling(server) as stubs:
        clock.us = START_US + 9
        await stubs.admin.GetStoreInfo(INFO, metadata=who(key))
        clock.us = START_US + 10
        error = await refused(stubs.admin.GetStoreInfo(INFO, metadata=who(key)))
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAUTHENTICATED, "KEY_EXPIRED")


# -- what a change does to a running server


async def test_a_running_server_follows_what_is_added_and_revoked(tmp_path: Path) -> None:
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:

        async def reason(key: str = "") -> str:
            try:
                await stubs.admin.GetStoreInfo(INFO, metadata=who(key))
            except grpc.aio.AioRpcError as error:
                return reason_of(error)
            return "OK"

        async def reads(key: str, wanted: str) -> bool:
            return await reason(key) == wanted

        assert await reason() == "OK"
        first = make(tmp_path)
        await until(lambda: reads("", "KEY_MISSING"))
        assert await reason(first) == "OK"
        second = make(tmp_path)
        await until(lambda: reads(second, "OK"))
        revoke_key(tmp_path, first.split("_")[1], now_us=START_US)
        await until(lambda: reads(first, "KEY_REVOKED"))
        assert await reason(second) == "OK"
        revoke_key(tmp_path, second.split("_")[1], now_us=START_US)
        await until(lambda: reads(second, "KEY_REVOKED"))
        assert await reason() == "KEY_MISSING"  # no key is left, and nothing is open


async def test_a_file_that_goes_or_is_damaged_opens_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = make(tmp_path)
    whole = (tmp_path / KEYS_NAME).read_bytes()
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:

        async def reads(key: str, wanted: str) -> bool:
            try:
                await stubs.admin.GetStoreInfo(INFO, metadata=who(key))
            except grpc.aio.AioRpcError as error:
                return reason_of(error) == wanted
            return wanted == "OK"

        assert await reads(key, "OK")
        (tmp_path / KEYS_NAME).unlink()
        await until(lambda: reads(key, "KEY_INVALID"))
        assert await reads("", "KEY_MISSING")
        (tmp_path / KEYS_NAME).write_bytes(b"")
        await until(lambda: reads(key, "KEYS_UNREADABLE"))
        (tmp_path / KEYS_NAME).unlink()
        (tmp_path / KEYS_NAME).write_bytes(whole)
        await until(lambda: reads(key, "OK"))
    told = [record.getMessage().split()[0] for record in caplog.records if record.name == "viking_rpc.server.keys"]
    assert told == ["keys_gone", "keys_unreadable", "keys_readable"]


async def test_keys_can_be_wanted_before_there_are_any(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, server={"listen": "127.0.0.1:0"}, keys={"required": True})
    async with serving(settings) as server, calling(server) as stubs:
        assert reason_of(await refused(stubs.admin.GetStoreInfo(INFO))) == "KEY_MISSING"
        error = await refused(stubs.admin.GetStoreInfo(INFO, metadata=who(NOWHERE.reveal())))
        assert reason_of(error) == "KEY_INVALID"


async def test_callers_that_are_remembered_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viking_rpc.server.keys._MAX_KNOWN", 2)
    key = make(tmp_path, may_act_for=True)
    callers = KeyCallers(tmp_path, Settings().keys, FakeClock())
    users = [f"u{i}" for i in range(5)]
    found = [callers(dict(who(key, user=user))).identity.user for user in (*users, *users)]
    callers.close()
    assert found == [*users, *users]


# -- limits


class Seconds:
    """A clock that stands still until it is told."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def taken(allowance: Allowance) -> str:
    """Make one call that ends at once; return how it went."""
    try:
        with allowance:
            return "OK"
    except ResourceExhaustedError as error:
        assert error.retry_after_s is not None
        return f"{error.reason} {error.retry_after_s:.3f}"


def test_a_bucket_empties_and_fills_up() -> None:
    seconds = Seconds()
    allowance = Allowance(rate=10.0, burst=3, max_calls=0, now_s=seconds)
    assert [taken(allowance) for _ in range(4)] == ["OK", "OK", "OK", "KEY_RATE_EXCEEDED 0.100"]
    seconds.now += 0.05
    assert taken(allowance) == "KEY_RATE_EXCEEDED 0.050"
    seconds.now += 0.0501
    assert [taken(allowance) for _ in range(2)] == ["OK", "KEY_RATE_EXCEEDED 0.100"]
    seconds.now += 1000.0
    assert [taken(allowance) for _ in range(4)][-2:] == ["OK", "KEY_RATE_EXCEEDED 0.100"]


def test_without_a_burst_the_bucket_holds_one_second_and_at_least_one_call() -> None:
    slow, fast = (Allowance(rate, 0, 0, Seconds()) for rate in (0.5, 3.0))
    assert [taken(slow) for _ in range(2)] == ["OK", "KEY_RATE_EXCEEDED 2.000"]
    assert [taken(fast) for _ in range(4)] == ["OK", "OK", "OK", "KEY_RATE_EXCEEDED 0.333"]


def test_calls_in_work_are_counted_whichever_way_they_end() -> None:
    allowance = Allowance(0.0, 0, 1)
    with allowance:
        assert taken(allowance) == "KEY_TOO_MANY_CALLS 0.100"
    with suppress(ValueError), allowance:
        raise ValueError
    assert (allowance.n_calls, taken(allowance)) == (0, "OK")


async def test_a_key_over_its_rate_is_refused_and_told_when_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viking_rpc.server.keys.LOOK_S", 0.0)
    slow = make(tmp_path, may_act_for=True, limits=KeyLimits(rate=0.001, burst=2))
    free = make(tmp_path)
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await stubs.admin.GetStoreInfo(INFO, metadata=who(slow))
        await stubs.admin.GetStoreInfo(INFO, metadata=who(slow, user="bob"))  # whoever it acts for
        error = await refused(stubs.admin.GetStoreInfo(INFO, metadata=who(slow)))
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "KEY_RATE_EXCEEDED")
        retry = detail(status_of(error), error_details_pb2.RetryInfo)
        assert retry is not None
        assert retry.retry_delay.seconds > 900
        make(tmp_path, "another")  # which makes the server read the keys again
        assert reason_of(await refused(stubs.admin.GetStoreInfo(INFO, metadata=who(slow)))) == "KEY_RATE_EXCEEDED"
        for _ in range(4):
            await stubs.admin.GetStoreInfo(INFO, metadata=who(free))


async def test_the_settings_limit_keys_that_have_no_limits_of_their_own(tmp_path: Path) -> None:
    usual, own, none = (
        make(tmp_path),
        make(tmp_path, limits=KeyLimits(burst=3)),
        make(tmp_path, limits=KeyLimits(rate=0.0)),
    )
    settings = Settings(data=tmp_path, server={"listen": "127.0.0.1:0"}, keys={"rate": 0.001, "burst": 1})
    async with serving(settings) as server, calling(server) as stubs:
        for key, n_allowed in ((usual, 1), (own, 3), (none, 10)):
            for _ in range(n_allowed):
                await stubs.admin.GetStoreInfo(INFO, metadata=who(key))
        for key in (usual, own):
            assert reason_of(await refused(stubs.admin.GetStoreInfo(INFO, metadata=who(key)))) == "KEY_RATE_EXCEEDED"


async def test_a_key_has_so_many_calls_in_work(tmp_path: Path) -> None:
    narrow, free = make(tmp_path, limits=KeyLimits(max_calls=1)), make(tmp_path)
    embedder = StuckEmbedder()
    async with serving(make_settings(tmp_path), embedder=embedder) as server, calling(server) as stubs:
        stuck = stubs.retrieval.Retrieve(RETRIEVE, metadata=who(narrow))
        asking = asyncio.ensure_future(stuck)
        await asyncio.wait_for(embedder.is_asked.wait(), 5)
        error = await refused(stubs.admin.GetStoreInfo(INFO, metadata=who(narrow)))
        assert (error.code(), reason_of(error)) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "KEY_TOO_MANY_CALLS")
        assert detail(status_of(error), error_details_pb2.RetryInfo) is not None
        await stubs.admin.GetStoreInfo(INFO, metadata=who(free))
        stuck.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(embedder.is_given_up.wait(), 5)

        async def is_free() -> bool:
            try:
                await stubs.admin.GetStoreInfo(INFO, metadata=who(narrow))
            except grpc.aio.AioRpcError:
                return False
            return True

        await until(is_free)


# -- what is never shown


async def test_no_secret_is_logged_or_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    right, wrong = make(tmp_path), NOWHERE.reveal()
    async with serving(make_settings(tmp_path)) as server, calling(server) as stubs:
        await stubs.admin.GetStoreInfo(INFO, metadata=who(right))
        for metadata in (who(wrong), who(right, user="bob"), (*who(right), *who(wrong))):
            error = await refused(stubs.admin.GetStoreInfo(INFO, metadata=metadata))
            assert b"vk_" not in status_of(error).SerializeToString()
        remembered = repr(server._keys._known)
    secrets = [text.split("_")[2] for text in (right, wrong)]
    kept = everything_in(tmp_path)
    for secret in secrets:
        assert secret not in caplog.text
        assert secret not in remembered
        assert secret.encode() not in kept
    lines = [record.getMessage() for record in caplog.records if "method=AdminService/GetStoreInfo" in record.message]
    assert f"key={right.split('_')[1]}" in lines[0]
    assert "reason=KEY_INVALID" in lines[1]


def test_what_is_printed_of_keys_holds_no_secret(tmp_path: Path) -> None:
    key, token = add_key(tmp_path, account="a", user="u", role=Role.USER, now_us=START_US)
    shown = f"{key!r} {token!r} {key} {token} {list_keys(tmp_path)!r}"
    assert token.secret not in shown
    assert key.digest.hex() not in shown
    assert repr(key.digest) not in shown
    assert Token.parse(token.reveal()) == token


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    make(tmp_path)
    assert (tmp_path / KEYS_NAME).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [KEYS_NAME]


# -- where it listens


async def test_with_keys_it_listens_anywhere(tmp_path: Path) -> None:
    make(tmp_path)
    async with serving(make_settings(tmp_path, listen="0.0.0.0:0")) as server:
        port = server.address.rpartition(":")[2]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert reason_of(await refused(Stubs(channel).admin.GetStoreInfo(INFO))) == "KEY_MISSING"


async def test_without_keys_it_listens_anywhere_only_when_told_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refused_server = Server(make_settings(tmp_path, listen="0.0.0.0:0"), embedder=TableEmbedder())
    with pytest.raises(VikingError) as caught:
        await refused_server.start()
    await refused_server.stop()
    assert caught.value.reason == "NOT_LOOPBACK"
    assert "--insecure" in caught.value.message
    async with serving(make_settings(tmp_path, listen="0.0.0.0:0", insecure=True)) as server:
        port = server.address.rpartition(":")[2]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await Stubs(channel).admin.GetStoreInfo(INFO)
    assert any(record.getMessage().startswith("exposed reason=insecure ") for record in caplog.records)
