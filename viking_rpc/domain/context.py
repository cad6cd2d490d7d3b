"""A context: one node's record, and what a write of it carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray


class Kind(IntEnum):
    """Directory or file; the numbers are those of the contract."""

    DIRECTORY = 1
    FILE = 2


class ContextType(IntEnum):
    """What a context is used for; the numbers are those of the contract."""

    RESOURCE = 1
    MEMORY = 2
    SKILL = 3


class Level(IntEnum):
    """The three loading tiers: a directory has rows at L0 and L1, a file at L2."""

    ABSTRACT = 0
    OVERVIEW = 1
    DETAIL = 2

    @property
    def suffix(self) -> str:
        """Return what a display URI of this level ends with."""
        return _SUFFIXES[self]


_SUFFIXES = {Level.ABSTRACT: "/.abstract.md", Level.OVERVIEW: "/.overview.md", Level.DETAIL: ""}


@dataclass(frozen=True, slots=True)
class Relation:
    """A link from one context to another and why they are related."""

    uri: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """A stored context as it is read.

    Times are microseconds since the epoch, UTC; `expire_us` 0 means never. Texts that the reader did not ask for are
    empty. `etag` is opaque. `child_count` is the number of direct children that are not expired.
    """

    uri: str
    kind: Kind
    type: ContextType
    title: str = ""
    abstract: str = ""
    overview: str = ""
    content: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    create_us: int = 0
    update_us: int = 0
    expire_us: int = 0
    active_count: int = 0
    etag: str = ""
    child_count: int = 0
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One scored vector and term list of a context at a level.

    Args:
        level: the level whose text it stands for.
        vector: float32[dimensions], unit length, or all zero when the text has nothing to embed.
        terms: uint64[n_terms], sorted hashes of the distinct terms.
        term_counts: float32[n_terms], how often each occurs (fields may weigh more than 1).
    """

    level: Level
    vector: NDArray[np.float32]
    terms: NDArray[np.uint64]
    term_counts: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ContextWrite:
    """A context to create or replace, with its rows ready.

    `uri` is canonical. `type` None: by position (domain.uri). `create_us`/`update_us` None: the time of the write.
    `etag` not empty: must equal the stored one. A replaced context loses what the write leaves empty; its children
    stay. `rows` has one row per level that has a text; a directory without a text has none.
    """

    uri: str
    kind: Kind
    type: ContextType | None = None
    title: str = ""
    abstract: str = ""
    overview: str = ""
    content: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    create_us: int | None = None
    update_us: int | None = None
    expire_us: int = 0
    active_count: int | None = None
    etag: str = ""
    relations: tuple[Relation, ...] = ()
    rows: tuple[Row, ...] = ()
