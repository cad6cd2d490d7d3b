"""Split long Markdown along its own headings, and long plain text between its paragraphs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from viking_rpc.ingest.headings import Heading, find_headings
from viking_rpc.ingest.section import Section, cut_section, split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


#: A text of more characters becomes a directory of sections.
DEFAULT_MAX_CHARS = 3_000

_ATX = re.compile(r"#{1,6}[ \t]+([^#\n]*[^#\s])(?:[ \t]+#+)?[ \t]*")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_MARKUP = re.compile(r"<[^>]+>|\{#[^}]*\}|[*`]+|(?<!\w)_+|_+(?!\w)|\\(?=[^\w\s])")


def split_markdown(title: str, text: str, max_chars: int = DEFAULT_MAX_CHARS) -> Section:
    """Split a Markdown text along its headings, level by level, until its leaves are short enough.

    A section without inner headings that is still too long is cut between paragraphs.

    Args:
        title: the title of the whole.
        text: Markdown with `\\n` line ends.
        max_chars: the most characters of a leaf.

    Returns:
        One section; its leaves put together hold every line that is neither blank nor a heading, in order.
    """
    if len(text) <= max_chars:
        return Section(title, text)
    lines = split_lines(text)
    return _split(_Span(title, 0, 0, len(lines), find_headings(text)), lines, max_chars)


def split_plain(title: str, text: str, max_chars: int = DEFAULT_MAX_CHARS) -> Section:
    """Split a text without headings between its paragraphs; see `split_markdown`."""
    return cut_section(title, text, max_chars)


def first_heading(text: str) -> str:
    """Return the title of the first heading of a Markdown text, empty when there is none."""
    line = text.lstrip("\n").partition("\n")[0]
    found = _ATX.fullmatch(line)  # the usual case needs no parser
    if found:
        return plain_title(found[1])
    return next((plain_title(heading.markup) for heading in find_headings(text)), "")


def plain_title(markup: str) -> str:
    """Take the markup out of a heading and put it on one line."""
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", markup)).split())


@dataclass(frozen=True, slots=True)
class _Span:
    """The lines `lo` to `hi` of a section; its own heading ends at `body`; `headings` are those inside."""

    title: str
    lo: int
    body: int
    hi: int
    headings: Sequence[Heading]
    is_lead: bool = False


def _split(span: _Span, lines: Sequence[str], limit: int) -> Section:
    text = "".join(lines[span.lo : span.hi])
    if len(text) <= limit or not span.headings:
        return cut_section(span.title, text, limit, is_lead=span.is_lead)
    spans = _children(span)
    before = "".join(lines[span.body : spans[0].lo])
    if before.strip():
        inner = [heading for heading in span.headings if heading.lo < spans[0].lo]
        spans.insert(0, _Span(span.title, span.lo, span.body, spans[0].lo, inner, is_lead=True))
    elif len(spans) == 1:  # one heading over everything, as a page's title: its sections are ours
        only = spans[0]
        return _split(_Span(span.title or only.title, only.lo, only.body, only.hi, only.headings), lines, limit)
    children = tuple(_split(child, lines, limit) for child in spans)
    return Section(span.title, "", before.strip(), children, is_lead=span.is_lead)


def _children(span: _Span) -> list[_Span]:
    """Part a span at its headings of the highest level."""
    top = min(heading.level for heading in span.headings)
    starts = [i for i, heading in enumerate(span.headings) if heading.level == top]
    children = []
    for i, end in zip(starts, [*starts[1:], len(span.headings)], strict=True):
        heading = span.headings[i]
        hi = span.headings[end].lo if end < len(span.headings) else span.hi
        children.append(_Span(plain_title(heading.markup), heading.lo, heading.hi, hi, span.headings[i + 1 : end]))
    return children
