"""The snippets of docs/clients.md, by language."""

from __future__ import annotations

import re
from pathlib import Path

_TEXT = (Path(__file__).resolve().parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")


def snippets(language: str) -> list[str]:
    """Return the fenced blocks of a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", _TEXT, re.MULTILINE | re.DOTALL)
