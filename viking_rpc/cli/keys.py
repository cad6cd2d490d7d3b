"""`viking keys`: make, list and revoke the keys of a data directory, served or not."""

from enum import StrEnum
from typing import Annotated

import typer

from viking_rpc.cli.options import Config, Data, Json

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke keys; a running server follows.")


class RoleName(StrEnum):
    """A role as it is typed."""

    ROOT = "root"
    ADMIN = "admin"
    USER = "user"


@app.command()
def add(
    account: Annotated[str, typer.Option("--account", metavar="NAME", help="Whose contexts it opens.")] = "default",
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Whose key it is; a root key acts for no user of its own.")
    ] = "default",
    role: Annotated[
        RoleName,
        typer.Option("--role", help="user: changes what is its own; admin: also what is shared; root: everything."),
    ] = RoleName.USER,
    may_act_for: Annotated[
        bool, typer.Option("--may-act-for", help="Calls may name another user of the account, and have their rights.")
    ] = False,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="TIME", help="Until when it is valid: 12h, 90d, 2030-01-31, RFC 3339."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="N", help="Calls a second; 0: no limit.  [default: keys.rate]"),
    ] = None,
    burst: Annotated[
        int | None,
        typer.Option("--burst", metavar="N", help="Calls at once after a pause.  [default: those of one second]"),
    ] = None,
    max_calls: Annotated[
        int | None,
        typer.Option("--max-calls", metavar="N", help="Calls in work; 0: no limit.  [default: keys.max_calls]"),
    ] = None,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Make a key and print it; nobody can print it again. With the first one, a server wants keys from everybody."""
    from viking_rpc.cli.key_changes import make_key
    from viking_rpc.domain.keys import KeyLimits

    limits = KeyLimits(rate, burst, max_calls)
    make_key(account, user, role.value, may_act_for, expires, limits, data=data, config=config, as_json=as_json)


@app.command("list")
def list_(data: Data = None, config: Config = None, as_json: Json = False) -> None:
    """List all keys, without what is secret of them."""
    from viking_rpc.cli.key_changes import show_keys

    show_keys(data, config, as_json=as_json)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Of the list; the part behind vk_.", show_default=False)],
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Refuse a key from now on."""
    from viking_rpc.cli.key_changes import end_key

    end_key(key_id, data, config, as_json=as_json)
