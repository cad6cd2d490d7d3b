"""Flat searches: look at everything, sort, cut."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.conditions import is_in_scope, is_visible, is_wanted, may_match
from tests.oracle.model import Conditions, Path, Question, World, uri_of
from tests.oracle.scores import best_own, own, term_sum

Ranking = list[tuple[float, Path]]


@dataclass(frozen=True, slots=True)
class Scan:
    """What a flat search finds and counts."""

    matches: Ranking
    directories: Ranking
    n_rows: int
    n_matched: int
    n_filtered: int


def ranked(entries: Ranking, k: int) -> Ranking:
    """Sort by score, ties by URI, and cut."""
    return sorted(entries, key=lambda entry: (-entry[0], uri_of(entry[1])))[:k]


def scan_nodes(world: World, question: Question, conditions: Conditions, k: int, k_directories: int) -> Scan:
    """Score every context in scope."""
    places = [
        path
        for path, context in world.items()
        if context.rows and is_visible(world, path, conditions) and is_in_scope(path, conditions)
    ]
    matches: Ranking = []
    directories: Ranking = []
    for path in places:
        context = world[path]
        if context.is_directory:
            directories.append((max(own(row, question) for row in context.rows), path))
        score = best_own(context, question, conditions.levels)
        if score is not None and is_wanted(context, conditions):
            matches.append((score, path))
    return Scan(
        ranked(matches, k),
        ranked(directories, k_directories),
        sum(len(world[path].rows) for path in places),
        len(matches),
        len(places) - len(matches),
    )


def scan_rows(world: World, question: Question, conditions: Conditions, k: int) -> list[tuple[float, Path, int]]:
    """Score every row that may match: (score, path, level), ties by URI, then level."""
    entries = [
        (own(row, question), path, row.level)
        for path, context in world.items()
        if may_match(world, path, conditions)
        for row in context.rows
        if row.level in conditions.levels
    ]
    return sorted(entries, key=lambda entry: (-entry[0], uri_of(entry[1]), entry[2]))[:k]


def search_terms(world: World, question: Question, conditions: Conditions, k: int) -> Ranking:
    """Find the best sums of terms among rows that have any of the terms, one entry per context."""
    entries: Ranking = []
    for path, context in world.items():
        scores = [
            term_sum(row, question)
            for row in context.rows
            if row.level in conditions.levels and row.terms.keys() & question.terms.keys()
        ]
        if scores and may_match(world, path, conditions):
            entries.append((max(scores), path))
    return ranked(entries, k)
