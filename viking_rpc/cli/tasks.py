"""The commands that look for more than one query's matches: what can be typed of search, explain and context."""

from pathlib import Path
from typing import Annotated

import typer

from viking_rpc.cli.options import Config, Data, Json, ModeName, ProfileName, Server, TypeName

_Targets = Annotated[
    list[str] | None, typer.Option("--target", "-t", metavar="URI", help="Look only here; may be repeated.")
]
_Types = Annotated[list[TypeName] | None, typer.Option("--type", help="Only this type; may be repeated.")]
_Mode = Annotated[ModeName, typer.Option("--mode", help="The descent, or one flat search.")]
_Profile = Annotated[ProfileName, typer.Option("--profile", help="A set of defaults.")]
_Limit = Annotated[int, typer.Option("--limit", "-n", help="Greatest number of matches.")]
_Threshold = Annotated[
    float | None, typer.Option("--threshold", help="Cut matches whose relevance is not above.", show_default=False)
]


def search(
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="What is to be done.", show_default=False)] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Run this plan (as of viking plan --json) instead of a TASK."),
    ] = None,
    turn: Annotated[
        list[str] | None,
        typer.Option("--turn", metavar="ROLE:TEXT", help="What user, assistant or tool said before; may be repeated."),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option("--summary", metavar="FILE", help="A summary of the older conversation.")
    ] = None,
    target: _Targets = None,
    type_: _Types = None,
    max_queries: Annotated[int, typer.Option("--max-queries", help="Greatest number of queries.")] = 5,
    mode: _Mode = ModeName.THINKING,
    profile: _Profile = ProfileName.BALANCED,
    limit: _Limit = 10,
    threshold: _Threshold = None,
    trace: Annotated[bool, typer.Option("--trace", help="Show the descent of every query.")] = False,
    data: Data = None,
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Plan for a task, find by every query of the plan, and merge."""
    from viking_rpc.cli.finding import Wanted
    from viking_rpc.cli.planning import Planning
    from viking_rpc.cli.searching import search_task

    typed = Planning(task or "", tuple(turn or ()), summary, None, tuple(target or ()), max_queries)
    wanted = Wanted(
        query=task or "",
        targets=tuple(target or ()),
        types=tuple(one.value for one in type_ or ()),
        mode=mode.value,
        profile=profile.value,
        limit=limit,
        threshold=threshold,
        has_trace=trace,
    )
    search_task(typed, wanted, plan, data=data, server=server, config=config, as_json=as_json)


def explain(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What was looked for.")],
    uri: Annotated[str, typer.Argument(metavar="URI", help="The context that was, or was not, found.")],
    target: _Targets = None,
    type_: _Types = None,
    mode: _Mode = ModeName.THINKING,
    profile: _Profile = ProfileName.BALANCED,
    limit: _Limit = 10,
    threshold: _Threshold = None,
    data: Data = None,
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Tell why a context is, or is not, among the matches of a query."""
    from viking_rpc.cli.explaining import explain_context
    from viking_rpc.cli.finding import Wanted

    wanted = Wanted(
        query=query,
        targets=tuple(target or ()),
        types=tuple(one.value for one in type_ or ()),
        mode=mode.value,
        profile=profile.value,
        limit=limit,
        threshold=threshold,
    )
    explain_context(wanted, uri, data=data, server=server, config=config, as_json=as_json)


def context(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What the prompt is about.")],
    tokens: Annotated[int, typer.Option("--tokens", help="Greatest number of tokens, as estimated.")] = 2_000,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="URI", help="Shown before; may be repeated.")
    ] = None,
    search: Annotated[bool, typer.Option("--search", help="Plan first: QUERY is a task.")] = False,
    target: _Targets = None,
    type_: _Types = None,
    limit: _Limit = 10,
    data: Data = None,
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print the best matches as one text for a prompt."""
    from viking_rpc.cli.assembling import assemble_context
    from viking_rpc.cli.finding import Wanted

    wanted = Wanted(
        query=query, targets=tuple(target or ()), types=tuple(one.value for one in type_ or ()), limit=limit
    )
    how = (tokens, tuple(exclude or ()), search)
    assemble_context(wanted, *how, data=data, server=server, config=config, as_json=as_json)
