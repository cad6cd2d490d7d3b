"""`viking ls`, `tree`, `read`, `rm`, `mv`, `touch`: look at the context tree and change it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from viking_rpc.cli.answers import level_of
from viking_rpc.cli.as_json import to_json
from viking_rpc.cli.console import out, print_json, print_text
from viking_rpc.cli.session import open_client
from viking_rpc.domain.context import Kind, Level
from viking_rpc.domain.query import View
from viking_rpc.errors import InvalidArgumentError, NotFoundError, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from viking_rpc.client import Client
    from viking_rpc.domain.context import Context

_ROOT: Final = "viking://"


def list_children(uri: str, *, data: Path | None, server: str | None, config: Path | None, as_json: bool) -> None:
    """Print the children of a directory."""
    with open_client(data=data, server=server, config=config) as client:
        children = list(client.list(uri))
    if as_json:
        print_json([to_json(child) for child in children])
        return
    if not children:
        out.print("[dim]empty[/]")
        return
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    width = max(len(child.uri.rpartition("/")[2]) + 1 for child in children)
    table.add_column("name", overflow="fold", min_width=min(width, out.width // 2))
    table.add_column("children", justify="right", min_width=8)
    table.add_column("type", min_width=8)
    table.add_column("updated", min_width=10)
    table.add_column("abstract", no_wrap=True, overflow="ellipsis", ratio=1)
    for child in children:
        n = str(child.child_count) if child.kind is Kind.DIRECTORY else ""
        day = f"{datetime.fromtimestamp(child.update_us / 1e6, UTC):%Y-%m-%d}" if child.update_us else ""
        text = " ".join((child.abstract or child.title).split())
        table.add_row(_name(child), n, child.type.name.lower(), day, f"[dim]{escape(text)}[/]")
    out.print(table)


def show_tree(
    uri: str, depth: int, *, data: Path | None, server: str | None, config: Path | None, as_json: bool
) -> None:
    """Print a directory with what lies below it."""
    with open_client(data=data, server=server, config=config) as client:
        top = _read_tree(client, uri or _ROOT, depth)
    if as_json:
        print_json(top)
        return
    shown = Tree(f"[bold]{escape(uri or _ROOT)}[/]", guide_style="dim")
    _grow(shown, top)
    out.print(shown)


def read_context(
    uri: str, level: str | None, *, data: Path | None, server: str | None, config: Path | None, as_json: bool
) -> None:
    """Print the text of a context.

    Raises:
        InvalidArgumentError: an unknown level.
        NotFoundError: NO_TEXT, the context has none at this level.
    """
    wanted = None if level is None else level_of(level)
    if level is not None and wanted is None:
        raise InvalidArgumentError.of([Violation("--level", f"{level!a} is none of L0, L1, L2")])
    with open_client(data=data, server=server, config=config) as client:
        context = client.get(uri, view=View.FULL)
    if as_json:
        print_json(to_json(context))
        return
    if wanted is None:
        wanted = next((one for one in Level if uri.rstrip("/").endswith(one.suffix) and one.suffix), None)
    texts = {Level.ABSTRACT: context.abstract, Level.OVERVIEW: context.overview, Level.DETAIL: context.content}
    text = texts[wanted] if wanted is not None else context.content or context.overview or context.abstract
    if not text:
        at = "no text" if wanted is None else f"no text at L{int(wanted)}"
        raise NotFoundError("NO_TEXT", f"{context.uri} has {at}", {"uri": context.uri})
    print_text(text)


def remove_context(uri: str, *, is_recursive: bool, data: Path | None, server: str | None, config: Path | None) -> None:
    """Remove a context and say how much went."""
    with open_client(data=data, server=server, config=config) as client:
        removed = client.delete([uri], recursive=is_recursive)
    noun = "context" if removed.n_deleted == 1 else "contexts"
    out.print(f"removed {removed.n_deleted:,} {noun}")


def move_context(source: str, destination: str, *, data: Path | None, server: str | None, config: Path | None) -> None:
    """Rename a context with all below it, and say how much moved."""
    with open_client(data=data, server=server, config=config) as client:
        moved = client.move(source, destination)
    noun = "context" if moved.n_moved == 1 else "contexts"
    out.print(f"moved {moved.n_moved:,} {noun}")


def touch_contexts(uris: Sequence[str], *, data: Path | None, server: str | None, config: Path | None) -> None:
    """Say that contexts were used."""
    with open_client(data=data, server=server, config=config) as client:
        client.touch(uris)


def _read_tree(client: Client, uri: str, depth: int) -> dict[str, Any]:
    """Read a directory so many levels deep; `children` is missing where it was not looked further."""
    children = []
    for child in client.list(uri, view=View.ABSTRACT):
        if child.kind is Kind.DIRECTORY and child.child_count and depth > 1:
            entry = _read_tree(client, child.uri, depth - 1)
        else:
            entry = {"uri": child.uri}
        entry |= {"kind": child.kind.name, "title": child.title, "child_count": child.child_count}
        children.append(entry)
    return {"uri": uri, "children": children}


def _grow(branch: Tree, entry: dict[str, Any]) -> None:
    for child in entry.get("children", ()):
        is_directory = child["kind"] == Kind.DIRECTORY.name
        name = escape(child["uri"].rpartition("/")[2])
        title = f"  [dim]{escape(child['title'])}[/]" if child["title"] else ""
        more = f"  [dim]({child['child_count']} more)[/]" if child["child_count"] and "children" not in child else ""
        _grow(branch.add(f"[bold blue]{name}/[/]{title}{more}" if is_directory else f"{name}{title}"), child)


def _name(context: Context) -> str:
    name = escape(context.uri.rpartition("/")[2])
    return f"[bold blue]{name}/[/]" if context.kind is Kind.DIRECTORY else name
