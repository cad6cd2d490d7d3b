"""What an import leaves out, and how its paths are shown."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skip:
    """Something that an import left out: its path, a stable reason, and a sentence for people."""

    path: str
    reason: str
    message: str


def printable(path: str) -> str:
    """Return a path that can be printed and sent: bytes that are no UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")
