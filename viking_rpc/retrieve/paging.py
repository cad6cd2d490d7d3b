"""Choose the matches of an answer from what a search has found: few of each group, and those of the wanted page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from viking_rpc.domain.trace import AnswerWarning
from viking_rpc.domain.uri import Uri

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from viking_rpc.domain.query import Grouping, RetrieveRequest
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.answer import Found

T = TypeVar("T")

#: How many matches can be told, page by page; what a search keeps of its candidates grows with them.
MAX_TOLD: Final = 10_000
#: Candidates kept for each match that is wanted, where groups are cut; and the least number of them.
_SPARE: Final = 16
_MIN_GROUPED: Final = 256
_MAX_GROUPED: Final = 20_000

MOVED: Final = "PAGE_MOVED"
CUT: Final = "GROUPS_CUT"
LAST: Final = "PAGE_LIMIT"


class Chosen(NamedTuple):
    """The matches of a page; whether others follow; what was not as asked for."""

    found: list[Found]
    has_more: bool = False
    warnings: tuple[AnswerWarning, ...] = ()


def n_candidates(request: RetrieveRequest) -> int:
    """Return how many candidates a search must keep, so that those of the wanted page are among them."""
    # one page to spare: what was written since the page before may have pushed some back
    n = request.limit if request.page is None else request.page.n_told + 2 * request.limit
    return n if request.grouping is None else min(max(_SPARE * n, _MIN_GROUPED), _MAX_GROUPED)


def choose(
    request: RetrieveRequest, snapshot: Snapshot, roots: Sequence[str], found: list[Found], n_matched: int
) -> Chosen:
    """Choose what an answer tells.

    Args:
        request: its grouping, page and limit are used.
        snapshot: that was searched.
        roots: searched roots, canonical.
        found: candidates that were kept, best first.
        n_matched: how many there were, as far as is known.
    """
    grouping, page, limit = request.grouping, request.page, request.limit
    if grouping is None and page is None:
        return Chosen(found[:limit], n_matched > limit)
    n_kept = len(found)
    is_full = n_matched > n_kept
    warnings = []
    if grouping is not None:
        group_of = make_group_of(grouping, roots)
        found = thin(found, lambda one: group_of(snapshot.uri(one.node)), grouping.max_per_group)
    first = 0
    if page is not None:
        first = _first(found, snapshot, page.last_uri, page.n_told)
        if page.revision != snapshot.revision:
            text = f"the state has changed from revision {page.revision} to {snapshot.revision} since the page before"
            warnings.append(AnswerWarning(MOVED, text))
    chosen = found[first : first + limit]
    if grouping is not None and is_full and len(chosen) < limit:
        text = f"of {n_matched} candidates the best {n_kept} were looked at, and belong to fewer groups than wanted"
        warnings.append(AnswerWarning(CUT, text))
    n_told = len(chosen) + (page.n_told if page is not None else 0)
    has_more = len(found) > first + limit or (is_full and len(chosen) == limit)
    if has_more and n_told >= MAX_TOLD:
        has_more = False
        warnings.append(AnswerWarning(LAST, f"{MAX_TOLD} matches were told, and no more are"))
    return Chosen(chosen, has_more and bool(chosen), tuple(warnings))


def _first(found: Sequence[Found], snapshot: Snapshot, last_uri: str, n_told: int) -> int:
    """Return the place behind the last match that was told; where it is gone, behind as many."""
    last = snapshot.find(Uri.from_canonical(last_uri))
    return next((i for i, one in enumerate(found, 1) if one.node == last), n_told)


def thin(items: Iterable[T], group_of: Callable[[T], Hashable], max_per_group: int) -> list[T]:
    """Return the items without those of which so many of the same group come before."""
    n_of: Counter[Hashable] = Counter()
    kept = []
    for item in items:
        group = group_of(item)
        n_of[group] += 1
        if n_of[group] <= max_per_group:
            kept.append(item)
    return kept


def make_group_of(grouping: Grouping, roots: Sequence[str]) -> Callable[[str], str]:
    """Return what tells the group of a canonical URI below some roots.

    Args:
        grouping: how matches belong together.
        roots: canonical; of those above a URI the topmost counts.
    """
    segments_of_root = sorted((Uri.from_canonical(root).segments for root in roots), key=len)

    def group_of(uri: str) -> str:
        if not grouping.depth:
            return uri.rpartition("/")[0]
        segments = Uri.from_canonical(uri).segments
        n_root = next((len(root) for root in segments_of_root if segments[: len(root)] == root), 0)
        n = n_root + grouping.depth
        return "/".join(segments[:n]) if len(segments) >= n else uri

    return group_of
