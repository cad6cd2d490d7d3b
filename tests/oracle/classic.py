"""The published hierarchical retrieval in plain Python: what PROFILE_CLASSIC must answer.

The rules were inferred from recorded answers (tests/data/parity) and reproduce every one of them. Where a rule has a
number, comments in the code refer to it.

 R1  Scope. Only rows strictly below the target take part. A row's own score is its cosine with the query.
 R2  Threshold. `passes(x)` is `x > t`, or `x >= t` with score_gte; an unset threshold is t = 0 (so unset with
     score_gte means `>= 0`).
 R3  QUICK. Rows allowed by the level filter, best own score first, cut to max(limit, 10) ROWS; then the threshold;
     then one entry per URI, its best row; then cut to limit. No reranker, no hotness, nothing expanded. The rest is
     THINKING.
 R4  Global search. The best max(limit, 10) ROWS of levels 0 and 1 by own score. Neither the level filter nor the
     threshold applies.
 R5  Starting points. The directories of those rows, each with the score of its best row, whatever it is (negative and
     below the threshold too), and the target with score 0.0. The target's 0.0 competes in the heap (above negative
     starting points), but is no parent score (R9).
 R6  Starting points as candidates. Only if a level filter is set: its rows that the level filter allows and that pass
     the threshold enter the pool with their own score. Going down the rows, the LAST row of a URI wins (the worse of
     L0 and L1). Without a level filter none enters.
 R7  Heap. Highest score first, ties by URI ascending. Entries are never updated: a directory that is reached again is
     pushed again, so its highest score decides its turn and is its parent score. Visited directories are neither
     pushed nor opened again, and take no slot of a round.
 R8  Round. Up to 4 directories are popped first, then opened in that order: nothing that one of them pushes can enter
     the same round. Opening one takes the rows of its direct children, best own score first, cut to max(2*limit, 20)
     ROWS: both rows of a sub-directory count, rows outside the level filter count, rows of visited directories count.
 R9  Relevance of a child row = alpha*own + (1-alpha)*parent, or own if the parent score is exactly 0. A negative
     parent score is a parent score. The parent score is the popped entry's: the relevance with which it was pushed,
     or its starting score.
 R10 Rows whose relevance does not pass the threshold are dropped: neither candidates nor ways down. Other rows of
     levels 0 and 1 are pushed, allowed by the level filter or not.
 R11 Pool. One entry per URI; rows outside the level filter never enter. A row replaces the entry only if its
     relevance is strictly higher; the entry then shows the new row (its level and hotness) but keeps its place in
     insertion order. Rows of visited directories count as others.
 R12 Order of the pool: relevance descending, ties in insertion order. Rows of a directory arrive in own-score order,
     reranked or not.
 R13 Convergence, looked at after each round: the URIs of the first `limit` entries, as a set, equal those after the
     previous round and are `limit` many; the third such round in a row ends the walk.
 R14 Stagnation, looked at after convergence: the pool is as large as after the previous round; the third such round
     in a row ends the walk. The first round is never such a round, even if the pool has only what R6 put there.
 R15 Finish. The first `limit` entries of the pool; THEN score = (1 - hotness_alpha)*relevance +
     hotness_alpha*hotness; then sorted by score descending, ties as they were. The threshold is not applied again.
 R16 Hotness = sigmoid(ln(1 + active_count)) * 0.5^(age_days / 7); 0 without an update time; a future time has age 0.
 R17 Rerank. The reranker's answers replace own scores (nothing is mixed): one call for the rows of the global search
     (R4), one for the rows of each opened directory (R8, after the cut, before threshold and level filter), none if
     there are no rows. Cuts and row order stay by cosine.
 R18 Display. An entry that shows a row of level 0 or 1 gets `/.abstract.md` or `/.overview.md` appended.
"""

import gzip
import heapq
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PARALLELISM = 4
GLOBAL_TOP_K = 10
MIN_CHILD_ROWS = 20
CONVERGENCE_ROUNDS = 3
STAGNATION_ROUNDS = 3
HALF_LIFE_DAYS = 7.0
DISPLAY_SUFFIX = {0: "/.abstract.md", 1: "/.overview.md", 2: ""}
CASES = Path(__file__).parents[1] / "data" / "parity" / "classic.jsonl.gz"

Row = Mapping[str, Any]
Case = Mapping[str, Any]
Pool = dict[str, tuple[Row, float]]  # by URI, in insertion order: the row shown and its relevance


@dataclass(frozen=True, slots=True)
class Result:
    """What one case is answered: matches are (display URI, score), best first; expanded is in order of opening."""

    matches: list[tuple[str, float]]
    expanded: list[str]
    rerank_calls: int
    rerank_documents: int
    stop_reason: str


class RowScorer:
    """Scores rows by cosine or by the reranker's recorded answers, and counts the reranker's calls (R17)."""

    def __init__(self, answers: Mapping[str, float] | None) -> None:
        """Args: answers: score by text, or None for cosine."""
        self.answers = answers
        self.n_calls = 0
        self.n_documents = 0

    def score(self, rows: list[Row]) -> list[float]:
        """Score rows in one call. Returns: one score per row, in their order."""
        if self.answers is None or not rows:
            return [row["s"] for row in rows]
        self.n_calls += 1
        self.n_documents += len(rows)
        return [self.answers[row["uri"]] for row in rows]


def load_cases(path: Path = CASES) -> Iterator[Case]:
    """Read recorded cases. Returns: one mapping per line, as described in tests/data/parity/README.md."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def retrieve(case: Case, now: datetime | None = None) -> Result:
    """Answer one case.

    Args:
        case: a line of the recorded cases.
        now: the time that ages are counted from; unset means the present.

    Returns:
        The matches and the walk that found them; stop_reason is QUICK, EXHAUSTED, CONVERGED or STAGNANT.
    """
    now = now or datetime.now(UTC)
    rows = [row for row in case["records"] if row["uri"].startswith(case["target"] + "/")]  # R1
    if case["params"]["mode"] == "quick":
        return quick(case["params"], rows)
    return thinking(case, rows, now)


def quick(params: Mapping[str, Any], rows: list[Row]) -> Result:
    """Search flat (R3)."""
    passes, allows = threshold_of(params), level_filter_of(params)
    pool: Pool = {}
    for row in best_rows(filter(allows, rows), max(params["limit"], GLOBAL_TOP_K)):
        if passes(row["s"]):
            pool.setdefault(row["uri"], (row, row["s"]))
    matches = [(display_uri(row), score) for row, score in ranked(pool)[: params["limit"]]]
    return Result(matches, [], 0, 0, "QUICK")


def thinking(case: Case, rows: list[Row], now: datetime) -> Result:
    """Walk down from the starting points."""
    params = case["params"]
    limit, alpha = params["limit"], params["score_propagation_alpha"]
    passes, allows = threshold_of(params), level_filter_of(params)
    scorer = RowScorer(case["rerank"])
    rows_under: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        rows_under[row["uri"].rpartition("/")[0]].append(row)

    pool, start = starting_points(params, rows, scorer)
    start.setdefault(case["target"], 0.0)  # R5
    heap = [(-score, uri) for uri, score in start.items()]  # R7
    heapq.heapify(heap)
    visited: set[str] = set()
    expanded: list[str] = []
    last_top: set[str] | None = None
    last_size: int | None = None
    n_same_top = n_same_size = 0
    stop_reason = "EXHAUSTED"
    while opened := pop_round(heap, visited):
        for directory, parent_score in opened:  # R8
            expanded.append(directory)
            child_rows = best_rows(rows_under[directory], max(2 * limit, MIN_CHILD_ROWS))
            for row, own in zip(child_rows, scorer.score(child_rows), strict=True):
                uri = row["uri"]
                relevance = own if parent_score == 0.0 else alpha * own + (1.0 - alpha) * parent_score  # R9
                if not passes(relevance):  # R10
                    continue
                if allows(row) and (uri not in pool or relevance > pool[uri][1]):  # R11
                    pool[uri] = (row, relevance)  # a dict keeps a key's place when its value changes
                if row["level"] != 2 and uri not in visited:
                    heapq.heappush(heap, (-relevance, uri))
        top = {row["uri"] for row, _ in ranked(pool)[:limit]}
        n_same_top = n_same_top + 1 if top == last_top and len(top) == limit else 0  # R13
        n_same_size = n_same_size + 1 if len(pool) == last_size else 0  # R14
        last_top, last_size = top, len(pool)
        if n_same_top == CONVERGENCE_ROUNDS:
            stop_reason = "CONVERGED"
            break
        if n_same_size == STAGNATION_ROUNDS:
            stop_reason = "STAGNANT"
            break

    matches = finish(pool, limit, params["hotness_alpha"], now)
    return Result(matches, expanded, scorer.n_calls, scorer.n_documents, stop_reason)


def starting_points(params: Mapping[str, Any], rows: list[Row], scorer: RowScorer) -> tuple[Pool, dict[str, float]]:
    """Search globally. Returns: the first pool (R6) and the found directories' scores (R5), without the target."""
    passes, allows = threshold_of(params), level_filter_of(params)
    directory_rows = (row for row in rows if row["level"] != 2)
    global_rows = best_rows(directory_rows, max(params["limit"], GLOBAL_TOP_K))  # R4
    pool: Pool = {}
    start: dict[str, float] = {}
    for row, score in zip(global_rows, scorer.score(global_rows), strict=True):
        start.setdefault(row["uri"], score)  # rows come best first
        if params["level"] is not None and allows(row) and passes(score):
            pool[row["uri"]] = (row, score)  # the last row wins
    return pool, start


def pop_round(heap: list[tuple[float, str]], visited: set[str]) -> list[tuple[str, float]]:
    """Pop the next round's directories with their scores and mark them visited (R7, R8)."""
    opened: list[tuple[str, float]] = []
    while heap and len(opened) < PARALLELISM:
        negative_score, uri = heapq.heappop(heap)
        if uri not in visited:
            visited.add(uri)
            opened.append((uri, -negative_score))
    return opened


def finish(pool: Pool, limit: int, hotness_alpha: float, now: datetime) -> list[tuple[str, float]]:
    """Cut to limit, then mix hotness, then sort again (R15)."""
    scored = [
        (display_uri(row), (1.0 - hotness_alpha) * relevance + hotness_alpha * hotness(row, now))
        for row, relevance in ranked(pool)[:limit]
    ]
    return sorted(scored, key=lambda match: -match[1])


def ranked(pool: Pool) -> list[tuple[Row, float]]:
    """Order a pool: relevance descending, ties in insertion order (R12)."""
    return sorted(pool.values(), key=lambda entry: -entry[1])


def best_rows(rows: Iterable[Row], n: int) -> list[Row]:
    """Take the n rows of the best cosine, best first."""
    return sorted(rows, key=lambda row: -row["s"])[:n]


def threshold_of(params: Mapping[str, Any]) -> Callable[[float], bool]:
    """Make the threshold test (R2)."""
    threshold = params["score_threshold"] or 0.0
    return (lambda score: score >= threshold) if params["score_gte"] else (lambda score: score > threshold)


def level_filter_of(params: Mapping[str, Any]) -> Callable[[Row], bool]:
    """Make the test whether a row may be a candidate."""
    levels = params["level"]
    return lambda row: levels is None or row["level"] in levels


def hotness(row: Row, now: datetime) -> float:
    """Compute the hotness of a row's context (R16). Returns: a number in [0, 1]."""
    if not row.get("updated_at"):
        return 0.0
    age_days = max(0.0, (now - datetime.fromisoformat(row["updated_at"])).total_seconds() / 86_400)
    frequency = 1.0 / (1.0 + math.exp(-math.log1p(row.get("active_count") or 0)))
    return float(frequency * 0.5 ** (age_days / HALF_LIFE_DAYS))


def display_uri(row: Row) -> str:
    """Name the file that shows a row (R18)."""
    return str(row["uri"]) + DISPLAY_SUFFIX[row["level"]]
