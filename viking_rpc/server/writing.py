"""Check a batch of contexts as a caller sent it, make their rows, and commit it: what Upsert and Import share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from viking_rpc.domain.access import denial, denied, may_write
from viking_rpc.domain.context import Kind
from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError, Violation
from viking_rpc.server.convert_write import Draft, check_kind, read_draft
from viking_rpc.server.rows import with_rows
from viking_rpc.server.validate import check_count
from viking_rpc.store.operations import Upsert

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.uri import Uri
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.pb.v1 import context_pb2
    from viking_rpc.server.call import Call
    from viking_rpc.server.runner import Runner
    from viking_rpc.store.operations import Committed

MAX_BATCH: Final = 256


def read_drafts(
    runner: Runner, messages: Sequence[context_pb2.Context], call: Call, found: Iterable[Violation] = ()
) -> list[Draft]:
    """Read and check a batch: what is wrong, then what is forbidden, then what does not fit the store.

    Args:
        runner: the shared state.
        messages: as they were received.
        call: who sent them.
        found: what is wrong already.

    Raises:
        InvalidArgumentError, PermissionDeniedError, FailedPreconditionError: with all violations.
    """
    found = [*found, *check_count("contexts", messages, MAX_BATCH, least=1)]
    now_us = runner.clock.now_us()
    drafts = []
    field_of: dict[Uri, str] = {}
    for i, message in enumerate(messages[:MAX_BATCH]):
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
    require_write(call.identity, [(f"{draft.field}.uri", draft.uri) for draft in drafts])
    _require_dimensions(drafts, runner.embedder.dimensions)
    return drafts


def write_drafts(runner: Runner, drafts: Sequence[Draft], call: Call, request_id: str = "") -> Committed:
    """Embed what has no vector, and commit; blocking. A repeated request is answered before anything is made.

    Raises:
        InvalidArgumentError: a text or vector that the stored kind of its context does not have.
        VikingError: what the embedder or `Store.apply` raises.
    """
    account = call.identity.account
    if request_id:
        request_id = f"{call.identity.user}/{call.identity.peer}/{request_id}"  # nobody gets another's answer
        first = runner.store.answered(account, request_id)
        if first is not None:
            return first
    kinds = _decide_kinds(drafts, runner.store.snapshot(account))
    writes = [draft.write(kind) for draft, kind in zip(drafts, kinds, strict=True)]
    writes = with_rows(writes, [draft.vectors for draft in drafts], runner.embedder)
    return runner.store.apply(account, [Upsert(write) for write in writes], request_id=request_id)


def require_write(identity: Identity, named: Sequence[tuple[str, Uri]], *, recursive: bool = False) -> None:
    """Raise PermissionDeniedError with every URI, given with its field path, that the caller may not change."""
    denials = [
        denial(identity, uri, "change", field)
        for field, uri in named
        if not may_write(identity, uri, recursive=recursive)
    ]
    if denials:
        raise denied(identity, denials)


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
