"""`viking demo`: import, serve, ask over gRPC, and show why each result came."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.markup import escape
from rich.rule import Rule

from viking_rpc.cli.answers import head_of, show_match, show_trace, summary
from viking_rpc.cli.console import err, out, progress_bar
from viking_rpc.cli.importing import plan_path, write_plan
from viking_rpc.cli.kernels import compiling
from viking_rpc.cli.session import connected
from viking_rpc.config import load_settings
from viking_rpc.demo.material import CONTENT, PLACES, DemoQuery, load_queries
from viking_rpc.domain.context import ContextType, Level
from viking_rpc.domain.query import Filter, Query, RetrieveRequest, Scope, TraceLevel

if TYPE_CHECKING:
    from viking_rpc.cli.kernels import Compilation
    from viking_rpc.client import Client
    from viking_rpc.config import Settings
    from viking_rpc.domain.trace import RetrieveResult

_LIMIT: Final = 5
#: Matches that are shown in full; of the others the first line is enough.
_N_SHOWN: Final = 3
_MAX_ABSTRACT_CHARS: Final = 140
_RULE_WIDTH: Final = 100


def run_demo(query: str | None, *, is_all: bool) -> None:
    """Show the whole way from a folder to an answer.

    Args:
        query: asked instead of the prepared queries.
        is_all: ask all prepared queries.
    """
    started_s = time.perf_counter()
    queries = [DemoQuery(query)] if query is not None else load_queries(is_all=is_all)
    with tempfile.TemporaryDirectory(prefix="viking-demo-") as folder:
        settings = load_settings({"data": Path(folder), "server.listen": "127.0.0.1:0"})
        with compiling() as compilation:
            _import_all(settings)
            if compilation is not None:
                _wait(compilation)
        from viking_rpc.cli.embedded import EmbeddedServer

        with EmbeddedServer(settings) as server, connected(server.address) as client:
            info = client.info()
            out.print(
                f"\n[bold]Serving[/] {info.n_files} files in {info.n_directories} directories on {server.address},"
                f" model {escape(info.embedder)}",
                soft_wrap=True,
            )
            out.print("[dim]Asking over gRPC for the five best files; * marks what was expected[/]")
            ranks = [_ask(client, i, one) for i, one in enumerate(queries, 1)]
    _conclude(queries, ranks, time.perf_counter() - started_s)


def _import_all(settings: Settings) -> None:
    """Import every part, into the store itself: the server comes later."""
    out.print("[bold]Importing[/] the handbook, memories and skills of an invented company")
    for name, place in PLACES.items():
        with progress_bar() as progress:
            plan = plan_path(CONTENT / name, place, settings, progress)
            report = write_plan(plan, settings, None, progress)
        counts = f"{report.n_files:>3} files, {report.added:>3} contexts, {report.elapsed_s:.2f} s"
        out.print(f"  {name:<9} {counts:<36} -> {place}", soft_wrap=True)


def _wait(compilation: Compilation) -> None:
    """Wait for the kernels, which have been compiling since the start."""
    if not err.is_terminal:
        out.print("Compiling the kernels; this happens once")
    with progress_bar() as progress:
        task = progress.add_task("compiling the kernels (once)", total=len(compilation.modules))
        seconds = compilation.wait(lambda n_done, n_all, _: progress.update(task, completed=n_done, total=n_all))
    out.print(f"Compiled the kernels in {seconds:.1f} s; the next start has them")


def _ask(client: Client, number: int, query: DemoQuery) -> int | None:
    """Ask one query and show its answer; return the rank of what was expected."""
    out.print()
    _rule(f"[bold]query {number}")
    out.print(f"[bold]{escape(query.text)}[/]")
    if query.note:
        out.print(f"[dim italic]{escape(query.note)}[/]")
    request = RetrieveRequest(
        query=Query(text=query.text),
        scope=_scope(query),
        filter=Filter(levels=frozenset({Level.DETAIL})),
        limit=_LIMIT,
        trace_level=TraceLevel.STEPS,
    )
    started_s = time.perf_counter()
    result = client.retrieve(request)
    call_ms = (time.perf_counter() - started_s) * 1000
    rank = query.rank_in([match.context.uri for match in result.matches])
    _show(result, query)
    if query.expected:
        out.print(_verdict(query, rank))
    out.print(f"[dim]the gRPC call took {call_ms:.2f} ms, of it {result.stats.total_us / 1000:.2f} ms in the search[/]")
    return rank


def _scope(query: DemoQuery) -> Scope:
    """Look everywhere: by default skills are searched only when they are asked for."""
    if query.type:
        return Scope(types=frozenset({ContextType[query.type.upper()]}))
    return Scope(tuple(PLACES.values()))


def _show(result: RetrieveResult, query: DemoQuery) -> None:
    for warning in result.warnings:
        out.print(f"[yellow]warning:[/] {escape(warning.message)}")
    for i, match in enumerate(result.matches, 1):
        mark = " " if query.rank_in([match.context.uri]) is None else "*"
        is_short = i > _N_SHOWN
        out.print(
            head_of(i, match, mark=mark) if is_short else show_match(i, match, mark=mark, max_chars=_MAX_ABSTRACT_CHARS)
        )
    for part in show_trace(result):
        out.print(part)
    out.print(summary(result))


def _verdict(query: DemoQuery, rank: int | None) -> str:
    if rank is not None:
        return f"[green]expected file found at rank {rank}[/]"
    wanted = " or ".join(escape(uri) for uri in query.expected)
    return f"[red]expected file not among the first {_LIMIT}:[/] {wanted}"


def _conclude(queries: list[DemoQuery], ranks: list[int | None], seconds: float) -> None:
    out.print()
    _rule()
    judged = [rank for query, rank in zip(queries, ranks, strict=True) if query.expected]
    if judged:
        n_first = sum(rank == 1 for rank in judged)
        n_found = sum(rank is not None for rank in judged)
        out.print(
            f"[bold]{n_first} of {len(judged)} at rank 1, {n_found} among the first {_LIMIT}[/], in {seconds:.1f} s"
        )
    viking = _command()
    out.print("\nNext:")
    for line in (
        f"{viking} import ./docs --to viking://resources/docs",
        f'{viking} find "how do I rotate a key" --trace',
        f"{viking} serve",
    ):
        out.print(f"  {escape(line)}", soft_wrap=True)


def _rule(title: str = "") -> None:
    out.print(Rule(title, align="left", style="dim"), width=min(out.width, _RULE_WIDTH))


def _command() -> str:
    """Return how this program is called from where the user stands."""
    program = Path(sys.argv[0])
    if not program.is_absolute():
        return shlex.quote(str(program)) if program.name == "viking" else "viking"
    near = os.path.relpath(program)
    return shlex.quote(near if program.name == "viking" and not near.startswith("..") else "viking")
