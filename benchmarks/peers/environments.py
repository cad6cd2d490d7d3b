"""Virtual environments of their own for what the project is compared with: none of it becomes its dependency."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: What each arm's environment holds; exact versions, so that a comparison can be repeated.
REQUIREMENTS = {
    "openviking_0_4_22": ("openviking==0.4.22",),
    "openviking_0_5_2": ("openviking==0.5.2",),
    "usearch": ("usearch==2.26.6", "numpy"),
    "hnswlib": ("hnswlib==0.8.0", "numpy"),
    "faiss": ("faiss-cpu==1.15.1", "numpy"),
    "lancedb": ("lancedb==0.40.0", "pyarrow==26.0.1", "numpy"),
    "qdrant_edge": ("qdrant-edge-py==0.9.0", "numpy"),
}


def default_folder() -> Path:
    """Return where environments and stores are kept: `peers` in the project's cache folder."""
    base = os.environ.get("VIKING_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    cache = Path(base) if base else Path.home() / ".cache"
    return cache / ("peers" if os.environ.get("VIKING_CACHE_DIR") else "viking-rpc/peers")


def interpreter(arm: str, folder: Path, timeout_s: float) -> Path:
    """Return the Python of an arm, whose environment is made when it is missing; the project's own has none.

    Raises:
        RuntimeError: it could not be installed.
    """
    if arm not in REQUIREMENTS:
        return Path(sys.executable)
    place = folder / arm
    python = place / "bin" / "python"
    stamp = place / "installed"
    wanted = "\n".join(REQUIREMENTS[arm])
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS[arm]]
    for command in ([sys.executable, "-m", "venv", "--clear", str(place)], install):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired as error:
            message = f"installing took more than {timeout_s:.0f} s"
            raise RuntimeError(message) from error
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            message = f"cannot be installed: {lines[-1] if lines else done.returncode}"
            raise RuntimeError(message)
    stamp.write_text(wanted)
    return python
