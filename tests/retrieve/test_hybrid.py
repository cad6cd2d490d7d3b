"""Dense and lexical scores together: own scores by their definition, then the recursion of the oracle over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernels.trees import NOW_US
from tests.oracle import model
from tests.oracle.flat import scan_nodes
from tests.oracle.walk import exhaustive
from tests.retrieve.worlds import AXIS, OPERATOR, grow, lay_out, make_account, run, uri_text
from viking_rpc.domain.query import Mode, Query, RetrieveOptions, RetrieveRequest
from viking_rpc.domain.uri import Uri
from viking_rpc.retrieve.retriever import SearchSettings

if TYPE_CHECKING:
    from tests.retrieve.worlds import Answered
    from viking_rpc.index.snapshot import Snapshot

TEXT = "sloe ERR-4711 unknown plum"
SETTINGS = SearchSettings()


def own_scores(snapshot: Snapshot, answered: Answered, node: int) -> list[model.Row]:
    """Score a node's rows from the term lists of the snapshot, with plain numbers; the score is the one dimension."""
    question, rows = answered.retrieval._question, snapshot.rows
    weight_of = dict(zip(question.term.tolist(), question.weight.tolist(), strict=True))
    scored = []
    for row in range(int(snapshot.tree.row_lo[node]), int(snapshot.tree.row_hi[node])):
        terms = range(int(rows.term_lo[row]), int(rows.term_hi[row]))
        total = sum(weight_of.get(int(rows.term_id[i]), 0.0) * float(rows.term_weight[i]) for i in terms)
        lexical = total / (total + question.saturation)
        weight = question.lexical_weight if rows.level[row] == 2 else question.directory_weight
        own = (1 - weight) * float(rows.vectors[row, 0]) + weight * lexical
        scored.append(model.Row(int(rows.level[row]), (own,)))
    return scored


@pytest.mark.parametrize("seed", range(30))
def test_hybrid_answers_equal_the_oracle(seed: int) -> None:
    world = {path: context for path, context in make_account(seed, 30).items() if "sessions" not in path}
    snapshot = grow(seed, world, has_words=True) if seed % 2 else lay_out(world, has_words=True)
    weight = (0.25, 0.5, 0.75, 1.0, None)[seed % 5]
    alpha = (0.55, 0.0, 1.0)[seed % 3]
    options = RetrieveOptions(lexical_weight=weight, score_propagation_alpha=alpha, convergence_rounds=0)
    query = Query(text="" if seed % 4 else TEXT, vector=None if seed % 4 == 0 else AXIS, lexical_text=TEXT)
    for mode in Mode:
        request = RetrieveRequest(query, mode=mode, limit=400, options=options)
        answered = run_with_axis(snapshot, request)
        scored = {
            path: model.Context(
                context.is_directory,
                tuple(own_scores(snapshot, answered, snapshot.find(Uri(path))) if path else ()),
                context.type,
                expire_us=context.expire_us,
            )
            for path, context in world.items()
        }
        conditions = model.Conditions(now_us=NOW_US, is_open=True)
        question = model.Question((1.0,))
        if mode is Mode.QUICK:
            expected = scan_nodes(scored, question, conditions, 400, 0).matches
        else:
            rules = model.Rules(alpha=(alpha,) * 4)
            expected = exhaustive(scored, question, conditions, rules, [()]).top(400)
        assert [score for score, _ in answered.ranking] == pytest.approx([s for s, _ in expected], abs=2e-6)
        score_of = {uri_text(path): score for score, path in expected}
        assert {uri: score for score, uri in answered.ranking} == pytest.approx(score_of, abs=2e-6)


def run_with_axis(snapshot: Snapshot, request: RetrieveRequest) -> Answered:
    """Run a request whose text is embedded as the axis."""
    return run(snapshot, request, OPERATOR, settings=SETTINGS, vector=AXIS)
