"""Recognise English small talk: every word that carries a topic belongs to conversation itself."""

from __future__ import annotations

import re
from functools import lru_cache
from string import ascii_lowercase
from typing import TYPE_CHECKING, Final

from viking_rpc.adapters.rules_self import PERSONA_ALL, is_about_self
from viking_rpc.adapters.rules_tokens import AUXILIARIES, FUNCTION, QUESTIONS, VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from viking_rpc.adapters.rules_tokens import Token

_TALK: Final = VOCABULARY.group("talk")
_TALK_ALL: Final = FUNCTION | VOCABULARY.group("talk", "talk_weak", "called")
_FILLERS: Final = VOCABULARY.group("fillers")
_CALLED: Final = VOCABULARY.group("called")
_SUBJECTS: Final = frozenset(
    {"i", "it", "that", "this", "you", "not", "either", "neither", "both", "nothing", "we", "there"}
)
_ASKED_ABOUT: Final = VOCABULARY.group("pronouns", "possessives") | {"the", "there", "this", "that", "these", "those"}
_WANTED: Final = frozenset({"want", "wanted", "need", "needed", "see", "show", "get", "find", "look", "help", "hear"})
_FRAGMENT: Final = VOCABULARY.group("prepositions", "auxiliaries", "adverbs") - {"now", "then", "first", "next", "last"}
_MAX_FRAGMENT: Final = 5
_MAX_WORDS: Final = 32

_LIFE: Final = VOCABULARY.group("life")
_LIFE_ABOUT: Final = VOCABULARY.group("life_about")
_LIFE_ALL: Final = FUNCTION | VOCABULARY.group("life", "life_about", "life_weak", "talk")

_FUN: Final = VOCABULARY.group("fun")
_FUN_QUALIFIED: Final = VOCABULARY.group("fun_qualified")
_FUN_QUALITIES: Final = VOCABULARY.group("fun_qualities")
_FUN_BEFORE: Final = FUNCTION | VOCABULARY.group("fun_request", "fun_qualities", "fun_qualified", "fillers", "talk")
_FUN_NAMES: Final = VOCABULARY.group("fun", "fun_qualities", "fun_qualified") | {"bit", "bits", "piece", "pieces"}
_SOME: Final = frozenset(
    {"some", "any", "few", "couple", "several", "more", "another", "two", "three", "other", "me", "us"}
)
_FUN_AFTER: Final = FUNCTION | VOCABULARY.group("fun_about", "called", "talk")
_TOLD: Final = frozenset(
    {"teach", "enlighten", "tell", "give", "know", "hear", "share", "learn", "want", "like", "say", "got", "have"}
)
_VERBS: Final = VOCABULARY.group("verbs")

#: "let me know if", "I was wondering whether you could tell me": closed words, the last one of asking.
_AROUND: Final = FUNCTION | VOCABULARY.group("talk_weak", "info_verbs", "fillers", "asking")
_ASKING: Final = re.compile(
    rf"(?:{'|'.join(sorted(VOCABULARY.group('asking')))})"
    r"(?: (?:me|us|out|more|about|of|on|if|whether|that|please|to know|to hear|to learn|as to|in))*$"
)
_MAX_AROUND: Final = 12

_SPELT: Final = FUNCTION | VOCABULARY.group("talk", "persona", "persona_nouns", "fun")
_KNOWN: Final = frozenset().union(*VOCABULARY.words.values())
_MIN_MISSPELT: Final = 6


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


_THANKS: Final = _any_of(VOCABULARY.sections["patterns"]["thanks"])
_IDIOMS: Final = _any_of(VOCABULARY.sections["patterns"]["idioms"])


def is_talk(tokens: Sequence[Token]) -> bool:
    """Return whether a sentence is small talk.

    That is: greetings, thanks, farewells, yes, no and maybe, comments on what was said; questions about the assistant
    itself; the meaning of life; requests for jokes and trivia. A name, a code or a quoted phrase makes it a task.
    """
    if not tokens or len(tokens) > _MAX_WORDS or any(not token.key for token in tokens):
        return not tokens
    keys = [_spelled(token.key) for token in tokens]
    if any(is_about_self(form) or _is_about_life(form) or _is_for_fun(form) for form in (keys, _asked(keys))):
        return True
    return _is_phatic(keys) or all(_is_phatic(piece) or _is_idiom(piece) for piece in _pieces(tokens))


def _pieces(tokens: Sequence[Token]) -> list[list[str]]:
    """Return the words of what stands between commas."""
    pieces: list[list[str]] = [[]]
    for token in tokens:
        pieces[-1].append(_spelled(token.key))
        if "," in token.tail:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _asked(keys: Sequence[str]) -> list[str]:
    """Return what is asked, without the words around it ("let me know ...", "I need to know if ...")."""
    for n in range(min(_MAX_AROUND, len(keys) - 1), 0, -1):
        head = keys[:n]
        if all(key in _AROUND for key in head) and _ASKING.search(" ".join(head)):
            return list(keys[n:])
    return list(keys)


def _is_phatic(keys: Sequence[str]) -> bool:
    """Return whether every word that carries a topic keeps a conversation going, and one says so plainly."""
    if not all(key in _TALK_ALL for key in keys):
        return False
    start = next((i for i, key in enumerate(keys) if key not in _FILLERS), len(keys))
    is_question = _is_question(keys[start:])
    if any(key in _TALK for key in (keys[:start] if is_question else keys)):
        return not (is_question and len(keys) - start > 1)
    # "I don't know", "it could be either": a statement about nothing; not "do it again", "I want that one".
    is_wish = any(key in _WANTED for key in keys) and "not" not in keys
    is_short = len(keys) <= _MAX_FRAGMENT and keys[0] in _FRAGMENT
    is_statement = not is_wish and (keys[0] in _SUBJECTS or is_short or "not" in keys)
    return not is_question and (is_statement or all(key in _CALLED for key in keys))


def _is_idiom(keys: Sequence[str]) -> bool:
    """Return whether words say thanks, or are a turn of phrase with at most one word from elsewhere."""
    named = [key for key in keys if key not in _CALLED]
    if _THANKS.fullmatch(" ".join(named)):
        return True
    unknown = {key for key in keys if key not in _TALK_ALL and key not in PERSONA_ALL}
    start = next((i for i, key in enumerate(named) if key not in _FILLERS), len(named))
    if len(unknown) > 1 or (unknown and not QUESTIONS.isdisjoint(named[start + 1 :])):  # "no idea which port it uses"
        return False
    return any(_IDIOMS.fullmatch(" ".join(form)) for form in (keys, named, named[start:]))


def _is_question(keys: Sequence[str]) -> bool:
    if not keys or keys[0] in QUESTIONS:
        return bool(keys)
    is_asked = len(keys) > 1 and keys[0] in AUXILIARIES and keys[1] in _ASKED_ABOUT
    return is_asked and keys[0] not in {"no", "not", "never"}


def _is_about_life(keys: Sequence[str]) -> bool:
    if not (any(key in _LIFE for key in keys) and any(key in _LIFE_ABOUT for key in keys)):
        return False
    last = max(i for i, key in enumerate(keys) if key in _LIFE or key in _LIFE_ABOUT)
    n_unknown = sum(key not in _LIFE_ALL for key in keys[:last])
    return n_unknown <= 1 and all(key in _LIFE_ALL for key in keys[last:])


def _is_for_fun(keys: Sequence[str]) -> bool:
    """Return whether jokes or trivia are asked for, about whatever; one word of praise before them may be any."""
    is_told = any(key in _TOLD for key in keys)
    for i, key in enumerate(keys):
        is_quality = any(near in _FUN_QUALITIES for near in keys[max(0, i - 2) : i + 2])
        is_fact = key == "fact" or (key == "facts" and keys[max(0, i - 1)] in _SOME)
        if key in _FUN or (key in _FUN_QUALIFIED and is_quality) or (is_fact and is_told):
            after = next((near for near in keys[i + 1 :] if near not in _FUN_NAMES), "")
            is_after = not after or after in _FUN_AFTER  # not "a joke generator in Python"
            unknown = [near for near in keys[:i] if near not in _FUN_BEFORE and near not in _SOME]
            return is_after and len(unknown) <= 1 and not any(near in _VERBS for near in unknown)
    return False


@lru_cache(maxsize=4096)
def _spelled(key: str) -> str:
    """Return the known word that a longer unknown one is, but for one slip of the finger; else the word itself."""
    key = key if key in _KNOWN else key.removesuffix("'s")
    if len(key) < _MIN_MISSPELT or key in _KNOWN or not key.isalpha() or not key.isascii():
        return key
    for i in range(1, len(key) + 1):  # the first letter is seldom wrong
        left, right = key[:i], key[i:]
        near = [left + right[1:], left + right[1:2] + right[:1] + right[2:]]
        near += (left + letter + rest for letter in ascii_lowercase for rest in (right, right[1:]))
        for word in near:
            if word in _SPELT:
                return word
    return key
