"""The asyncio client; the same methods as the blocking one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import grpc

from viking_rpc.client import answers, requests, searches
from viking_rpc.client.channel import DEFAULT_ADDRESS, call_metadata, channel_options, check_plain_text
from viking_rpc.client.errors import to_error
from viking_rpc.client.importing import ImportMessages
from viking_rpc.domain.assembly import DEFAULT_TOKENS, AssembleRequest
from viking_rpc.domain.plan import PlanRequest
from viking_rpc.domain.query import View
from viking_rpc.domain.search import SearchRequest
from viking_rpc.pb.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    context_service_pb2,
    context_service_pb2_grpc,
    retrieval_service_pb2_grpc,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.client.channel import Metadata, Tls
    from viking_rpc.client.importing import AsyncBatches, Batches
    from viking_rpc.domain.assembly import AssembledContext
    from viking_rpc.domain.context import Context, ContextWrite
    from viking_rpc.domain.explain import Explanation
    from viking_rpc.domain.plan import PlanResult, QueryPlan
    from viking_rpc.domain.query import Filter, Query, RetrieveRequest
    from viking_rpc.domain.search import SearchResult
    from viking_rpc.domain.statistics import RetrievalStats
    from viking_rpc.domain.trace import RetrieveResult, TraceStep


def connect_async(
    address: str = DEFAULT_ADDRESS,
    *,
    key: str = "",
    account: str = "",
    user: str = "",
    peer: str = "",
    tls: Tls | None = None,
    allow_plain_key: bool = False,
) -> AsyncClient:
    """Return a client of a server; the connection is made with the first call.

    Args:
        address: HOST:PORT, or unix:PATH.
        key: of a server that has keys.
        account: for which to act, with a key that may.
        user: for whom to act, with a key that may.
        peer: with whom the user talks.
        tls: with which files to speak TLS; None: plain text.
        allow_plain_key: send a key in plain text to other machines too, over a network that is trusted.

    Raises:
        FailedPreconditionError: KEY_IN_PLAIN_TEXT, TLS_FILES_UNUSABLE.
    """
    check_plain_text(address, key, tls, allow_plain_key=allow_plain_key)
    options = channel_options()
    if tls is None:
        channel = grpc.aio.insecure_channel(address, options=options)
    else:
        channel = grpc.aio.secure_channel(address, tls.credentials(), options=options)
    return AsyncClient(channel, call_metadata(key=key, account=account, user=user, peer=peer))


class AsyncClient:
    """Calls of one server over one channel, in one event loop. Every method raises the server's VikingError.

    `timeout_s` None is the deadline of the contract: 10 s for reads, 60 s for writes.
    """

    def __init__(self, channel: grpc.aio.Channel, metadata: Metadata = ()) -> None:
        """Use `connect_async`, or bring a channel."""
        self._channel = channel
        self._metadata = metadata
        self._retrieval = retrieval_service_pb2_grpc.RetrievalServiceStub(channel)
        self._contexts = context_service_pb2_grpc.ContextServiceStub(channel)
        self._admin = admin_service_pb2_grpc.AdminServiceStub(channel)

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def retrieve(
        self,
        query: str | NDArray[np.float32] | Query | RetrieveRequest,
        *,
        timeout_s: float | None = None,
        **how: Any,
    ) -> RetrieveResult:
        """Find contexts.

        Args:
            query: a text; a vector, float32[dimensions]; a Query; or a whole RetrieveRequest.
            timeout_s: deadline of the call.
            how: other fields of a RetrieveRequest: scope, filter, limit, view, mode, options, trace_level and
                min_revision.
        """
        message = requests.retrieve_message(requests.as_request(query, **how))
        return answers.read_result(await self._call(self._retrieval.Retrieve, message, timeout_s))

    async def search(
        self,
        task: str | PlanRequest | QueryPlan | SearchRequest,
        *,
        timeout_s: float | None = None,
        **how: Any,
    ) -> SearchResult:
        """Plan, find by each query of the plan, and merge.

        Args:
            task: a text; a PlanRequest with the conversation; an edited QueryPlan; or a whole SearchRequest.
            timeout_s: deadline of the call.
            how: other fields of a SearchRequest: scope, filter, limit, view, mode, options, trace_level, min_revision
                and merge.
        """
        message = searches.search_message(searches.as_search(task, **how))
        return searches.read_search_result(await self._call(self._retrieval.Search, message, timeout_s))

    async def explain(
        self,
        query: str | NDArray[np.float32] | Query | RetrieveRequest,
        uri: str,
        *,
        timeout_s: float | None = None,
        **how: Any,
    ) -> Explanation:
        """Tell why a context is, or is not, among the matches. Arguments as for `retrieve`, and the context's URI."""
        message = searches.explain_message(requests.as_request(query, **how), uri)
        return searches.read_explanation(await self._call(self._retrieval.Explain, message, timeout_s))

    async def assemble(
        self,
        query: str | RetrieveRequest | SearchRequest,
        *,
        max_tokens: int = DEFAULT_TOKENS,
        exclude_uris: Iterable[str] = (),
        timeout_s: float | None = None,
    ) -> AssembledContext:
        """Return one text for a prompt.

        Args:
            query: a text to find by; or a whole request, to find or to search by.
            max_tokens: the most that the text may count, as estimated.
            exclude_uris: what was shown before.
            timeout_s: deadline of the call.
        """
        source = query if isinstance(query, SearchRequest) else requests.as_request(query)
        message = searches.assemble_message(AssembleRequest(source, max_tokens, tuple(exclude_uris)))
        return searches.read_assembled(await self._call(self._retrieval.AssembleContext, message, timeout_s))

    async def watch(
        self,
        query: str | NDArray[np.float32] | Query | RetrieveRequest,
        *,
        timeout_s: float | None = None,
        **how: Any,
    ) -> AsyncIterator[TraceStep | RetrieveResult]:
        """Find contexts; yield every step as it is decided, and the result last. Arguments as for `retrieve`."""
        message = requests.watch_message(requests.as_request(query, **how))
        call = self._retrieval.WatchRetrieve(message, timeout=timeout_s, metadata=self._metadata)
        try:
            async for response in call:
                if response.HasField("step"):
                    yield answers.read_step(response.step)
                elif response.HasField("result"):
                    yield answers.read_result(response.result)
        except grpc.RpcError as error:
            raise to_error(error) from error
        finally:
            call.cancel()  # who stops reading stops the search

    async def plan(self, task: str | PlanRequest, *, timeout_s: float | None = None, **how: Any) -> PlanResult:
        """Turn a task into typed queries, without running them.

        Args:
            task: a text, or a whole PlanRequest.
            timeout_s: deadline of the call.
            how: other fields of a PlanRequest: turns, summary, type, scope and max_queries.
        """
        message = requests.plan_message(PlanRequest(task, **how) if isinstance(task, str) else task)
        return answers.read_plan_result(await self._call(self._retrieval.Plan, message, timeout_s))

    async def get(
        self, uri: str, *, view: View = View.FULL, min_revision: int = 0, timeout_s: float | None = None
    ) -> Context:
        """Return one context."""
        message = requests.get_message(uri, view, min_revision)
        return answers.read_context((await self._call(self._contexts.GetContext, message, timeout_s)).context)

    async def list(
        self,
        uri: str = "",
        *,
        filter: Filter | None = None,  # noqa: A002 - the name in the contract
        view: View = View.ABSTRACT,
        min_revision: int = 0,
        timeout_s: float | None = None,
    ) -> AsyncIterator[Context]:
        """Yield all children of a directory, page by page; without a URI the scopes. `timeout_s` is for each page."""
        token = ""
        while True:
            page = await self.list_page(
                uri, filter=filter, view=view, page_token=token, min_revision=min_revision, timeout_s=timeout_s
            )
            for context in page.contexts:
                yield context
            token = page.next_page_token
            if not token:
                return

    async def list_page(
        self,
        uri: str = "",
        *,
        filter: Filter | None = None,  # noqa: A002
        view: View = View.ABSTRACT,
        page_size: int = 0,
        page_token: str = "",
        min_revision: int = 0,
        timeout_s: float | None = None,
    ) -> answers.Page:
        """Return one page of a directory's children."""
        message = requests.list_message(
            uri, filter, view, page_size=page_size, page_token=page_token, min_revision=min_revision
        )
        return answers.read_page(await self._call(self._contexts.ListContexts, message, timeout_s))

    async def upsert(
        self, writes: Iterable[ContextWrite], *, request_id: str = "", timeout_s: float | None = None
    ) -> answers.Written:
        """Create or replace contexts, all or none; the vectors of their rows are sent, other texts are embedded."""
        message = requests.upsert_message(writes, request_id)
        return answers.read_written(await self._call(self._contexts.UpsertContexts, message, timeout_s))

    async def delete(
        self,
        uris: Iterable[str],
        *,
        recursive: bool = False,
        allow_missing: bool = False,
        timeout_s: float | None = None,
    ) -> answers.Deleted:
        """Remove contexts, all or none."""
        message = requests.delete_message(uris, recursive=recursive, allow_missing=allow_missing)
        response = await self._call(self._contexts.DeleteContexts, message, timeout_s)
        return answers.Deleted(response.deleted_count, response.revision)

    async def import_batches(
        self,
        batches: Batches | AsyncBatches,
        *,
        timeout_s: float | None = None,
    ) -> AsyncIterator[answers.Imported]:
        """Write batches of contexts in one stream, each all or none; yield what became of each, in their order.

        A batch is taken from `batches` when the server is ready for more. After an error, what was yielded is durable:
        go on with the first batch that was not. What `batches` raises is raised when all before it
        is answered. `timeout_s` None: there is no deadline.
        """
        messages = ImportMessages(batches)
        call = self._contexts.ImportContexts(aiter(messages), timeout=timeout_s, metadata=self._metadata)
        try:
            async for response in call:
                yield answers.read_imported(response)
            messages.check()
        except grpc.RpcError as error:
            raise to_error(error) from error
        finally:
            call.cancel()  # who stops reading stops the import

    async def move(self, source_uri: str, destination_uri: str, *, timeout_s: float | None = None) -> answers.Moved:
        """Rename a context or a subtree."""
        message = context_service_pb2.MoveContextRequest(source_uri=source_uri, destination_uri=destination_uri)
        response = await self._call(self._contexts.MoveContext, message, timeout_s)
        return answers.Moved(response.moved_count, response.revision)

    async def touch(self, uris: Iterable[str], *, timeout_s: float | None = None) -> int:
        """Say that contexts were used, once for each time that they are named; return the revision with the counts."""
        message = context_service_pb2.TouchContextsRequest(uris=uris)
        return int((await self._call(self._contexts.TouchContexts, message, timeout_s)).revision)

    async def info(self, *, timeout_s: float | None = None) -> answers.ServerInfo:
        """Return the facts of the server."""
        message = admin_service_pb2.GetStoreInfoRequest()
        return answers.read_info(await self._call(self._admin.GetStoreInfo, message, timeout_s))

    async def stats(self, *, all_accounts: bool = False, timeout_s: float | None = None) -> RetrievalStats:
        """Return what was answered since the server started; of all accounts where asked, which takes the role root."""
        message = admin_service_pb2.GetRetrievalStatsRequest(all_accounts=all_accounts)
        return answers.read_retrieval_stats(await self._call(self._admin.GetRetrievalStats, message, timeout_s))

    async def checkpoint(self, *, timeout_s: float | None = None) -> int:
        """Let the server lay out and save the account; return the revision that is saved. Takes the role admin."""
        message = admin_service_pb2.CreateCheckpointRequest()
        return int((await self._call(self._admin.CreateCheckpoint, message, timeout_s)).revision)

    async def _call(self, method: Callable[..., Awaitable[Any]], message: Any, timeout_s: float | None) -> Any:
        try:
            return await method(message, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            raise to_error(error) from error
