"""Recognise English questions about the assistant itself: its name, age, makers, home, pets, work, nature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from viking_rpc.adapters.rules_tokens import AUXILIARIES, FUNCTION, QUESTIONS, VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Sequence

_SELF: Final = VOCABULARY.group("self_words")
_PERSONA: Final = VOCABULARY.group("persona")
PERSONA_ALL: Final = FUNCTION | VOCABULARY.group("persona", "persona_weak", "self_words", "talk")
_NOUNS: Final = VOCABULARY.group("persona_nouns")
_VERBS: Final = VOCABULARY.group("persona_verbs")
_HAVING: Final = frozenset({"have", "own", "keep", "got", "like", "love", "enjoy", "prefer", "take", "get", "want"})
_OF_USER: Final = frozenset({"me", "my", "mine", "i", "us", "our", "we"})
_FRAME: Final = FUNCTION | {"got", "any"} - _OF_USER
_SERVICE_VERBS: Final = VOCABULARY.group("service_verbs", "told_verbs", "verbs", "info_verbs")
_SERVICE_NOUNS: Final = VOCABULARY.group("service_nouns")
_SERVICE_STATES: Final = VOCABULARY.group("service_states")
_INSTRUCTIONS: Final = VOCABULARY.group("verbs") - {"share", "name", "say", "identify", "type"}
_MODALS: Final = frozenset({"can", "could", "will", "would", "should"})
_REQUESTS: Final = VOCABULARY.group("verbs", "info_verbs") | {"can", "could", "will", "would", "please"}
_WINDOW: Final = 4
#: Words from elsewhere, in a question about the assistant's own person.
_MAX_UNKNOWN: Final = 1


def is_about_self(keys: Sequence[str]) -> bool:
    """Return whether the assistant's own person is asked about, and nothing of the one who asks.

    Args:
        keys: the words of a sentence, lower-case.
    """
    if not any(key in _SELF for key in keys):
        return _is_fragment(keys)
    n_unknown = sum(key not in PERSONA_ALL for key in keys)
    if not n_unknown and any(key in _PERSONA or key == "yourself" for key in keys):
        return True
    if any(key in _OF_USER for key in keys):
        return False
    if "yourself" in keys:
        return True
    # One word that nobody foresaw is nothing, where the rest is plainly of a person: "what shape do your pets have".
    n_persona = sum(key in _PERSONA and key not in FUNCTION for key in keys)
    if n_unknown <= 1 and n_persona > n_unknown and keys[0] not in _REQUESTS:
        return True
    if _has_maker(keys):
        return True
    return any(
        _is_of_person(keys, i, n_unknown) if key == "your" else _is_person(keys, i) if key in {"you", "u"} else False
        for i, key in enumerate(keys)
    )


def _is_fragment(keys: Sequence[str]) -> bool:
    """Return whether nothing is said but "any pets", "got any hobbies"."""
    start = keys.index("any") + 1 if "any" in keys[:3] else 0
    return 0 < start < len(keys) and all(key in _NOUNS or key in _FRAME for key in keys)


def _has_maker(keys: Sequence[str]) -> bool:
    """Return whether it is asked who did something to the assistant and to nothing else: "who taught you"."""
    i = next((i for i, key in enumerate(keys) if i > 1 and key in {"you", "your"}), 0)
    if not i or keys[0] != "who" or keys[i - 1] in AUXILIARIES:
        return False
    return keys[i] == "your" or all(key in PERSONA_ALL for key in keys[i:])


def _is_of_person(keys: Sequence[str], i: int, n_unknown: int) -> bool:
    """Return whether the "your" at a position goes with what a person has, not with what a service has."""
    after = keys[i + 1 : i + 1 + _WINDOW]
    is_instruction = keys[0] in _INSTRUCTIONS and n_unknown > 1  # "follow the guide to run your first job"
    if not is_instruction and any(key in _NOUNS for key in after):
        return True
    is_asked = keys[0] in QUESTIONS | AUXILIARIES
    return is_asked and bool(after) and n_unknown <= 1 and not any(key in _SERVICE_NOUNS for key in after)


def _is_person(keys: Sequence[str], i: int) -> bool:
    """Return whether the "you" at a position is, does or has what a person is, does or has."""
    before, after = keys[:i], keys[i + 1 : i + 1 + _WINDOW]
    n_unknown = sum(key not in PERSONA_ALL and key not in _VERBS for key in keys)
    if before and before[-1] in {"are", "were"}:
        is_doing = bool(after) and after[0].endswith("ing") and after[0] not in PERSONA_ALL
        return not is_doing and n_unknown <= _MAX_UNKNOWN and not any(key in _SERVICE_STATES for key in after[:2])
    if not after:
        return False
    if after[0] in {"are", "were"} and any(key in _PERSONA for key in after[1:]):
        return True
    is_requested = bool(before) and before[-1] in _MODALS  # "could you have a look at the job"
    if not is_requested and any(key in _HAVING for key in after[:2]) and any(key in _NOUNS for key in keys):
        return True
    return (after[0] in _VERBS and n_unknown <= _MAX_UNKNOWN) or _does_as_person(before, after)


def _does_as_person(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether "do you ..." asks of a person what no service does; "can you ..." is a request."""
    verb = next((key for key in after if key not in FUNCTION or key in _SERVICE_VERBS), "")
    is_asked = bool(before) and before[-1] in {"do", "did"} and before[0] != "if"
    is_asked = is_asked or (before[-1:] == ["have"] and after[0] in {"been", "ever"})
    is_told = not before and all(key in PERSONA_ALL or key == verb for key in after)  # not "you forgot the semicolon"
    return bool(verb) and (is_asked or is_told) and _SERVICE_VERBS.isdisjoint(_stems(verb))


def _stems(verb: str) -> set[str]:
    """Return the verb, and what it may be a form of: "storing" of "store", "stopped" of "stop"."""
    found = {verb}
    for ending in ("ing", "ed", "es", "s"):
        stem = verb.removesuffix(ending)
        if stem != verb and len(stem) > 1:
            found |= {stem, stem + "e", stem[:-1] if stem[-1] == stem[-2] else stem}
    return found
