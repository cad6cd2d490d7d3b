"""What a language model is told when it plans: an instruction chosen by the model's exact name, and the session."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from viking_rpc.domain.plan import PlanRequest

_DEFAULT: Final = "default"
_SMALL: Final = "small"

#: Models of a billion parameters or less follow examples, not rules. Names are compared whole: a model that is not
#: listed gets the default, and a longer name that begins alike is another model.
PROMPT_OF_MODEL: Final = {
    "gemma-3-270m-it": _SMALL,
    "gemma3:270m": _SMALL,
    "gemma-3-1b-it": _SMALL,
    "gemma3:1b": _SMALL,
    "qwen2.5:0.5b": _SMALL,
    "Qwen/Qwen2.5-0.5B-Instruct": _SMALL,
    "qwen3:0.6b": _SMALL,
    "Qwen/Qwen3-0.6B": _SMALL,
    "llama3.2:1b": _SMALL,
    "meta-llama/Llama-3.2-1B-Instruct": _SMALL,
}


def instruction_for(model: str, max_queries: int) -> str:
    """Return the instruction for a model."""
    # Not str.format: the text shows JSON.
    return _read(PROMPT_OF_MODEL.get(model, _DEFAULT)).replace("{max_queries}", str(max_queries))


def session_text(request: PlanRequest) -> str:
    """Return the task and what surrounds it, for the model to read; the task stands last."""
    parts = []
    if request.summary:
        parts.append(f"Summary of the older conversation:\n{request.summary}")
    if request.turns:
        said = "\n".join(f"[{turn.role}]: {turn.text}" for turn in request.turns)
        parts.append(f"Recent conversation, oldest first:\n{said}")
    if request.target_abstract:
        parts.append(f"The searches look in a directory with this abstract:\n{request.target_abstract}")
    if request.only_type is not None:
        parts.append(f"Every query must have the type {request.only_type.name}.")
    parts.append(f"Task: {request.task}")
    return "\n\n".join(parts)


@lru_cache(maxsize=8)
def _read(name: str) -> str:
    return (files("viking_rpc.adapters") / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()
