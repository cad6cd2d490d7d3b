"""Recall, nDCG and reciprocal rank of one ranking, by their usual definitions (those of TREC's trec_eval).

They are a dozen lines without state, so a package for them (ranx, pytrec_eval) would weigh more than it carries; the
tests hold them against cases computed by hand.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def recall_at(k: int, ranking: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return which share of all relevant entries is among the first k.

    Args:
        k: at least 1.
        ranking: best first, without repeats.
        grades: what is judged; above 0 is relevant. At least one must be.
    """
    n_found = sum(grades.get(uri, 0) > 0 for uri in ranking[:k])
    return n_found / sum(grade > 0 for grade in grades.values())


def ndcg_at(k: int, ranking: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return the discounted gain of the first k over the greatest possible one; an entry's gain is its grade.

    Args:
        k, ranking, grades: as for `recall_at`.
    """
    ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
    return _discounted([max(0, grades.get(uri, 0)) for uri in ranking[:k]]) / _discounted(ideal[:k])


def reciprocal_rank_at(k: int, ranking: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return 1 over the rank of the first relevant entry; 0 when there is none among the first k.

    Args:
        k, ranking, grades: as for `recall_at`.
    """
    ranks = (rank for rank, uri in enumerate(ranking[:k], 1) if grades.get(uri, 0) > 0)
    return 1 / next(ranks, float("inf"))


def _discounted(gains: Sequence[int]) -> float:
    """Sum gains, each divided by log2(rank + 1)."""
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))
