"""The command line: what can be typed, and which module does it; heavy imports wait until a command runs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from viking_rpc.cli import keys, measures, operating, tasks
from viking_rpc.cli.options import (
    Account,
    Config,
    Data,
    Json,
    KeyFile,
    ModeName,
    Peer,
    PlainKey,
    ProfileName,
    Server,
    ServerCa,
    SpeaksTls,
    TlsClientCert,
    TlsClientKey,
    TypeName,
    UriArgument,
    User,
)

app = typer.Typer(
    name="viking",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find context for agents: import a folder, serve it, ask it, and see why each result came.",
)

_state = {"traceback": False}


class RerankName(StrEnum):
    """Whether to rerank, as it is typed."""

    OFF = "off"
    PREFER = "prefer"
    REQUIRE = "require"


def wants_traceback() -> bool:
    """Return whether an unforeseen error is to be shown with its traceback."""
    return _state["traceback"]


def _show_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"viking-rpc {version('viking-rpc')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an unforeseen error came from.")] = False,
    key_file: KeyFile = None,
    account: Account = "",
    user: User = "",
    peer: Peer = "",
    has_tls: SpeaksTls = False,
    tls_ca: ServerCa = None,
    tls_client_cert: TlsClientCert = None,
    tls_client_key: TlsClientKey = None,
    plain_key: PlainKey = False,
) -> None:
    """Take what stands before the command."""
    import logging
    import os

    from viking_rpc.cli.connection import Connection, use

    _state["traceback"] = traceback
    use(
        Connection(
            key=os.environ.get("VIKING_KEY", ""),
            key_file=key_file,
            account=account,
            user=user,
            peer=peer,
            has_tls=has_tls,
            tls_ca=tls_ca,
            tls_client_cert=tls_client_cert,
            tls_client_key=tls_client_key,
            allow_plain_key=plain_key,
        )
    )
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")


@app.command("import")
def import_(
    path: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="A folder, or one file.", show_default=False)
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="URI", help="Where it goes, e.g. viking://resources/docs.")
    ] = None,
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="DIR", help="Import a corpus or an export (corpus.jsonl.gz), not a PATH."),
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also remove what an earlier import made and is gone now.")
    ] = False,
    data: Data = None,
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Import a folder, a file or a corpus; what did not change is not touched."""
    from viking_rpc.cli.importing import import_path

    import_path(path, to, corpus, allow_prune=prune, data=data, server=server, config=config, as_json=as_json)


@app.command()
def serve(
    data: Data = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address, or unix:PATH.  [default: 127.0.0.1:7654]",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Processes that share the port.  [default: 1]", show_default=False),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Speak TLS with this certificate chain (PEM).")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key (PEM).")] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-client-ca", metavar="FILE", help="Only clients with a certificate that these signed (PEM)."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port", metavar="N", help="Serve figures for Prometheus over HTTP on this port of 127.0.0.1."
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen anywhere without keys: whoever reaches the port may do all.")
    ] = False,
    config: Config = None,
) -> None:
    """Serve a data directory over gRPC until SIGINT or SIGTERM."""
    from viking_rpc.cli.serving import serve_data

    flags = {
        "server.listen": listen,
        "server.workers": workers,
        "server.insecure": insecure or None,
        "metrics.port": metrics_port,
        "tls.cert": tls_cert,
        "tls.key": tls_key,
        "tls.client_ca": tls_client_ca,
    }
    serve_data(data, config, flags)


@app.command()
def find(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", metavar="URI", help="Look only here; may be repeated.")
    ] = None,
    type_: Annotated[list[TypeName] | None, typer.Option("--type", help="Only this type; may be repeated.")] = None,
    mode: Annotated[ModeName, typer.Option("--mode", help="The descent, or one flat search.")] = ModeName.THINKING,
    profile: Annotated[ProfileName, typer.Option("--profile", help="A set of defaults.")] = ProfileName.BALANCED,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Greatest number of matches.")] = 10,
    level: Annotated[
        list[str] | None, typer.Option("--level", metavar="L0|L1|L2", help="Only this level; may be repeated.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="KEY=VALUE", help="Only with this tag.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Changed since: 2h, 7d, 2026-03-10, RFC 3339.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Changed until, inclusively.")] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Cut matches whose relevance is not above.")
    ] = None,
    rerank: Annotated[
        RerankName | None,
        typer.Option("--rerank", help="Ask the reranker: never, where one is configured, or else fail."),
    ] = None,
    per_group: Annotated[
        int | None, typer.Option("--per-group", metavar="N", help="At most N matches of one directory.")
    ] = None,
    group_depth: Annotated[
        int, typer.Option("--group-depth", metavar="N", help="Or of what lies N levels below the root searched.")
    ] = 0,
    page: Annotated[str, typer.Option("--page", metavar="TOKEN", help="Go on where an answer ended.")] = "",
    trace: Annotated[bool, typer.Option("--trace", help="Show the descent and the time at each level.")] = False,
    data: Data = None,
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Find contexts."""
    from viking_rpc.cli.finding import Wanted, find_contexts

    wanted = Wanted(
        query=query,
        targets=tuple(target or ()),
        types=tuple(one.value for one in type_ or ()),
        mode=mode.value,
        profile=profile.value,
        limit=limit,
        levels=tuple(level or ()),
        tags=tuple(tag or ()),
        since=since,
        until=until,
        threshold=threshold,
        rerank=None if rerank is None else rerank.value,
        per_group=per_group,
        group_depth=group_depth,
        page_token=page,
        has_trace=trace,
    )
    find_contexts(wanted, data=data, server=server, config=config, as_json=as_json)


@app.command()
def plan(
    task: Annotated[str, typer.Argument(metavar="TASK", help="What is to be done.")],
    turn: Annotated[
        list[str] | None,
        typer.Option("--turn", metavar="ROLE:TEXT", help="What user, assistant or tool said before; may be repeated."),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option("--summary", metavar="FILE", help="A summary of the older conversation.")
    ] = None,
    type_: Annotated[TypeName | None, typer.Option("--type", help="Only queries of this type.")] = None,
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", metavar="URI", help="Where would be looked; may be repeated.")
    ] = None,
    max_queries: Annotated[int, typer.Option("--max-queries", help="Greatest number of queries.")] = 5,
    data: Data = None,
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show the queries that a task becomes."""
    from viking_rpc.cli.planning import Planning, plan_task

    typed = Planning(
        task=task,
        turns=tuple(turn or ()),
        summary=summary,
        type=None if type_ is None else type_.value,
        targets=tuple(target or ()),
        max_queries=max_queries,
    )
    plan_task(typed, data=data, server=server, config=config, as_json=as_json)


@app.command()
def ls(
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="A directory; without one, the scopes.", show_default=False)
    ] = "",
    data: Data = None,
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """List the children of a directory."""
    from viking_rpc.cli.browsing import list_children

    list_children(uri, data=data, server=server, config=config, as_json=as_json)


@app.command()
def tree(
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="A directory; without one, the scopes.", show_default=False)
    ] = "",
    depth: Annotated[int, typer.Option("-L", "--depth", min=1, help="How many levels to show.")] = 3,
    data: Data = None,
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show a directory with what lies below it."""
    from viking_rpc.cli.browsing import show_tree

    show_tree(uri, depth, data=data, server=server, config=config, as_json=as_json)


@app.command()
def read(
    uri: UriArgument,
    level: Annotated[
        str | None,
        typer.Option("--level", metavar="L0|L1|L2", help="Which text.  [default: all of it]", show_default=False),
    ] = None,
    data: Data = None,
    server: Server = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Print the text of a context: abstract (L0), overview (L1), content (L2)."""
    from viking_rpc.cli.browsing import read_context

    read_context(uri, level, data=data, server=server, config=config, as_json=as_json)


@app.command()
def rm(
    uri: UriArgument,
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="A directory with all that is in it.")] = False,
    data: Data = None,
    server: Server = None,
    config: Config = None,
) -> None:
    """Remove a context."""
    from viking_rpc.cli.browsing import remove_context

    remove_context(uri, is_recursive=recursive, data=data, server=server, config=config)


@app.command()
def mv(
    source: Annotated[str, typer.Argument(metavar="URI", help="What to rename.", show_default=False)],
    destination: Annotated[str, typer.Argument(metavar="NEW-URI", help="Its new URI.", show_default=False)],
    data: Data = None,
    server: Server = None,
    config: Config = None,
) -> None:
    """Rename a context with all below it."""
    from viking_rpc.cli.browsing import move_context

    move_context(source, destination, data=data, server=server, config=config)


@app.command()
def touch(
    uris: Annotated[list[str], typer.Argument(metavar="URI...", help="Contexts that were used.", show_default=False)],
    data: Data = None,
    server: Server = None,
    config: Config = None,
) -> None:
    """Say that contexts were used."""
    from viking_rpc.cli.browsing import touch_contexts

    touch_contexts(uris, data=data, server=server, config=config)


@app.command()
def info(data: Data = None, server: Server = None, config: Config = None, as_json: Json = False) -> None:
    """Show what is stored, and every setting with where it comes from."""
    from viking_rpc.cli.facts import show_info

    show_info(data=data, server=server, config=config, as_json=as_json)


@app.command()
def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Put right what needs no guess; a copy of the database is kept.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Neither check indexes, nor compare term lists with texts.")
    ] = False,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check a data directory; exit with 1 when something is wrong and stays so."""
    from viking_rpc.cli.maintenance import check_data

    raise typer.Exit(check_data(data, config, is_repair=repair, is_quick=quick, as_json=as_json))


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Also copy the laid-out trees: larger, but starts at once.")
    ] = False,
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Copy a data directory, served or not; the copy is a data directory."""
    from viking_rpc.cli.maintenance import back_up_data

    back_up_data(folder, data, config, with_checkpoints=checkpoints, as_json=as_json)


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    account: Annotated[str, typer.Option("--account", metavar="NAME", help="Whose contexts.")] = "default",
    data: Data = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Write all contexts as a corpus, vectors included; `import --corpus DIR` reads it back."""
    from viking_rpc.cli.maintenance import export_data

    export_data(folder, account, data, config, as_json=as_json)


@app.command()
def warmup() -> None:
    """Compile the kernels now, so that nothing waits for it later."""
    from viking_rpc.cli.kernels import warm_up

    warm_up()


@app.command()
def demo(
    query: Annotated[
        str | None, typer.Option("--query", metavar="TEXT", help="Ask this instead of the prepared queries.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Ask all prepared queries.")] = False,
) -> None:
    """Import a handbook, memories and skills, serve them, and ask over gRPC."""
    from viking_rpc.cli.demo import run_demo

    run_demo(query, is_all=all_)


app.command("eval")(measures.eval_)
app.command("tune")(measures.tune)
app.add_typer(keys.app, name="keys")
app.command("stats")(operating.stats)
app.command("checkpoint")(operating.checkpoint)
app.command("search")(tasks.search)
app.command("explain")(tasks.explain)
app.command("context")(tasks.context)
