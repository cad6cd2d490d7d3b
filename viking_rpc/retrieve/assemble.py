"""Matches to one text for a prompt within a budget of tokens: first something of every match, then more of the best.

The steps, each in the order of the matches: an abstract of each; the names of what does not fit; the directories above
them, once; overviews, then texts, each match at most its share; then whatever is left, to the best first. What is cut
ends with a sentence or a line, and with a mark.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from viking_rpc.domain.assembly import AssembledContext, AssembledEntry, AssembleStats
from viking_rpc.domain.context import Level
from viking_rpc.domain.tokens import estimate_tokens
from viking_rpc.retrieve.frame import (
    CLOSE,
    OPEN,
    cut_to_sentence,
    directory_element,
    entry_element,
    more_element,
    safe_body,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from viking_rpc.domain.context import Context
    from viking_rpc.domain.trace import Match

#: The share of one match, as a multiple of an even division; and the least that a share is worth.
_SHARE: Final = 2
_MIN_SHARE: Final = 48
#: Of the budget, what the directories above matches may take, and the most that one of them tells.
_ANCESTORS_SHARE: Final = 0.25
_ANCESTOR_TOKENS: Final = 48
#: Of the budget, what the names of matches may take that are not shown.
_MORE_SHARE: Final = 0.1
#: A longer text takes a shown one's place only if it tells so much more.
_WORTH: Final = 1.25
_DEPTHS: Final = (Level.OVERVIEW, Level.DETAIL)


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """A match that is shown, with the text that it shows now."""

    match: Match
    level: Level
    body: str
    element: str
    n_tokens: int
    is_cut: bool


def assemble(
    matches: Sequence[Match], max_tokens: int, excluded: Collection[str] = (), limit: int | None = None
) -> AssembledContext:
    """Make one text of matches.

    Args:
        matches: best first, with all their texts.
        max_tokens: the most that the text may count, as estimated.
        excluded: URIs of contexts that the caller has shown before; what lies below them is not left out.
        limit: the most matches that count, excluded ones apart; None: all.

    Returns:
        The text, what it holds, and what it does not. The same matches and budget give the same text.
    """
    wanted = [match for match in matches if match.context.uri not in excluded]
    n_excluded = len(matches) - len(wanted)
    return _Assembly(max_tokens).run(wanted[:limit], n_excluded)


@dataclass(slots=True)
class _Assembly:
    """One text in the making."""

    max_tokens: int
    used: int = estimate_tokens(OPEN) + estimate_tokens(CLOSE)
    shown: list[_Shown] = field(default_factory=list)
    bodies: set[str] = field(default_factory=set)
    more: list[str] = field(default_factory=list)

    @property
    def room(self) -> int:
        return self.max_tokens - self.used

    def run(self, matches: Sequence[Match], n_excluded: int) -> AssembledContext:
        """Take all steps."""
        distinct, repeated = _distinct(matches)
        share = max(_MIN_SHARE, _SHARE * self.room // max(1, len(distinct)))
        for match in distinct:
            self._show_briefly(match, share)
        n_dropped = len(self.more)
        self.more += repeated
        more = self._name_more()
        above = self._name_ancestors()
        for allowed in (share, self.max_tokens):
            for level in _DEPTHS:
                for one in tuple(self.shown):
                    self._show_more(one, level, allowed)
        text = self._text(above, more)
        return AssembledContext(
            text=text,
            entries=tuple(_entry(one) for one in self.shown),
            more_uris=tuple(self.more),
            stats=AssembleStats(
                max_tokens=self.max_tokens,
                used_tokens=estimate_tokens(text),
                n_matched=len(matches),
                n_excluded=n_excluded,
                n_duplicates=len(repeated),
                n_dropped=n_dropped,
                n_by_level=tuple(sum(one.level is level for one in self.shown) for level in Level),  # type: ignore[arg-type]
            ),
        )

    def _show_briefly(self, match: Match, share: int) -> None:
        """Show the shortest text of a match that no other one shows, else remember its URI."""
        for level, text in _texts(match.context):
            one = self._fit(match, level, text, min(share, self.room))
            if one is not None:
                self.shown.append(one)
                self.bodies.add(_key(one.body))
                self.used += one.n_tokens
                return
        self.more.append(match.context.uri)

    def _fit(self, match: Match, level: Level, text: str, n_tokens: int) -> _Shown | None:
        """Return an element of at most so many tokens; None where nothing of the text fits, or where it is shown."""
        n_frame = estimate_tokens(entry_element(match.context, level, ".")) + 1
        body = cut_to_sentence(text, n_tokens - n_frame)
        if not body or _key(body) in self.bodies:
            return None
        element = entry_element(match.context, level, body)
        n = estimate_tokens(element)
        return _Shown(match, level, body, element, n, body != text) if n <= n_tokens else None

    def _show_more(self, one: _Shown, level: Level, allowed: int) -> None:
        """Show a longer text of a match, if it has one and there is room for a good part of it."""
        text = dict(_texts(one.match.context)).get(level, "")
        if level < one.level or (level is one.level and not one.is_cut) or not text:
            return
        longer = self._fit(one.match, level, text, min(allowed, one.n_tokens + self.room))
        if longer is None or (longer.is_cut and longer.n_tokens < _WORTH * one.n_tokens):
            return
        self.bodies.discard(_key(one.body))
        self.bodies.add(_key(longer.body))
        self.used += longer.n_tokens - one.n_tokens
        self.shown[self.shown.index(one)] = longer

    def _name_more(self) -> str:
        """Return the element that names what is not shown, as much as there is room for."""
        room = min(self.room, int(_MORE_SHARE * self.max_tokens))

        def size_of(n: int) -> int:
            return estimate_tokens(more_element(self.more[:n]))

        # the most names that fit; with each name the element only grows
        n = bisect_right(range(1, len(self.more) + 1), room, key=size_of)
        if not n:
            return ""
        element = more_element(self.more[:n])
        self.used += estimate_tokens(element)
        return element

    def _name_ancestors(self) -> dict[str, str]:
        """Return the elements of the directories above what is shown, by URI; those that are shown need none."""
        room = min(self.room, int(_ANCESTORS_SHARE * self.max_tokens))
        known = {one.match.context.uri for one in self.shown}
        found: dict[str, str] = {}
        for one in self.shown:
            for context in one.match.ancestors:
                if context.uri in known or not (context.abstract or context.title):
                    continue
                known.add(context.uri)
                element = directory_element(context, cut_to_sentence(safe_body(context.abstract), _ANCESTOR_TOKENS))
                n = estimate_tokens(element)
                if n <= room:
                    found[context.uri] = element
                    room -= n
                    self.used += n
        return found

    def _text(self, above: dict[str, str], more: str) -> str:
        """Return the whole text: each entry behind those directories above it that were not named before."""
        if not self.shown and not more:
            return ""
        parts = [OPEN]
        for one in self.shown:
            parts += (above.pop(context.uri) for context in one.match.ancestors if context.uri in above)
            parts.append(one.element)
        return "".join((*parts, more, CLOSE))


def _texts(context: Context) -> list[tuple[Level, str]]:
    """Return the texts that a context has, shortest kind first."""
    texts = ((Level.ABSTRACT, context.abstract), (Level.OVERVIEW, context.overview), (Level.DETAIL, context.content))
    return [(level, safe) for level, text in texts if (safe := safe_body(text)).strip()]


def _distinct(matches: Sequence[Match]) -> tuple[list[Match], list[str]]:
    """Part the matches from those whose longest text an earlier one has, too; return the URIs of these."""
    seen: set[str] = set()
    distinct, repeated = [], []
    for match in matches:
        texts = _texts(match.context)
        key = _key(texts[-1][1]) if texts else ""
        if key and key in seen:
            repeated.append(match.context.uri)
        else:
            seen.add(key)
            distinct.append(match)
    return distinct, repeated


def _key(text: str) -> str:
    return " ".join(text.split())


def _entry(one: _Shown) -> AssembledEntry:
    context = one.match.context
    return AssembledEntry(context.uri, context.type, one.level, one.n_tokens, one.is_cut, one.match.score)
