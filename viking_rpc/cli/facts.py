"""`viking info`: what is stored, and every setting with where it comes from."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from viking_rpc.cli.as_json import to_json
from viking_rpc.cli.console import out, print_json
from viking_rpc.cli.session import DATABASE_NAME, open_client, settings_for
from viking_rpc.config import describe
from viking_rpc.domain.query import Profile
from viking_rpc.retrieve.profiles import PRESETS

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.client import ServerInfo

_SERVER = "server"


def show_info(*, data: Path | None, server: str | None, config: Path | None, as_json: bool) -> None:
    """Print the facts of a store, and the settings: those of the server, or those that a command here would use."""
    own = None if server else settings_for(data, config)
    stored = None
    if own is None or (own.data / DATABASE_NAME).exists():
        with open_client(data=data, server=server, config=config) as client:
            stored = client.info()
    if own is not None:
        settings = [_effective(*one) for one in describe(own)]
    else:
        settings = [(key, value, _SERVER) for key, value in sorted((stored.settings if stored else {}).items())]
    if as_json:
        print_json(_as_json(stored, settings))
        return
    out.print(_facts(stored))
    table = Table(box=None, pad_edge=False, header_style="dim", title="Settings", title_justify="left")
    for column in ("setting", "value", "from"):
        table.add_column(column, overflow="fold")
    for key, value, source in settings:
        is_default = source == "default"
        table.add_row(key, escape(value), f"[dim]{source}[/]" if is_default else f"[bold]{escape(source)}[/]")
    out.print(table)


def _effective(key: str, value: str, source: str) -> tuple[str, str, str]:
    """Put a profile's own value in the place of a replacement that nobody set."""
    section, _, rest = key.partition(".")
    if section != "retrieval" or source != "default":
        return key, value, source
    profile, _, name = rest.partition(".")
    return key, str(getattr(PRESETS[Profile[profile.upper()]], name)), source


def _as_json(stored: ServerInfo | None, settings: list[tuple[str, str, str]]) -> dict[str, Any]:
    facts = None if stored is None else to_json(stored)
    if facts is not None:
        del facts["settings"]
    return {
        "version": version("viking-rpc"),
        "store": facts,
        "settings": {key: {"value": value, "source": source} for key, value, source in settings},
    }


def _facts(stored: ServerInfo | None) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("viking-rpc", version("viking-rpc"))
    if stored is None:
        table.add_row("store", "none yet; make one: viking import PATH --to viking://resources/NAME")
        return table
    table.add_row("contexts", f"{stored.n_files:,} files in {stored.n_directories:,} directories")
    table.add_row("by type", _counts(stored.contexts_by_type))
    table.add_row("rows", f"{stored.n_rows:,} ({_counts(stored.rows_by_level)}), {stored.n_pending_rows:,} fresh")
    table.add_row("model", f"{stored.data_model or stored.embedder or 'none'}, {stored.dimensions} dimensions")
    table.add_row("planner", stored.planner or "none")
    table.add_row("revision", f"{stored.revision:,}, checkpoint {stored.checkpoint_revision:,}")
    table.add_row("database", f"{stored.database_bytes / 1e6:,.1f} MB")
    table.add_row("index", f"{stored.index_engine}, {stored.index_state.lower()}")
    for warning in stored.warnings:
        table.add_row("[yellow]warning[/]", escape(f"{warning.message} ({warning.reason})"))
    return table


def _counts(counts: Any) -> str:
    return ", ".join(f"{name.lower()} {n:,}" for name, n in sorted(counts.items())) or "none"
