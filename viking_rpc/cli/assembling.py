"""`viking context`: the best matches as one text for a prompt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.markup import escape

from viking_rpc.cli.answers import WHY_EMPTY
from viking_rpc.cli.as_json import to_json
from viking_rpc.cli.console import err, print_json, print_text
from viking_rpc.cli.finding import make_request
from viking_rpc.cli.planning import Planning
from viking_rpc.cli.searching import make_search
from viking_rpc.cli.session import open_client

if TYPE_CHECKING:
    from pathlib import Path

    from viking_rpc.cli.finding import Wanted
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.search import SearchRequest


def assemble_context(
    wanted: Wanted,
    n_tokens: int,
    excluded: tuple[str, ...],
    is_search: bool,
    *,
    data: Path | None,
    server: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Assemble the text and print it to stdout; what it cost goes to stderr."""
    source: RetrieveRequest | SearchRequest
    if is_search:
        source = make_search(Planning(wanted.query, targets=wanted.targets), wanted)
    else:
        source = make_request(wanted, time.time_ns() // 1000)
    with open_client(data=data, server=server, config=config) as client:
        made = client.assemble(source, max_tokens=n_tokens, exclude_uris=excluded)
    if as_json:
        print_json(to_json(made))
        return
    for warning in made.warnings:
        err.print(f"[bold yellow]warning:[/] {escape(warning.message)} [dim]({warning.reason})[/]", soft_wrap=True)
    print_text(made.text)
    stats = made.stats
    if not made.text:
        err.print(f"nothing to tell: {WHY_EMPTY[made.empty_reason]} [dim]({made.empty_reason.name})[/]")
        return
    counts = f"{stats.used_tokens:,} of {stats.max_tokens:,} tokens, {len(made.entries)} of {stats.n_matched} matches"
    err.print(f"[dim]{counts}[/]", soft_wrap=True)
