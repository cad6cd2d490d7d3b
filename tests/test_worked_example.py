"""The worked example of docs/algorithm.md: its inputs are read out of its tables, its numbers are compared with ours."""

from __future__ import annotations

import ast
import asyncio
import math
import operator
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from viking_rpc.adapters.rules_planner import RulesPlanner
from viking_rpc.domain.context import ContextType, Kind, Level, Row
from viking_rpc.domain.identity import Identity
from viking_rpc.domain.plan import PlanRequest, PlanStatus
from viking_rpc.domain.query import Filter, RetrieveOptions, RetrieveRequest, TraceLevel
from viking_rpc.domain.rerank import RerankAnswer
from viking_rpc.domain.search import SearchRequest
from viking_rpc.domain.uri import SCHEME, Uri
from viking_rpc.index.layout import build_snapshot
from viking_rpc.index.lexicon import K1, B
from viking_rpc.index.records import NodeRecord
from viking_rpc.index.text import count_terms, hash_terms, terms
from viking_rpc.retrieve.explain import Explainer, exhaustive
from viking_rpc.retrieve.finish import nodes_of, read_pool
from viking_rpc.retrieve.profiles import PRESETS
from viking_rpc.retrieve.reranked import RerankedRetrieval
from viking_rpc.retrieve.retriever import Retrieval
from viking_rpc.retrieve.search import merge_results, requests_of
from viking_rpc.retrieve.workings import rank_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from viking_rpc.domain.explain import Explanation
    from viking_rpc.domain.plan import QueryPlan
    from viking_rpc.domain.search import SearchResult
    from viking_rpc.domain.trace import RetrieveResult
    from viking_rpc.index.snapshot import Snapshot
    from viking_rpc.retrieve.answer import Found
    from viking_rpc.retrieve.workings import Workings

Table = list[list[str]]

TEXT = (Path(__file__).parents[1] / "docs" / "algorithm.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("<!-- worked example -->")[2].partition("<!-- end of the worked example -->")[0]
_TABLE = re.compile(r"<!-- table: (\w+) -->\n+((?:\|.*\n)+)")
DAY_US = 86_400_000_000
NOW_US = 1_000 * DAY_US
ME = Identity(user="me")
NONE = "-"


def read_tables(text: str) -> dict[str, Table]:
    """Read the tables that have names: their cells, without the heading, code marks left out."""
    return {
        name: [
            [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
            for line in body.splitlines()[2:]
        ]
        for name, body in _TABLE.findall(text)
    }


GIVEN = read_tables(SECTION)


def number(value: float | None) -> str:
    """Write a score as the tables do."""
    return NONE if value is None or math.isnan(value) else f"{value:.4f}"


def short(uri: str) -> str:
    """Write a URI as the tables do."""
    return uri.removeprefix(SCHEME)


def vector_of(text: str) -> np.ndarray:
    """Read a vector."""
    return np.array(ast.literal_eval(text), np.float32)


def make_snapshot() -> Snapshot:
    """Build the tree of the first table."""
    records: list[NodeRecord] = []
    keys: dict[str, int] = {"": 0}
    for path, level, vector, words, active, days in GIVEN["tree"]:
        parent, _, name = path.rpartition("/")
        keys[path] = len(keys)
        counted = count_terms("" if words == NONE else words)
        rows: tuple[Row, ...] = ()
        if level != NONE:
            rows = (Row(Level(int(level[1])), vector_of(vector), counted.hashes, counted.frequencies),)
        records.append(
            NodeRecord(
                keys[path],
                keys[parent],
                name,
                Kind.FILE if level == "L2" else Kind.DIRECTORY,
                ContextType.SKILL if "skills" in path else ContextType.RESOURCE,
                update_us=0 if days == NONE else NOW_US - int(days) * DAY_US,
                active_count=0 if active == NONE else int(active),
                rows=rows,
            )
        )
    return build_snapshot(records, revision=1, dimensions=2)


@dataclass(frozen=True)
class Ran:
    """One query, run to its end."""

    request: RetrieveRequest
    seeds: tuple[list[int], list[int]]
    pool: list[Found]
    workings: Workings
    result: RetrieveResult


@dataclass(frozen=True)
class Example:
    """The whole example, run."""

    snapshot: Snapshot
    status: PlanStatus
    plan: QueryPlan
    request: SearchRequest
    ran: list[Ran]
    everything: RetrieveResult
    merged: SearchResult
    explained: Explanation


def run_query(snapshot: Snapshot, request: RetrieveRequest, vector: np.ndarray, said: dict[str, float]) -> Ran:
    """Run one query, reranked at the end; `said` is what the reranker says of contexts."""
    retrieval = RerankedRetrieval(snapshot, request, ME, vector=vector, now_us=NOW_US)
    found = retrieval._seeds
    seeds = (nodes_of(found.matches), nodes_of(found.directories))
    while not retrieval.advance():
        if retrieval.wanted is not None:
            uris = [short(snapshot.uri(int(snapshot.rows.node[row]))) for row in retrieval.wanted]
            retrieval.supply(RerankAnswer(np.array([said[uri] for uri in uris], np.float32), 1, len(uris)))
    assert retrieval._descent is not None
    pool = read_pool(retrieval._descent.pool)
    workings = retrieval.workings()
    return Ran(request, seeds, pool, workings, retrieval.result())


def run_plain(snapshot: Snapshot, request: RetrieveRequest, vector: np.ndarray) -> Retrieval:
    """Run a query that nothing reranks."""
    retrieval = Retrieval(snapshot, request, ME, vector=vector, now_us=NOW_US)
    while not retrieval.advance():
        pass
    return retrieval


@cache
def run_example() -> Example:
    """Plan, run both queries, merge, explain."""
    snapshot = make_snapshot()
    options = {name: ast.literal_eval(value) for name, value in GIVEN["options"]}
    task, n_queries, _ = GIVEN["task"][0]
    request = SearchRequest(
        planning=PlanRequest(task, max_queries=int(n_queries)),
        filter=Filter(levels=frozenset({Level.DETAIL})),
        limit=options.pop("limit"),
        options=RetrieveOptions(**options),
        trace_level=TraceLevel.SCORES,
    )
    assert request.planning is not None
    planned = asyncio.run(RulesPlanner().plan(request.planning))
    requests = requests_of(request, planned.plan, PRESETS)
    vectors = [vector_of(row[4]) for row in GIVEN["plan"]]
    said = [{row[1]: float(row[5]) for row in GIVEN["candidates"] if row[0] == str(i)} for i in (1, 2)]
    ran = [run_query(snapshot, *each) for each in zip(requests, vectors, said, strict=True)]
    merged = merge_results(request, planned.plan, [one.result for one in ran], snapshot.revision)
    uri = Uri.from_canonical(SCHEME + GIVEN["verdict"][0][0])
    first = ran[0]
    everything = run_plain(snapshot, exhaustive(first.request, snapshot), vectors[0])
    rank = rank_of(everything.workings(), snapshot.find(uri))
    explainer = Explainer(snapshot, first.request, ME, NOW_US, uri, first.workings, first.result)
    all_rows = replace(first.request, filter=Filter(), options=replace(first.request.options, score_threshold=None))
    scored = run_plain(snapshot, exhaustive(all_rows, snapshot), vectors[0]).result()
    return Example(snapshot, planned.status, planned.plan, request, ran, scored, merged, explainer.explain(rank))


# -- the tables


def _task(example: Example) -> Table:
    planning = example.request.planning
    assert planning is not None
    return [[planning.task, str(planning.max_queries), example.status.name]]


def _plan(example: Example) -> Table:
    return [
        [
            query.query,
            query.type.name if query.type is not None else "any",
            str(query.priority),
            f"{example.request.merge.weight_of(query.priority):g}",
            given[4],  # made up
            ", ".join(map(short, one.result.searched_roots)),
        ]
        for query, given, one in zip(example.plan.queries, GIVEN["plan"], example.ran, strict=True)
    ]


def _terms(example: Example) -> Table:
    vocabulary, question = example.snapshot.vocabulary, example.ran[0].workings.question
    rows = []
    for term in dict.fromkeys(terms(example.plan.queries[0].query)):
        (i,) = ids = vocabulary.ids_of(hash_terms([term]))
        n_files = int(vocabulary.n_rows_of_term[i]) if i >= 0 else 0
        asked = question.weight[question.term == i]
        assert asked.tolist() == ([pytest.approx(float(vocabulary.idf(ids)[0]) ** 2)] if i >= 0 else [])
        rows.append([term, str(n_files), number(float(vocabulary.idf(ids)[0])) if i >= 0 else NONE])
    return rows


def _constants(example: Example) -> Table:
    vocabulary = example.snapshot.vocabulary
    return [
        ["files", str(vocabulary.n_rows)],
        ["mean length", number(float(vocabulary.mean_length[Level.DETAIL]))],
        ["k1", f"{K1:g}"],
        ["b", f"{B:g}"],
        ["c", number(example.ran[0].workings.question.saturation)],
    ]


def _own(example: Example) -> Table:
    by_uri = sorted((short(match.context.uri), match.parts) for match in example.everything.matches)
    return [[uri, *map(number, (parts.dense, parts.lexical, parts.own))] for uri, parts in by_uri]


def _seeds(example: Example) -> Table:
    own = {uri: score for uri, *_, score in _own(example)}
    files, directories = (
        sorted((short(example.snapshot.uri(node)) for node in nodes), key=lambda uri: own[uri], reverse=True)
        for nodes in example.ran[0].seeds
    )
    return [
        *([uri, own[uri], uri.rpartition("/")[0]] for uri in files),
        *([uri, own[uri], uri] for uri in directories),
    ]


def _rounds(example: Example) -> Table:
    return [
        [str(step.round), short(step.uri), number(step.score), str(step.n_scored), str(step.n_kept)]
        for step in example.ran[0].result.steps
    ]


def _children(example: Example) -> Table:
    return [
        [str(step.round), short(child.uri), *map(number, (child.own, child.relevance)), ("no", "yes")[child.is_kept]]
        for step in example.ran[0].result.steps
        for child in step.child_scores
    ]


def _stop(example: Example) -> Table:
    return [
        [str(i), stats.stop_reason.name, str(stats.n_rounds), str(one.result.total_matched), str(stats.n_reranked)]
        for i, one in enumerate(example.ran, 1)
        if (stats := one.result.stats).stop_reason is not None
    ]


def _candidates(example: Example) -> Table:
    rows = []
    for i, one in enumerate(example.ran, 1):
        rank_of_uri = {match.context.uri: str(rank) for rank, match in enumerate(one.result.matches, 1)}
        said = one.workings.rerank_score_of_row
        for found in one.pool:
            uri = example.snapshot.uri(found.node)
            scores = map(number, (found.relevance, found.hotness, found.score))
            rows.append([str(i), short(uri), *scores, f"{said[found.row]:.1f}", rank_of_uri.get(uri, NONE)])
    return rows


def _merged(example: Example) -> Table:
    rows = []
    for one in example.merged.matches:
        uri = one.match.context.uri
        ranks = [r.uris.index(uri) + 1 if uri in r.uris else 0 for r in example.merged.query_results]
        assert one.query_indexes == tuple(i for i, rank in enumerate(ranks) if rank)
        rows.append([short(uri), *(str(rank) if rank else NONE for rank in ranks), number(one.match.score)])
    return rows


def _verdict(example: Example) -> Table:
    told = example.explained
    assert told.stop_reason is not None
    waited = (short(told.blocked_uri), number(told.blocked_score))
    return [[short(told.path[-1].uri), told.verdict.name, told.stop_reason.name, *waited, str(told.exhaustive_rank)]]


def _path(example: Example) -> Table:
    rows = []
    for step in example.explained.path:
        own, relevance = (step.parts.own, step.parts.relevance) if step.parts else (None, None)
        rank = f"{step.sibling_rank} of {step.sibling_count}" if step.parts else NONE
        opened = NONE if step.round is None else str(step.round)
        rows.append([short(step.uri), number(own), number(relevance), rank, opened])
    return rows


COMPUTED: dict[str, Callable[[Example], Table]] = {
    "task": _task,
    "plan": _plan,
    "terms": _terms,
    "constants": _constants,
    "own": _own,
    "seeds": _seeds,
    "rounds": _rounds,
    "children": _children,
    "stop": _stop,
    "candidates": _candidates,
    "merged": _merged,
    "verdict": _verdict,
    "path": _path,
}


@pytest.mark.parametrize("name", COMPUTED)
def test_tables_say_what_is_computed(name: str) -> None:
    assert GIVEN[name] == COMPUTED[name](run_example())


def test_no_table_is_left_unchecked() -> None:
    assert set(GIVEN) == {"tree", "options", "pencil", *COMPUTED}
    assert len(GIVEN) == len(re.findall(r"^\|--", SECTION, re.MULTILINE))


# -- the pencil

_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def calculate(text: str) -> float:
    """Calculate what somebody with a pencil would."""

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as constant):
                return constant
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=op, right=right):
                return _OPERATORS[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id="ln"), args=[argument]):
                return math.log(value(argument))
            case _:
                raise ValueError(ast.unparse(node))

    return value(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize("row", GIVEN["pencil"], ids=lambda row: row[0])
def test_the_pencil_comes_to_the_same(row: list[str]) -> None:
    """Each calculation gives its result, from numbers of four decimals; where the result is said again, it is the same."""
    what, calculation, result, name = row
    assert calculate(calculation) == pytest.approx(float(result), abs=1.01e-4)
    if name != NONE:
        of = what.rpartition(" of ")[2]
        assert result in {cell for cells in GIVEN[name] if of in cells for cell in cells}


def test_prose_names_no_number_of_its_own() -> None:
    prose = "\n".join(line for line in SECTION.splitlines() if not line.startswith("|"))
    told = set(re.findall(r"\d+\.\d+", prose))
    assert told <= {cell for table in GIVEN.values() for row in table for cell in row}


def test_with_the_defaults_nothing_is_left_out() -> None:
    """What the small numbers of the example cost: without them, what was not reached is found."""
    example = run_example()
    first = example.ran[0].request
    options = replace(first.options, leaf_seeds=None, global_top_k=None, parallelism=None, convergence_rounds=None)
    vector = vector_of(GIVEN["plan"][0][4])
    result = run_plain(example.snapshot, replace(first, limit=10, options=options), vector).result()
    uris = [match.context.uri for match in result.matches]
    assert example.explained.path[-1].uri in uris
