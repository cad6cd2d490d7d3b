"""docs/operations.md knows every setting with its default, and every table row is a setting."""

from __future__ import annotations

import re
from pathlib import Path

from viking_rpc.config import Settings, describe

_ROW = re.compile(r"^\| `([a-zA-Z_.]+)` \| `([^`]*)` \| \S")


def test_every_setting_is_documented_with_its_default() -> None:
    text = (Path(__file__).parent.parent / "docs" / "operations.md").read_text(encoding="utf-8")
    documented = {match[1]: match[2] for line in text.splitlines() if (match := _ROW.match(line))}
    settings = describe(Settings(data=Path("~/.local/share/viking-rpc")))
    wanted = {re.sub(r"^retrieval\.\w+", "retrieval.PROFILE", key): value for key, value, _ in settings}
    wanted["data"] = "~/.local/share/viking-rpc"
    rows = {key: f"| `{key}` | `{value}` | ... |" for key, value in wanted.items()}
    lacking = [row for key, row in rows.items() if documented.get(key) != wanted[key]]
    assert lacking == [], "the table of settings in docs/operations.md needs these rows"
    assert set(documented) == set(wanted)
