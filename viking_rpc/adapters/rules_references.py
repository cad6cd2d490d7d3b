"""Replace what points back ("it", "that one") by what the conversation was about, in English."""

from __future__ import annotations

import re
from typing import Final

from viking_rpc.adapters.rules_tokens import (
    AUXILIARIES,
    FUNCTION,
    QUESTIONS,
    VOCABULARY,
    Token,
    join,
    tokens_of,
    words_of,
)

_ALONE: Final = frozenset({"it", "them", "this", "that", "these", "those", "they"})
_OWNED: Final = {"its": "'s", "their": "'s"}
_POINTING: Final = frozenset({"this", "that", "these", "those"})
_PREPOSITIONS: Final = VOCABULARY.group("prepositions") - {"than", "as", "like"}
_EXPLETIVES: Final = re.compile(rf"\b(?:{'|'.join(VOCABULARY.sections['patterns']['expletives'])})\b")
_ELLIPSIS: Final = re.compile(r"(?:and|what about|how about|or|but)\b")
_SAME: Final = re.compile(r"\b(?:the same|likewise|the (?:former|latter|first one|second one|last one|other one))\b")
_MAX_ELLIPSIS: Final = 3
_MAX_OWNER_WORDS: Final = 3
_ADVERBIAL: Final = frozenset(
    {"morning", "afternoon", "evening", "week", "month", "year", "time", "weekend", "quarter"}
)


def resolve(part: str, topic: str) -> str:
    """Return the part with its reference replaced; the part itself where nothing points back, or there is no topic.

    Args:
        part: of the task.
        topic: what the conversation, or the part before, was about.
    """
    if not topic:
        return part
    tokens = tokens_of(part)
    words = words_of(tokens)
    i = None if _EXPLETIVES.search(words) else _reference(tokens)
    if i is None:
        n_content = sum(token.is_content for token in tokens)
        is_elliptic = _SAME.search(words) or (_ELLIPSIS.match(words) and n_content <= _MAX_ELLIPSIS)
        return f"{part.rstrip(' ?.!')} {topic}" if is_elliptic else part
    token = tokens[i]
    ending = _OWNED.get(token.key, "") if len(topic.split()) <= _MAX_OWNER_WORDS else ""
    n_replaced = 2 if i + 1 < len(tokens) and token.key in _POINTING and tokens[i + 1].key in {"one", "ones"} else 1
    if token.key in _POINTING and n_replaced == 1 and _is_determiner(tokens, i):
        return f"{join(tokens)} {topic}"  # "that file": the noun says more than the topic alone
    named = Token(topic + ending, "", tokens[i + n_replaced - 1].tail)
    return join([*tokens[:i], named, *tokens[i + n_replaced :]])


def _reference(tokens: list[Token]) -> int | None:
    """Return the position of the first token that points out of the part."""
    for i, token in enumerate(tokens):
        if token.key not in _ALONE and token.key not in _OWNED:
            continue
        if token.key == "that" and i and not _can_point(tokens, i):
            continue
        # A noun before it, in a clause of its own, is what it stands for: "if the pump overheats, cool it".
        is_apart = any("," in before.tail or before.key in {"and", "if", "when", "or"} for before in tokens[1:i])
        if is_apart and any(before.is_content for before in tokens[:i]):
            continue
        if token.key in _POINTING and i + 1 < len(tokens) and tokens[i + 1].key in _ADVERBIAL:
            continue
        return i
    return None


def _can_point(tokens: list[Token], i: int) -> bool:
    """Return whether a "that" is a pronoun or a determiner, and not what joins two clauses."""
    is_last = i + 1 == len(tokens) or bool(tokens[i].tail)
    after = "" if is_last else tokens[i + 1].key
    before = tokens[i - 1].key
    return (
        is_last or after in {"one", *_PREPOSITIONS} or before in _PREPOSITIONS | AUXILIARIES or (i == 1 and bool(after))
    )


def _is_determiner(tokens: list[Token], i: int) -> bool:
    """Return whether a noun follows that belongs to the word."""
    if i + 1 == len(tokens) or tokens[i].tail:
        return False
    after = tokens[i + 1].key
    return after not in FUNCTION and after not in QUESTIONS
