"""docs/quality.md can be written anew by its command, and shows only plots that are there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks import quality
from tests.evaluate.test_summary import evaluation

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_page_has_its_place_and_its_plots() -> None:
    page = (quality.DOCS / "quality.md").read_text(encoding="utf-8")
    assert page.count(quality.BEGIN) == page.count(quality.END) == 1
    assert all((quality.DOCS / path).is_file() for path in re.findall(r"\]\((quality/[\w-]+\.svg)\)", page))


def test_only_what_was_measured_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "DOCS", tmp_path)
    page = tmp_path / "quality.md"
    page.write_text(f"# Before\n\n{quality.BEGIN}\nold\n{quality.END}\n\nAfter.\n")
    text = quality.text_of(evaluation(), evaluation())
    for _ in range(2):
        quality.write(text, {"arms": b"<svg/>"})
        assert page.read_text() == f"# Before\n\n{quality.BEGIN}\n\n{text}\n\n{quality.END}\n\nAfter.\n"
    assert (tmp_path / "quality" / "arms.svg").read_bytes() == b"<svg/>"
    assert "### Mean of 3 sets" in text
    assert "| mean |" in text
