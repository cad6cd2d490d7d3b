"""The planner that the settings name."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from viking_rpc.adapters.llm_planner import LlmPlanner
from viking_rpc.adapters.planners import make_planner
from viking_rpc.adapters.rules_planner import RulesPlanner
from viking_rpc.config import PlannerSettings
from viking_rpc.errors import FailedPreconditionError

CHAT = {"name": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "tiny"}


def test_rules_are_the_default_and_none_is_none() -> None:
    assert isinstance(make_planner(PlannerSettings()), RulesPlanner)
    assert make_planner(PlannerSettings(name="none")) is None


def test_a_chat_planner_takes_its_key_from_the_named_variable() -> None:
    planner = make_planner(PlannerSettings(**CHAT, api_key_env="PLAN_KEY"), {"PLAN_KEY": "k"})
    assert isinstance(planner, LlmPlanner)
    assert planner.name == "openai/tiny"
    planner.close()


def test_a_key_that_is_not_set_is_named() -> None:
    with pytest.raises(FailedPreconditionError, match=r"planner\.api_key_env names 'PLAN_KEY'") as caught:
        make_planner(PlannerSettings(**CHAT, api_key_env="PLAN_KEY"), {})
    assert caught.value.reason == "API_KEY_MISSING"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "openai"}, "needs base_url and model"),
        ({"name": "other"}, "'rules', 'openai' or 'none'"),
        ({"base_url": "ftp://x"}, "must be an http or https address"),
        ({"timeout_s": 0}, "greater than 0"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PlannerSettings(**settings)
