"""Own scores, relevance and hotness of one row or node, by their definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.oracle.model import Context, Question, Row, Rules

FILE_LEVEL = 2
WEEK_US = 7 * 86_400 * 1_000_000


def dot(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """Multiply and add."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def term_sum(row: Row, question: Question) -> float:
    """Sum the question's term weights times the row's."""
    return sum(weight * row.terms.get(term, 0.0) for term, weight in question.terms.items())


def lexical(row: Row, question: Question) -> float:
    """Let the sum of terms saturate."""
    total = term_sum(row, question)
    return total / (total + question.saturation) if question.saturation > 0 else total


def own(row: Row, question: Question) -> float:
    """Mix the dense and the lexical score."""
    weight = question.lexical_weight if row.level == FILE_LEVEL else question.directory_weight
    return (1 - weight) * dot(row.vector, question.vector) + weight * lexical(row, question)


def best_own(context: Context, question: Question, levels: frozenset[int] = frozenset(range(3))) -> float | None:
    """Take the best own score of a context's rows of some levels; None without such rows."""
    return max((own(row, question) for row in context.rows if row.level in levels), default=None)


def mix(own_score: float, parent: float | None, alpha: float) -> float:
    """Mix an own score with the parent's relevance."""
    return own_score if parent is None else alpha * own_score + (1 - alpha) * parent


def relevance_of_directory(context: Context, question: Question, parent: float | None, rules: Rules) -> float | None:
    """Return what a directory hands down: its relevance, or its parent's if it has no rows."""
    score = best_own(context, question)
    return parent if score is None else mix(score, parent, rules.alpha[context.type])


def passes(relevance: float, rules: Rules) -> bool:
    """Apply the threshold."""
    return relevance >= rules.threshold if rules.is_gte else relevance > rules.threshold


def hotness(active_count: int, update_us: int, now_us: int) -> float:
    """Return sigmoid(ln(1 + n)) * 0.5 ** weeks; 0 for unknown times, a future time has age 0.

    sigmoid(ln(x)) = x / (1 + x), which has no rounding where x + 1 is a power of two.
    """
    if update_us == 0:
        return 0.0
    age = max(now_us - update_us, 0) / WEEK_US
    x = 1 + max(active_count, 0)
    return x / (1 + x) * 0.5**age
