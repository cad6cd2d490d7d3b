"""What the rules planner makes of tasks, in English and Chinese: phrasing, parts, references, types."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from viking_rpc.adapters.rules_planner import RulesPlanner, plan_by_rules
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import PlanRequest, PlanStatus, Turn
from viking_rpc.domain.ports import Planner

SKILL, MEMORY, RESOURCE = ContextType.SKILL, ContextType.MEMORY, ContextType.RESOURCE

# Chinese texts by what they say.
IT_HOW = "\u600e\u4e48\u91cd\u542f\u5b83"  # how to restart it
WHAT_IS_GATEWAY = "Kestrel\u7f51\u5173\u662f\u4ec0\u4e48"  # what is the Kestrel gateway
GATEWAY = "Kestrel\u7f51\u5173"
THANKS = "\u8c22\u8c22\u4f60\uff0c\u5e2e\u4e86\u5927\u5fd9"
FAVOURITE = "\u6211\u6700\u559c\u6b22\u7684\u5496\u5561\u662f\u4ec0\u4e48"  # what is my favourite coffee
USERS = "\u7528\u6237\u7684"
LATE_FEE = "\u5408\u540cKX-2093\u7684\u903e\u671f\u7f5a\u91d1"  # late fee of contract KX-2093
EXPORT_IMPORT = "\u5148\u5bfc\u51fa\u8054\u7cfb\u4eba\uff0c\u7136\u540e\u5bfc\u5165\u5230CRM\u7cfb\u7edf"


def typed(task: str, *said: str, **how: object) -> list[tuple[ContextType | None, str]]:
    """Return the queries of a task; turns are the user's and the assistant's, one after the other."""
    turns = tuple(Turn(("user", "assistant")[i % 2], text) for i, text in enumerate(said))
    result = plan_by_rules(PlanRequest(task, turns, **how))  # type: ignore[arg-type]
    return [(query.type, query.query) for query in result.plan.queries]


def test_is_a_planner_of_its_name() -> None:
    planner = RulesPlanner()
    assert isinstance(planner, Planner)
    assert planner.name == "rules"
    result = asyncio.run(planner.plan(PlanRequest("rotate the keys"), 0.0))
    assert result.status is PlanStatus.PLANNED
    planner.close()


def test_each_type_has_its_style() -> None:
    assert typed("Please rotate the API keys.") == [
        (None, "Please rotate the API keys."),
        (SKILL, "rotate the API keys"),
        (RESOURCE, "API keys"),
    ]
    assert typed("what is the retention period for audit logs?")[1] == (RESOURCE, "retention period for audit logs")
    assert typed("what's my favourite coffee order")[1] == (MEMORY, "the user's favourite coffee order")
    assert typed("how do I descale an espresso machine?")[1:] == [
        (SKILL, "descale an espresso machine"),
        (RESOURCE, "espresso machine"),
    ]


@pytest.mark.parametrize(
    ("kind", "query"),
    [(SKILL, "rotate the API keys"), (RESOURCE, "API keys"), (MEMORY, "the user's rotate the API keys")],
)
def test_a_restricting_type_sets_the_style(kind: ContextType, query: str) -> None:
    found = typed("rotate the API keys", type=kind)
    assert {one for one, _ in found} == {kind}
    assert query in [text for _, text in found]


def test_parts_are_planned_one_by_one() -> None:
    texts = [
        text for kind, text in typed("Write the changelog; then tag the release and publish the wheel") if kind is SKILL
    ]
    assert texts == ["Write the changelog", "tag the release", "publish the wheel"]
    both = typed("What is the visa fee for Japan, and when does my passport expire?")
    assert (RESOURCE, "visa fee for Japan") in both
    assert MEMORY in [kind for kind, _ in both]


def test_small_talk_before_a_task_is_left_out() -> None:
    assert typed("Thanks! Now archive the finished tickets.")[1] == (SKILL, "archive the finished tickets")
    assert typed("Hello, could you please reset the password of the shared mailbox?")[1][0] is SKILL


@pytest.mark.parametrize(
    ("task", "about", "query"),
    [
        ("restart it", "what is the Kestrel gateway?", "restart Kestrel gateway"),
        ("how do I clean that?", "where is the filter of the Miele vacuum", "clean filter of the Miele vacuum"),
        ("why is this one so slow", "show me the query for monthly revenue", "query for monthly revenue so slow"),
        (
            "translate them into Dutch",
            "list the error messages of the form",
            "translate error messages of the form into Dutch",
        ),
        ("what are its limits", "tell me about pgbouncer", "pgbouncer's limits"),
        ("delete that file", "where is /etc/app/old.conf", "delete that file /etc/app/old.conf"),
        ("and in winter?", "opening hours of the botanical garden", "winter opening hours of the botanical garden"),
    ],
)
def test_references_become_what_they_stand_for(task: str, about: str, query: str) -> None:
    found = typed(task, about)
    assert query in [text for _, text in found]
    assert (None, task) in found
    assert found[0][1] != task  # what it is about comes before words that do not say it


def test_a_reference_reaches_over_turns_that_point_back_themselves() -> None:
    said = ("what is the Kestrel gateway?", "A box.", "who maintains it?", "The grid team.", "thanks", "Gladly.")
    assert typed("restart it", *said)[0] == (SKILL, "restart Kestrel gateway")


def test_a_reference_is_taken_from_the_assistant_or_the_summary_where_the_user_named_nothing() -> None:
    assert "nginx reload hook" in typed("fix it", "hi", "The nginx reload hook failed.")[0][1]
    assert "pump P-7" in typed("repair it", summary="They met. The plant stopped. It is about pump P-7.")[0][1]


@pytest.mark.parametrize(
    "task",
    [
        "is it possible to rent a bike in Graz",
        "how long does it take to descale a boiler",
        "clone the repo viking and run it",
        "make sure that the tests pass",
        "the policy that covers laptops",
    ],
)
def test_what_points_nowhere_is_left_alone(task: str) -> None:
    assert all("gateway" not in text for _, text in typed(task, "what is the Kestrel gateway?"))


def test_without_a_session_nothing_is_made_up() -> None:
    assert typed("restart it") == [(None, "restart it"), (SKILL, "restart it")]


@pytest.mark.parametrize(
    "name",
    [
        "ERR-4711",
        "parse_header()",
        "v2.3.1",
        "CamelCase",
        "`make lint`",
        '"no route to host"',
        "https://a.b/c?d=e",
        "x@y.org",
    ],
)
def test_names_codes_and_quotes_stay_as_they_are(name: str) -> None:
    for task in (f"fix {name}, then deploy the app", f"what does {name} mean?", f"hi, explain {name} please"):
        assert all(name in text for _, text in typed(task) if "app" not in text or name in task == text)
        assert any(name in text for kind, text in typed(task) if kind is not None)


def test_a_name_makes_a_task_of_small_talk() -> None:
    assert plan_by_rules(PlanRequest("hello ERR-4711")).status is PlanStatus.PLANNED


def test_chinese_small_talk_is_skipped() -> None:
    assert plan_by_rules(PlanRequest(THANKS)).status is PlanStatus.SKIPPED


def test_chinese_references_and_types() -> None:
    found = typed(IT_HOW, WHAT_IS_GATEWAY)
    assert found[0] == (SKILL, "\u91cd\u542f" + GATEWAY)
    assert (RESOURCE, GATEWAY) in found
    assert typed(FAVOURITE)[1] == (MEMORY, USERS + "\u6700\u559c\u6b22\u7684\u5496\u5561")
    assert typed(LATE_FEE)[1] == (RESOURCE, LATE_FEE)


def test_chinese_parts() -> None:
    texts = [text for kind, text in typed(EXPORT_IMPORT) if kind is SKILL]
    assert texts == ["\u5bfc\u51fa\u8054\u7cfb\u4eba", "\u5bfc\u5165\u5230CRM\u7cfb\u7edf"]


ENGLISH = "it that this one the a my rotate deploy keys and then , ; . ? ! what how do I you thanks hello 'x' \"q r\" `c d` E-42"
CHINESE = "\u5b83 \u628a \u90e8\u7f72 \u4ec0\u4e48 \u6211\u7684 \uff0c \u7136\u540e \u3002 \u2019s \U0001f600"
WORDS = st.lists(st.sampled_from(f"{ENGLISH} {CHINESE}".split()), max_size=14).map(" ".join)


@given(
    WORDS | st.text(max_size=60), st.lists(WORDS, max_size=3), st.sampled_from([None, *ContextType]), st.integers(1, 5)
)
@example("it", ["what is the Kestrel gateway"], SKILL, 1)
@example("'", [], None, 5)
def test_any_text_is_planned(task: str, said: list[str], kind: ContextType | None, most: int) -> None:
    turns = tuple(Turn("user", text) for text in said)
    result = plan_by_rules(PlanRequest(task, turns, type=kind, max_queries=most))
    queries = result.plan.queries
    assert result.status in {PlanStatus.PLANNED, PlanStatus.SKIPPED}
    assert (result.status is PlanStatus.SKIPPED) == (not queries)
    assert len(queries) <= most
    assert all(query.query.strip() for query in queries)
    if queries:
        assert task.strip() in [query.query for query in queries]


def test_a_very_long_task_is_planned_quickly() -> None:
    for task in (
        "fix it and " * 700,
        "a" * 8000,
        "\u628a\u5b83" * 1300,
        '"' * 8000,
        "thanks for " * 700,
        "what " * 1600,
    ):
        assert plan_by_rules(PlanRequest(task, (Turn("user", task),) * 5)).plan is not None
