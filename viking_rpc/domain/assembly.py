"""A text for a prompt: what is asked for, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.trace import EmptyReason

if TYPE_CHECKING:
    from viking_rpc.domain.context import ContextType, Level
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.domain.search import SearchRequest
    from viking_rpc.domain.trace import AnswerWarning

DEFAULT_TOKENS: Final = 2_000
MIN_TOKENS: Final = 64
MAX_TOKENS: Final = 200_000
MAX_EXCLUDED: Final = 500


@dataclass(frozen=True, slots=True)
class AssembleRequest:
    """What a prompt needs, and how much room it has; of `exclude_uris` what lies below them is not left out."""

    source: RetrieveRequest | SearchRequest
    max_tokens: int = DEFAULT_TOKENS
    exclude_uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AssembledEntry:
    """A context in the text: which of its texts is shown, and what it costs; a cut one ends with a mark."""

    uri: str
    type: ContextType
    level: Level
    n_tokens: int
    is_cut: bool
    score: float


@dataclass(frozen=True, slots=True)
class AssembleStats:
    """How a budget of tokens was spent; counts are of matches, `n_by_level` of entries by the text that they show."""

    max_tokens: int
    used_tokens: int
    n_matched: int = 0
    n_excluded: int = 0
    n_duplicates: int = 0
    n_dropped: int = 0
    n_by_level: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """A text for a prompt with what it holds; `more_uris` matched and are not shown."""

    text: str
    entries: tuple[AssembledEntry, ...]
    more_uris: tuple[str, ...]
    stats: AssembleStats
    revision: int = 0
    warnings: tuple[AnswerWarning, ...] = ()
    empty_reason: EmptyReason = EmptyReason.NONE
