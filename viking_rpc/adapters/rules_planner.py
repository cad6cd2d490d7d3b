"""Plan without a model, in English and Chinese: small talk is skipped, tasks become typed queries by rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Protocol, cast

from viking_rpc.adapters import rules_chinese, rules_english, rules_references
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import FIRST_PRIORITY, QueryPlan, TypedQuery, complete_plan

if TYPE_CHECKING:
    from viking_rpc.adapters.rules_words import Sought
    from viking_rpc.domain.plan import PlanRequest, PlanResult

_CHINESE: Final = re.compile("[\u3400-\u9fff]")
_WORD: Final = re.compile(r"[A-Za-z]{2,}")
_MAX_TOPIC_CHARS: Final = 120
#: What a turn is about stands at its beginning.
_MAX_TURN_CHARS: Final = 1_000
#: Of what a part asks for: its first type, and those that go with it where it is the only part.
_PRIORITIES: Final = (2, 3, 4)
#: Of the task as given, where a pronoun hides what the conversation was about.
_HIDDEN_PRIORITY: Final = 3
_INTENTS: Final = {
    ContextType.SKILL: "how it is done",
    ContextType.RESOURCE: "what it is about",
    ContextType.MEMORY: "what is known about the user",
}


class _Language(Protocol):
    """What the rules of one language offer."""

    def is_talk(self, text: str) -> bool: ...
    def split(self, text: str) -> list[str]: ...
    def topic(self, text: str) -> str: ...
    def sought(self, part: str) -> list[Sought]: ...
    def as_skill(self, part: str) -> str: ...
    def as_resource(self, part: str) -> str: ...
    def as_memory(self, part: str) -> str: ...


class RulesPlanner:
    """The embedded planner: some microseconds a task, and the same plan every time."""

    name = "rules"

    async def plan(self, request: PlanRequest, timeout_s: float | None = None) -> PlanResult:
        """Plan at once."""
        del timeout_s
        return plan_by_rules(request)

    def close(self) -> None:
        """Do nothing."""


def plan_by_rules(request: PlanRequest) -> PlanResult:
    """Plan for a task and its conversation."""
    language = _language_of(request.task)
    if language.is_talk(request.task):
        return complete_plan(request, QueryPlan(reasoning="small talk: nothing needs to be looked up"))
    about = _topic_of_session(request)
    queries: list[TypedQuery] = []
    parts = language.split(request.task) or [request.task]
    topic, referred = about, ""
    for part in parts:
        text = _resolve(part, topic)
        if text == part and len(parts) == 1:
            whole = _resolve(request.task, topic)  # "and in winter?" says by its "and" that it goes on
            text = part if whole == request.task else whole
        # what an earlier part names stands in the task itself: only a conversation can hide what it is about
        is_of_session = text != part and topic is about
        referred = about if is_of_session else referred
        priorities = (FIRST_PRIORITY if is_of_session else _PRIORITIES[0], *_PRIORITIES[1:])
        sought = _sought(language, text, request.only_type)
        for found, priority in zip(sought if len(parts) == 1 else sought[:1], priorities, strict=False):
            queries.append(TypedQuery(found.query, found.type, _INTENTS[found.type], priority))
        topic = (language.topic(text) if text == part else topic) or topic
    kinds = ", ".join(dict.fromkeys(query.type.name.lower() for query in queries if query.type is not None))
    noun = "part" if len(parts) == 1 else "parts"
    plan = QueryPlan(
        tuple(queries),
        reasoning=f"{len(parts)} {noun}: {kinds}",
        session_context=f"it is about: {referred}" if referred else "",
    )
    return complete_plan(request, plan, task_priority=_HIDDEN_PRIORITY if referred else FIRST_PRIORITY)


def _sought(language: _Language, text: str, only: ContextType | None) -> list[Sought]:
    """Return what a part asks for; with a restricting type, one query in that type's style."""
    from viking_rpc.adapters.rules_words import Sought

    match only:
        case None:
            return language.sought(text)
        case ContextType.SKILL:
            return [Sought(only, language.as_skill(text))]
        case ContextType.MEMORY:
            return [Sought(only, language.as_memory(text))]
        case _:
            return [Sought(only, language.as_resource(text))]


def _topic_of_session(request: PlanRequest) -> str:
    """Return what the conversation is about: the user's last topic, else the assistant's, else that of the summary.

    A turn that itself points back keeps the topic that it points to.
    """
    users = assistants = ""
    for turn in request.turns:
        text = turn.text[:_MAX_TURN_CHARS]
        language = _language_of(text)
        if turn.role == "user":
            if _resolve(text, "\ufffc") == text or not users:
                users = _short(language.topic(text)) or users
        else:
            assistants = _short(language.topic(text)) or assistants
    if users or assistants or not request.summary:
        return users or assistants
    last = re.split(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])", request.summary.strip())
    sentence = next((one for one in reversed(last) if one.strip()), "")
    return _short(_language_of(sentence).topic(sentence))


def _resolve(part: str, topic: str) -> str:
    resolve = rules_chinese.resolve if _is_chinese(part) else rules_references.resolve
    return resolve(part, topic)


def _language_of(text: str) -> _Language:
    return cast("_Language", rules_chinese if _is_chinese(text) else rules_english)


def _is_chinese(text: str) -> bool:
    """Return whether a text is Chinese: an English sentence may quote a Chinese word, and the other way round."""
    return len(_CHINESE.findall(text)) > len(_WORD.findall(text))


def _short(topic: str) -> str:
    return topic if len(topic) <= _MAX_TOPIC_CHARS else ""
