"""The Python clients keep the contract's service config, and are one client in two forms."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from tests.polyglot.front import N_REFUSED, refusing_front
from viking_rpc.client import AsyncClient, Client, connect, connect_async
from viking_rpc.client.channel import channel_options
from viking_rpc.errors import UnavailableError
from viking_rpc.pb import service_config


def test_the_blocking_client_tries_again_what_is_safe_to_repeat(address: str) -> None:
    with refusing_front(address) as (front_address, front), connect(front_address) as client:
        assert client.info().dimensions > 0
        with pytest.raises(UnavailableError):
            client.touch(["viking://resources"])
    assert front.n_calls == {"GetStoreInfo": N_REFUSED + 1, "TouchContexts": 1}


def test_the_asyncio_client_tries_again_what_is_safe_to_repeat(address: str) -> None:
    async def call(front_address: str) -> None:
        async with connect_async(front_address) as client:
            assert (await client.info()).dimensions > 0
            with pytest.raises(UnavailableError):
                await client.touch(["viking://resources"])

    with refusing_front(address) as (front_address, front):
        asyncio.run(call(front_address))
    assert front.n_calls == {"GetStoreInfo": N_REFUSED + 1, "TouchContexts": 1}


def test_who_is_refused_more_often_than_the_config_allows_hears_of_it(address: str) -> None:
    with (
        refusing_front(address, n_refused=10) as (front_address, front),
        connect(front_address) as client,
        pytest.raises(UnavailableError),
    ):
        client.info()
    assert front.n_calls["GetStoreInfo"] == 4


def test_a_channel_has_the_service_config_and_pings_that_a_server_permits() -> None:
    options = dict(channel_options())
    assert options["grpc.service_config"] == service_config()
    assert options["grpc.keepalive_time_ms"] >= 10_000


def methods(client: type) -> dict[str, tuple[dict[str, object], str | None]]:
    """Return the parameters with their defaults, and the text, of each public method."""
    return {
        name: ({p.name: p.default for p in inspect.signature(method).parameters.values()}, inspect.getdoc(method))
        for name, method in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_asyncio_client_is_the_blocking_one_in_another_form() -> None:
    assert methods(AsyncClient) == methods(Client)
