"""Show an answer: matches with their breadcrumbs and scores, the descent as a tree, the work at each level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from viking_rpc.domain.context import Level
from viking_rpc.domain.query import Mode
from viking_rpc.domain.trace import EmptyReason, StopReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from viking_rpc.domain.context import Context
    from viking_rpc.domain.trace import Match, RetrieveResult, RetrieveStats, ScoreParts, TraceStep

_MAX_ABSTRACT_CHARS: Final = 240
_PART_NAMES: Final = ("dense", "lexical", "parent", "rerank", "hotness")
WHY_EMPTY: Final = {
    EmptyReason.NO_CONTEXTS: "there is nothing to search: the store or the target is empty",
    EmptyReason.FILTERED_OUT: "what was found has another type or level, or does not pass the filter",
    EmptyReason.BELOW_THRESHOLD: "everything lies below the threshold",
    EmptyReason.PLAN_SKIPPED: "nothing needs to be looked up",
    EmptyReason.NONE: "no reason was given",
}
_WHY_STOPPED: Final = {
    StopReason.EXHAUSTED: "every directory that could hold a match was opened",
    StopReason.CONVERGED: "the best matches had not changed for several rounds",
    StopReason.STAGNANT: "several rounds brought no candidate",
    StopReason.BUDGET: "the row budget was spent",
    StopReason.TIME: "the time was over",
}


def show_answer(result: RetrieveResult, *, has_trace: bool = False) -> Iterator[RenderableType]:
    """Yield the whole answer for people.

    Args:
        result: the answer.
        has_trace: with the descent and the levels.
    """
    for warning in result.warnings:
        yield Text.assemble(("warning: ", "bold yellow"), warning.message, (f" ({warning.reason})", "dim"))
    if not result.matches:
        yield _why_empty(result)
    for rank, match in enumerate(result.matches, 1):
        yield show_match(rank, match)
    if result.next_page_token:
        yield Text(f"more: --page {result.next_page_token}", style="dim", no_wrap=True, overflow="ignore")
    if has_trace:
        yield from show_trace(result)
    yield summary(result)


def show_match(rank: int, match: Match, *, mark: str = " ", max_chars: int = _MAX_ABSTRACT_CHARS) -> RenderableType:
    """Return one match: rank, score and URI; breadcrumbs; the parts of the score; the abstract.

    Args:
        rank: from 1.
        match: as it came.
        mark: one letter before the URI.
        max_chars: of the abstract.
    """
    head = head_of(rank, match, mark=mark)
    context = match.context
    body: list[RenderableType] = []
    crumbs = " > ".join((*(name_of(a) for a in match.ancestors[1:]), name_of(context)))
    body.append(Text(crumbs, style="blue"))
    body.append(Text(parts_of(match.parts), style="dim"))
    text = " ".join(context.abstract.split())
    if text:
        body.append(Text(text if len(text) <= max_chars else text[: max_chars - 3] + "..."))
    return Group(head, Padding(Group(*body), (0, 0, 0, 4), expand=False))


def head_of(rank: int, match: Match, *, mark: str = " ") -> Text:
    """Return the first line of a match, which is never folded, so that its URI can be copied."""
    return Text.assemble(
        (f"{rank:>2}  ", "bold"),
        (f"{match.score:.3f} ", "cyan"),
        (f"{mark} ", "bold green"),
        (match.display_uri, "bold"),
        no_wrap=True,
        overflow="ignore",
    )


def name_of(context: Context) -> str:
    """Return what a context is called: its title, else the last segment of its URI."""
    return context.title or context.uri.rpartition("/")[2]


def parts_of(parts: ScoreParts) -> str:
    """Return where a score comes from, in one line."""
    shown = [f"own {parts.own:.3f}"]
    shown += [f"{name} {value:.3f}" for name in _PART_NAMES if (value := getattr(parts, name)) is not None]
    return " | ".join(shown)


def show_trace(result: RetrieveResult) -> Iterator[RenderableType]:
    """Yield the descent as a tree, and what each level cost."""
    if result.steps:
        yield descent_tree(result.steps, result.searched_roots)
    elif result.mode is Mode.QUICK:
        yield Text("\nA flat search has no descent.", style="dim")
    if result.stats.levels:
        yield levels_table(result.stats)


def descent_tree(steps: Sequence[TraceStep], roots: Sequence[str]) -> Tree:
    """Return the opened directories, each below the nearest opened one above it, in the order of opening."""
    top = Tree(Text.assemble(("descent ", "bold"), ("from " + ", ".join(roots), "dim")), guide_style="dim")
    branch_of: dict[str, Tree] = {}
    for step in sorted(steps, key=lambda one: (one.uri.count("/"), one.index)):
        above = next((uri for uri in _above(step.uri) if uri in branch_of), "")
        name = step.uri[len(above) + 1 :] if above else step.uri
        branch_of[step.uri] = (branch_of[above] if above else top).add(_label(name, step))
    return top


def levels_table(stats: RetrieveStats) -> Table:
    """Return what was done at each depth below the searched roots, and how long it took."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("level", "directories", "rows scored", "kept", "time"):
        table.add_column(column, justify="right")
    for level in stats.levels:
        time = f"{level.duration_us:,.1f} us"
        table.add_row(str(level.depth), str(level.n_expanded), f"{level.n_rows:,}", f"{level.n_kept:,}", time)
    return table


def summary(result: RetrieveResult) -> Text:
    """Return the cost of an answer in one line, and why the descent stopped."""
    stats = result.stats
    times = [f"{name} {us / 1000:.2f} ms" for name, us in _stages(stats) if us]
    line = f"{result.total_matched:,} matched, {stats.rows_scored:,} rows scored"
    if stats.n_expanded:
        line += f", {stats.n_expanded:,} directories opened in {stats.n_rounds} rounds"
    text = Text(line, style="dim")
    if stats.stop_reason is not None:
        text.append(f"\nstopped: {stats.stop_reason.name}, {_WHY_STOPPED[stats.stop_reason]}")
    return text.append(f"\n{', '.join(times)}")


def _stages(stats: RetrieveStats) -> tuple[tuple[str, float], ...]:
    return (
        ("embedding", stats.embed_us),
        (f"global search ({stats.seed_path or 'none'})", stats.seed_us),
        ("descent", stats.descent_us),
        (f"reranking {stats.n_reranked:,} texts", stats.rerank_us),
        ("in all", stats.total_us),
    )


def _why_empty(result: RetrieveResult) -> Text:
    text = Text.assemble(
        ("no matches: ", "bold"), WHY_EMPTY[result.empty_reason], (f" ({result.empty_reason.name})", "dim")
    )
    if result.best_below_threshold is not None:
        text.append(f"; the best has {result.best_below_threshold:.3f}")
    if result.empty_reason is EmptyReason.FILTERED_OUT and result.stats.rows_filtered:
        text.append(f"; {result.stats.rows_filtered:,} rows were left out")
    text.append("\nsearched: " + ", ".join(result.searched_roots), style="dim")
    return text


def _label(name: str, step: TraceStep) -> str:
    score = "  -  " if step.score is None else f"{step.score:.3f}"
    counts = f"scored {step.n_scored}, kept {step.n_kept}, queued {step.n_queued}"
    return f"[bold]{escape(name)}[/]  [cyan]{score}[/]  [dim]{counts}  #{step.index + 1}[/]"


def _above(uri: str) -> Iterator[str]:
    """Yield the URIs above one, the nearest first."""
    while (uri := uri.rpartition("/")[0]).count("/") > 1:
        yield uri


def level_of(text: str) -> Level | None:
    """Return the level that a text names: L0, l1, 2; None for none."""
    digit = text.strip().lower().removeprefix("l")
    return Level(int(digit)) if digit in {"0", "1", "2"} else None
