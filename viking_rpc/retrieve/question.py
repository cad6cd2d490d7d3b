"""Turns a query's vector and words into what kernels score against."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from viking_kernels.arrays import Question, frozen
from viking_rpc.errors import FailedPreconditionError
from viking_rpc.index.bfloat16 import decode
from viking_rpc.index.text import hash_terms, terms
from viking_rpc.retrieve.resolve import row_like

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from viking_rpc.domain.identity import Identity
    from viking_rpc.domain.query import Query
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.profiles import Parameters

#: A vector whose length is so near to 1 is left as it is.
_UNIT_TOLERANCE = 1e-6
_NO_TERMS = frozen(np.empty(0, np.int32))
_NO_WEIGHTS = frozen(np.empty(0, np.float32))

#: How many times the rarity of a word of one file only, squared rarities of matched terms must add up to for a lexical
#: score of one half. See docs/scores.md for how it was fitted.
SATURATION = 7.0


def ask(
    snapshot: Snapshot,
    query: Query,
    vector: NDArray[np.float32] | None,
    parameters: Parameters,
    identity: Identity,
    now_us: int,
) -> tuple[Question, int]:
    """Build the question of a query, whichever form it has.

    Args:
        snapshot, vector: as for `make_question`.
        query: a stored context's vector is read where it names one.
        parameters: the weights.
        identity, now_us: who asks, and when.

    Returns:
        The question, and the node that the query names, -1 for none.

    Raises:
        NotFoundError: the `like_uri` does not exist.
        FailedPreconditionError: DIMENSION_MISMATCH.
    """
    node = -1
    if query.like_uri:
        row = row_like(snapshot, query.like_uri, identity, now_us)
        vector, node = snapshot.rows.vectors[row], int(snapshot.rows.node[row])
    question = make_question(
        snapshot,
        vector,
        query.text or query.lexical_text,
        lexical_weight=parameters.lexical_weight,
        directory_lexical_weight=parameters.directory_lexical_weight,
    )
    return question, node


def make_question(
    snapshot: Snapshot,
    vector: NDArray[np.float32] | None,
    text: str,
    *,
    lexical_weight: float,
    directory_lexical_weight: float,
) -> Question:
    """Build a question for one snapshot.

    Args:
        snapshot: its vocabulary says which terms exist and how rare they are.
        vector: float32[dimensions], or a row as the snapshot holds it; None, or zero, when the text has nothing to
            embed.
        text: words to score lexically; empty: dense scores only, whatever the weights.
        lexical_weight, directory_lexical_weight: of lexical against dense, in [0, 1], for files and directories.

    Raises:
        FailedPreconditionError: DIMENSION_MISMATCH.
    """
    if vector is None:
        vector = np.zeros(snapshot.dimensions, np.float32)
    elif len(vector) != snapshot.dimensions:
        raise FailedPreconditionError(
            "DIMENSION_MISMATCH",
            f"the query vector has {len(vector)} dimensions, the store {snapshot.dimensions}",
            {"query_dimensions": str(len(vector)), "store_dimensions": str(snapshot.dimensions)},
        )
    else:
        vector = decode(vector)
        if vector.dtype != np.float32 or not vector.flags.aligned:  # one read out of a message may lie at any byte
            vector = np.require(vector, np.float32, "A")
        wide = vector.astype(np.float64)  # float32 does not hold the squares of all that it holds
        length = math.sqrt(float(wide @ wide))
        if length > 0 and abs(length - 1) > _UNIT_TOLERANCE:
            vector = (wide / length).astype(np.float32)
    words = sorted(set(terms(text))) if text and (lexical_weight or directory_lexical_weight) else []
    if not words:
        return Question(frozen(vector), _NO_TERMS, _NO_WEIGHTS, 0.0, 0.0, 0.0)
    ids = snapshot.vocabulary.ids_of(hash_terms(words))
    idf = snapshot.vocabulary.idf(ids)
    order = np.argsort(ids)
    order = order[ids[order] >= 0]
    return Question(
        vector=frozen(vector),
        term=frozen(ids[order]),
        weight=frozen(idf[order] ** 2),  # rarity counts on both sides, the question's and the row's
        lexical_weight=lexical_weight,
        directory_weight=directory_lexical_weight,
        saturation=SATURATION * snapshot.vocabulary.rarest,
    )
