"""Joining titles, splitting texts and scaling vectors."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from viking_rpc.adapters.texts import scale_to_unit, split_text, with_titles


@given(st.text("ab \n\u4e2d", max_size=200), st.integers(1, 40))
def test_parts_are_the_whole_text_and_short_enough(text: str, max_chars: int) -> None:
    parts = list(split_text(text, max_chars))
    assert "".join(parts) == text
    assert all(len(part) <= max_chars for part in parts)


def test_parts_end_where_the_text_has_its_best_break() -> None:
    text = "one two three\n\nfour five\nsix seven eight nine ten"
    assert list(split_text(text, 24)) == ["one two three\n\n", "four five\nsix seven ", "eight nine ten"]


def test_titles_go_in_front_of_their_texts() -> None:
    assert with_titles(["a", "b"], ["T", ""]) == ["T\na", "b"]
    assert with_titles(["a"], None) == ["a"]


@given(st.lists(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=3, max_size=3), max_size=4))
def test_rows_get_unit_length_or_stay_zero(rows: list[list[float]]) -> None:
    vectors = scale_to_unit(np.asarray(rows, dtype=np.float32).reshape(-1, 3))
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    assert all(abs(n - 1) < 1e-5 or n == 0 or max(map(abs, row)) < 1e-30 for n, row in zip(norms, rows, strict=True))
