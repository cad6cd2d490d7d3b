"""A set of contexts as subtrees minus subtrees: what a caller may see, and what a search looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viking_rpc.domain.uri import Uri


@dataclass(frozen=True, slots=True)
class SubtreePattern:
    """Every subtree whose top has these segments; `*` stands for exactly one segment of any name."""

    segments: tuple[str, ...]

    def covers(self, uri: Uri) -> bool:
        """Return whether the URI is the top of such a subtree or lies in one."""
        return len(uri.segments) >= len(self.segments) and self._agrees(uri)

    def reaches_below(self, uri: Uri) -> bool:
        """Return whether such a subtree may lie strictly below the URI."""
        return len(uri.segments) < len(self.segments) and self._agrees(uri)

    def _agrees(self, uri: Uri) -> bool:
        return all(ours in ("*", theirs) for ours, theirs in zip(self.segments, uri.segments, strict=False))


@dataclass(frozen=True, slots=True)
class SearchScope:
    """A set of contexts: the subtrees of `roots`, each without the excluded subtrees strictly below that root.

    An exclusion does not touch a root that lies inside it: `roots=(U, U/sessions/s1)`, `excluded=(U/sessions,)` is U
    without sessions and, all the same, session s1. To compile it into node ranges, take for each root its range and cut
    out the range of every node that matches a pattern and lies below the root; a `*` is all children of a node. No root
    holds another one, so the ranges that result are disjoint.
    """

    roots: tuple[Uri, ...]
    excluded: tuple[SubtreePattern, ...] = ()

    def contains(self, uri: Uri) -> bool:
        """Return whether the context of a URI belongs to the set."""
        return any(self._holds(root, uri) for root in self.roots)

    def contains_subtree(self, uri: Uri) -> bool:
        """Return whether the URI and whatever lies below it belong to the set."""
        return self.contains(uri) and not any(pattern.reaches_below(uri) for pattern in self.excluded)

    def leads_to(self, uri: Uri) -> bool:
        """Return whether the URI belongs to the set or is a directory above something that does."""
        return self.contains(uri) or any(root.is_under(uri) for root in self.roots)

    def _holds(self, root: Uri, uri: Uri) -> bool:
        return uri.is_under(root) and not any(p.reaches_below(root) and p.covers(uri) for p in self.excluded)
