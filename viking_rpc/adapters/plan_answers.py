"""Read a plan out of whatever a model answers: fenced, wrapped in prose, bare, in another case, with fields missing."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import DEFAULT_PRIORITY, FIRST_PRIORITY, LAST_PRIORITY, QueryPlan, TypedQuery

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_ANSWER_CHARS: Final = 50_000
_MAX_STARTS: Final = 100
_MAX_DEPTH: Final = 4
_MAX_NOTE_CHARS: Final = 2_000

_THOUGHT_END: Final = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_THOUGHT_START: Final = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_FENCED: Final = re.compile(r"```[A-Za-z0-9]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_START: Final = re.compile(r"[\[{]")
_TRAILING_COMMA: Final = re.compile(r",(?=\s*[\]}])")

_LIST_KEYS: Final = ("queries", "typedqueries", "searchqueries", "searches")
_QUERY_KEYS: Final = ("query", "text", "searchquery", "search", "q")
_TYPE_KEYS: Final = ("type", "contexttype", "category", "kind")
_PRIORITY_KEYS: Final = ("priority", "importance")
_INTENT_KEYS: Final = ("intent", "purpose", "why")
_REASONING_KEYS: Final = ("reasoning", "reason", "rationale")
_CONTEXT_KEYS: Final = ("sessioncontext", "context", "session")
_WORDS_OF_PRIORITY: Final = {"high": FIRST_PRIORITY, "medium": DEFAULT_PRIORITY, "low": LAST_PRIORITY}
_MARKS_OF_TYPE: Final = (
    ("skill", ContextType.SKILL),
    ("memor", ContextType.MEMORY),
    ("resource", ContextType.RESOURCE),
)


def read_plan(answer: str) -> QueryPlan | None:
    """Read a plan.

    Args:
        answer: what the model said, as it said it.

    Returns:
        The plan; without queries where the model gave an explicit empty list. A query without a type is RESOURCE, one
        without a priority 3. None for what cannot be read: no JSON, an unfinished thought, no usable query.
    """
    text = _THOUGHT_END.split(answer[:_MAX_ANSWER_CHARS])[-1]
    if _THOUGHT_START.match(text):
        return None  # a thought that never ended: what looks like JSON in it is a draft
    texts = (*_FENCED.findall(text), text)
    empty = None
    for part in (*texts, *(_TRAILING_COMMA.sub("", one) for one in texts)):
        plan = _read_part(part)
        if plan is not None and plan.queries:
            return plan
        empty = empty or plan
    # One object, or one to a line, or what is whole of a list that was cut short.
    singles = (query for value in _values(text) if _is_query(value) for query in _read_queries([value]))
    return QueryPlan(found) if (found := tuple(singles)) else empty


def _read_part(text: str) -> QueryPlan | None:
    """Return the first plan with queries in a text; else an empty plan, where there is one."""
    empty = None
    for value in _values(text):
        plan = None if _is_query(value) else _read_value(value)
        if plan is not None and plan.queries:
            return plan
        empty = empty or plan
    return empty


def _is_query(value: Any) -> bool:
    """Return whether a JSON value is a query by itself, and no list of them."""
    if not isinstance(value, dict):
        return False
    fields = _folded(value)
    return _find(fields, _LIST_KEYS) is None and _find(fields, _QUERY_KEYS) is not None


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON values of a text in order, whatever stands between them."""
    decoder = json.JSONDecoder()
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        pass
    else:
        # A whole answer encoded twice is one string of JSON.
        if isinstance(whole, str) and _START.search(whole):
            text = whole
        else:
            yield whole
            return
    position = 0
    for _ in range(_MAX_STARTS):
        start = _START.search(text, position)
        if start is None:
            return
        try:
            value, position = decoder.raw_decode(text, start.start())
        except RecursionError:
            return  # nobody's plan: what follows would fail as deep, again and again
        except ValueError:
            position = start.end()
        else:
            yield value


def _read_value(value: Any, depth: int = 0) -> QueryPlan | None:
    """Return the plan that a JSON value holds; without queries for an explicit empty list."""
    if isinstance(value, list):
        queries = tuple(_read_queries(value))
        return QueryPlan(queries) if queries or not value else None
    if not isinstance(value, dict) or depth > _MAX_DEPTH:
        return None
    fields = _folded(value)
    listed = _find(fields, _LIST_KEYS)
    if listed is None:
        if _find(fields, _QUERY_KEYS) is not None:
            queries = tuple(_read_queries([value]))
        else:
            queries = tuple(_read_by_type(fields))
        if queries:
            return QueryPlan(queries)
        inner = (_read_value(one, depth + 1) for one in fields.values() if isinstance(one, dict))
        return next((plan for plan in inner if plan is not None), None)
    if isinstance(listed, dict):
        by_type = tuple(_read_by_type(_folded(listed)))
        listed = by_type or [listed]
    elif isinstance(listed, str):
        listed = [listed]
    elif not isinstance(listed, list):
        return None
    queries = listed if isinstance(listed, tuple) else tuple(_read_queries(listed))
    if listed and not queries:
        return None
    return QueryPlan(queries, _note(_find(fields, _REASONING_KEYS)), _note(_find(fields, _CONTEXT_KEYS)))


def _read_queries(values: list[Any]) -> Iterator[TypedQuery]:
    """Yield the queries of a list of objects and texts; others, and blanks, are passed over."""
    for value in values:
        fields = {"query": value} if isinstance(value, str) else _folded(value) if isinstance(value, dict) else {}
        text = _find(fields, _QUERY_KEYS)
        if isinstance(text, str) and text.strip():
            yield TypedQuery(
                query=_clean(text),
                type=_read_type(_find(fields, _TYPE_KEYS)),
                intent=_note(_find(fields, _INTENT_KEYS)),
                priority=_read_priority(_find(fields, _PRIORITY_KEYS)),
            )


def _read_by_type(fields: Mapping[str, Any]) -> Iterator[TypedQuery]:
    """Yield the queries of an object with a field for each type: `{"skill": "...", "memories": ["...", "..."]}`."""
    for name, value in fields.items():
        kind = next((kind for mark, kind in _MARKS_OF_TYPE if name.startswith(mark)), None)
        if kind is None:
            continue
        for query in _read_queries(value if isinstance(value, list) else [value]):
            yield TypedQuery(query.query, kind, query.intent, query.priority)


def _folded(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields by names without case, blanks and underscores."""
    return {re.sub(r"[^a-z0-9]", "", name.casefold()): one for name, one in value.items()}


def _find(fields: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _read_type(value: Any) -> ContextType:
    if type(value) is int and value in set(ContextType):
        return ContextType(value)
    text = value.casefold() if isinstance(value, str) else ""
    return next((kind for mark, kind in _MARKS_OF_TYPE if mark in text), ContextType.RESOURCE)


def _read_priority(value: Any) -> int:
    if isinstance(value, str):
        word = value.strip().casefold()
        if word in _WORDS_OF_PRIORITY:
            return _WORDS_OF_PRIORITY[word]
        digits = re.search(r"\d+", word)
        value = int(digits.group()[:3]) if digits else 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value or value != value:  # noqa: PLR0124
        return DEFAULT_PRIORITY
    return int(min(max(value, FIRST_PRIORITY), LAST_PRIORITY))


def _note(value: Any) -> str:
    text = _clean(value) if isinstance(value, str) else ""
    return text if len(text) <= _MAX_NOTE_CHARS else text[:_MAX_NOTE_CHARS] + " [...]"


def _clean(text: str) -> str:
    """Return the text trimmed, with `?` for what UTF-8 cannot hold: JSON can escape halves of surrogate pairs."""
    return text.strip().encode(errors="replace").decode()
