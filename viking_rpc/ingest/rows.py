"""Decide which text is scored at which level, and make the rows: one vector and one term list each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viking_rpc.domain.context import Kind, Level, Row
from viking_rpc.index.text import count_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from viking_rpc.domain.ports import Embedder
    from viking_rpc.ingest.tree import PlannedContext


def row_texts(context: PlannedContext) -> list[tuple[Level, str, str]]:
    """Return (level, title, text) of every row of a context.

    Args:
        context: a directory has a row for its abstract and one for its overview, a file one for its content.

    Returns:
        One entry for each level that has a text or a title; the title is not repeated in the text.
    """
    if context.kind is Kind.FILE:
        texts = [(Level.DETAIL, context.content)]
    else:
        texts = [(Level.ABSTRACT, context.abstract), (Level.OVERVIEW, context.overview)]
    title = context.title
    return [(level, title, _without_title(text, title)) for level, text in texts if text or level is Level.DETAIL]


def join_row(title: str, text: str) -> str:
    """Return the one text that is embedded and counted for a row."""
    return f"{title}\n{text}" if title else text


def make_rows(contexts: Sequence[PlannedContext], embedder: Embedder) -> list[tuple[Row, ...]]:
    """Make the rows of several contexts with one call of the embedder.

    Args:
        contexts: some hundreds at a time, so that memory stays small.
        embedder: gives float32[n_texts, dimensions].

    Returns:
        The rows of each context, in its levels' order.

    Raises:
        UnavailableError, FailedPreconditionError: what the embedder raises.
    """
    texts_of = [row_texts(context) for context in contexts]
    texts = [join_row(title, text) for entries in texts_of for _, title, text in entries]
    vectors = iter(embedder.embed_texts(texts)) if texts else iter(())
    joined = iter(texts)
    rows = []
    for entries in texts_of:
        made = []
        for level, _, _ in entries:
            terms = count_terms(next(joined))
            made.append(Row(level, next(vectors).copy(), terms.hashes, terms.frequencies))
        rows.append(tuple(made))
    return rows


def _without_title(text: str, title: str) -> str:
    """Take off a heading at the top that says the title again."""
    stripped = text.lstrip()
    line, _, rest = stripped.partition("\n")
    is_title = bool(title) and line.startswith("#") and line.strip("# \t") == title
    return rest.lstrip("\n") if is_title else text
