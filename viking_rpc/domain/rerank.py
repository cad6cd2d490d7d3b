"""What is asked of a reranker, and what it answers: scores on a scale of its own, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.domain.context import Level
    from viking_rpc.domain.trace import AnswerWarning

#: What may be sent for one call when neither the request nor the profile says.
MAX_TEXTS = 64

PARTIAL = "RERANK_PARTIAL"
TIMEOUT = "RERANK_TIMEOUT"
ERROR = "RERANK_ERROR"
SKIPPED = "RERANK_SKIPPED"


@dataclass(frozen=True, slots=True)
class RerankText:
    """The text of one row; its level says how much of it a reranker gets. A blank one is never sent."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class RerankAnswer:
    """What a reranker made of some texts.

    Args:
        scores: float32[n_texts], higher is better, on the reranker's scale; NaN where there is none.
        n_calls: requests that were sent.
        n_sent: texts in them; blank ones, and those that a cache knew, are not.
        fault: why scores are missing; None when every text that is not blank has one.
    """

    scores: NDArray[np.float32]
    n_calls: int = 0
    n_sent: int = 0
    fault: AnswerWarning | None = None
