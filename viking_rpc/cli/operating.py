"""The commands for who runs a server: what can be typed of stats and checkpoint."""

from typing import Annotated

import typer

from viking_rpc.cli.options import Config, Data, Json, Server


def stats(
    all_accounts: Annotated[
        bool, typer.Option("--all-accounts", help="Of all accounts together; takes a key of the role root.")
    ] = False,
    watch: Annotated[
        float | None,
        typer.Option("--watch", metavar="SECONDS", min=0.1, help="Show them again and again, until interrupted."),
    ] = None,
    data: Data = None,
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show what a running server has answered so far: queries, results, scores, times."""
    from viking_rpc.cli.statistics import show_stats

    show_stats(watch, all_accounts=all_accounts, data=data, server=server, config=config, as_json=as_json)


def checkpoint(data: Data = None, server: Server = None, config: Config = None, as_json: Json = False) -> None:
    """Lay out what is stored and save it now, so that the next start reads nothing anew."""
    from viking_rpc.cli.statistics import make_checkpoint

    make_checkpoint(data=data, server=server, config=config, as_json=as_json)
