"""Requests of every service, kept as bytes, still parse and mean the same.

The files in tests/wire are never made again. For a new request add it to REQUESTS and run `python -m
tests.contract.test_wire`, which writes only what does not exist.
"""

import struct
import sys
from pathlib import Path

import pytest
from google.protobuf import duration_pb2, json_format, timestamp_pb2
from google.protobuf.message import Message

from viking_rpc.pb.v1 import admin_service_pb2 as admin
from viking_rpc.pb.v1 import context_pb2 as pb
from viking_rpc.pb.v1 import context_service_pb2 as contexts
from viking_rpc.pb.v1 import retrieval_service_pb2 as retrieval

WIRE = Path(__file__).resolve().parents[1] / "wire"

FILTER = pb.Filter(
    tags={"team": "platform"},
    levels=[pb.LEVEL_ABSTRACT, pb.LEVEL_DETAIL],
    updated_since=timestamp_pb2.Timestamp(seconds=1_767_225_600),
    updated_before=timestamp_pb2.Timestamp(seconds=1_775_001_600),
    created_since=timestamp_pb2.Timestamp(seconds=1_735_689_600),
    created_before=timestamp_pb2.Timestamp(seconds=1_775_001_600, nanos=500_000_000),
    exclude_uris=["viking://resources/archive"],
)
SCOPE = pb.Scope(target_uris=["viking://resources/handbook", "viking://~/memories"], types=[pb.CONTEXT_TYPE_RESOURCE])
OPTIONS = retrieval.RetrieveOptions(
    profile=retrieval.PROFILE_CLASSIC,
    score_threshold=0.25,
    score_gte=True,
    score_propagation_alpha=0.0,
    hotness_alpha=0.5,
    lexical_weight=0.75,
    global_top_k=10,
    parallelism=4,
    convergence_rounds=0,
    max_scored_rows=5000,
    rerank_mode=retrieval.RERANK_MODE_PREFER,
    rerank_scope=retrieval.RERANK_SCOPE_EACH_LEVEL,
    max_rerank_documents=64,
    time_budget=duration_pb2.Duration(nanos=250_000_000),
    leaf_seeds=0,
)
RETRIEVE_TEXT = retrieval.RetrieveRequest(
    query=retrieval.Query(text="how are tokens rotated \u4ee4\u724c"),
    scope=SCOPE,
    filter=FILTER,
    limit=5,
    view=pb.CONTEXT_VIEW_OVERVIEW,
    mode=retrieval.RETRIEVE_MODE_THINKING,
    options=OPTIONS,
    trace_level=retrieval.TRACE_LEVEL_STEPS,
    min_revision=42,
)
FILE = pb.Context(
    uri="viking://resources/handbook/auth.md",
    kind=pb.NODE_KIND_FILE,
    type=pb.CONTEXT_TYPE_RESOURCE,
    abstract="How services sign in.",
    content="# Sign-in\n\nTokens rotate daily.",
    title="Sign-in",
    tags={"team": "platform"},
    create_time=timestamp_pb2.Timestamp(seconds=1_735_689_600),
    update_time=timestamp_pb2.Timestamp(seconds=1_767_225_600),
    expire_time=timestamp_pb2.Timestamp(seconds=1_900_000_000),
    etag="7",
    vectors=[pb.LevelVector(level=pb.LEVEL_DETAIL, vector=pb.Vector(values=[0.5, -0.25]))],
    relations=[pb.Relation(uri="viking://agent/skills/rotate", reason="does it")],
)
DIRECTORY = pb.Context(uri="viking://resources/handbook", kind=pb.NODE_KIND_DIRECTORY, abstract="A.", overview="B.")

REQUESTS: dict[str, Message] = {
    "v1_retrieve_text": RETRIEVE_TEXT,
    "v1_retrieve_empty": retrieval.RetrieveRequest(),
    "v1_retrieve_vector_values": retrieval.RetrieveRequest(
        query=retrieval.Query(vector=pb.Vector(values=[0.6, 0.8]), lexical_text="ERR-4711"),
        mode=retrieval.RETRIEVE_MODE_QUICK,
    ),
    "v1_retrieve_vector_packed": retrieval.RetrieveRequest(
        query=retrieval.Query(vector=pb.Vector(packed=struct.pack("<2f", 0.5, -2.0)))
    ),
    "v1_retrieve_like": retrieval.RetrieveRequest(query=retrieval.Query(like_uri="viking://resources/handbook")),
    "v1_watch_retrieve": retrieval.WatchRetrieveRequest(request=RETRIEVE_TEXT),
    "v1_plan": retrieval.PlanRequest(
        task="rotate the token",
        turns=[retrieval.Turn(role="user", text="hi"), retrieval.Turn(role="assistant", text="hello")],
        summary="They spoke of tokens.",
        type=pb.CONTEXT_TYPE_SKILL,
        scope=SCOPE,
        max_queries=3,
    ),
    "v1_search_planning": retrieval.SearchRequest(planning=retrieval.PlanRequest(task="rotate it"), limit=7),
    "v1_search_plan": retrieval.SearchRequest(
        plan=retrieval.QueryPlan(
            queries=[
                retrieval.TypedQuery(
                    query="rotate token",
                    type=pb.CONTEXT_TYPE_SKILL,
                    intent="act",
                    priority=1,
                    target_uris=["viking://agent/skills"],
                )
            ],
            reasoning="one step",
            session_context="tokens",
        ),
        scope=SCOPE,
        filter=FILTER,
        limit=7,
        view=pb.CONTEXT_VIEW_BASIC,
        mode=retrieval.RETRIEVE_MODE_THINKING,
        options=OPTIONS,
        trace_level=retrieval.TRACE_LEVEL_SCORES,
        min_revision=43,
    ),
    "v1_search_merge": retrieval.SearchRequest(
        planning=retrieval.PlanRequest(task="rotate it"),
        merge=retrieval.MergeOptions(rrf_k=0, priority_weights=[1.0, 0.5, 0.25, 0.125, 0.0]),
    ),
    "v1_assemble_context": retrieval.AssembleContextRequest(
        retrieve=RETRIEVE_TEXT, max_tokens=600, exclude_uris=["viking://resources/handbook/auth.md"]
    ),
    "v1_explain": retrieval.ExplainRequest(request=RETRIEVE_TEXT, uri="viking://resources/handbook/auth.md"),
    "v1_get_context": contexts.GetContextRequest(
        uri="viking://resources/handbook/.overview.md", view=pb.CONTEXT_VIEW_FULL, min_revision=44
    ),
    "v1_list_contexts": contexts.ListContextsRequest(
        parent_uri="viking://resources",
        page_size=50,
        page_token="opaque",
        filter=FILTER,
        view=pb.CONTEXT_VIEW_ABSTRACT,
        min_revision=45,
    ),
    "v1_upsert_contexts": contexts.UpsertContextsRequest(
        contexts=[DIRECTORY, FILE], request_id="6f2a7a54-9c1d-4c0e-8a37-1b1f0a9a7f11"
    ),
    "v1_import_contexts": contexts.ImportContextsRequest(sequence=3, contexts=[FILE]),
    "v1_delete_contexts": contexts.DeleteContextsRequest(
        uris=["viking://resources/old"], recursive=True, allow_missing=True
    ),
    "v1_move_context": contexts.MoveContextRequest(
        source_uri="viking://resources/a", destination_uri="viking://resources/b"
    ),
    "v1_touch_contexts": contexts.TouchContextsRequest(uris=["viking://resources/a", "viking://resources/a"]),
    "v1_get_store_info": admin.GetStoreInfoRequest(),
    "v1_get_retrieval_stats": admin.GetRetrievalStatsRequest(),
    "v1_create_checkpoint": admin.CreateCheckpointRequest(),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_kept_request_means_the_same(name: str) -> None:
    request = REQUESTS[name]
    parsed = type(request).FromString((WIRE / f"{name}.binpb").read_bytes())
    assert parsed == request


@pytest.mark.parametrize("name", REQUESTS)
def test_request_survives_json(name: str) -> None:
    request = REQUESTS[name]
    assert json_format.Parse(json_format.MessageToJson(request), type(request)()) == request


def test_every_kept_file_is_checked() -> None:
    assert {path.stem for path in WIRE.glob("*.binpb")} == set(REQUESTS)


def test_every_rpc_has_a_kept_request() -> None:
    kept = {type(request).DESCRIPTOR.full_name for request in REQUESTS.values()}
    wanted = {
        rpc.input_type.full_name
        for module in (retrieval, contexts, admin)
        for service in module.DESCRIPTOR.services_by_name.values()
        for rpc in service.methods
    }
    assert kept == wanted


def test_an_option_set_to_zero_differs_from_an_unset_one() -> None:
    kept = retrieval.RetrieveRequest.FromString((WIRE / "v1_retrieve_text.binpb").read_bytes()).options
    assert kept.HasField("score_propagation_alpha")
    assert kept.score_propagation_alpha == 0.0
    assert not retrieval.RetrieveOptions().HasField("score_propagation_alpha")


def write_missing() -> None:
    """Write the requests that have no file yet; existing files stay as they are."""
    for name, request in REQUESTS.items():
        path = WIRE / f"{name}.binpb"
        if not path.exists():
            path.write_bytes(request.SerializeToString(deterministic=True))
            sys.stdout.write(f"wrote {path.name}\n")


if __name__ == "__main__":
    write_missing()
