"""English text as tokens: names, codes and quoted phrases are one token each and are never changed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from viking_rpc.adapters.rules_words import vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

_TOKEN: Final = re.compile(r"[\"\u201c][^\"\u201c\u201d]+[\"\u201d][^\s\w]*|`[^`]+`[^\s\w]*|\S+")
_TAIL: Final = re.compile(r"[.,;:!?)\]\u2026]+$")
_HEAD: Final = re.compile(r"^[(\[]+")
_QUOTES: Final = ('"', "\u201c", "`")
_MAX_WORD_CHARS: Final = 64
_QUOTE_ENDS: Final = ('"', "\u201d", "`")
_CODE: Final = re.compile(
    r"\w[._/:#@=\\-]\w*\d|\d[\w.]*[A-Za-z]|[A-Za-z]\w*\d|\w[_/\\@=]\w|[a-z][A-Z]|\w\(\)|\w\.\w|::|://"
)
_VERB_ENDINGS: Final = {"'m": "am", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would"}
_SHORT: Final = {
    "can't": "can not", "cant": "can not", "won't": "will not", "dont": "do not", "didnt": "did not", "im": "i am",
    "let's": "let us", "lets": "let us", "whats": "what is", "wheres": "where is", "whos": "who is", "hows": "how is",
    "i'd": "i would", "y'all": "you all", "gimme": "give me", "lemme": "let me", "isnt": "is not", "thats": "that is",
}  # fmt: skip

VOCABULARY: Final = vocabulary("en")
QUESTIONS: Final = VOCABULARY.group("questions")
AUXILIARIES: Final = VOCABULARY.group("auxiliaries")
DETERMINERS: Final = VOCABULARY.group("articles", "possessives")
FUNCTION: Final = VOCABULARY.group(
    "articles", "possessives", "pronouns", "auxiliaries", "prepositions", "conjunctions", "adverbs", "questions"
)  # fmt: skip
_BEFORE_IS: Final = QUESTIONS | VOCABULARY.group("pronouns") | {"that", "this"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word as it is written, its lower-case form without marks (empty for a name), and the marks after it."""

    text: str
    key: str
    tail: str = ""

    @property
    def is_content(self) -> bool:
        """Return whether it carries a topic."""
        return self.key not in FUNCTION


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text, contractions written out."""
    found: list[Token] = []
    for match in _TOKEN.finditer(text.replace("\u2019", "'")):
        raw = match.group()
        tail_match = _TAIL.search(raw)
        tail = tail_match.group() if tail_match else ""
        word = raw[: len(raw) - len(tail)]
        if word.endswith("(") and tail.startswith(")"):  # a call: `parse()`
            word, tail = word + ")", tail[1:]
        if _is_name(word):
            found.append(Token(word, "", tail))
            continue
        word = _HEAD.sub("", word).strip("'\u2018*\"")
        if word.strip("-\u2013\u2014&+"):
            found += _expanded(word, tail)
        elif found and tail:
            found[-1] = Token(found[-1].text, found[-1].key, tail)
    return found


def words_of(tokens: Sequence[Token]) -> str:
    """Return the lower-case words parted by blanks, names as `#`: what patterns look at."""
    return " ".join(token.key or "#" for token in tokens)


def join(tokens: Sequence[Token]) -> str:
    """Return the tokens as text, without marks at its end."""
    if not tokens:
        return ""
    return " ".join([*(token.text + token.tail for token in tokens[:-1]), tokens[-1].text])


def has_content(tokens: Sequence[Token]) -> bool:
    """Return whether any token carries a topic."""
    return any(token.is_content for token in tokens)


def _is_name(word: str) -> bool:
    """Return whether a word is quoted, or a code; nobody's word is longer than codes are."""
    if len(word) > 1 and word.startswith(_QUOTES) and word.endswith(_QUOTE_ENDS):
        return True
    return len(word) > _MAX_WORD_CHARS or _CODE.search(word) is not None


def _expanded(word: str, tail: str) -> list[Token]:
    """Return a word as one token, a contraction as the words that it stands for."""
    key = word.lower()
    if key in _SHORT:
        parts = _SHORT[key].split()
    elif key.endswith("n't"):
        parts = [key[:-3], "not"]
    else:
        stem, mark, ending = key.partition("'")
        if mark + ending in _VERB_ENDINGS:
            parts = [stem, _VERB_ENDINGS[mark + ending]]
        elif mark and ending == "s" and stem in _BEFORE_IS:
            parts = [stem, "is"]
        else:
            return [Token(word, key, tail)]
    return [Token(part, part, tail if i == len(parts) - 1 else "") for i, part in enumerate(parts)]
