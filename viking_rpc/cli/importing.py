"""`viking import`: a folder, a file or a corpus into a data directory or a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rich.markup import escape

from viking_rpc.cli.as_json import to_json
from viking_rpc.cli.connection import in_use
from viking_rpc.cli.console import err, out, print_json, progress_bar
from viking_rpc.cli.session import connected, holder_address, settings_for
from viking_rpc.domain.access import denial, denied, may_write
from viking_rpc.domain.identity import LOCAL
from viking_rpc.domain.uri import Uri, parse_uri
from viking_rpc.errors import FailedPreconditionError, InvalidArgumentError, Violation
from viking_rpc.ingest.corpus import is_export
from viking_rpc.ingest.folder import WalkOptions
from viking_rpc.ingest.pipeline import run_import
from viking_rpc.ingest.plan import plan_corpus, plan_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.progress import Progress

    from viking_rpc.config import Settings
    from viking_rpc.ingest.pipeline import ImportReport
    from viking_rpc.ingest.plan import ImportPlan

    OnProgress = Callable[[int, int, str], None]

_MAX_LISTED: Final = 20


def import_path(
    path: Path | None,
    to: str | None,
    corpus: Path | None,
    *,
    allow_prune: bool,
    data: Path | None,
    server: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Import and print what was done.

    Raises:
        InvalidArgumentError: the arguments do not go together, or the destination is no URI.
        PermissionDeniedError: the destination is not this user's to write.
        NotFoundError: the path does not exist.
    """
    _check_arguments(path, to, corpus)
    if corpus is not None and is_export(corpus):
        _check_restore(server, allow_prune=allow_prune)
        restore_export(corpus, settings_for(data, config), as_json=as_json)
        return
    settings = settings_for(data, config)
    with progress_bar() as progress:
        if corpus is not None:
            progress.add_task(f"reading {corpus}", total=None)
            plan = plan_corpus(corpus)
        else:
            assert path is not None  # noqa: S101 - checked above
            assert to is not None  # noqa: S101
            plan = plan_path(path, to, settings, progress)
        report = write_plan(plan, settings, server, progress, allow_prune=allow_prune)
    if as_json:
        print_json({"root": plan.root} | to_json(report))
    else:
        show_report(plan.root, report)


def restore_export(folder: Path, settings: Settings, *, as_json: bool) -> None:
    """Write an export, vectors included, into a data directory that nobody serves, and print what was done.

    Args:
        folder: the export.
        settings: name the data directory.
        as_json: print the report as JSON.

    Raises:
        FailedPreconditionError: DATA_DIRECTORY_LOCKED; MODEL_MISMATCH.
        DataLossError: EXPORT_DAMAGED.
    """
    from viking_rpc.engine import store_settings
    from viking_rpc.ingest.restore import read_export, restore
    from viking_rpc.store.lock import DataLock

    export = read_export(folder)
    with progress_bar() as progress, DataLock.acquire(settings.data):
        report = restore(
            export,
            settings.data,
            settings=store_settings(settings),
            now_us=time.time_ns() // 1000,
            on_progress=_shown(progress, "writing"),
        )
    if as_json:
        print_json({"root": "viking://", "account": export.manifest.account} | to_json(report))
    else:
        show_report("viking://", report)


def plan_path(path: Path, to: str, settings: Settings, progress: Progress) -> ImportPlan:
    """Plan the import of a folder or a file.

    Args:
        path: what to import.
        to: the destination as it was typed.
        settings: say what is taken and how it is cut.
        progress: shows the files that are read.
    """
    uri = parse_uri(to, LOCAL, time.time_ns() // 1000, "--to")
    if uri.uri.is_root or uri.level is not None:
        raise InvalidArgumentError.of([Violation("--to", f"{to} is no place for contexts", "INVALID_URI")])
    return plan_folder(
        path,
        str(uri.uri),
        options=WalkOptions(max_file_bytes=settings.ingest.max_file_bytes),
        max_chars=settings.ingest.section_chars,
        on_progress=_shown(progress, "reading"),
    )


def write_plan(
    plan: ImportPlan, settings: Settings, server: str | None, progress: Progress, *, allow_prune: bool = False
) -> ImportReport:
    """Carry a plan out: on a server, if one is named or holds the data directory, else in the store itself.

    Args:
        plan: what is wanted.
        settings: name the data directory and the model.
        server: an address; None means the data directory.
        progress: shows the contexts that are written.
        allow_prune: also delete what an earlier import made and the plan has not.
    """
    from viking_rpc.store.lock import DataLock

    on_progress = _shown(progress, "writing")
    if server:
        return _write_remote(plan, server, on_progress, allow_prune=allow_prune)
    try:
        lock = DataLock.acquire(settings.data)
    except FailedPreconditionError as error:
        has_tls = settings.tls.cert is not None
        return _write_remote(plan, holder_address(error), on_progress, allow_prune=allow_prune, has_tls=has_tls)
    with lock:
        in_use().require_local()
        _require_write(plan)
        return _write_local(plan, settings, on_progress, allow_prune=allow_prune)


def show_report(root: str, report: ImportReport) -> None:
    """Print what an import did; what it left out goes to stderr, with the reasons."""
    did = [f"{getattr(report, name):,} {name}" for name in ("added", "updated", "unchanged", "removed")]
    rate = f", {report.n_files / report.elapsed_s:,.0f} files/s" if report.elapsed_s and report.n_files else ""
    out.print(f"[bold]{escape(root)}[/]: {report.n_files:,} files in {report.elapsed_s:.2f} s{rate}", soft_wrap=True)
    out.print(f"contexts: {', '.join(did)}")
    if report.skipped:
        err.print(f"[yellow]{len(report.skipped):,} left out:[/]")
    for skip in report.skipped[:_MAX_LISTED]:
        err.print(f"  {escape(skip.path)}: {escape(skip.message)} [dim]({skip.reason})[/]", soft_wrap=True)
    if len(report.skipped) > _MAX_LISTED:
        err.print(f"  and {len(report.skipped) - _MAX_LISTED:,} more; --json lists all")


def _check_arguments(path: Path | None, to: str | None, corpus: Path | None) -> None:
    found = []
    if (path is None) == (corpus is None):
        found.append(Violation("PATH", "give either a PATH or --corpus DIR"))
    if path is not None and to is None:
        found.append(Violation("--to", "a PATH needs a destination, e.g. --to viking://resources/docs"))
    if corpus is not None and to is not None:
        found.append(Violation("--to", "a corpus says itself where its contexts go"))
    if found:
        raise InvalidArgumentError.of(found)


def _check_restore(server: str | None, *, allow_prune: bool) -> None:
    found = []
    if server:
        found.append(Violation("--server", "an export is imported into a data directory: stop its server, use --data"))
    if allow_prune:
        found.append(Violation("--prune", "an export only adds and replaces; import it into a new data directory"))
    if found:
        raise InvalidArgumentError.of(found)


def _write_local(plan: ImportPlan, settings: Settings, on_progress: OnProgress, *, allow_prune: bool) -> ImportReport:
    from viking_rpc.adapters.embedders import make_embedder
    from viking_rpc.engine import open_store
    from viking_rpc.ingest.target import StoreTarget

    embedder = make_embedder(settings.embedder)
    with open_store(settings, embedder) as store:
        target = StoreTarget(store, LOCAL.account)
        report = run_import(plan, target, embedder, allow_prune=allow_prune, on_progress=on_progress)
        target.finish()
    return report


def _write_remote(
    plan: ImportPlan, address: str, on_progress: OnProgress, *, allow_prune: bool, has_tls: bool = False
) -> ImportReport:
    from viking_rpc.cli.remote import RemoteTarget, ServerEmbeds

    with connected(address, has_tls=has_tls) as client:
        return run_import(plan, RemoteTarget(client), ServerEmbeds(), allow_prune=allow_prune, on_progress=on_progress)


def _require_write(plan: ImportPlan) -> None:
    """Raise PermissionDeniedError with what the local user may not change, as a server would."""
    uris = (Uri.from_canonical(context.uri) for context in plan.contexts)
    refused = [uri for uri in uris if not may_write(LOCAL, uri)]
    if refused:
        raise denied(LOCAL, [denial(LOCAL, uri, "change", "--to") for uri in refused[:_MAX_LISTED]])


def _shown(progress: Progress, what: str) -> OnProgress:
    task = progress.add_task(what, total=None, visible=False)

    def show(n_done: int, n_all: int, _: str) -> None:
        progress.update(task, completed=n_done, total=n_all, visible=True)

    return show
