"""Splitting: along headings, never inside code, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st

from viking_rpc.ingest.headings import find_headings
from viking_rpc.ingest.section import Section, cut_parts, name_sections, split_lines
from viking_rpc.ingest.split import split_markdown, split_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES = st.sampled_from(
    [
        "# One", "## Two", "### Three", "###### Six", "Setext", "====", "----", "", "", "text here", "  indented",
        "    code", "```", "~~~", "- item", "> quote", "<div>", "1. first", "\u4f60\u597d\u3002\u4e16\u754c\u3002",
        "long words " * 12, "x" * 130, "\u2028", "\t", "| a | b |", "<!--", "-->",
    ]
)  # fmt: skip


def content_lines(text: str) -> list[str]:
    headings = {i for heading in find_headings(text) for i in range(heading.lo, heading.hi)}
    return [line for i, line in enumerate(text.split("\n")) if i not in headings and line.strip()]


def without_space(text: str) -> str:
    return "".join(text.split())


@settings(deadline=None)
@given(st.lists(LINES, max_size=60), st.integers(20, 400))
@example(["# One", "", "# Two"], 20)
def test_leaves_hold_every_line_that_is_no_heading(lines: list[str], limit: int) -> None:
    text = "\n".join(lines)
    section = split_markdown("Title", text, limit)
    leaves = [leaf.text for leaf in section.leaves()]
    assert all(len(leaf) <= limit for leaf in leaves)
    rest = without_space("".join(leaves))
    for line in content_lines(text):  # in order
        wanted = without_space(line)
        assert wanted in rest
        rest = rest[rest.index(wanted) + len(wanted) :]


@settings(deadline=None)
@given(st.lists(LINES, max_size=40), st.integers(1, 300))
def test_parts_put_together_are_the_text(lines: list[str], limit: int) -> None:
    text = "\n".join(lines)
    parts = cut_parts(text, limit)
    assert "".join(parts) == text
    assert all(0 < len(part) <= limit for part in parts)


@settings(deadline=None)
@given(st.lists(LINES, max_size=60), st.integers(20, 400))
def test_names_are_distinct_and_sort_in_order(lines: list[str], limit: int) -> None:
    def check(section: Section) -> None:
        names = name_sections(section.children, ".md")
        assert list(names) == sorted(set(names))
        for child in section.children:
            check(child)

    check(split_markdown("Title", "\n".join(lines), limit))


def outline(section: Section, depth: int = 0) -> Iterator[str]:
    names = name_sections(section.children, ".md")
    for name, child in zip(names, section.children, strict=True):
        yield f"{'  ' * depth}{name} [{child.title}]"
        yield from outline(child, depth + 1)


def test_headings_become_directories_only_where_they_are_long() -> None:
    body = "word " * 20 + "\n\n"
    text = f"intro\n\n# Guide\n\nlead\n\n## Install\n\n{body}## Use it!\n\n### On Linux\n\n{body}### On Mac\n\n{body}"
    section = split_markdown("Guide", text, 150)
    assert list(outline(section)) == [
        "00-introduction.md [Guide]",
        "01-guide [Guide]",
        "  00-introduction.md [Guide]",
        "  01-install.md [Install]",
        "  02-use-it [Use it!]",
        "    01-on-linux.md [On Linux]",
        "    02-on-mac.md [On Mac]",
    ]
    assert section.doc == "intro"


def test_a_heading_over_everything_adds_no_level() -> None:
    text = "# Guide\n\n## A\n\n" + "word " * 30 + "\n\n## B\n\nshort\n"
    assert list(outline(split_markdown("Guide", text, 160))) == ["01-a.md [A]", "02-b.md [B]"]


def test_a_short_text_stays_one_piece() -> None:
    assert split_markdown("T", "# A\n\n## B\n") == Section("T", "# A\n\n## B\n")


def test_code_fences_are_not_headings_and_not_cut() -> None:
    fence = "```sh\n# not a heading\n\n" + "echo hello\n\n" * 6 + "```\n"
    text = "word " * 10 + "\n\n" + fence + "\n" + "more " * 10
    leaves = [leaf.text for leaf in split_markdown("T", text, 130).leaves()]
    assert any(fence in leaf for leaf in leaves)
    assert len(leaves) == 3


def test_setext_headings_split() -> None:
    text = "First\n=====\n\n" + "a " * 60 + "\n\nSecond\n======\n\n" + "b " * 60
    assert list(outline(split_markdown("T", text, 200))) == ["01-first.md [First]", "02-second.md [Second]"]


def test_cjk_headings_keep_their_characters() -> None:
    title = "\u5b89\u88c5 \u8bf4\u660e"
    text = f"# {title}\n\n" + "\u5b57" * 90 + "\n\n# \u4f7f\u7528\n\n" + "\u5b57" * 90
    assert list(outline(split_markdown("T", text, 110))) == [
        f"01-\u5b89\u88c5-\u8bf4\u660e.md [{title}]",
        "02-\u4f7f\u7528.md [\u4f7f\u7528]",
    ]


def test_equal_headings_get_distinct_names() -> None:
    text = ("# Same\n\n" + "a " * 40 + "\n\n") * 3
    section = split_markdown("T", text, 100)
    assert name_sections(section.children, ".md") == ("01-same.md", "02-same.md", "03-same.md")


def test_plain_text_is_cut_between_paragraphs() -> None:
    section = split_plain("log", "first paragraph\n\nsecond paragraph\n\nthird\n", 20)
    assert [leaf.text for leaf in section.leaves()] == ["first paragraph\n\n", "second paragraph\n\n", "third\n"]
    assert [child.title for child in section.children] == ["log (part 1)", "log (part 2)", "log (part 3)"]


def test_a_long_line_is_cut_between_sentences() -> None:
    assert cut_parts("One is here. Two is here. Three is here.", 16) == [
        "One is here. ",
        "Two is here. ",
        "Three is here.",
    ]


def test_deep_headings_do_not_recurse_without_end() -> None:
    text = "".join(f"{'#' * (i % 6 + 1)} h{i}\n\n{'w ' * 50}\n\n" for i in range(300))
    assert sum(leaf.text.count("w ") for leaf in split_markdown("T", text, 200).leaves()) == 15_000


@settings(deadline=None)
@given(st.text(alphabet="a\n\r\x0b\u2028", max_size=30))
def test_lines_are_split_at_line_feeds_only(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert all(line.find("\n") in (-1, len(line) - 1) for line in lines)
