"""What `viking keys` does: a new key goes to stdout once, everything about it to stderr."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from viking_rpc.cli.console import err, out, print_json, print_text
from viking_rpc.cli.session import settings_for
from viking_rpc.domain.identity import Role
from viking_rpc.domain.keys import Token
from viking_rpc.domain.times import parse_expiry
from viking_rpc.store.keys import add_key, has_keys, list_keys, revoke_key

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.domain.keys import Key, KeyLimits


def make_key(
    account: str,
    user: str,
    role: str,
    may_act_for: bool,
    expires: str | None,
    limits: KeyLimits,
    *,
    data: Path | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Make a key and print it. Raises as `store.keys.add_key`, and INVALID_TIME."""
    settings = settings_for(data, config)
    now_us = _now_us()
    expires_us = None if expires is None else parse_expiry(expires, now_us, "--expires")
    is_first = not has_keys(settings.data)
    key, token = add_key(
        settings.data,
        account=account,
        user=user,
        role=Role(role),
        now_us=now_us,
        may_act_for=may_act_for,
        expires_us=expires_us,
        limits=limits,
    )
    if as_json:
        print_json({"key": token.reveal()} | _described(key, now_us))
        return
    err.print(f"[bold]{key.id}[/]: {escape(_who(key))}; keep it now, it is shown once", soft_wrap=True)
    if is_first:
        err.print(f"[dim]from now on every caller of {escape(str(settings.data))} needs a key[/]", soft_wrap=True)
    print_text(token.reveal())


def show_keys(data: Path | None, config: Path | None, *, as_json: bool) -> None:
    """Print all keys. Raises as `store.keys.list_keys`."""
    settings = settings_for(data, config)
    now_us = _now_us()
    keys = list_keys(settings.data)
    if as_json:
        print_json({"keys": [_described(key, now_us) for key in keys]})
        return
    if not keys:
        err.print(f"[dim]there are no keys in {escape(str(settings.data))}[/]", soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False)
    for name in ("id", "state", "who", "made", "valid until", "limits"):
        table.add_column(name, overflow="fold")
    for key in keys:
        state = _state(key, now_us)
        colour = "green" if state == "valid" else "dim"
        until = "" if key.expires_us is None else _time(key.expires_us)
        table.add_row(
            key.id, f"[{colour}]{state}[/]", escape(_who(key)), _time(key.created_us), until, _limits(key.limits)
        )
    out.print(table)


def end_key(key_id: str, data: Path | None, config: Path | None, *, as_json: bool) -> None:
    """Revoke a key. Raises as `store.keys.revoke_key`."""
    settings = settings_for(data, config)
    token = Token.parse(key_id)  # who pastes a whole key must not find it in an error
    now_us = _now_us()
    key = revoke_key(settings.data, key_id if token is None else token.id, now_us=now_us)
    if as_json:
        print_json(_described(key, now_us))
        return
    out.print(f"[bold]{key.id}[/] is revoked: {escape(_who(key))}", soft_wrap=True)


def _described(key: Key, now_us: int) -> dict[str, Any]:
    return {
        "id": key.id,
        "account": key.account,
        "user": key.user,
        "role": key.role.value,
        "may_act_for": key.may_act_for,
        "state": _state(key, now_us),
        "create_time": _time(key.created_us),
        "expire_time": None if key.expires_us is None else _time(key.expires_us),
        "revoke_time": None if key.revoked_us is None else _time(key.revoked_us),
        "rate": key.limits.rate,
        "burst": key.limits.burst,
        "max_calls": key.limits.max_calls,
    }


def _state(key: Key, now_us: int) -> str:
    if key.revoked_us is not None:
        return "revoked"
    return "expired" if key.expires_us is not None and now_us >= key.expires_us else "valid"


def _who(key: Key) -> str:
    acts = ", may act for others" if key.may_act_for else ""
    return f"{key.role.value} {key.user} of account {key.account}{acts}"


def _limits(limits: KeyLimits) -> str:
    parts = [
        "" if limits.rate is None else f"{limits.rate:g}/s",
        "" if limits.burst is None else f"{limits.burst} at once",
        "" if limits.max_calls is None else f"{limits.max_calls} in work",
    ]
    return ", ".join(part for part in parts if part)


def _time(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _now_us() -> int:
    return time.time_ns() // 1000
