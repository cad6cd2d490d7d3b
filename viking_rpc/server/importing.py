"""Take an import stream: one batch in work at a time, each answered by its sequence, none of them ending the others."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from viking_rpc.errors import InvalidArgumentError, VikingError, Violation
from viking_rpc.pb.v1 import context_service_pb2 as pb
from viking_rpc.server.status import to_status
from viking_rpc.server.writing import read_drafts, write_drafts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner
    from viking_rpc.store.operations import Committed

logger = logging.getLogger(__name__)

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
_DIGEST_BYTES: Final = 16


class _Answered(NamedTuple):
    """The batch that was answered last; `digest` is empty when it was refused."""

    digest: bytes
    response: pb.ImportContextsResponse


async def import_contexts(
    runner: Runner, messages: AsyncIterator[pb.ImportContextsRequest], call: Call
) -> AsyncGenerator[pb.ImportContextsResponse, None]:
    """Write batch after batch; the next message is read when the answer to the one before is on its way.

    A stream has no deadline but its caller's: each batch is written to its end, so that an answer never says that
    something was refused which is stored all the same.

    Raises:
        InvalidArgumentError: WRONG_SEQUENCE or SEQUENCE_REUSED; what was answered stays.
    """
    last = _Answered(b"", pb.ImportContextsResponse())
    n_contexts = n_refused = 0
    async for message in messages:
        is_again = last.response.sequence == message.sequence > 0
        if not is_again and message.sequence != last.response.sequence + 1:
            text = f"is {message.sequence}, the next one is {last.response.sequence + 1}"
            raise InvalidArgumentError.of([Violation("sequence", text, "WRONG_SEQUENCE")])
        digest = _digest(message)
        if is_again and last.digest:  # what was refused may be sent again, repaired or not
            if digest != last.digest:
                text = f"{message.sequence} was another batch, which is stored"
                raise InvalidArgumentError.of([Violation("sequence", text, "SEQUENCE_REUSED")])
            yield last.response
            continue
        response = await _take(runner, message, call)
        is_refused = response.HasField("error")
        last = _Answered(b"" if is_refused else digest, response)
        n_contexts += response.upserted_count
        n_refused += is_refused
        call.facts.update(n_contexts=n_contexts, n_batches=message.sequence, n_refused=n_refused)
        del message  # its answer may wait for the caller; the batch need not
        yield response


async def _take(runner: Runner, message: pb.ImportContextsRequest, call: Call) -> pb.ImportContextsResponse:
    """Write one batch and return its answer, whatever became of it."""
    try:
        async with runner.importing:
            committed = await runner.finish(_write, runner, message, call)
    except VikingError as error:
        logger.info("batch_refused sequence=%d code=%s reason=%s", message.sequence, error.code, error.reason)
        status = to_status(error, call.request_id)
        return pb.ImportContextsResponse(sequence=message.sequence, error=status)
    call.facts["snapshot"] = committed.revision
    return pb.ImportContextsResponse(
        sequence=message.sequence, upserted_count=len(message.contexts), revision=committed.revision
    )


def _write(runner: Runner, message: pb.ImportContextsRequest, call: Call) -> Committed:
    """Check a batch, embed what has no vector, and commit; blocking."""
    found = []
    n_bytes = message.ByteSize()
    if n_bytes > MAX_MESSAGE_BYTES:
        text = f"the message has {n_bytes} bytes, at most {MAX_MESSAGE_BYTES} are allowed"
        found.append(Violation("contexts", text, "TOO_LARGE"))
    drafts = read_drafts(runner, message.contexts, call, found)
    return write_drafts(runner, drafts, call)


def _digest(message: pb.ImportContextsRequest) -> bytes:
    encoded = message.SerializeToString(deterministic=True)
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()
