"""Write abstracts and overviews from the texts themselves: leading and most central sentences, no model."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from viking_rpc.domain.tokens import cut_to_tokens, estimate_tokens
from viking_rpc.index.text import terms
from viking_rpc.ingest.prose import find_sentences, split_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ABSTRACT_TOKENS = 100
OVERVIEW_TOKENS = 2_000
_MAX_SENTENCES = 3
_NAMES_TOKENS = 50  # of a directory's abstract, for the titles of its children
_MIN_ENTRY_TOKENS = 12  # of an overview, for one child; more children than fit so are cut off
_MARGIN_TOKENS = 30  # of an overview, for its title and the line that states the cut
_MAX_CENTRAL = 20
_SHORT = 3  # longer words in Latin letters are rarely function words
_MAX_TERMS = 30  # a longer sentence gains nothing by its length


class ExtractiveSummarizer:
    """The default `Summarizer`: deterministic, linear in its input, for every script."""

    def abstract(self, title: str, texts: Sequence[str]) -> str:
        """Write about 100 tokens on a directory.

        Args:
            title: the directory's title.
            texts: one text: what the directory says about itself, of which the first sentences are taken. Several:
                the children, each with its title on the first line and its abstract below; their titles and the
                sentences that share the most words with the others are taken.

        Returns:
            The abstract; empty when there are no texts.
        """
        if not texts:
            return ""
        if len(texts) == 1:
            return lead(texts[0])
        heads, _, bodies = zip(*(text.partition("\n") for text in texts), strict=True)
        names = _join_names(heads)
        rest = ABSTRACT_TOKENS - estimate_tokens(title) - estimate_tokens(names)
        central = _fill(_central_sentences(bodies), max(rest, 0), 2)
        return " ".join(part for part in (f"{title}: {names}." if title else f"{names}.", central) if part)

    def overview(self, title: str, sections: Sequence[tuple[str, str]]) -> str:
        """Write at most about 2,000 tokens on a directory.

        Args:
            title: the directory's title.
            sections: (name, abstract) of each child; an empty name stands for the directory itself and comes first.

        Returns:
            Markdown: the title, the directory's own abstract, a list of the children. All children are named if that
            can be, their abstracts shortened evenly; else the last line says how many are left out.
        """
        lines = [f"# {title}"] if title else []
        lines += [f"\n{abstract}" for name, abstract in sections if not name]
        children = [(name, abstract) for name, abstract in sections if name]
        if children:
            lines.append("")
        room = OVERVIEW_TOKENS - _MARGIN_TOKENS - sum(map(estimate_tokens, lines))
        n_tokens = max(room // max(len(children), 1) - 1, _MIN_ENTRY_TOKENS)  # a line end is a token
        for i, (name, abstract) in enumerate(children):
            line = cut_to_tokens(f"- {name}: {abstract}" if abstract else f"- {name}", n_tokens)
            room -= estimate_tokens(line) + 1
            if room < 0:
                lines.append(f"- ... and {len(children) - i} more")
                break
            lines.append(line)
        return "\n".join(lines)


def lead(text: str, n_tokens: int = ABSTRACT_TOKENS) -> str:
    """Take the first sentences of a text, at most three and about 100 tokens.

    Args:
        text: Markdown or plain text.
        n_tokens: the most that the result may count.

    Returns:
        The sentences; the beginning of the text as it is when it holds no prose, as a table or a program.
    """
    found = _fill(find_sentences(text), n_tokens, _MAX_SENTENCES)
    return found or cut_to_tokens(" ".join(text[: n_tokens * 8].split()), n_tokens)


def _fill(sentences: Iterable[str], n_tokens: int, most: int) -> str:
    """Join sentences while they fit; a first one that does not fit is cut."""
    chosen: list[str] = []
    for sentence in sentences:
        size = estimate_tokens(sentence) + 1
        if size > n_tokens:
            if not chosen and n_tokens > _MIN_ENTRY_TOKENS:
                chosen.append(cut_to_tokens(sentence, n_tokens))
            break
        chosen.append(sentence)
        n_tokens -= size
        if len(chosen) == most:
            break
    return " ".join(chosen)


def _join_names(names: Sequence[str]) -> str:
    room = _NAMES_TOKENS
    for i, name in enumerate(names):
        room -= estimate_tokens(name) + 1
        if room < 0 and i:
            return f"{', '.join(names[:i])} and {len(names) - i} more"
    return ", ".join(names)


def _central_sentences(texts: Sequence[str]) -> list[str]:
    """Order the sentences of several texts, the ones that share most words with the other texts first."""
    sentences = [(sentence, set(terms(sentence))) for text in texts for sentence in split_sentences(text)]
    n_with = Counter(term for _, found in sentences for term in found)
    shared = {term: n - 1 for term, n in n_with.items() if n > 1 and (len(term) > _SHORT or not term.isascii())}
    scored = [
        (-sum(shared.get(term, 0) for term in found) / max(len(found), _MAX_TERMS), i)
        for i, (_, found) in enumerate(sentences)
    ]
    return list(dict.fromkeys(sentences[i][0] for _, i in sorted(scored)[:_MAX_CENTRAL]))
