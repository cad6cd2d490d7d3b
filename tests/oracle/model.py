"""A tree, a question and the rules of a walk as plain Python values, which oracles read and arrays are built from."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

Path = tuple[str, ...]  # names from the root, which is ()


@dataclass(frozen=True, slots=True)
class Row:
    """One scored row: a level, a vector, and term weights by term."""

    level: int
    vector: tuple[float, ...]
    terms: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Context:
    """A node's record."""

    is_directory: bool
    rows: tuple[Row, ...] = ()
    type: int = 1
    create_us: int = 0
    update_us: int = 0
    expire_us: int = 0
    active_count: int = 0
    tags: frozenset[int] = frozenset()


World = dict[Path, Context]  # what is there; deleted contexts are not


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked."""

    vector: tuple[float, ...]
    terms: dict[int, float] = field(default_factory=dict)
    lexical_weight: float = 0.0
    directory_weight: float = 0.0
    saturation: float = 0.0


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a match must fulfil; place: the nearest listed node on the way up decides, none means no."""

    included: frozenset[Path] = frozenset({()})
    excluded: frozenset[Path] = frozenset()
    tags: frozenset[int] = frozenset()
    types: frozenset[int] = frozenset(range(4))
    levels: frozenset[int] = frozenset(range(3))
    updated: tuple[int, int] = (0, 2**62)
    created: tuple[int, int] = (0, 2**62)
    now_us: int = 2**60
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """How a walk goes; 0 switches a limit off."""

    alpha: tuple[float, float, float, float] = (0.5, 0.5, 0.5, 0.5)
    threshold: float = -inf
    is_gte: bool = False
    hotness_alpha: float = 0.0
    parallelism: int = 4
    convergence_rounds: int = 0
    max_rows: int = 0


def uri_of(path: Path) -> str:
    """Name a path; equal scores go by this text."""
    return "/".join(path)


def children_of(world: World, directory: Path) -> list[Path]:
    """List the direct children of a directory in name order."""
    return sorted(path for path in world if path and path[:-1] == directory)
