"""TLS from files: who is trusted, what a change of the files does, and what a broken file does not do."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.server.certificates import Authority, Files
from tests.server.conftest import serving
from tests.server.fakes import START_US, TableEmbedder
from viking_rpc.client import Tls, connect, connect_async
from viking_rpc.client.channel import check_plain_text
from viking_rpc.config import ConfigError, Settings, load_settings
from viking_rpc.domain.address import as_reached_here, is_loopback
from viking_rpc.domain.identity import Role
from viking_rpc.errors import FailedPreconditionError, UnauthenticatedError, UnavailableError
from viking_rpc.server.app import Server
from viking_rpc.store.keys import add_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from viking_rpc.client import AsyncClient
    from viking_rpc.domain.trace import Match

#: For handshakes that fail: a client would try again for as long as its deadline allows.
_TIMEOUT_S = 5.0


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    """Return the authority that signs the server."""
    return Authority(tmp_path, "ours")


@pytest.fixture
def other(tmp_path: Path) -> Authority:
    """Return another one."""
    return Authority(tmp_path, "other")


def settings_of(tmp_path: Path, files: Files, listen: str = "127.0.0.1:0", client_ca: Path | None = None) -> Settings:
    """Return the settings of a server with TLS."""
    tls = {**files.settings, "client_ca": client_ca}
    return Settings(data=tmp_path / "data", server={"listen": listen}, tls=tls)


@asynccontextmanager
async def asking(server: Server, tls: Tls | None, key: str = "") -> AsyncIterator[AsyncClient]:
    """Open a connection of its own."""
    async with connect_async(server.address, tls=tls, key=key) as client:
        yield client


async def is_trusted(server: Server, tls: Tls | None) -> bool:
    """Return whether a new connection comes about."""
    async with asking(server, tls) as client:
        try:
            await client.info(timeout_s=_TIMEOUT_S)
        except UnavailableError:
            return False
    return True


async def test_only_who_trusts_the_server_talks_to_it(tmp_path: Path, ours: Authority, other: Authority) -> None:
    async with serving(settings_of(tmp_path, ours.sign("server"))) as server:
        assert await is_trusted(server, ours.tls())
        assert not await is_trusted(server, other.tls())
        assert not await is_trusted(server, None)
        assert not await is_trusted(server, Tls())


async def test_the_blocking_client_speaks_tls_with_a_key(tmp_path: Path, ours: Authority) -> None:
    token = add_key(tmp_path / "data", account="acme", user="alice", role=Role.USER, now_us=START_US)[1]
    async with serving(settings_of(tmp_path, ours.sign("server"))) as server:

        def ask(key: str) -> list[Match]:
            with connect(server.address, key=key, tls=ours.tls()) as client:
                return list(client.retrieve("x", timeout_s=_TIMEOUT_S).matches)

        assert await asyncio.to_thread(ask, token.reveal()) == []
        with pytest.raises(UnauthenticatedError) as caught:
            await asyncio.to_thread(ask, "")
        assert caught.value.reason == "KEY_MISSING"


async def test_a_new_certificate_needs_no_restart(
    tmp_path: Path, ours: Authority, other: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "viking_rpc.server.tls")
    async with serving(settings_of(tmp_path, ours.sign("server"))) as server, asking(server, ours.tls()) as before:
        await before.info()
        other.sign("server")
        assert await is_trusted(server, other.tls())
        assert not await is_trusted(server, ours.tls())
        await before.info()  # what is connected stays so
    assert [record.getMessage().split()[0] for record in caplog.records if record.name == "viking_rpc.server.tls"] == [
        "tls_reloaded"
    ]


async def test_files_that_do_not_belong_together_change_nothing_until_they_do(
    tmp_path: Path, ours: Authority, other: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "viking_rpc.server.tls")
    files = ours.sign("server")
    new = other.sign("new")
    async with serving(settings_of(tmp_path, files)) as server:
        files.cert.write_bytes(new.cert.read_bytes())
        assert await is_trusted(server, ours.tls())
        assert await is_trusted(server, ours.tls())
        files.key.unlink()
        assert await is_trusted(server, ours.tls())
        files.key.write_bytes(new.key.read_bytes())
        assert await is_trusted(server, other.tls())
    told = [record.getMessage() for record in caplog.records if record.name == "viking_rpc.server.tls"]
    assert [line.split()[0] for line in told] == ["tls_not_reloaded", "tls_not_reloaded", "tls_reloaded"]
    assert "PRIVATE" not in caplog.text


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
async def test_a_broken_file_keeps_the_old_certificate(tmp_path: Path, ours: Authority, content: bytes) -> None:
    files = ours.sign("server")
    async with serving(settings_of(tmp_path, files)) as server:
        files.cert.write_bytes(content)
        assert await is_trusted(server, ours.tls())


async def test_with_a_client_authority_every_client_needs_a_certificate(
    tmp_path: Path, ours: Authority, other: Authority
) -> None:
    client, stranger = ours.sign("client"), other.sign("stranger")
    trusted = tmp_path / "clients.pem"
    trusted.write_bytes(ours.path.read_bytes())
    async with serving(settings_of(tmp_path, ours.sign("server"), client_ca=trusted)) as server:
        assert await is_trusted(server, ours.tls(client))
        assert not await is_trusted(server, ours.tls())
        assert not await is_trusted(server, ours.tls(stranger))
        trusted.write_bytes(b"garbage")
        assert await is_trusted(server, ours.tls(client))
        trusted.write_bytes(other.path.read_bytes())
        assert await is_trusted(server, ours.tls(stranger))
        assert not await is_trusted(server, ours.tls(client))


@pytest.mark.parametrize("broken", ["missing", "garbage", "of another", "under a password"])
async def test_it_does_not_start_with_files_that_cannot_be_used(tmp_path: Path, ours: Authority, broken: str) -> None:
    files = ours.sign("server")
    if broken == "missing":
        files.key.unlink()
    elif broken == "garbage":
        files.key.write_text("garbage")
    elif broken == "of another":
        files.key.write_bytes(ours.sign("another").key.read_bytes())
    else:
        files.key.write_bytes(under_password(files.key.read_bytes()))
    server = Server(settings_of(tmp_path, files), embedder=TableEmbedder())
    with pytest.raises(FailedPreconditionError) as caught:
        await server.start()
    await server.stop()
    assert caught.value.reason == "TLS_FILES_UNUSABLE"
    assert str(files.key) in caught.value.message
    assert not (tmp_path / "data").exists()


def under_password(pem: bytes) -> bytes:
    """Return a key as it is kept under a password."""
    from cryptography.hazmat.primitives import serialization as s

    key = s.load_pem_private_key(pem, None)
    return key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"secret"))


async def test_a_socket_file_has_no_tls(tmp_path: Path, ours: Authority) -> None:
    async with serving(settings_of(tmp_path, ours.sign("server"), f"unix:{tmp_path}/socket")) as server:
        assert await is_trusted(server, None)


@pytest.mark.parametrize("given", [("cert",), ("key",), ("client_ca",), ("cert", "client_ca")])
def test_settings_that_lack_a_file_are_refused(tmp_path: Path, given: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="tls: cert and key go together"):
        load_settings({"data": tmp_path, **{f"tls.{name}": "x.pem" for name in given}})


# -- the client's side


@pytest.mark.parametrize(
    ("address", "is_ours"),
    [
        ("127.0.0.1:7654", True),
        ("[::1]:7654", True),
        ("localhost:7654", True),
        ("dns:///localhost:7654", True),
        ("unix:/run/x", True),
        ("10.0.0.1:7654", False),
        ("example.org:7654", False),
        ("localhost.example.org:7654", False),
        ("dns://10.0.0.1/localhost:7654", False),
        ("ipv4:10.0.0.1:1,127.0.0.1:1", False),
        ("0.0.0.0:7654", False),
    ],
)
def test_a_key_goes_to_other_machines_over_tls_only(tmp_path: Path, address: str, is_ours: bool) -> None:
    assert is_loopback(address) == is_ours
    check_plain_text(address, "", None, allow_plain_key=False)
    check_plain_text(address, "vk", None, allow_plain_key=True)
    check_plain_text(address, "vk", Tls(tmp_path), allow_plain_key=False)
    if is_ours:
        check_plain_text(address, "vk", None, allow_plain_key=False)
        return
    for connecting in (connect, connect_async):
        with pytest.raises(FailedPreconditionError) as caught:
            connecting(address, key="vk_secret")
        assert caught.value.reason == "KEY_IN_PLAIN_TEXT"
        assert "secret" not in str(caught.value)


def test_all_addresses_are_reached_here_by_loopback() -> None:
    reached = [as_reached_here(address) for address in ("0.0.0.0:1", "[::]:1", "10.0.0.1:1", "unix:/run/x")]
    assert reached == ["127.0.0.1:1", "[::1]:1", "10.0.0.1:1", "unix:/run/x"]


def test_a_client_says_which_file_it_cannot_use(tmp_path: Path, ours: Authority) -> None:
    missing, garbage, files = tmp_path / "missing.pem", tmp_path / "garbage.pem", ours.sign("client")
    garbage.write_text("garbage")
    for tls in (Tls(missing), Tls(garbage), Tls(None, files.cert, garbage), Tls(None, files.cert)):
        with pytest.raises(FailedPreconditionError) as caught:
            tls.credentials()
        assert caught.value.reason == "TLS_FILES_UNUSABLE"
