"""The service that tells the facts of a running server, and keeps it up."""

from __future__ import annotations

from dataclasses import fields
from importlib.metadata import version
from typing import TYPE_CHECKING

from viking_rpc.config import describe
from viking_rpc.domain.access import check_operator
from viking_rpc.domain.identity import Role
from viking_rpc.domain.query import Profile
from viking_rpc.domain.rerank import MAX_TEXTS
from viking_rpc.pb.v1 import admin_service_pb2 as pb
from viking_rpc.pb.v1 import admin_service_pb2_grpc, context_pb2, retrieval_service_pb2
from viking_rpc.server.convert_context import timestamp_fields
from viking_rpc.server.counting import count_visible
from viking_rpc.server.statistics import retrieval_stats, stats_response

if TYPE_CHECKING:
    from viking_rpc.domain.identity import Identity
    from viking_rpc.retrieve.profiles import Parameters
    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner
    from viking_rpc.store.store import StoreInfo

INDEX_ENGINE = "embedded"


class AdminService(admin_service_pb2_grpc.AdminServiceServicer):
    """Handlers; each gets a `Call` in place of the gRPC context."""

    def __init__(self, runner: Runner) -> None:
        """Remember the shared state."""
        self._runner = runner

    async def GetStoreInfo(self, request: pb.GetStoreInfoRequest, context: Call) -> pb.GetStoreInfoResponse:  # noqa: N802
        """What is stored, what serves it, and every setting in effect."""
        del request
        runner, identity = self._runner, context.identity
        snapshot = await runner.snapshot(context)
        info = await runner.in_thread(context, runner.store.info, identity.account)
        visible = await runner.in_thread(context, count_visible, snapshot, identity, runner.clock.now_us())
        presets = runner.search.presets
        context.facts["snapshot"] = snapshot.revision
        return pb.GetStoreInfoResponse(
            server_version=version("viking-rpc"),
            dimensions=info.dimensions,
            embedder=runner.embedder.model if runner.settings.embedder.name != "none" else "",
            planner=runner.planner.name if runner.planner is not None else "",
            reranker=runner.reranker.name if runner.reranker is not None else "",
            index_engine=INDEX_ENGINE,
            context_count=visible.n_directories + visible.n_files,
            directory_count=visible.n_directories,
            file_count=visible.n_files,
            contexts_by_type={context_pb2.ContextType.Name(int(kind)): n for kind, n in visible.by_type.items()},
            row_count=visible.n_rows,
            rows_by_level={context_pb2.Level.Name(level + 1): n for level, n in visible.rows_by_level.items()},
            revision=snapshot.revision,
            data_model_id=info.model if visible.n_rows else "",
            index_state=pb.INDEX_STATE_MERGING if info.is_laying_out else pb.INDEX_STATE_READY,
            pending_row_count=info.pending_rows if identity.role is not Role.USER else 0,
            checkpoint_revision=info.checkpoint_revision,
            database_bytes=info.database_bytes if _may_know_size(identity, info) else 0,
            start_time=timestamp_fields(runner.start_us),
            default_options=_options(Profile.BALANCED, presets[Profile.BALANCED]),
            profile_options={
                retrieval_service_pb2.Profile.Name(int(profile)): _options(profile, parameters)
                for profile, parameters in presets.items()
            },
            settings={key: value for key, value, _ in describe(runner.settings)},
            warnings=[retrieval_service_pb2.Warning(reason="CHECKPOINT_REBUILT", message=note) for note in info.notes],
        )

    async def GetRetrievalStats(  # noqa: N802
        self, request: pb.GetRetrievalStatsRequest, context: Call
    ) -> pb.GetRetrievalStatsResponse:
        """What was answered since the server started."""
        identity, of_all = context.identity, request.all_accounts
        check_operator(identity, "statistics", of_all_accounts=of_all)
        readings = self._runner.readings
        reading = await self._runner.in_thread(context, readings.account, None if of_all else identity.account)
        return stats_response(retrieval_stats(reading))

    async def CreateCheckpoint(  # noqa: N802
        self, request: pb.CreateCheckpointRequest, context: Call
    ) -> pb.CreateCheckpointResponse:
        """Lay the account out and save it."""
        del request
        check_operator(context.identity, "checkpoints")
        revision = await self._runner.checkpoints.make(context)
        context.facts["snapshot"] = revision
        return pb.CreateCheckpointResponse(revision=revision)


def _may_know_size(identity: Identity, info: StoreInfo) -> bool:
    """Return whether the size of the whole store tells a caller nothing of what others have in it."""
    return identity.role is Role.ROOT or (identity.role is Role.ADMIN and info.is_alone)


def _options(profile: Profile, parameters: Parameters) -> retrieval_service_pb2.RetrieveOptions:
    """Write a preset as options of which every one that has a value is set."""
    known = retrieval_service_pb2.RetrieveOptions.DESCRIPTOR.fields_by_name  # presets also hold what is not an option
    values = {field.name: getattr(parameters, field.name) for field in fields(parameters) if field.name in known}
    return retrieval_service_pb2.RetrieveOptions(
        profile=int(profile),  # type: ignore[arg-type]
        rerank_mode=retrieval_service_pb2.RERANK_MODE_PREFER,
        rerank_scope=retrieval_service_pb2.RERANK_SCOPE_FINAL,
        max_rerank_documents=MAX_TEXTS,
        **values,
    )
