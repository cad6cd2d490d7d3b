"""What a server tells of itself, and only what the caller may read of its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.server.conftest import Stubs, calling, make_settings, serving
from tests.server.fakes import START_US, FakeClock
from tests.server.test_contexts_rpc import R, packed, put
from viking_rpc.domain.identity import Identity, Role
from viking_rpc.pb.v1 import admin_service_pb2
from viking_rpc.pb.v1 import retrieval_service_pb2 as pb
from viking_rpc.pb.v1.context_pb2 import Context
from viking_rpc.pb.v1.context_service_pb2 import DeleteContextsRequest, UpsertContextsRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from viking_rpc.server.app import Server

REQUEST = admin_service_pb2.GetStoreInfoRequest()


async def test_an_empty_store(stubs: Stubs, server: Server) -> None:
    info = await stubs.admin.GetStoreInfo(REQUEST)
    assert info.server_version
    assert (info.dimensions, info.embedder, info.data_model_id, info.reranker) == (2, "table", "", "")
    assert (info.context_count, info.row_count, info.revision) == (0, 0, 0)
    assert (dict(info.contexts_by_type), dict(info.rows_by_level)) == ({}, {})
    assert info.index_state == admin_service_pb2.INDEX_STATE_READY
    assert info.start_time.ToMicroseconds() == START_US
    assert info.settings["data"] == str(server.runner.settings.data)
    assert info.settings["server.max_in_flight"] == "256"
    assert not info.warnings


async def test_profiles_tell_the_options_of_a_request_that_sets_none(stubs: Stubs) -> None:
    info = await stubs.admin.GetStoreInfo(REQUEST)
    assert set(info.profile_options) == {"PROFILE_BALANCED", "PROFILE_CLASSIC", "PROFILE_EXHAUSTIVE"}
    assert info.profile_options["PROFILE_BALANCED"] == info.default_options
    for name, options in info.profile_options.items():
        assert pb.Profile.Name(options.profile) == name
        for field in ("score_propagation_alpha", "lexical_weight", "global_top_k", "parallelism", "convergence_rounds"):
            assert options.HasField(field)
        # what is reported can be sent back
        await stubs.retrieval.Retrieve(pb.RetrieveRequest(query=pb.Query(text="x"), options=options))


async def test_counts_follow_writes_and_leave_out_what_is_gone_or_expired(stubs: Stubs, clock: FakeClock) -> None:
    context = Context(uri=f"{R}/d/b.md", content="x")
    context.expire_time.FromMicroseconds(START_US + 1000)
    await put(
        stubs,
        Context(uri=f"{R}/d", kind=1, abstract="x", overview="y"),
        Context(uri=f"{R}/d/a.md", content="x"),
        context,
        Context(uri="viking://~/memories/m.md", content="x"),
        Context(uri="viking://agent/skills/s.md", vectors=[packed(0.5)]),
    )
    await put(stubs, Context(uri=f"{R}/d/a.md", content="again"))
    info = await stubs.admin.GetStoreInfo(REQUEST)
    # resources, d; user, default, memories; agent, skills
    assert (info.directory_count, info.file_count, info.context_count) == (6, 4, 10)
    assert dict(info.contexts_by_type) == {
        "CONTEXT_TYPE_RESOURCE": 6,
        "CONTEXT_TYPE_MEMORY": 2,
        "CONTEXT_TYPE_SKILL": 2,
    }
    assert dict(info.rows_by_level) == {"LEVEL_ABSTRACT": 1, "LEVEL_OVERVIEW": 1, "LEVEL_DETAIL": 4}
    assert (info.row_count, info.revision, info.data_model_id) == (6, 2, "table")
    clock.us += 1001
    await stubs.contexts.DeleteContexts(DeleteContextsRequest(uris=["viking://~/memories"], recursive=True))
    info = await stubs.admin.GetStoreInfo(REQUEST)
    assert (info.directory_count, info.file_count, info.row_count) == (5, 2, 4)


async def test_what_is_another_s_is_not_counted(tmp_path: Path) -> None:
    def resolve(metadata: Mapping[str, str]) -> Identity:
        return Identity("acme", metadata["user"], Role.USER, metadata.get("peer", ""))

    async with serving(make_settings(tmp_path), resolve=resolve) as server, calling(server) as stubs:
        for user, n in (("alice", 1), ("bob", 3)):
            contexts = [Context(uri=f"viking://~/peers/{i}/memories/x.md", content="x") for i in range(n)]
            await stubs.contexts.UpsertContexts(UpsertContextsRequest(contexts=contexts), metadata=(("user", user),))
        counts = []
        for metadata in ({"user": "alice"}, {"user": "bob"}, {"user": "bob", "peer": "1"}):
            info = await stubs.admin.GetStoreInfo(REQUEST, metadata=tuple(metadata.items()))
            counts.append((info.directory_count, info.file_count, info.row_count))
    # home, peers, one peer, its memories; `user` itself tells of others and is nobody's
    assert counts == [(4, 1, 1), (8, 3, 3), (3, 1, 1)]


async def test_a_layout_that_is_under_way_is_told(stubs: Stubs, server: Server) -> None:
    request = admin_service_pb2.GetStoreInfoRequest()
    with server.runner.store._tree("default")._laying_out:
        assert (await stubs.admin.GetStoreInfo(request)).index_state == admin_service_pb2.INDEX_STATE_MERGING
    assert (await stubs.admin.GetStoreInfo(request)).index_state == admin_service_pb2.INDEX_STATE_READY
