"""The service that reads and writes the context tree."""

from __future__ import annotations

import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING

from viking_rpc.domain.access import check_read, denial, denied, may_read
from viking_rpc.domain.context import Level
from viking_rpc.domain.query import View
from viking_rpc.domain.uri import check_uri
from viking_rpc.errors import InvalidArgumentError, Violation
from viking_rpc.pb.v1 import context_service_pb2 as pb
from viking_rpc.pb.v1 import context_service_pb2_grpc
from viking_rpc.server.convert_context import context_message
from viking_rpc.server.convert_request import read_enum
from viking_rpc.server.convert_write import read_context_uri
from viking_rpc.server.importing import import_contexts
from viking_rpc.server.listing import list_page, read_list_request
from viking_rpc.server.validate import check_count
from viking_rpc.server.writing import MAX_BATCH, read_drafts, require_write, write_drafts
from viking_rpc.store.operations import Delete, Move, violations_of
from viking_rpc.store.refusals import missing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner
    from viking_rpc.store.operations import Committed


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
        committed = await runner.in_thread(call, self._upsert, request, call)
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
        require_write(call.identity, named, recursive=request.recursive)
        operations = [Delete(str(uri), request.recursive, request.allow_missing) for _, uri in named]
        committed = await runner.in_thread(call, runner.store.apply, call.identity.account, operations)
        call.facts.update(n_contexts=committed.n_deleted, snapshot=committed.revision)
        return pb.DeleteContextsResponse(deleted_count=committed.n_deleted, revision=committed.revision)

    async def ImportContexts(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.ImportContextsRequest], context: Call
    ) -> AsyncGenerator[pb.ImportContextsResponse, None]:
        """Batch after batch, each all or none, each answered."""
        async with aclosing(import_contexts(self._runner, request_iterator, context)) as responses:
            async for response in responses:
                yield response

    async def MoveContext(self, request: pb.MoveContextRequest, context: Call) -> pb.MoveContextResponse:  # noqa: N802
        """Rename a context or a subtree."""
        call, runner = context, self._runner
        found: list[Violation] = []
        now_us = runner.clock.now_us()
        fields = {"source_uri": request.source_uri, "destination_uri": request.destination_uri}
        uris = {field: read_context_uri(text, field, call.identity, now_us, found) for field, text in fields.items()}
        move = Move(str(uris["source_uri"]), str(uris["destination_uri"]))
        if not found:
            found += violations_of([move], runner.embedder.dimensions)
        if found:
            raise InvalidArgumentError.of(found)
        require_write(call.identity, [(field, uri) for field, uri in uris.items() if uri is not None], recursive=True)
        committed = await runner.in_thread(call, runner.store.apply, call.identity.account, [move])
        call.facts.update(n_contexts=committed.n_moved, snapshot=committed.revision)
        return pb.MoveContextResponse(moved_count=committed.n_moved, revision=committed.revision)

    async def TouchContexts(  # noqa: N802
        self, request: pb.TouchContextsRequest, context: Call
    ) -> pb.TouchContextsResponse:
        """Count contexts as used; who may read them may say so."""
        call, runner = context, self._runner
        found = list(check_count("uris", request.uris, MAX_BATCH, least=1))
        now_us = runner.clock.now_us()
        named = []
        for i, text in enumerate(request.uris[:MAX_BATCH]):
            parsed = check_uri(text, call.identity, now_us, f"uris[{i}]")
            if isinstance(parsed, Violation):
                found.append(parsed)
            elif parsed.uri.is_root:
                found.append(Violation(f"uris[{i}]", "the root is no context", "INVALID_URI"))
            else:
                named.append((f"uris[{i}]", parsed.uri))
        if found:
            raise InvalidArgumentError.of(found)
        denials = [
            denial(call.identity, uri, "read", field) for field, uri in named if not may_read(call.identity, uri)
        ]
        if denials:
            raise denied(call.identity, denials)
        counted = runner.touches.now(call.identity.account, [str(uri) for _, uri in named])
        revision = await runner.in_time(call, counted)
        call.facts.update(n_contexts=len(named), snapshot=revision)
        return pb.TouchContextsResponse(revision=revision)

    def _upsert(self, request: pb.UpsertContextsRequest, call: Call) -> Committed:
        """Check a batch and write it; blocking."""
        found = []
        if request.request_id and not _is_uuid(request.request_id):
            found.append(Violation("request_id", f"{request.request_id[:64]!a} is not a UUID", "INVALID_REQUEST_ID"))
        drafts = read_drafts(self._runner, request.contexts, call, found)
        return write_drafts(self._runner, drafts, call, request.request_id)


def _check_revision(min_revision: int) -> list[Violation]:
    return [Violation("min_revision", f"{min_revision} is negative", "OUT_OF_RANGE")] if min_revision < 0 else []


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
