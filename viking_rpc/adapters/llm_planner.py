"""Plan by any OpenAI-compatible `POST /v1/chat/completions` endpoint (OpenAI, vLLM, Ollama, llama.cpp, ...)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from viking_rpc.adapters.background import BackgroundLoop
from viking_rpc.adapters.breaker import CircuitBreaker
from viking_rpc.adapters.endpoint import Endpoint, bad_answer
from viking_rpc.adapters.plan_answers import read_plan
from viking_rpc.adapters.planner_prompts import instruction_for, session_text
from viking_rpc.domain.context import ContextType
from viking_rpc.domain.plan import FIRST_PRIORITY, LAST_PRIORITY, complete_plan, fall_back
from viking_rpc.errors import FailedPreconditionError, UnavailableError, VikingError

if TYPE_CHECKING:
    from viking_rpc.domain.plan import PlanRequest, PlanResult, QueryPlan

_STAGE: Final = "plan"
_SERVICE: Final = "PLANNER"
#: What servers answer that do not know `response_format`; another status says nothing about it.
_UNKNOWN_FIELD: Final = frozenset({"400", "404", "415", "422", "501"})
_PLAIN: Final = "\n\nAnswer with the JSON object only: no prose, no code fence."


@dataclass(frozen=True, slots=True)
class LlmPlannerOptions:
    """How to talk to the endpoint.

    Args:
        timeout_s: for one plan, its retry included.
        max_tokens: of the answer.
        breaker_failures, breaker_reset_s: after that many failures in a row, plans fall back at once for so long.
        backoff_s: pause before the retry, when the endpoint does not name one.
    """

    timeout_s: float = 5.0
    max_tokens: int = 800
    breaker_failures: int = 5
    breaker_reset_s: float = 1.0
    backoff_s: float = 0.1


class LlmPlanner:
    """A chat model behind HTTP; all callers share one connection pool, on a loop of its own.

    Args:
        base_url: up to and with `/v1`.
        model: the name that the endpoint knows; the prompt is chosen by it.
        key: sent as bearer token when not empty; never part of an error, a warning or a log line.
        options: see there.
    """

    def __init__(self, base_url: str, model: str, key: str = "", options: LlmPlannerOptions | None = None) -> None:
        """Make the planner; nothing is sent yet. Raises InvalidArgumentError for an address that is none."""
        self._options = options or LlmPlannerOptions()
        self._model = model
        self._breaker = CircuitBreaker(self._options.breaker_failures, self._options.breaker_reset_s)
        self._endpoint = Endpoint(base_url, "chat/completions", key, self._options.backoff_s, _SERVICE)
        self._loop = BackgroundLoop("plan-openai")
        self._has_schema = True

    @property
    def name(self) -> str:
        """Return `openai/` and the model's name."""
        return f"openai/{self._model}"

    async def plan(self, request: PlanRequest, timeout_s: float | None = None) -> PlanResult:
        """Plan within `timeout_s` and the options' own; a cancelled call stops its request. Never raises."""
        allowed_s = self._options.timeout_s if timeout_s is None else min(timeout_s, self._options.timeout_s)
        if allowed_s <= 0:
            return fall_back(request, "there was no time to ask the planner")
        try:
            plan = await asyncio.wrap_future(self._loop.submit(self._ask(request, allowed_s)))
        except TimeoutError:
            return fall_back(request, f"{self._endpoint.origin} gave no plan within {allowed_s:.3g} s")
        except VikingError as error:
            return fall_back(request, error.message)
        return complete_plan(request, plan)

    def close(self) -> None:
        """Close the connections; nothing can be planned after."""
        self._loop.submit(self._endpoint.close()).result()
        self._loop.close()

    async def _ask(self, request: PlanRequest, allowed_s: float) -> QueryPlan:
        """Return what the model proposes. Raises TimeoutError and what the endpoint raises."""
        wait_s = self._breaker.wait_s()
        if wait_s:
            message = f"{self._endpoint.origin} failed repeatedly and is left alone for {wait_s:.3g} s"
            raise UnavailableError("PLANNER_UNAVAILABLE", message, retry_after_s=wait_s)
        try:
            async with asyncio.timeout(allowed_s):
                answer = await self._post(request, allowed_s)
        except TimeoutError:
            # A caller with little time says little about the endpoint.
            is_fair = allowed_s >= min(1.0, self._options.timeout_s)
            (self._breaker.fail if is_fair else self._breaker.abandon)()
            raise
        except UnavailableError:
            self._breaker.fail()
            raise
        except VikingError:
            self._breaker.succeed()  # it answers; what it answers is for people to mend
            raise
        except BaseException:
            self._breaker.abandon()
            raise
        self._breaker.succeed()
        plan = read_plan(_content(answer))
        if plan is None:
            raise bad_answer(_STAGE, self._endpoint.origin, f"({self._model}) holds no plan", service=_SERVICE)
        return plan

    async def _post(self, request: PlanRequest, allowed_s: float) -> object:
        """Ask with a schema; once more without one where the server refuses it, and never again with it."""
        if self._has_schema:
            try:
                return await self._endpoint.post(self._body(request, has_schema=True), _STAGE, allowed_s)
            except FailedPreconditionError as error:
                if error.metadata.get("status") not in _UNKNOWN_FIELD:
                    raise
        answer = await self._endpoint.post(self._body(request, has_schema=False), _STAGE, allowed_s)
        self._has_schema = False  # it was the schema: the same request without it is taken
        return answer

    def _body(self, request: PlanRequest, *, has_schema: bool) -> dict[str, object]:
        instruction = instruction_for(self._model, request.max_queries)
        body: dict[str, object] = {
            "model": self._model,
            "messages": [
                {"role": "system", "content": instruction if has_schema else instruction + _PLAIN},
                {"role": "user", "content": session_text(request)},
            ],
            "temperature": 0,
            "max_tokens": self._options.max_tokens,
        }
        if has_schema:
            schema = {"name": "query_plan", "strict": True, "schema": _schema()}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body


def _schema() -> dict[str, object]:
    """Return the JSON schema of an answer; what servers cannot check (lengths, ranges) the reader does."""
    query = _object(
        query={"type": "string"},
        type={"type": "string", "enum": [kind.name for kind in ContextType]},
        intent={"type": "string"},
        priority={"type": "integer", "enum": list(range(FIRST_PRIORITY, LAST_PRIORITY + 1))},
    )
    return _object(
        reasoning={"type": "string"}, session_context={"type": "string"}, queries={"type": "array", "items": query}
    )


def _object(**properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _content(answer: Any) -> str:
    """Return the text of a chat answer, empty where there is none; some servers send it in parts."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""
