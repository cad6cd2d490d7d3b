"""Decide which text is scored at which level, and make the rows: one vector and one term list each."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from viking_rpc.domain.context import Kind, Level, Row
from viking_rpc.index.text import TermCounts, count_terms, merge_counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from viking_rpc.domain.context import ContextWrite
    from viking_rpc.domain.ports import Embedder
    from viking_rpc.ingest.tree import PlannedContext

#: How much of a row's vector its title makes: an overview is a list of many things, its title says what holds them
#: together. See docs/scores.md; a store does not notice when these or the weight change: import its contents again.
TITLE_SHARE: Mapping[Level, float] = {Level.ABSTRACT: 0.2, Level.OVERVIEW: 0.5, Level.DETAIL: 0.2}
#: How often a term of the title counts.
TITLE_WEIGHT = 2.0


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


def count_row(title: str, text: str) -> TermCounts:
    """Count the terms of a row; those of its title count twice."""
    return merge_counts([(count_terms(title), TITLE_WEIGHT), (count_terms(text), 1.0)])


def terms_of(write: ContextWrite, level: Level) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """Return the terms and counts of a context's row of a level; a level without a text has those of the title."""
    # A write has every attribute of a planned context that is read here.
    texts = {entry[0]: entry[1:] for entry in row_texts(cast("PlannedContext", write))}
    terms = count_row(*texts.get(level, (write.title, "")))
    return terms.hashes, terms.frequencies


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
    vectors = iter(embed_rows([entry for entries in texts_of for entry in entries], embedder))
    rows = []
    for entries in texts_of:
        made = []
        for level, title, text in entries:
            terms = count_row(title, text)
            made.append(Row(level, next(vectors).copy(), terms.hashes, terms.frequencies))
        rows.append(tuple(made))
    return rows


def embed_rows(entries: Sequence[tuple[Level, str, str]], embedder: Embedder) -> NDArray[np.float32]:
    """Embed rows given as (level, title, text): float32[n_entries, dimensions]. Raises what the embedder raises."""
    if not entries:
        return np.empty((0, embedder.dimensions), np.float32)
    return embedder.embed_texts(
        [text for _, _, text in entries],
        [title for _, title, _ in entries],
        [TITLE_SHARE[level] for level, _, _ in entries],
    )


def _without_title(text: str, title: str) -> str:
    """Take off a heading at the top that says the title again."""
    stripped = text.lstrip()
    line, _, rest = stripped.partition("\n")
    is_title = bool(title) and line.startswith("#") and line.strip("# \t") == title
    return rest.lstrip("\n") if is_title else text
