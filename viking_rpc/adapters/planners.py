"""Make the planner that the settings name; only its own packages are imported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from viking_rpc.adapters.keys import read_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from viking_rpc.config import PlannerSettings
    from viking_rpc.domain.ports import Planner


def make_planner(settings: PlannerSettings, environ: Mapping[str, str] | None = None) -> Planner | None:
    """Make a planner; None where there is to be none.

    Args:
        settings: the section `planner` of the configuration, validated.
        environ: where the key is looked up; None means the process's environment.

    Raises:
        FailedPreconditionError: API_KEY_MISSING, the key's variable is not set.
    """
    match settings.name:
        case "rules":
            from viking_rpc.adapters.rules_planner import RulesPlanner

            return RulesPlanner()
        case "openai":
            from viking_rpc.adapters.llm_planner import LlmPlanner, LlmPlannerOptions

            key = read_key("planner", settings.api_key_env, os.environ if environ is None else environ)
            options = LlmPlannerOptions(
                timeout_s=settings.timeout_s,
                max_tokens=settings.max_tokens,
                breaker_failures=settings.breaker_failures,
                breaker_reset_s=settings.breaker_reset_s,
            )
            return LlmPlanner(settings.base_url, settings.model, key, options)
        case "none":
            return None
