"""A section: a piece of one source with its title; sections nest like the headings or definitions they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from viking_rpc.domain.uri import unique_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_NOT_IN_SLUG = re.compile(r"[^\w.]+")
_BREAK = re.compile(r"(?<=[.!?])\s|(?<=[\u3002\uff01\uff1f])|\s")
_MAX_SLUG = 48  # characters; six nested headings stay far below the longest URI


@dataclass(frozen=True, slots=True)
class Section:
    """A piece of a source: a file when it has no children, else a directory.

    `text` is the exact piece of the source and belongs to leaves; `doc` is what the source itself says about the
    piece (a docstring, the text before the first sub-heading); `slug` is the middle of the name, made of the title
    when empty; `is_lead` marks what stands before the first heading of its parent.
    """

    title: str
    text: str = ""
    doc: str = ""
    children: tuple[Section, ...] = ()
    slug: str = ""
    is_lead: bool = False

    def leaves(self) -> Iterator[Section]:
        """Yield the sections that hold text, in the order of the source."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def name_sections(sections: Sequence[Section], suffix: str) -> tuple[str, ...]:
    """Name siblings so that their names sort in the order of the source.

    Args:
        sections: the children of one section.
        suffix: the ending of files, such as `.md`; directories get none.

    Returns:
        One distinct name each, such as `01-install.md`; the lead is number 0.
    """
    first = 0 if sections and sections[0].is_lead else 1
    width = max(2, len(str(first + len(sections) - 1)))
    names = []
    for i, section in enumerate(sections, first):
        slug = section.slug or ("introduction" if section.is_lead else make_slug(section.title))
        ending = "" if section.children else suffix
        names.append(f"{i:0{width}}-{slug}{ending}")
    return unique_names(names)


def make_slug(title: str) -> str:
    """Make the readable part of a name: lower case, words joined by `-`, at most 48 characters."""
    return _NOT_IN_SLUG.sub("-", title.lower()).strip("-.")[:_MAX_SLUG].rstrip("-.") or "section"


def cut_section(title: str, text: str, limit: int, *, doc: str = "", slug: str = "", is_lead: bool = False) -> Section:
    """Make a leaf of a text, or a directory of parts when it is longer than the limit.

    Args:
        title: the title of the whole; parts are numbered behind it.
        text: any text.
        limit: the most characters of one leaf, >= 1.
        doc: what the source says about the text.
        slug: see `Section`.
        is_lead: see `Section`.

    Returns:
        One section; its leaves hold every line that is not blank.
    """
    parts = [part for part in cut_parts(text, limit) if part.strip()]
    if len(parts) <= 1:
        return Section(title, parts[0] if parts else text, doc, (), slug, is_lead)
    numbered = enumerate(parts, 1)
    children = tuple(
        Section(f"{title} (part {i})" if title else f"Part {i}", part, slug="part") for i, part in numbered
    )
    return Section(title, "", doc, children, slug, is_lead)


def split_lines(text: str) -> list[str]:
    """Split at line feeds only, as Markdown and compilers count lines, and keep them; `str.splitlines` knows more."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def cut_parts(text: str, limit: int) -> list[str]:
    """Cut a text into parts at paragraph boundaries; the parts put together are the text.

    A fenced block counts as one paragraph. Only a paragraph longer than the limit is cut inside: between lines, and
    a line longer than the limit between sentences or words.

    Args:
        text: any text.
        limit: the most characters of a part, >= 1.

    Returns:
        The parts in order, none longer than the limit; none for an empty text.
    """
    parts: list[str] = []
    open_part: list[str] = []
    size = 0
    for piece in _pieces(text, limit):
        if size and size + len(piece) > limit:
            parts.append("".join(open_part))
            open_part, size = [], 0
        open_part.append(piece)
        size += len(piece)
    if size:
        parts.append("".join(open_part))
    return parts


def _pieces(text: str, limit: int) -> Iterator[str]:
    for block in _blocks(text):
        if len(block) <= limit:
            yield block
            continue
        for line in split_lines(block):
            yield from _slices(line, limit)


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs with the blank lines behind them; a fenced block is never parted."""
    block: list[str] = []
    fence = ""
    was_blank = False
    for line in split_lines(text):
        is_blank = line.isspace()
        if was_blank and not is_blank and not fence:
            yield "".join(block)
            block = []
        block.append(line)
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence) and line.strip() == found[1]:
            fence = ""
        was_blank = is_blank
    if block:
        yield "".join(block)


def _slices(line: str, limit: int) -> Iterator[str]:
    while len(line) > limit:
        ends = [found.end() for found in _BREAK.finditer(line, limit // 2, limit) if found.end() <= limit]
        end = ends[-1] if ends else limit
        yield line[:end]
        line = line[end:]
    if line:
        yield line
