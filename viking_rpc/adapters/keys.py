"""Look up the key of an endpoint in the environment, where the settings say that there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viking_rpc.errors import FailedPreconditionError

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_key(section: str, variable: str, environ: Mapping[str, str]) -> str:
    """Return the key; empty where no variable is named.

    Args:
        section: of the settings, for the message.
        variable: name of the environment variable, or empty.
        environ: where it is looked up.

    Raises:
        FailedPreconditionError: reason API_KEY_MISSING.
    """
    key = environ.get(variable, "").strip() if variable else ""
    if variable and not key:
        raise FailedPreconditionError(
            "API_KEY_MISSING",
            f"{section}.api_key_env names {variable!r}, which is not set in the environment",
            {"variable": variable},
        )
    return key
