"""The frame in which stored texts stand in a prompt: elements that no stored text can forge, and honest cuts."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from viking_rpc.domain.context import Context, Level

#: What stands behind a text that was cut.
CUT_MARK: Final = " [...]"
OPEN: Final = "<context>\n"
CLOSE: Final = "</context>\n"
DETAIL_NAMES: Final = ("abstract", "overview", "text")

_NAMES: Final = "context|directory|entry|more"
#: A tag of the frame in a stored text, however it is spaced, invisible characters included.
_FORGED: Final = re.compile(f"<(?=[\\s/\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*(?:{_NAMES})\\b)", re.IGNORECASE)
_IN_ATTRIBUTE: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_NOT_PRINTED: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
#: Where a text may end: behind a sentence, or before a blank line.
_SENTENCE_END: Final = re.compile(
    "[.!?]+[\"')\u2019\u201d\\]*_`]*(?=\\s|$)"
    "|[\u3002\uff01\uff1f\uff61]+[\u300d\u300f\u201d\u2019\uff09\u300b]*"
    "|(?=\n[ \t]*\n)"
)
_LINE_END: Final = re.compile("(?=\n)")
#: A cut at the end of a line is taken where one at the end of a sentence would keep less than this part of it.
_LEAST_PART: Final = 0.5
#: Characters beyond those that can fit, so that the last ones are seen with what follows them.
_BEYOND: Final = 64


def entry_element(context: Context, level: Level, body: str) -> str:
    """Return the element of a match: its URI, its title, what it is, which text it shows, and the text."""
    return _element("entry", context, f' type="{context.type.name.lower()}" detail="{DETAIL_NAMES[level]}"', body)


def directory_element(context: Context, body: str) -> str:
    """Return the element of a directory above matches; without a text it is empty."""
    return _element("directory", context, "", body)


def more_element(uris: Iterable[str]) -> str:
    """Return the element that names what matched and is not shown; empty for nothing."""
    lines = "".join(f"{_attribute(uri)}\n" for uri in uris)
    return f"<more>\n{lines}</more>\n" if lines else ""


def _element(name: str, context: Context, attributes: str, body: str) -> str:
    title = f' title="{_attribute(context.title)}"' if context.title else ""
    head = f'<{name} uri="{_attribute(context.uri)}"{title}{attributes}'
    return f"{head}>\n{safe_body(body)}\n</{name}>\n" if body else f"{head}/>\n"


def _attribute(text: str) -> str:
    return _NOT_PRINTED.sub(" ", text).translate(_IN_ATTRIBUTE)


def safe_body(text: str) -> str:
    """Return a stored text that holds no tag of the frame and no control characters; all else stays as it is."""
    return _FORGED.sub("&lt;", _CONTROL.sub("", text.replace("\r\n", "\n"))).strip("\n")


def cut_to_sentence(text: str, n_tokens: int) -> str:
    """Cut a text at the end of a sentence, else of a line, and mark the cut.

    Args:
        text: any text.
        n_tokens: the most that the result may count, its mark included.

    Returns:
        The text itself when it fits, a beginning of it with CUT_MARK behind, or nothing when not even its first
        sentence or line fits.
    """
    if estimate_tokens(text) <= n_tokens:
        return text
    sentence = _longest(text, _SENTENCE_END, n_tokens)
    line = _longest(text, _LINE_END, n_tokens)
    kept = line if len(sentence) < _LEAST_PART * len(line) else sentence
    return kept + CUT_MARK if kept else ""


def _longest(text: str, end: re.Pattern[str], n_tokens: int) -> str:
    """Return the longest beginning that ends so and fits together with the mark."""
    ends = [found.end() for found in end.finditer(text, 0, 4 * n_tokens + _BEYOND)]
    n_fitting = bisect_right(ends, n_tokens, key=lambda i: estimate_tokens(text[:i].rstrip() + CUT_MARK))
    return text[: ends[n_fitting - 1]].rstrip() if n_fitting else ""
