"""Finds the headings of a Markdown text: by a scan of its lines where these leave no doubt, else by a whole parse."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MAY_BE_HEADING = re.compile(r"^ {0,3}(?:#|=|-)", re.MULTILINE)
_ATX = re.compile(r"(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
# Indented marks may stand inside a list item; HTML hides what follows; a carriage return ends a line too.
_DOUBTFUL = re.compile(r"^ {1,3}(?:#|`{3}|~{3})|^[ \t]*\t[ \t]*(?:#|`{3}|~{3})|^ {0,3}<|[\r\x00]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading of a text: the lines `lo` to `hi` (exclusive) that hold it; `markup` is its title as written."""

    level: int
    markup: str
    lo: int
    hi: int


def find_headings(text: str) -> list[Heading]:
    """Find the headings of a Markdown text, ATX and setext, outside of code, quotes and lists."""
    if not _MAY_BE_HEADING.search(text):
        return []
    found = scan_headings(text)
    return parse_headings(text) if found is None else found


def scan_headings(text: str) -> list[Heading] | None:
    """Find headings line by line, twenty times as fast as a parse; None where only a parse can tell.

    A `#` in the first column begins a heading everywhere but in fenced code and HTML: it ends lists, quotes and
    paragraphs. So a text without HTML, without indented marks and without underlines needs no more than its fences.
    """
    if _DOUBTFUL.search(text):
        return None
    found: list[Heading] = []
    fence = ""
    is_blank = True
    for i, line in enumerate(text.split("\n")):
        first = line[:1]
        if first in ("`", "~") and (mark := _FENCE.fullmatch(line)):
            if not fence:
                if first == "`" and "`" in mark[2]:
                    return None  # inline code, or what follows it
                fence = mark[1]
            elif first == fence[0] and len(mark[1]) >= len(fence) and not mark[2].strip(" \t"):
                fence = ""
        elif not fence:
            if first == "#" and (heading := _ATX.fullmatch(line)):
                found.append(Heading(len(heading[1]), (heading[2] or "").strip(" \t"), i, i + 1))
            elif not is_blank and _UNDERLINE.fullmatch(line):
                return None
        is_blank = not line.strip(" \t")
    return found


def parse_headings(text: str) -> list[Heading]:
    """Find headings as a CommonMark parser does."""
    tokens = _parser().parse(text)
    return [
        Heading(int(token.tag[1:]), tokens[i + 1].content, *token.map)
        for i, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])  # headings need no inline parsing, which costs half the time
    return parser
