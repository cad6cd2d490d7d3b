"""Several processes behind keys and TLS, started as an operator starts them."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc

from tests.server.certificates import Authority
from viking_rpc.client import Client
from viking_rpc.client.channel import call_metadata
from viking_rpc.domain.identity import Role
from viking_rpc.errors import VikingError
from viking_rpc.store.keys import add_key, revoke_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

N_WORKERS = 2
#: So many connections that each worker has some: the kernel gives them out by chance.
N_CONNECTIONS = 8
CONFIG = """
[embedder]
name = "none"
dimensions = 4
"""
_PATIENCE_S = 60.0


@contextmanager
def running(*arguments: str) -> Iterator[tuple[str, list[str]]]:
    """Run `viking serve`; yield its address and its log, which grows."""
    command = [sys.executable, "-m", "viking_rpc.cli.main", "serve", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        log: list[str] = []
        assert process.stderr is not None
        try:
            for line in process.stderr:
                log.append(line)
                if found := re.match(r"(\S+:\d+) serves ", line):
                    break
            else:
                raise AssertionError("".join(log))
            reader = threading.Thread(target=log.extend, args=(process.stderr,), daemon=True)
            reader.start()
            yield found[1], log
        finally:
            process.terminate()
            process.wait(30)


def test_every_worker_asks_for_keys_and_follows_what_changes(tmp_path: Path) -> None:
    data, ours, other = tmp_path / "data", Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    files = ours.sign("server")
    now_us = time.time_ns() // 1000
    key, token = add_key(data, account="acme", user="alice", role=Role.USER, now_us=now_us)
    (data / "viking.toml").write_text(CONFIG)
    tls = ("--tls-cert", str(files.cert), "--tls-key", str(files.key))
    serving = ("--data", str(data), "--listen", "0.0.0.0:0", "--workers", str(N_WORKERS), *tls)
    with running(*serving) as (address, log):
        port = address.rpartition(":")[2]

        def ask(sent: str, authority: Authority) -> str:
            """Return how a call on a connection of its own ends: OK, or the reason."""
            options = [("grpc.use_local_subchannel_pool", 1)]
            credentials = grpc.ssl_channel_credentials(authority.path.read_bytes())
            channel = grpc.secure_channel(f"localhost:{port}", credentials, options)
            metadata = call_metadata(key=sent, account="", user="", peer="")
            with Client(channel, metadata) as client:
                try:
                    client.info(timeout_s=_PATIENCE_S)
                except VikingError as error:
                    return error.reason
            return "OK"

        def ask_all(sent: str, authority: Authority = ours) -> set[str]:
            return {ask(sent, authority) for _ in range(N_CONNECTIONS)}

        assert ask_all("") == {"KEY_MISSING"}
        assert ask_all(token.reveal()) == {"OK"}
        second = add_key(data, account="acme", user="bob", role=Role.USER, now_us=now_us)[1]
        until(lambda: ask_all(second.reveal()) == {"OK"})
        revoke_key(data, key.id, now_us=now_us)
        until(lambda: ask_all(token.reveal()) == {"KEY_REVOKED"})
        other.sign("server")
        assert ask_all(second.reveal(), other) == {"OK"}
    text = "".join(log)
    assert {str(i) for i in range(1, N_WORKERS + 1)} <= set(re.findall(r"worker\W+(\d)", text))
    for one in (token, second):
        assert one.secret not in text


def until(condition: Callable[[], bool]) -> None:
    """Ask again until the answer is true."""
    end_s = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s
