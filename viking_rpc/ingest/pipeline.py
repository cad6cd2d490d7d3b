"""Carry out an import: compare the plan with what is stored, embed and write only what differs."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from viking_rpc.domain.context import ContextWrite, Kind
from viking_rpc.ingest.plan import IMPORT_TAG
from viking_rpc.ingest.rows import make_rows
from viking_rpc.ingest.skip import Skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from viking_rpc.domain.context import Context, Row
    from viking_rpc.domain.ports import Embedder
    from viking_rpc.ingest.plan import ImportPlan
    from viking_rpc.ingest.tree import PlannedContext

    Progress = Callable[[int, int, str], None]

DEFAULT_BATCH_SIZE = 256


@dataclass(frozen=True, slots=True)
class Stored:
    """What an import needs to know of a stored context; `import_root` is empty when no import made it."""

    kind: Kind
    content_hash: str
    import_root: str = ""


class Target(Protocol):
    """Where an import writes: a store of this process, or a server."""

    def existing(self, uri: str) -> Mapping[str, Stored]:
        """Return every context at and below a URI; empty when there is none."""

    def write(self, batch: Sequence[ContextWrite]) -> None:
        """Create or replace contexts, given parents first; missing ancestors are made. All or none."""

    def delete(self, uris: Sequence[str]) -> None:
        """Delete contexts with everything below them; those that do not exist are no error."""


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did, in contexts; `n_files` counts the files that were read."""

    added: int
    updated: int
    unchanged: int
    removed: int
    skipped: tuple[Skip, ...]
    n_files: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Changes:
    """What turns the stored state into the planned one: first delete, then write, parents first."""

    delete: tuple[str, ...]
    write: tuple[PlannedContext, ...]
    skipped: tuple[Skip, ...]
    n_added: int
    n_unchanged: int
    n_removed: int


def run_import(
    plan: ImportPlan,
    target: Target,
    embedder: Embedder,
    *,
    allow_prune: bool = False,
    batch_size: int = DEFAULT_BATCH_SIZE,
    on_progress: Progress | None = None,
) -> ImportReport:
    """Bring the target to the planned state.

    Args:
        plan: what is wanted.
        target: where it goes.
        embedder: the model of the target.
        allow_prune: also delete what this import made before and does not plan now.
        batch_size: contexts that are embedded and written together.
        on_progress: called with (contexts written, contexts to write, URI) after each batch.

    Returns:
        The report; its time includes the planning.

    Raises:
        VikingError: what the target and the embedder raise; batches written before stay, and a second run goes on.
    """
    started = time.perf_counter()
    changes = compare(plan, target.existing(plan.root), allow_prune=allow_prune)
    if changes.delete:
        target.delete(changes.delete)
    n_total = len(changes.write)
    n_done = 0
    for batch in _prepare(changes.write, embedder, batch_size):
        target.write(batch)
        n_done += len(batch)
        if on_progress:
            on_progress(n_done, n_total, batch[-1].uri)
    return ImportReport(
        added=changes.n_added,
        updated=n_total - changes.n_added,
        unchanged=changes.n_unchanged,
        removed=changes.n_removed,
        skipped=(*plan.skipped, *changes.skipped),
        n_files=plan.n_files,
        elapsed_s=plan.elapsed_s + time.perf_counter() - started,
    )


def compare(plan: ImportPlan, existing: Mapping[str, Stored], *, allow_prune: bool = False) -> Changes:
    """Compare a plan with what is stored; pure.

    A context that changes between file and directory is deleted and made anew. Sections that a file no longer has are
    deleted even without pruning: their file was replaced. What no import made never changes its kind, and a directory
    that holds such contexts does not become a file: what was planned there is skipped.

    Args:
        plan: what is wanted.
        existing: what is stored at and below the plan's root.
        allow_prune: also delete what the same import made and does not plan now.

    Returns:
        The least changes.
    """
    wanted = {context.uri: context for context in plan.contexts}
    gone = {uri for uri, stored in existing.items() if uri not in wanted and stored.import_root == plan.root}
    kept_below = _with_ancestors(uri for uri in existing if uri not in gone)
    skipped: list[Skip] = []
    delete: set[str] = set()
    write: list[PlannedContext] = []
    n_added = n_unchanged = 0
    replaced: set[str] = set()  # what a file became or was: everything below is decided by the plan
    occupied: set[str] = set()
    for uri, context in wanted.items():
        if occupied and not occupied.isdisjoint(_ancestors(uri)):
            continue
        stored = existing.get(uri)
        is_other_kind = stored is not None and stored.kind is not context.kind
        if stored and is_other_kind and (not stored.import_root or (context.kind is Kind.FILE and uri in kept_below)):
            message = f"{uri} is a {stored.kind.name.lower()} that no import made, or that holds such contexts"
            skipped.append(Skip(context.source or uri, "OCCUPIED", message))
            occupied.add(uri)
            continue
        if context.source and (is_other_kind or context.kind is Kind.DIRECTORY):
            replaced.add(uri)
        if stored is None:
            n_added += 1
        elif is_other_kind:
            delete.add(uri)
        elif stored.content_hash == content_hash(context):
            n_unchanged += 1
            continue
        write.append(context)
    for uri in gone:
        is_removed = allow_prune or not replaced.isdisjoint(_ancestors(uri))
        if is_removed and uri not in kept_below:
            delete.add(uri)
    n_removed = sum(1 for uri in gone if uri in delete)
    tops = tuple(sorted(uri for uri in delete if delete.isdisjoint(_ancestors(uri))))
    return Changes(tops, tuple(write), tuple(skipped), n_added, n_unchanged, n_removed)


def content_hash(context: PlannedContext | Context) -> str:
    """Hash what makes two contexts the same for an import: kind, type, texts and tags; times do not count."""
    tags = sorted(context.tags.items())
    texts = (
        context.title,
        context.abstract,
        context.overview,
        context.content,
        *(text for pair in tags for text in pair),
    )
    digest = blake2b(bytes((context.kind, context.type)), digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def describe_stored(context: Context) -> Stored:
    """Make the entry of a stored context that was read with all of its texts."""
    return Stored(context.kind, content_hash(context), context.tags.get(IMPORT_TAG, ""))


def to_write(context: PlannedContext, rows: tuple[Row, ...]) -> ContextWrite:
    """Join a planned context and its rows to what a store takes."""
    return ContextWrite(
        uri=context.uri,
        kind=context.kind,
        type=context.type,
        title=context.title,
        abstract=context.abstract,
        overview=context.overview,
        content=context.content,
        tags=context.tags,
        update_us=context.update_us,
        rows=rows,
    )


def _prepare(contexts: Sequence[PlannedContext], embedder: Embedder, batch_size: int) -> Iterator[list[ContextWrite]]:
    """Yield batches with their rows; the next one is made while the caller writes, which waits for disk or network."""

    def make(lo: int) -> list[ContextWrite]:
        batch = contexts[lo : lo + batch_size]
        return [to_write(*pair) for pair in zip(batch, make_rows(batch, embedder), strict=True)]

    with ThreadPoolExecutor(1, thread_name_prefix="import-rows") as executor:
        pending = executor.submit(make, 0) if contexts else None
        for lo in range(batch_size, len(contexts) + batch_size, batch_size):
            batch = pending.result() if pending else []
            pending = executor.submit(make, lo) if lo < len(contexts) else None
            yield batch


def _ancestors(uri: str) -> Iterable[str]:
    end = uri.rfind("/")
    while end > len("viking://"):
        yield uri[:end]
        end = uri.rfind("/", 0, end)


def _with_ancestors(uris: Iterable[str]) -> set[str]:
    """Return the proper ancestors of all URIs."""
    found: set[str] = set()
    for uri in uris:
        for ancestor in _ancestors(uri):
            if ancestor in found:
                break
            found.add(ancestor)
    return found
