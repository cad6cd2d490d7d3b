"""The vocabulary of the rules planner, read from data files: words by what they do in a sentence, and patterns."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from viking_rpc.domain.context import ContextType


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """One language's words by group, and its patterns by name."""

    words: Mapping[str, frozenset[str]]
    sections: Mapping[str, Mapping[str, Any]]

    def group(self, *names: str) -> frozenset[str]:
        """Return the words of several groups."""
        return frozenset().union(*(self.words[name] for name in names))


@dataclass(frozen=True, slots=True)
class Sought:
    """One query that a part of a task asks for, in the style of its type."""

    type: ContextType
    query: str


@lru_cache(maxsize=4)
def vocabulary(language: str) -> Vocabulary:
    """Read the vocabulary of a language: `en` or `zh`."""
    text = (files("viking_rpc.adapters") / "data" / f"planner_{language}.toml").read_text(encoding="utf-8")
    sections = tomllib.loads(text)
    words = {name: frozenset(listed.split()) for name, listed in sections.pop("words").items()}
    return Vocabulary(words, sections)
