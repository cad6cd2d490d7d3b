"""A file that may not grow, as on a full disk: the write is refused, what was acknowledged stays."""

from __future__ import annotations

import resource
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from tests.server.details import reason_of
from tests.server.test_contexts_rpc import R, get, put, refused
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.pb.v1.context_service_pb2 import ImportContextsRequest, TouchContextsRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server.conftest import Stubs


@contextmanager
def no_growth(path: Path) -> Iterator[None]:
    """Let no file of this process grow beyond one's size; Python ignores the signal, so that writes fail instead."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", ["upsert", "import", "touch"])
async def test_what_cannot_be_written_is_refused_and_the_rest_stays(stubs: Stubs, tmp_path: Path, kind: str) -> None:
    before = await put(stubs, Context(uri=f"{R}/kept", content="x"))
    big = Context(uri=f"{R}/big", content="y" * 500_000)
    with no_growth(tmp_path / "viking.db-wal"):
        if kind == "import":
            call = stubs.contexts.ImportContexts(iter([ImportContextsRequest(sequence=1, contexts=[big])]))
            assert (await call.read()).error.code == grpc.StatusCode.UNAVAILABLE.value[0]
        elif kind == "touch":
            error = await refused(stubs.contexts.TouchContexts(TouchContextsRequest(uris=[f"{R}/kept"])))
            assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAVAILABLE, "DISK_ERROR")
        else:
            error = await refused(put(stubs, big))
            assert (error.code(), reason_of(error)) == (grpc.StatusCode.UNAVAILABLE, "DISK_ERROR")
        kept = await get(stubs, f"{R}/kept")
        assert (kept.content, kept.active_count, kept.etag) == ("x", 0, before.contexts[0].etag)
    assert (await put(stubs, big)).revision == before.revision + 1
    assert len((await get(stubs, f"{R}/big")).content) == 500_000
