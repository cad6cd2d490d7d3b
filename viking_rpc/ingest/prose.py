"""Find the sentences of a Markdown or plain text, in any script, and leave everything out that is not prose."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCANNED_CHARS = 6_000  # a summary is made of a text's beginning; the rest is not looked at
_FIRST_CHARS = 1_500  # as a rule enough; the rest is cleaned only when it is asked for
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_NOT_PROSE = re.compile(
    r"^(?:[ \t]*(?:#{1,6}(?:[ \t].*)?|[|].*|\{\{.*\}\}|\{%.*%\}|:::.*|[-*_=+~ \t|:]+|import .* from .*|\[[^\]]+\]:.*)"
    r"|(?: {4}|\t).*)$",
    re.MULTILINE,
)
_SETEXT = re.compile(r"^.+\n(?:=+|-{3,})[ \t]*$", re.MULTILINE)
_IMAGE = re.compile(r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])")
_LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_TAG = re.compile(r"(`[^`\n]*`)|</?[A-Za-z][^<>]*>|\{\{[^{}]*\}\}")
_MARKS = re.compile(r"\*{1,3}|(?<!\w)_{1,3}|_{1,3}(?!\w)|`+|\\(?=[^\w\s])")
_ITEM = re.compile(r"^[ \t]*(?:>[ \t]?|[-*+][ \t]+|\d{1,3}[.)][ \t]+)+", re.MULTILINE)
_PARAGRAPH = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|al|Mr|Mrs|Ms|Dr|St|No|Fig|approx|resp)|\b[A-Z])\.$")
_SENTENCE_END = re.compile(
    "[.!?]+[\"')\u2019\u201d\\]]*(?=\\s|$)"  # Latin and most others: a space must follow
    "|[\u3002\uff01\uff1f\uff61]+[\u300d\u300f\u201d\u2019\uff09\u300b]*"  # CJK
    "|[\u0964\u0965\u06d4\u061f\u1362\u104b]+"  # Devanagari, Arabic and Urdu, Ethiopic, Myanmar
)


def find_sentences(text: str) -> Iterator[str]:
    """Yield the sentences at the beginning of a text.

    Headings, code, tables, comments, images and markup are left out; a list entry or a paragraph without an end mark
    is a sentence.

    Args:
        text: Markdown or plain text.

    Returns:
        Sentences on one line each, never blank; none when the beginning of the text holds no prose.
    """
    for piece in _pieces(text):
        for paragraph in _PARAGRAPH.split(_strip_markup(piece)):
            for part in _parts(paragraph):
                yield from split_sentences(part)


def split_sentences(paragraph: str) -> Iterator[str]:
    """Yield the sentences of one paragraph of plain text."""
    line = " ".join(paragraph.split())
    start = 0
    for found in _SENTENCE_END.finditer(line):
        sentence = line[start : found.end()].strip()
        if _ABBREVIATION.search(sentence):
            continue
        if sentence:
            yield sentence
        start = found.end()
    rest = line[start:].strip()
    if rest:
        yield rest


def _pieces(text: str) -> Iterator[str]:
    """Yield the beginning of a text in two pieces, cut between paragraphs, unless that could cut a fence or comment."""
    text = text[:_SCANNED_CHARS]
    end = text.rfind("\n\n", 0, _FIRST_CHARS) if len(text) > _FIRST_CHARS else -1
    first = text[:end]
    is_open = any(first.count(mark) % 2 for mark in ("```", "~~~")) or first.count("<!--") != first.count("-->")
    if end < 0 or is_open:
        yield text
    else:
        yield first
        yield text[end:]


def _strip_markup(text: str) -> str:
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("\n\n", text)
    if "<!--" in text:
        text = _COMMENT.sub("", text)
    text = _NOT_PROSE.sub("", _SETEXT.sub("", text))
    if "[" in text:
        text = _LINK.sub(r"\1", _IMAGE.sub("", text))
    if "<" in text or "{{" in text:
        text = _TAG.sub(r"\1", text)
    return text


def _parts(paragraph: str) -> Iterator[str]:
    """Part a paragraph at its list entries and take the marks off."""
    starts = [found.start() for found in _ITEM.finditer(paragraph)]
    for lo, hi in zip([0, *starts], [*starts, len(paragraph)], strict=True):
        yield _MARKS.sub("", _ITEM.sub("", paragraph[lo:hi]))
