"""The service that reads and writes the context tree: Get, List, Upsert and Delete."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.access import check_read, denial, denied, may_write
from viking_rpc.domain.context import Kind, Level
from viking_rpc.domain.query import View
from viking_rpc.domain.uri import Uri, check_uri
from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError, Violation
from viking_rpc.pb.v1 import context_service_pb2 as pb
from viking_rpc.pb.v1 import context_service_pb2_grpc
from viking_rpc.server.convert_context import context_message
from viking_rpc.server.convert_request import read_enum
from viking_rpc.server.convert_write import Draft, check_kind, read_context_uri, read_draft
from viking_rpc.server.later import not_offered
from viking_rpc.server.listing import list_page, read_list_request
from viking_rpc.server.rows import with_rows
from viking_rpc.server.validate import check_count
from viking_rpc.store.operations import Delete, Upsert
from viking_rpc.store.refusals import missing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner
    from viking_rpc.store.operations import Committed

MAX_BATCH: Final = 256


class ContextService(context_service_pb2_grpc.ContextServiceServicer):
    """Handlers; each gets a `Call` in place of the gRPC context."""

    def __init__(self, runner: Runner) -> None:
        """Remember the shared state."""
        self._runner = runner

    async def GetContext(self, request: pb.GetContextRequest, context: Call) -> pb.GetContextResponse:  # noqa: N802
        """One context by its URI."""
        call, runner = context, self._runner
        found: list[Violation] = []
        view = read_enum(View, request.view, View.FULL, "view", found)
        parsed = check_uri(request.uri, call.identity, runner.clock.now_us(), "uri")
        if isinstance(parsed, Violation):
            found.append(parsed)
        elif parsed.uri.is_root:
            found.append(Violation("uri", "the root is no context: list it", "INVALID_URI"))
        found += _check_revision(request.min_revision)
        if found or isinstance(parsed, Violation):
            raise InvalidArgumentError.of(found)
        check_read(call.identity, parsed.uri)
        await runner.reach(call, request.min_revision)
        revision = (await runner.snapshot(call)).revision
        has_overview = view >= View.OVERVIEW or parsed.level is Level.OVERVIEW
        stored = await runner.in_thread(
            call,
            runner.store.get,
            call.identity.account,
            str(parsed.uri),
            with_overview=has_overview,
            with_content=view >= View.FULL,
        )
        call.facts["snapshot"] = revision
        if stored is None:
            raise missing("uri", str(parsed.uri))
        message = context_message(stored, view, call.identity)
        if parsed.level is Level.ABSTRACT:
            message.abstract = stored.abstract
        elif parsed.level is Level.OVERVIEW:
            message.overview = stored.overview
        return pb.GetContextResponse(context=message, revision=revision)

    async def ListContexts(  # noqa: N802
        self, request: pb.ListContextsRequest, context: Call
    ) -> pb.ListContextsResponse:
        """One page of a directory's children."""
        wanted = read_list_request(request, context.identity, self._runner.clock.now_us())
        await self._runner.reach(context, request.min_revision)
        revision = (await self._runner.snapshot(context)).revision
        page = await self._runner.in_thread(context, list_page, self._runner.store, wanted)
        context.facts.update(n_contexts=len(page.contexts), snapshot=revision)
        return pb.ListContextsResponse(contexts=page.contexts, next_page_token=page.next_page_token, revision=revision)

    async def UpsertContexts(  # noqa: N802
        self, request: pb.UpsertContextsRequest, context: Call
    ) -> pb.UpsertContextsResponse:
        """Create or replace contexts, all or none."""
        call, runner = context, self._runner
        drafts = self._read_drafts(request, call)
        snapshot = await runner.snapshot(call)
        kinds = _decide_kinds(drafts, snapshot)
        committed = await runner.in_thread(call, self._write, drafts, kinds, request.request_id, call)
        call.facts.update(n_contexts=len(committed.contexts), snapshot=committed.revision)
        return pb.UpsertContextsResponse(
            contexts=[context_message(written, View.BASIC, call.identity) for written in committed.contexts],
            revision=committed.revision,
        )

    async def DeleteContexts(  # noqa: N802
        self, request: pb.DeleteContextsRequest, context: Call
    ) -> pb.DeleteContextsResponse:
        """Remove contexts, all or none."""
        call, runner = context, self._runner
        found = list(check_count("uris", request.uris, MAX_BATCH, least=1))
        now_us = runner.clock.now_us()
        uris = [
            read_context_uri(text, f"uris[{i}]", call.identity, now_us, found)
            for i, text in enumerate(request.uris[:MAX_BATCH])
        ]
        if found:
            raise InvalidArgumentError.of(found)
        named = [(f"uris[{i}]", uri) for i, uri in enumerate(uris) if uri is not None]
        self._require_write(call, named, recursive=request.recursive)
        operations = [Delete(str(uri), request.recursive, request.allow_missing) for _, uri in named]
        committed = await runner.in_thread(call, runner.store.apply, call.identity.account, operations)
        call.facts.update(n_contexts=committed.n_deleted, snapshot=committed.revision)
        return pb.DeleteContextsResponse(deleted_count=committed.n_deleted, revision=committed.revision)

    def ImportContexts(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.ImportContextsRequest], context: Call
    ) -> AsyncGenerator[pb.ImportContextsResponse, None]:
        """Not offered yet."""
        del request_iterator, context
        raise not_offered("ContextService.ImportContexts")

    async def MoveContext(self, request: pb.MoveContextRequest, context: Call) -> pb.MoveContextResponse:  # noqa: N802
        """Not offered yet."""
        del request, context
        raise not_offered("ContextService.MoveContext")

    async def TouchContexts(  # noqa: N802
        self, request: pb.TouchContextsRequest, context: Call
    ) -> pb.TouchContextsResponse:
        """Not offered yet."""
        del request, context
        raise not_offered("ContextService.TouchContexts")

    def _read_drafts(self, request: pb.UpsertContextsRequest, call: Call) -> list[Draft]:
        """Read and check a batch: what is wrong, then what is forbidden, then what does not fit the store."""
        found = list(check_count("contexts", request.contexts, MAX_BATCH, least=1))
        if request.request_id and not _is_uuid(request.request_id):
            found.append(Violation("request_id", f"{request.request_id[:64]!a} is not a UUID", "INVALID_REQUEST_ID"))
        now_us = self._runner.clock.now_us()
        drafts = []
        field_of: dict[Uri, str] = {}
        for i, message in enumerate(request.contexts[:MAX_BATCH]):
            field = f"contexts[{i}]"
            draft = read_draft(message, field, call.identity, now_us, found)
            if draft is None:
                continue
            drafts.append(draft)
            first = field_of.setdefault(draft.uri, field)
            if first != field:
                text = f"{draft.uri} is in the batch twice, first as {first}"
                found.append(Violation(f"{field}.uri", text, "DUPLICATE_URI"))
        if found:
            raise InvalidArgumentError.of(found)
        self._require_write(call, [(f"{draft.field}.uri", draft.uri) for draft in drafts])
        _require_dimensions(drafts, self._runner.embedder.dimensions)
        return drafts

    def _require_write(self, call: Call, named: Sequence[tuple[str, Uri]], *, recursive: bool = False) -> None:
        """Raise PermissionDeniedError with every URI that the caller may not change."""
        denials = [
            denial(call.identity, uri, "change", field)
            for field, uri in named
            if not may_write(call.identity, uri, recursive=recursive)
        ]
        if denials:
            raise denied(call.identity, denials)

    def _write(self, drafts: Sequence[Draft], kinds: Sequence[Kind], request_id: str, call: Call) -> Committed:
        """Embed what has no vector, and commit."""
        writes = [draft.write(kind) for draft, kind in zip(drafts, kinds, strict=True)]
        writes = with_rows(writes, [draft.vectors for draft in drafts], self._runner.embedder)
        operations = [Upsert(write) for write in writes]
        return self._runner.store.apply(call.identity.account, operations, request_id=request_id)


def _decide_kinds(drafts: Sequence[Draft], snapshot: Snapshot) -> list[Kind]:
    """Return every draft's kind: its own, else that of a stored directory, else FILE."""
    kinds, found = [], []
    for draft in drafts:
        kind = draft.kind
        if kind is None:
            node = snapshot.find(draft.uri)
            kind = Kind.DIRECTORY if node >= 0 and snapshot.tree.is_directory[node] else Kind.FILE
            has_overview, has_content = bool(draft.fields["overview"]), bool(draft.fields["content"])
            found += check_kind(kind, draft.field, draft.vectors, has_overview=has_overview, has_content=has_content)
        kinds.append(kind)
    if found:
        raise InvalidArgumentError.of(found)
    return kinds


def _require_dimensions(drafts: Sequence[Draft], dimensions: int) -> None:
    """Raise FailedPreconditionError with every vector that is of another model."""
    violations = [
        Violation(
            f"{draft.field}.vectors",
            f"{level.name} has {vector.size} numbers, the store's vectors have {dimensions}",
            "DIMENSION_MISMATCH",
        )
        for draft in drafts
        for level, vector in draft.vectors.items()
        if vector.size != dimensions
    ]
    if violations:
        first = next(v.size for draft in drafts for v in draft.vectors.values() if v.size != dimensions)
        message = f"a vector has {first} numbers, the store's vectors have {dimensions}"
        metadata = {"dimensions": str(first), "stored_dimensions": str(dimensions)}
        raise FailedPreconditionError("DIMENSION_MISMATCH", message, metadata, tuple(violations))


def _check_revision(min_revision: int) -> list[Violation]:
    return [Violation("min_revision", f"{min_revision} is negative", "OUT_OF_RANGE")] if min_revision < 0 else []


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
