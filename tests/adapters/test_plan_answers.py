"""The one reader of plans, against the untidy shapes that models answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viking_rpc.adapters.plan_answers import read_plan
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import QueryPlan, TypedQuery

SKILL, MEMORY, RESOURCE = ContextType.SKILL, ContextType.MEMORY, ContextType.RESOURCE
ONE = TypedQuery("rotate keys", SKILL, "act", 2)
OBJECT = {"query": "rotate keys", "type": "SKILL", "intent": "act", "priority": 2}
TIDY = json.dumps({"reasoning": "why", "session_context": "what", "queries": [OBJECT]})
WHOLE = QueryPlan((ONE,), "why", "what")
PLAIN = QueryPlan((ONE,))

SHAPES: dict[str, tuple[str, QueryPlan]] = {
    "tidy": (TIDY, WHOLE),
    "fenced": (f"```json\n{TIDY}\n```", WHOLE),
    "fenced without a language": (f"```\n{TIDY}\n```", WHOLE),
    "fenced in capitals, one line": (f"```JSON {TIDY}```", WHOLE),
    "fenced after prose": (f"Here is the plan:\n\n```json\n{TIDY}\n```\nI hope it helps!", WHOLE),
    "fenced and not closed": (f"```json\n{TIDY}", WHOLE),
    "prose before": (f"Sure! {TIDY}", WHOLE),
    "prose after": (f"{TIDY}\n\nThese queries cover [1] and {{2}}.", WHOLE),
    "brackets before": (f"As in [1] and {{that}}: {TIDY}", WHOLE),
    "thought first": (f"<think>Maybe [] or {{}}?\n</think>\n{TIDY}", WHOLE),
    "thought without a start": (f'Maybe {{"queries": []}}?</think>{TIDY}', WHOLE),
    "thinking in capitals": (f"<THINKING>hm</THINKING>{TIDY}", WHOLE),
    "two thoughts": (f"<think>a</think> b <think>c</think> {TIDY}", WHOLE),
    "thought and fence": (f"<think>x</think>\n```json\n{TIDY}\n```", WHOLE),
    "bare array": (json.dumps([OBJECT]), PLAIN),
    "single object": (json.dumps(OBJECT), PLAIN),
    "one object to a line": (f"{json.dumps(OBJECT)}\n{json.dumps(OBJECT)}", QueryPlan((ONE, ONE))),
    "cut in the second query": (f'{TIDY[:-2]}, {{"query": "and th', PLAIN),
    "encoded twice": (json.dumps(TIDY), WHOLE),
    "byte order mark": (f"\ufeff{TIDY}", WHOLE),
    "trailing commas": (TIDY.replace("}]}", "},],}"), WHOLE),
    "keys in other cases": (json.dumps({"Queries": [{k.title(): v for k, v in OBJECT.items()}]}), PLAIN),
    "camel case": (
        '{"typedQueries": [{"query": "rotate keys", "contextType": "skill", "intent": "act", "priority": 2}]}',
        PLAIN,
    ),
    "other names": (
        '{"queries": [{"text": "rotate keys", "context_type": "Skills", "purpose": "act", "priority": "2"}]}',
        PLAIN,
    ),
    "a plan inside": (json.dumps({"plan": {"queries": [OBJECT]}}), PLAIN),
    "a query in the list's place": (json.dumps({"queries": OBJECT}), PLAIN),
    "texts": ('["a", "b"]', QueryPlan((TypedQuery("a", RESOURCE), TypedQuery("b", RESOURCE)))),
    "one text in the list's place": ('{"queries": "a"}', QueryPlan((TypedQuery("a", RESOURCE),))),
    "by type": (
        '{"skill": "a", "memories": ["b"], "resources": []}',
        QueryPlan((TypedQuery("a", SKILL), TypedQuery("b", MEMORY))),
    ),
    "a list by type": ('{"queries": {"skill": ["a"]}}', QueryPlan((TypedQuery("a", SKILL),))),
    "missing fields": ('{"queries": [{"query": " a "}]}', QueryPlan((TypedQuery("a", RESOURCE, "", 3),))),
    "nulls": (
        '{"queries": [{"query": "a", "type": null, "intent": null, "priority": null}], "reasoning": null}',
        QueryPlan((TypedQuery("a", RESOURCE, "", 3),)),
    ),
    "blanks among others": (
        '{"queries": [{"query": " "}, {}, null, 7, [], {"query": "a"}]}',
        QueryPlan((TypedQuery("a", RESOURCE),)),
    ),
    "half a surrogate pair": ('{"queries": ["a\\ud800"]}', QueryPlan((TypedQuery("a?", RESOURCE),))),
    "Chinese": (
        '{"queries": [{"query": "\u8f6e\u6362\u5bc6\u94a5", "type": "SKILL"}]}',
        QueryPlan((TypedQuery("\u8f6e\u6362\u5bc6\u94a5", SKILL),)),
    ),
    "an example first": (f'Not this: {{"queries": []}} but this: {TIDY}', WHOLE),
}


@pytest.mark.parametrize("name", SHAPES)
def test_untidy_shapes_are_read(name: str) -> None:
    """Users' rows 56 and 86: bare arrays, fences, prose and thoughts cost nobody an answer."""
    answer, expected = SHAPES[name]
    assert read_plan(answer) == expected


@pytest.mark.parametrize(
    "answer",
    [
        '{"queries": []}',
        "[]",
        "```json\n[]\n```",
        "Nothing to do: []",
        '{"Queries": [], "reasoning": "r"}',
        '{"plan": {"queries": []}}',
    ],
)
def test_an_explicit_empty_list_is_an_empty_plan(answer: str) -> None:
    plan = read_plan(answer)
    assert plan is not None
    assert plan.queries == ()


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot help with that.",
        "{",
        "null",
        "7",
        '"text"',
        "{}",
        '{"queries": null}',
        '{"queries": 7}',
        '{"queries": [{"query": ""}, {"q": 3}]}',
        '{"answer": "42"}',
        "<think>I should answer [] or " + TIDY,
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_what_cannot_be_read_is_none(answer: str) -> None:
    assert read_plan(answer) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("memory", MEMORY),
        ("MEMORIES", MEMORY),
        ("CONTEXT_TYPE_SKILL", SKILL),
        ("Resource", RESOURCE),
        (3, SKILL),
        (2, MEMORY),
    ]
    + [(wrong, RESOURCE) for wrong in ("", "document", 0, 9, True, [], {}, 1.5)],
)
def test_types(value: Any, expected: ContextType) -> None:
    plan = read_plan(json.dumps([{"query": "a", "type": value}]))
    assert plan is not None
    assert plan.queries[0].type is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, 1), (5, 5), (0, 3), (9, 5), (-4, 1), (2.7, 2), ("4", 4), ("P1", 1), ("high", 1), ("Medium", 3), ("low", 5)]
    + [(wrong, 3) for wrong in ("", "soon", True, None, [], {}, float("nan"))]
    + [(float("inf"), 5), ("9" * 500, 5)],
)
def test_priorities(value: Any, expected: int) -> None:
    plan = read_plan(json.dumps([{"query": "a", "priority": value}]))
    assert plan is not None
    assert plan.queries[0].priority == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["queries", "query", "type", "priority", "plan", "skill", "intent", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(["{}", "```json\n{}\n```", "so: {} done", "<think>a</think>{}"]))
def test_any_json_is_read_or_refused(value: Any, around: str) -> None:
    plan = read_plan(around.replace("{}", json.dumps(value)))
    for query in plan.queries if plan is not None else ():
        assert query.query.strip()
        assert query.type in set(ContextType)
        assert 1 <= query.priority <= 5
        query.query.encode()


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_plan(text)
