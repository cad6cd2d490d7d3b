"""How a channel is opened, and what every call says beside its message."""

from __future__ import annotations

from typing import Any, Final

from viking_rpc.pb import service_config

DEFAULT_ADDRESS: Final = "127.0.0.1:7654"

_KEEPALIVE_MS: Final = 30_000
_KEEPALIVE_TIMEOUT_MS: Final = 10_000

Metadata = tuple[tuple[str, str], ...]


def channel_options() -> list[tuple[str, Any]]:
    """Return the options of a channel: deadlines and retries of the contract, and pings while calls are open."""
    return [
        ("grpc.service_config", service_config()),
        ("grpc.enable_retries", 1),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
    ]


def call_metadata(*, key: str, account: str, user: str, peer: str) -> Metadata:
    """Return the metadata that says who calls; what is empty is left out."""
    named = (
        ("authorization", f"Bearer {key}" if key else ""),
        ("viking-account", account),
        ("viking-user", user),
        ("viking-peer", peer),
    )
    return tuple((name, value) for name, value in named if value)
