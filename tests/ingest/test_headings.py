"""The scan of lines finds the headings that a CommonMark parser finds, or leaves the text to it."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from viking_rpc.ingest.headings import parse_headings, scan_headings

HEADINGS = [
    "#",
    "##",
    "#######",
    "# One",
    "## Two ##",
    "### a # b",
    "#no",
    "# ",
    "# #",
    "\\# no",
    "# `x` *y*",
    "#\tTab",
]
FENCES = ["```", "````", "```sh", "``` a`b", "~~~", "~~~ x"]
BLOCKS = ["- item", "  text", "1. one", "> quote", ">", "***", "* * *", "|a|b|", "[a]: b", "---", "===", " # in", "<p>"]
TEXTS = ["text", "", " ", "    code", "text  ", "# end #\t", "&amp;", "\t# t"]
PIECES = st.sampled_from([*HEADINGS, *FENCES, *BLOCKS, *TEXTS])


@settings(max_examples=600)
@given(st.lists(PIECES, max_size=9))
@example(["- item", "  ```", "# One", "```", "## Two"])
@example(["> ```", "# One"])
@example(["text", "# One", "text"])
def test_a_scan_that_is_sure_is_right(lines: list[str]) -> None:
    text = "\n".join(lines)
    found = scan_headings(text)
    assert found is None or found == parse_headings(text)


def test_usual_documentation_needs_no_parse() -> None:
    text = (
        "# Title\n\ntext\n\n```sh\n# comment\n```\n\n- item\n  more\n\n## Next ##\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    found = scan_headings(text)
    assert found is not None
    assert [(heading.level, heading.markup) for heading in found] == [(1, "Title"), (2, "Next")]


def test_a_text_of_doubt_is_left_to_the_parser() -> None:
    for text in ("Title\n=====\n", "<div>\n# no\n</div>\n", "- a\n  # in the item\n", "a\r# b\r"):
        assert scan_headings(text) is None
