"""Say of an empty answer whether there was something to score that the request leaves out before it looks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from viking_rpc.domain.query import Filter
from viking_rpc.index.pools import make_pool
from viking_rpc.index.scopes import make_conditions
from viking_rpc.index.seeds import SeedParameters, find_seeds
from viking_rpc.retrieve.resolve import resolve_place

if TYPE_CHECKING:
    from viking_kernels.arrays import Question
    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.query import RetrieveRequest
    from viking_rpc.index.snapshot import Snapshot

_NO_ROOM = make_pool(0)
_EXACT = SeedParameters(max_exact_rows=0, n_candidates=0, n_directory_candidates=0, is_exact=True)


def is_left_out(
    snapshot: Snapshot,
    request: RetrieveRequest,
    identity: Identity,
    question: Question,
    now_us: int,
    *,
    is_narrow: bool,
) -> bool:
    """Return whether the scope holds something to score, all of it in excluded subtrees or far from what is wanted.

    Args:
        snapshot, request, identity, question, now_us: of the retrieval.
        is_narrow: whether it looked only near the few contexts of the types that are wanted.
    """
    if not (is_narrow or request.filter.exclude_uris):
        return False
    place, _ = resolve_place(snapshot, replace(request, filter=Filter()), identity, now_us)
    conditions = make_conditions(snapshot, place, Filter(), (), (), now_us)
    return find_seeds(snapshot, place, conditions, question, _EXACT, _NO_ROOM, _NO_ROOM).rows_scored > 0
