"""What reranking endpoints answer, for the stub: by the number that a text ends with, tidily or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.adapters.stub import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.adapters.stub import Answer, Stub


def score_of(text: str) -> float:
    """Return the number that a text ends with, 0 where it ends with none."""
    try:
        return float(text.rsplit(maxsplit=1)[-1])
    except (ValueError, IndexError):
        return 0.0


def texts_of(body: dict[str, Any]) -> list[str]:
    """Return the texts of a request of either shape."""
    texts: list[str] = body["documents"] if "documents" in body else body["texts"]
    return texts


def results_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of a tidy answer, best first, cut to top_n as services do."""
    entries = [{"index": i, "relevance_score": score_of(text)} for i, text in enumerate(texts_of(body))]
    return sorted(entries, key=lambda entry: -entry["relevance_score"])[: body.get("top_n", 3)]


def as_json(value: object) -> Reply:
    """Answer with JSON; NaN and Infinity as Python writes them."""
    return Reply(body=json.dumps(value).encode())


def tidy(_: Stub, body: dict[str, Any]) -> Reply:
    """Answer as Cohere and Jina do."""
    return as_json({"results": results_of(body)})


def tei(_: Stub, body: dict[str, Any]) -> Reply:
    """Answer as TEI does."""
    return as_json([{"index": i, "score": score_of(text)} for i, text in enumerate(body["texts"])])


def changed(change: Callable[[list[dict[str, Any]]], object]) -> Answer:
    """Answer with what a function makes of the tidy entries."""
    return lambda _stub, body: as_json({"results": change(results_of(body))})
