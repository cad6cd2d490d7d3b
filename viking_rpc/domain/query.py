"""A retrieval request: what is asked, where, under which conditions, and how the search runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from viking_rpc.domain.context import ContextType, Level


class Mode(IntEnum):
    """QUICK is one flat search, THINKING the descent; the numbers are those of the contract."""

    QUICK = 1
    THINKING = 2


class Profile(IntEnum):
    """A named set of option defaults; the numbers are those of the contract."""

    BALANCED = 1
    CLASSIC = 2
    EXHAUSTIVE = 3


class RerankMode(IntEnum):
    """Whether to rerank; the numbers are those of the contract."""

    OFF = 1
    PREFER = 2
    REQUIRE = 3


class RerankScope(IntEnum):
    """What a reranker gets to see; the numbers are those of the contract."""

    FINAL = 1
    EACH_LEVEL = 2


class TraceLevel(IntEnum):
    """How much of the descent the answer tells; each level includes the ones below."""

    NONE = 1
    STATS = 2
    STEPS = 3
    SCORES = 4


class View(IntEnum):
    """Which texts of a context an answer carries; each view includes the ones below."""

    BASIC = 1
    ABSTRACT = 2
    OVERVIEW = 3
    FULL = 4


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What is asked, in exactly one form: a text, a ready vector, or the URI of a stored context whose vector is used.

    `vector` is float32[dimensions], of any length but 0. `lexical_text` is scored by words beside a vector or a URI.
    """

    text: str = ""
    vector: NDArray[np.float32] | None = None
    like_uri: str = ""
    lexical_text: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a call may look; `target_uris` empty means the default roots, `types` empty all types."""

    target_uris: tuple[str, ...] = ()
    types: frozenset[ContextType] = frozenset()


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on nodes, all of which must hold; unset ones do not restrict.

    Times are microseconds, UTC: `since` is inclusive, `before` exclusive. `exclude_uris` leaves out whole subtrees.
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    levels: frozenset[Level] = frozenset()
    updated_since_us: int | None = None
    updated_before_us: int | None = None
    created_since_us: int | None = None
    created_before_us: int | None = None
    exclude_uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrieveOptions:
    """How to search; None means the profile's value.

    `rerank_mode` None is PREFER in THINKING and OFF in QUICK. `rerank_threshold` is on the reranker's scale.
    """

    profile: Profile = Profile.BALANCED
    score_threshold: float | None = None
    score_gte: bool = False
    score_propagation_alpha: float | None = None
    hotness_alpha: float | None = None
    lexical_weight: float | None = None
    global_top_k: int | None = None
    leaf_seeds: int | None = None
    parallelism: int | None = None
    convergence_rounds: int | None = None
    max_scored_rows: int | None = None
    time_budget_s: float | None = None
    rerank_mode: RerankMode | None = None
    rerank_scope: RerankScope = RerankScope.FINAL
    max_rerank_documents: int | None = None
    rerank_threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Grouping:
    """How many matches of one group are wanted: of an ancestor `depth` levels below the root, or of a parent (0)."""

    max_per_group: int
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Where an answer goes on: behind the last match that was told, of so many, in the state of a revision."""

    last_uri: str
    n_told: int
    revision: int


@dataclass(frozen=True, slots=True, eq=False)
class RetrieveRequest:
    """One Retrieve call in the domain's terms; `limit` is the effective one (1 to 1000).

    `page` is what the server has read in `page_token`.
    """

    query: Query
    scope: Scope = field(default_factory=Scope)
    filter: Filter = field(default_factory=Filter)
    limit: int = 10
    view: View = View.ABSTRACT
    mode: Mode = Mode.THINKING
    options: RetrieveOptions = field(default_factory=RetrieveOptions)
    trace_level: TraceLevel = TraceLevel.STATS
    min_revision: int = 0
    grouping: Grouping | None = None
    page_token: str = ""
    page: Page | None = None
