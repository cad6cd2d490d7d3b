"""Plan English tasks by rules: split a task into parts, and say of each what is sought, in the style of each type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from viking_rpc.adapters.rules_talk import is_talk as is_talk_tokens
from viking_rpc.adapters.rules_tokens import (
    AUXILIARIES,
    DETERMINERS,
    FUNCTION,
    QUESTIONS,
    VOCABULARY,
    has_content,
    join,
    tokens_of,
    words_of,
)
from viking_rpc.adapters.rules_words import Sought
from viking_rpc.domain.context import ContextType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from viking_rpc.adapters.rules_tokens import Token

_MAX_PARTS: Final = 4
#: How many words on each side of a joint say whether it is one.
_SEEN: Final = 40
_MAX_FRAMES: Final = 6
_VERBS: Final = VOCABULARY.group("verbs")
_INFO_VERBS: Final = VOCABULARY.group("info_verbs")
_MEMORY_VERBS: Final = VOCABULARY.group("memory_verbs")
_MEMORY_WORDS: Final = VOCABULARY.group("memory_words")
_TOLD: Final = VOCABULARY.group("told_verbs")
_FOUND: Final = VOCABULARY.group("found_verbs")
_FILLERS: Final = VOCABULARY.group("fillers")
_FOR_VERBS: Final = VOCABULARY.group("for_verbs")
_PARTICLES: Final = VOCABULARY.group("particles")
_FIRST: Final = frozenset({"i", "we"})
_OWN: Final = frozenset({"my", "our"})
_PAST: Final = frozenset({"did", "have", "had", "was", "were", "am"})
_DO: Final = frozenset({"do", "does", "did"})
_SENTENCE_END: Final = re.compile(r"[.!?]|\u2026")
_FRAMES: Final = {
    name: re.compile(f"(?:{'|'.join(patterns)})(?= |$)") for name, patterns in VOCABULARY.sections["frames"].items()
}


def is_talk(text: str) -> bool:
    """Return whether a text is small talk, all of it; so is one without any letter or digit."""
    if not any(map(str.isalnum, text)):
        return True
    return all(is_talk_tokens(sentence) for sentence in _sentences(tokens_of(text)))


def split(text: str) -> list[str]:
    """Return the parts of a task, small talk left out."""
    parts: list[list[Token]] = []
    for sentence in _sentences(tokens_of(text)):
        if not is_talk_tokens(sentence):
            parts += _clauses(sentence)
    if len(parts) > _MAX_PARTS:
        parts[_MAX_PARTS - 1 :] = [[token for part in parts[_MAX_PARTS - 1 :] for token in part]]
    return [join(part) for part in parts if part]


def topic(text: str) -> str:
    """Return what a turn is about, for a later pronoun to stand for; empty where it says nothing."""
    for sentence in _sentences(tokens_of(text)):
        if not is_talk_tokens(sentence):
            clause = _clauses(sentence)[-1]
            return _noun_phrase(_object_of(_without_frames(clause)))
    return ""


def sought(part: str) -> list[Sought]:
    """Return what one part asks for, the most fitting type first."""
    tokens = _without_fillers(tokens_of(part))
    how = _FRAMES["howto"].match(words_of(tokens))
    if how:
        return _of_action(_drop(tokens, how.group()))
    if _is_memory(tokens):
        return [Sought(ContextType.MEMORY, as_memory(part))]
    clause = _without_frames(tokens)
    if _is_action(clause):
        found = _of_action(clause)
        if any(token.key in _MEMORY_WORDS for token in clause) or _has_taste(clause):
            found.append(Sought(ContextType.MEMORY, as_memory(join(clause))))
        return found
    return [Sought(ContextType.RESOURCE, as_resource(part))]


def as_skill(part: str) -> str:
    """Write a part verb-first."""
    tokens = _without_fillers(tokens_of(part))
    how = _FRAMES["howto"].match(words_of(tokens))
    return join(_drop(tokens, how.group()) if how else _without_frames(tokens)) or part


def as_resource(part: str) -> str:
    """Write a part as a noun phrase."""
    return _noun_phrase(_object_of(_without_frames(_without_fillers(tokens_of(part))))) or part


def as_memory(part: str) -> str:
    """Write a part as something about the user."""
    tokens = _without_frames(_without_fillers(tokens_of(part)))
    while tokens and tokens[0].key in QUESTIONS | AUXILIARIES | {"remember", "remind", "me", "that", "ever"}:
        tokens = tokens[1:]
    kept = [token for token in tokens if token.key not in {"i", "we", "me", "us", "my", "our", "you", *_DO}]
    while kept and (kept[0].key in DETERMINERS or kept[0].key in AUXILIARIES):
        kept = kept[1:]
    return f"the user's {join(kept)}" if has_content(kept) else f"the user's {join(tokens)}"


def _sentences(tokens: Sequence[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        found[-1].append(token)
        if _SENTENCE_END.search(token.tail):
            found.append([])
    return [sentence for sentence in found if sentence]


def _clauses(sentence: list[Token]) -> list[list[Token]]:
    """Cut a sentence where a new instruction or a new question begins."""
    clauses: list[list[Token]] = []
    start = 0
    for i in range(1, len(sentence)):
        if len(clauses) > 2 * _MAX_PARTS:
            break  # more than is told apart anyway
        before, rest = sentence[i - 1], sentence[i : i + 2 * _SEEN]
        n_joints = 0
        while n_joints < len(rest) - 1 and rest[n_joints].key in {"and", "then", "also", "afterwards", "next"}:
            n_joints += 1
        is_joint = n_joints > 0 or "," in before.tail
        left, right = sentence[start:i][:_SEEN], rest[n_joints : n_joints + _SEEN]
        if ";" in before.tail or (is_joint and _begins_clause(left, right)):
            clauses.append(sentence[start:i])
            start = i
    clauses.append(sentence[start:])
    stripped = [_without_fillers(clause) for clause in clauses]
    kept = [clause for clause in stripped if clause and not is_talk_tokens(clause)]
    return kept or [sentence]


def _begins_clause(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """Return whether what follows a comma or an "and" stands by itself."""
    left = _without_fillers(left)
    if is_talk_tokens(left):
        return True
    if len(right) > 1 and right[0].key in QUESTIONS and (right[1].key in AUXILIARIES or right[0].key == "who"):
        return True
    right = _without_fillers(right)
    is_instruction = len(right) > 1 and (_is_verb(right) or right[0].key in _INFO_VERBS | {"remind", "please"})
    return is_instruction and len(left) > 1 and (_is_action(_without_frames(left)) or left[0].key in _INFO_VERBS)


def _is_action(clause: Sequence[Token]) -> bool:
    return _is_verb(clause) and clause[0].key not in _INFO_VERBS


def _is_verb(clause: Sequence[Token]) -> bool:
    """Return whether a clause begins with an instruction: a verb of doing, or any word before an article or pronoun."""
    if not clause or not clause[0].key:
        return False
    first = clause[0].key
    after = clause[1].key if len(clause) > 1 else ""
    if first in _VERBS:
        if after == "for":
            return first in _FOR_VERBS
        return after not in {"of", "is", "are", "was"} and not (len(clause) == 1 and clause[0].text[0].isupper())
    is_open = first not in FUNCTION and not first.endswith(("s", "ing", "ed", "ly"))
    return is_open and after in DETERMINERS | {"it", "them", "me", "us"} and not clause[0].text[0].isdigit()


def _is_memory(tokens: Sequence[Token]) -> bool:
    """Return whether a part asks for, or tells, something of the user's own life."""
    tokens = _without_information(tokens)
    keys = [token.key for token in tokens]
    if not keys:
        return False
    if keys[0] in {"remember", "remind", "recall"} or keys[0] in _OWN:
        return True
    head = keys[: keys.index("how") + 1] if "how" in keys[:1] else keys
    n_head = 1 if head[0] in QUESTIONS else 0
    body = keys[n_head:]
    if n_head and body[:1] and (body[0] in {"much", "many", "often", "long", "far"}):
        n_head = 2
    elif n_head and keys[0] == "how":
        return False
    first_aux = next((i for i, key in enumerate(keys[n_head:], n_head) if key in AUXILIARIES), None)
    if first_aux is not None and first_aux + 1 < len(keys) and (n_head or first_aux == 0):
        aux, subject = keys[first_aux], keys[first_aux + 1]
        verb = next((key for key in keys[first_aux + 2 :] if key not in {"ever", "normally", *FUNCTION}), "")
        if subject in _FIRST and aux in _PAST | {"do", "would"} and verb not in _FOUND - ({"say"} if n_head else set()):
            return aux in _PAST or verb in _MEMORY_VERBS | _TOLD or n_head > 0 or "my" in keys
        if subject in _OWN:
            return n_head > 0 and keys[0] != "why"
        if n_head and keys[0] == "which" and keys[1:3] == ["of", "my"]:
            return True
    if any(key in _OWN for key in keys[:4]) and n_head and keys[0] in {"which", "when", "where", "who", "what"}:
        return True
    has_words = any(key in _MEMORY_WORDS for key in keys) and any(key in _FIRST | _OWN for key in keys)
    return (has_words or _has_taste(tokens)) and not _is_action(_without_frames(tokens))


def _has_taste(tokens: Sequence[Token]) -> bool:
    """Return whether the user tells what is liked or avoided: "I like", "we hate"; not "I would like to"."""
    keys = [token.key for token in tokens]
    pairs = zip(keys, keys[1:], [*keys[2:], ""], strict=False)
    return any(one in _FIRST and verb in _MEMORY_VERBS and after != "to" for one, verb, after in pairs)


def _of_action(clause: list[Token]) -> list[Sought]:
    skill = Sought(ContextType.SKILL, join(clause))
    thing = _noun_phrase(_object_of(clause))
    return [skill, Sought(ContextType.RESOURCE, thing)] if thing else [skill]


def _object_of(clause: list[Token]) -> list[Token]:
    """Return a clause without the verb at its beginning."""
    if _is_verb(clause) or (clause and clause[0].key in _INFO_VERBS and len(clause) > 1):
        clause = clause[1:]
        if clause and clause[0].key in _PARTICLES and len(clause) > 1:
            clause = clause[1:]
    return clause


def _noun_phrase(tokens: list[Token]) -> str:
    """Return the tokens without question words, auxiliaries and articles in front, and without "do" in between."""
    while tokens and tokens[0].key and tokens[0].key in FUNCTION:
        tokens = tokens[1:]
    kept = [token for i, token in enumerate(tokens) if i == 0 or token.key not in _DO]
    while kept and kept[-1].key and kept[-1].key in FUNCTION:
        kept.pop()
    return join(kept) if has_content(kept) else ""


def _without_fillers(tokens: Sequence[Token]) -> list[Token]:
    start = next((i for i, token in enumerate(tokens) if token.key not in _FILLERS), len(tokens))
    return list(tokens[start:])


def _without_information(tokens: Sequence[Token]) -> list[Token]:
    return _strip_frames(tokens, "information")


def _without_frames(tokens: Sequence[Token]) -> list[Token]:
    return _strip_frames(tokens, "request", "information", "howto")


def _strip_frames(tokens: Sequence[Token], *names: str) -> list[Token]:
    """Return the tokens without the words by which people ask for something; at least one is left."""
    left = list(tokens)
    for _ in range(_MAX_FRAMES):
        words = words_of(left[:_SEEN])
        matches = (_FRAMES[name].match(words) for name in names)
        found = (_without_fillers(_drop(left, match.group())) for match in matches if match and match.group())
        shorter = next((tokens for tokens in found if tokens), None)
        if shorter is None:
            break
        left = shorter
    return left


def _drop(tokens: list[Token], words: str) -> list[Token]:
    """Return the tokens after so many words."""
    return tokens[len(words.split()) :]
