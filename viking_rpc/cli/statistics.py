"""`viking stats` and `viking checkpoint`: what a server has answered, and saving what it has laid out."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Group
from rich.live import Live
from rich.table import Table

from viking_rpc.cli.as_json import to_json
from viking_rpc.cli.console import out, print_json
from viking_rpc.cli.session import open_client, open_running
from viking_rpc.errors import DeadlineExceededError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rich.console import RenderableType

    from viking_rpc.domain.statistics import RetrievalStats


def show_stats(
    watch_s: float | None,
    *,
    all_accounts: bool,
    data: Path | None,
    server: str | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Print the statistics of a running server, once or every so many seconds until interrupted."""
    with open_running(data=data, server=server, config=config) as client:
        if watch_s is not None and out.is_terminal and not as_json:
            _show_live(lambda: client.stats(all_accounts=all_accounts), watch_s)
        while True:
            _print(client.stats(all_accounts=all_accounts), as_json=as_json)
            if watch_s is None:
                return
            sys.stdout.flush()
            time.sleep(watch_s)


def _show_live(ask: Callable[[], RetrievalStats], watch_s: float) -> NoReturn:
    """Show statistics in one place of a terminal."""
    with Live(_tables(ask()), console=out, auto_refresh=False) as live:
        while True:
            time.sleep(watch_s)
            live.update(_tables(ask()), refresh=True)


def make_checkpoint(*, data: Path | None, server: str | None, config: Path | None, as_json: bool) -> None:
    """Make a checkpoint and wait for it, however long it takes."""
    with open_client(data=data, server=server, config=config) as client:
        revision = None
        while revision is None:
            try:
                revision = client.checkpoint()
            except DeadlineExceededError:  # it goes on, and the next call joins it
                continue
    if as_json:
        print_json({"revision": revision})
    else:
        out.print(f"a checkpoint has revision {revision:,}" if revision else "nothing was ever written")


def _print(stats: RetrievalStats, *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(stats))
    else:
        out.print(_tables(stats))


def _as_json(stats: RetrievalStats) -> dict[str, Any]:
    derived = {"zero_result_rate": stats.zero_result_rate, "avg_results": stats.avg_results}
    return {**to_json(stats), **derived}


def _tables(stats: RetrievalStats) -> RenderableType:
    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    by_type = ", ".join(f"{_type(name)} {n:,}" for name, n in sorted(stats.queries_by_type.items()))
    facts.add_row("queries", f"{stats.n_queries:,}" + (f" ({by_type})" if by_type else ""))
    facts.add_row("results", f"{stats.n_results:,}, {stats.avg_results:.1f} a query")
    facts.add_row("without result", f"{stats.n_zero_results:,} ({stats.zero_result_rate:.1%})")
    facts.add_row("scores", _scores(stats))
    facts.add_row(
        "reranked",
        f"{stats.n_rerank_attempted:,} attempted, {stats.n_rerank_used:,} used, {stats.n_rerank_fallback:,} fell back, "
        f"{stats.n_rerank_partial:,} in part",
    )
    facts.add_row("time", f"{_time(stats.avg_latency_us)} on average, {_time(stats.max_latency_us)} at most")
    if not stats.levels:
        return facts
    levels = Table(box=None, pad_edge=False, header_style="dim", title="Descent", title_justify="left")
    for column in ("depth", "directories", "p50", "p95", "p99"):
        levels.add_column(column, justify="right")
    for level in stats.levels:
        times = (_time(one) for one in (level.p50_us, level.p95_us, level.p99_us))
        levels.add_row(str(level.depth), f"{level.n_expanded:,}", *times)
    return Group(facts, levels)


def _type(name: str) -> str:
    return "all types" if name == "UNSPECIFIED" else name.lower()


def _scores(stats: RetrievalStats) -> str:
    if stats.max_score is None or stats.min_score is None:
        return "none yet"
    return f"{stats.avg_score:.3f} on average, {stats.min_score:.3f} to {stats.max_score:.3f}"


def _time(duration_us: float) -> str:
    return f"{duration_us / 1000:,.3f} ms"
