"""Plan Chinese tasks by rules: small talk, parts, references, and what each part seeks in the style of each type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from viking_rpc.adapters.rules_words import Sought, vocabulary
from viking_rpc.domain.context import ContextType

if TYPE_CHECKING:
    from collections.abc import Iterable

_VOCABULARY: Final = vocabulary("zh")
_PATTERNS: Final = {name: re.compile(text) for name, text in _VOCABULARY.sections["patterns"].items()}
_KINDS: Final = re.compile("|".join(f"(?:{text})" for text in _VOCABULARY.sections["talk"].values()))
_PHRASES: Final = _VOCABULARY.sections["phrases"]
_MARKS: Final = re.compile(r"[\s,.!?;:~\uff0c\u3002\uff01\uff1f\uff1b\uff1a\u3001\u2026\uff5e\u300c\u300d]+")
_SELF: Final = re.compile("[\u4f60\u60a8]")
_QUOTED: Final = re.compile(r"\u300c[^\u300d]+\u300d|\u300a[^\u300b]+\u300b|\u201c[^\u201d]+\u201d|\"[^\"]+\"|`[^`]+`")
_MAX_PARTS: Final = 4
_MAX_TALK_CHARS: Final = 60
_MAX_WORD_CHARS: Final = 8


def _one_of(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_TALK_WORD: Final = re.compile(_one_of(_VOCABULARY.group("talk")))
_TALK: Final = _VOCABULARY.group("talk", "filler")
_PERSONA_WORD: Final = re.compile(_one_of(_VOCABULARY.group("persona")))
_PERSONA: Final = _VOCABULARY.group("persona", "filler", "talk")
_VERB: Final = re.compile(f"(?:{_one_of(_VOCABULARY.group('verbs'))})")
_INFO: Final = re.compile(f"(?:{_one_of(_VOCABULARY.group('info_verbs'))})")
_COVERB_FIRST: Final = re.compile(f"{_PATTERNS['coverb'].pattern}(?:{_one_of(_VOCABULARY.group('verbs'))})")
_MOVES: Final = tuple(_PHRASES["moves"])


def is_talk(text: str) -> bool:
    """Return whether a text is small talk, all of it: greetings, thanks, yes and no, the assistant itself, jokes."""
    bare = _MARKS.sub("", text)
    if not any(map(str.isalnum, bare)) or _PATTERNS["joke"].search(text.strip()):
        return True
    if len(bare) > _MAX_TALK_CHARS:
        return False
    return _is_talk(bare) or all(map(_is_talk, filter(None, _MARKS.split(text))))


def _is_talk(bare: str) -> bool:
    """Return whether words without marks between them are small talk."""
    if _KINDS.fullmatch(bare):
        return True
    if _TALK_WORD.search(bare) and not _PATTERNS["question_head"].match(bare) and _is_made_of(bare, _TALK):
        return True
    return bool(_SELF.search(bare) and _PERSONA_WORD.search(bare)) and _is_made_of(bare, _PERSONA)


def split(text: str) -> list[str]:
    """Return the parts of a task, small talk left out; quoted phrases are never cut."""
    quoted = _QUOTED.findall(text)
    masked = _QUOTED.sub("\ufffc", text)
    pieces = [piece for cut in _PATTERNS["split"].split(masked) for piece in _after_talk(cut)]
    replaced = iter(quoted)
    parts = [re.sub("\ufffc", lambda _: next(replaced), piece).strip(" \uff0c,") for piece in pieces]
    parts = [part for part in parts if part and not is_talk(part)]
    if len(parts) > _MAX_PARTS:
        parts[_MAX_PARTS - 1 :] = ["\uff0c".join(parts[_MAX_PARTS - 1 :])]
    return parts


def topic(text: str) -> str:
    """Return what a turn is about, for a later pronoun to stand for; empty where it says nothing."""
    parts = split(text)
    return as_resource(parts[-1]) if parts else ""


def resolve(part: str, about: str) -> str:
    """Return the part with its reference replaced by what the conversation was about."""
    if not about or _PATTERNS["expletive"].search(part):
        return part
    found = _PATTERNS["reference"].search(part)
    if found:
        return part[: found.start()] + about + part[found.end() :]
    pointing = _PATTERNS["pointing"].search(part)
    return f"{part[: pointing.start()]}{about} {part[pointing.start() :]}" if pointing else part


def sought(part: str) -> list[Sought]:
    """Return what one part asks for, the most fitting type first."""
    how = _PATTERNS["howto"].match(part)
    if how and how.end() < len(part):
        return _of_action(part[how.end() :])
    clause = _without_lead(part)
    how = _PATTERNS["howto"].match(clause)
    if how and how.end() < len(clause):
        return _of_action(clause[how.end() :])
    is_own = _PATTERNS["mine"].match(part) and _PATTERNS["asks"].search(part)
    if is_own or _PATTERNS["memory"].search(part):
        found = _of_action(clause) if _is_action(clause) and not is_own else []
        return [*found, Sought(ContextType.MEMORY, as_memory(part))]
    if _is_action(clause):
        return _of_action(clause)
    return [Sought(ContextType.RESOURCE, as_resource(part))]


def as_skill(part: str) -> str:
    """Write a part verb-first."""
    clause = _without_lead(part)
    how = _PATTERNS["howto"].match(clause)
    return (clause[how.end() :] if how else clause).rstrip("\u3002\uff01\uff1f?!. ") or part


def as_resource(part: str) -> str:
    """Write a part as a noun phrase."""
    clause = as_skill(part)
    if _INFO.match(clause):
        clause = _INFO.sub("", clause, count=1)
    elif _is_action(clause):
        return _object_of(clause) or clause
    bare = _PATTERNS["question_tail"].sub("", _PATTERNS["question_head"].sub("", clause))
    return bare.strip(" \u7684\uff0c,") or clause


def as_memory(part: str) -> str:
    """Write a part as something about the user."""
    text = _PATTERNS["question_tail"].sub("", _without_lead(part)) or part
    for own in _PHRASES["mine"]:
        text = text.replace(own, _PHRASES["users"])
    for me in _PHRASES["me"]:
        text = text.replace(me, _PHRASES["user"])
    user, users = _PHRASES["user"], _PHRASES["users"]
    if text.startswith(user) and not text.startswith(users):
        text = text[len(user) :]
    return text if text.startswith(users) else users + text


def _is_made_of(text: str, words: frozenset[str]) -> bool:
    """Return whether a text is nothing but these words, one after the other."""
    ends = {0}
    for i in range(len(text)):
        if i in ends:
            ends |= {i + n for n in range(1, _MAX_WORD_CHARS + 1) if text[i : i + n] in words}
    return len(text) in ends


def _after_talk(text: str) -> list[str]:
    """Return a piece without small talk before its first comma."""
    head, comma, rest = text.partition("\uff0c")
    return _after_talk(rest) if comma and is_talk(head) else [text]


def _without_lead(part: str) -> str:
    found = _PATTERNS["lead"].match(part)
    return part[found.end() :] if found and found.end() < len(part) else part


def _is_action(clause: str) -> bool:
    if clause.startswith(_MOVES):
        return True
    if _COVERB_FIRST.match(clause):
        return not _PATTERNS["asks"].search(clause)
    return bool(_VERB.match(clause)) and not _INFO.match(clause)


def _of_action(clause: str) -> list[Sought]:
    clause = clause.rstrip("\u3002\uff01\uff1f?!. ")
    skill = Sought(ContextType.SKILL, clause)
    thing = _object_of(clause)
    return [skill, Sought(ContextType.RESOURCE, thing)] if thing else [skill]


def _object_of(clause: str) -> str:
    """Return what an instruction is about: what stands after its verb, or between a `ba` and the verb."""
    if clause.startswith(_MOVES):
        body = clause[1:]
        verb = next((i for i in range(2, len(body)) if _VERB.match(body, i)), len(body))
        return body[:verb].strip()
    found = _VERB.match(clause)
    rest = clause[found.end() :] if found else clause
    return rest.strip(" \u7684\u4e00\u4e0b\uff0c,")
