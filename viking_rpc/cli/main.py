"""The entry point of `viking`: run a command, and let no error leave it but as a message and an exit code."""

from __future__ import annotations

import sys

from viking_rpc.cli.app import app
from viking_rpc.cli.console import FAILURE, USAGE, print_error, quit_quietly, show_problem

_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command.

    Args:
        arguments: without the program's name.

    Returns:
        The exit code: 0, 1 for what failed, 2 for a call that cannot work as it stands, 130 when interrupted.
    """
    from viking_rpc.errors import VikingError

    try:
        app(arguments, prog_name="viking")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILURE
    except VikingError as error:
        return print_error(error)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        quit_quietly()
        return 0
    except Exception as error:  # noqa: BLE001 - the last place where it can become a message
        return _explain(error)
    return 0


def _explain(error: Exception) -> int:
    """Say what no layer foresaw; `--traceback` shows the whole of it."""
    from rich.markup import escape

    from viking_rpc.cli.app import wants_traceback
    from viking_rpc.config import ConfigError

    if isinstance(error, ConfigError):
        lines = [f"[bold]{escape(p.key)}[/]: {escape(p.message)} [dim]({escape(p.source)})[/]" for p in error.problems]
        show_problem(lines, "the configuration cannot be used")
        return USAGE
    if wants_traceback():
        from viking_rpc.cli.console import err

        err.print_exception()
        return FAILURE
    if isinstance(error, OSError) and error.strerror:
        named = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        show_problem([escape(named)], type(error).__name__)
        return FAILURE
    lines = [
        escape(f"{error}" or "no more is known"),
        "This is a mistake of viking-rpc; viking --traceback shows where.",
    ]
    show_problem(lines, type(error).__name__)
    return FAILURE


if __name__ == "__main__":
    main()
