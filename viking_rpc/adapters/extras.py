"""Find the optional packages that some adapters need, without importing them, or say how to install them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from viking_rpc.errors import FailedPreconditionError


def package_folder(package: str, *, embedder: str, extra: str = "", role: str = "embedder") -> Path:
    """Return the folder of an installed package.

    Args:
        package: import name, top level.
        embedder: who needs it, for the message.
        extra: the extra of viking-rpc that brings it; empty for a plain dependency.
        role: what it is, for the message.

    Raises:
        FailedPreconditionError: reason EXTRA_MISSING, with the pip command.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        target = f"viking-rpc[{extra}]" if extra else "viking-rpc"
        command = f"pip install '{target}'"
        raise FailedPreconditionError(
            "EXTRA_MISSING",
            f"the {role} {embedder!r} needs the package {package!r}, which is not installed; run: {command}",
            {role: embedder, "package": package, "command": command},
        )
    return Path(spec.submodule_search_locations[0])


def require_file(path: Path, *, embedder: str, role: str = "embedder") -> Path:
    """Return the path of a model's file.

    Raises:
        FailedPreconditionError: reason MODEL_FILE_MISSING.
    """
    if not path.is_file():
        raise FailedPreconditionError(
            "MODEL_FILE_MISSING",
            f"the {role} {embedder!r} needs the file {path.name!r} in {str(path.parent)!r}",
            {role: embedder, "file": path.name, "folder": str(path.parent)},
        )
    return path
