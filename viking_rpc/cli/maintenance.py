"""`viking doctor`, `viking backup`, `viking export`: look after a data directory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from viking_rpc.cli.as_json import to_json
from viking_rpc.cli.console import FAILURE, err, out, print_json
from viking_rpc.cli.session import require_store, settings_for
from viking_rpc.engine import store_settings

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.store.checks import Finding
    from viking_rpc.store.doctor import Report


def check_data(data: Path | None, config: Path | None, *, is_repair: bool, is_quick: bool, as_json: bool) -> int:
    """Check a data directory, or repair it, and print the report.

    Returns:
        The exit code: 0 when nothing is wrong (any more).

    Raises:
        NotFoundError: NO_STORE.
        FailedPreconditionError: a repair of a data directory that is served; a schema of another release.
        DataLossError: the database cannot be read at all.
    """
    from viking_rpc.ingest.rows import terms_of
    from viking_rpc.store.doctor import examine, repair

    settings = settings_for(data, config)
    require_store(settings)
    work = repair if is_repair else examine
    report = work(settings.data, settings=store_settings(settings), terms_of=terms_of, is_quick=is_quick)
    if as_json:
        print_json(to_json(report) | {"is_sound": report.is_sound})
    else:
        _show(report)
    return 0 if report.is_sound else FAILURE


def back_up_data(
    folder: Path, data: Path | None, config: Path | None, *, with_checkpoints: bool, as_json: bool
) -> None:
    """Copy a data directory and print what is in the copy. Raises as `store.backup.back_up`, and NO_STORE."""
    from viking_rpc.store.backup import back_up

    settings = settings_for(data, config)
    require_store(settings)
    started = time.perf_counter()
    report = back_up(settings.data, folder, with_checkpoints=with_checkpoints)
    if as_json:
        print_json(to_json(report))
        return
    elapsed_s = time.perf_counter() - started
    out.print(
        f"[bold]{escape(str(folder))}[/]: {report.database_bytes / 1e6:,.1f} MB in {elapsed_s:.2f} s", soft_wrap=True
    )
    for account, revision in report.revisions.items():
        out.print(f"account {escape(account)} at revision {revision:,}")
    err.print(f"[dim]restore it: viking serve --data {escape(str(folder))}[/]", soft_wrap=True)


def export_data(folder: Path, account: str, data: Path | None, config: Path | None, *, as_json: bool) -> None:
    """Export an account and print what was written. Raises as `ingest.export.export_account`, and NO_STORE."""
    from viking_rpc.ingest.export import export_account

    settings = settings_for(data, config)
    require_store(settings)
    manifest = export_account(settings.data, folder, account, now_us=time.time_ns() // 1000)
    if as_json:
        print_json(to_json(manifest))
        return
    held = f"{manifest.n_files:,} files in {manifest.n_directories:,} directories, {manifest.n_rows:,} vectors"
    out.print(f"[bold]{escape(str(folder))}[/]: {held}, revision {manifest.revision:,}", soft_wrap=True)


def _show(report: Report) -> None:
    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    facts.add_row("data directory", escape(report.folder))
    held = f"{report.n_contexts:,} contexts, {report.n_rows:,} rows in {report.n_accounts:,} accounts"
    facts.add_row("holds", held)
    facts.add_row("model", escape(f"{report.model or 'none'}, {report.dimensions} dimensions"))
    facts.add_row("schema", f"version {report.schema_version}, text analysis {report.analysis or 'none'}")
    facts.add_row("open in", escape(report.holder or "no process"))
    facts.add_row("took", f"{report.elapsed_s:.2f} s")
    if report.saved_as:
        facts.add_row("kept", escape(report.saved_as))
    out.print(facts)
    for finding in report.findings:
        _show_finding(finding)
    if report.is_sound:
        out.print("[green]sound[/]")
    elif any(finding.repair and not finding.is_repaired for finding in report.findings):
        err.print("[dim]stop the server, then: viking doctor --repair[/]")


def _show_finding(finding: Finding) -> None:
    colour, word = (
        ("green", "repaired") if finding.is_repaired else ("dim", "note") if finding.is_note else ("red", "wrong")
    )
    out.print(f"[{colour}]{word}[/] {finding.check}: {escape(finding.message)} ({finding.n:,})", soft_wrap=True)
    for example in finding.examples:
        out.print(f"      {escape(example)}", soft_wrap=True)
    if finding.repair and not finding.is_repaired:
        out.print(f"      [dim]a repair {escape(finding.repair)}[/]", soft_wrap=True)
