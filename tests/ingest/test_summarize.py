"""Summaries: prose only, bounded, in every script, and a cut is stated."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viking_rpc.domain.tokens import cut_to_tokens, estimate_tokens
from viking_rpc.ingest.prose import find_sentences
from viking_rpc.ingest.summarize import (
    ABSTRACT_TOKENS,
    OVERVIEW_TOKENS,
    ExtractiveSummarizer,
    lead,
)

SUMMARIZER = ExtractiveSummarizer()


@pytest.mark.parametrize(
    ("text", "n_tokens"),
    [("", 0), ("abcd", 1), ("abcde", 2), ("\u4f60\u597d", 2), ("\u4f60\u597d abcdefg", 4), ("\ud55c\uae00", 2)],
)
def test_token_estimates(text: str, n_tokens: int) -> None:
    assert estimate_tokens(text) == n_tokens


@settings(deadline=None)
@given(st.text(alphabet="ab \u4f60.", max_size=300), st.integers(2, 40))
def test_a_cut_text_fits_and_is_marked(text: str, n_tokens: int) -> None:
    cut = cut_to_tokens(text, n_tokens)
    assert estimate_tokens(cut) <= n_tokens
    assert cut == text or (cut.endswith("...") and text.startswith(cut[:-3]))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("# Title\n\nOne is here. Two, e.g. this, costs 3.14! Three?", ["One is here.", "Two, e.g. this, costs 3.14!", "Three?"]),
        ("\u4f60\u597d\u3002\u4e16\u754c\uff01\u597d", ["\u4f60\u597d\u3002", "\u4e16\u754c\uff01", "\u597d"]),
        ("\u092f\u0939 \u0939\u0948\u0964 \u0935\u0939\u0964", ["\u092f\u0939 \u0939\u0948\u0964", "\u0935\u0939\u0964"]),
        ("Title\n=====\n\nA [link](http://x.y/z) and `code`, **bold** snake_case.\nSame line.", ["A link and code, bold snake_case.", "Same line."]),
        ("```\ncode. more.\n```\n\nText.\n\n| a | b |\n|---|---|\n\n- item one\n- item two", ["Text.", "item one", "item two"]),
        ("![badge](x)\n<!-- hidden. -->\n<p align=center>Shown.</p>\n\n> quoted.", ["Shown.", "quoted."]),
        ("Read `viking://<scope>/<path>` <b>now</b>.", ["Read viking://<scope>/<path> now."]),
        ("```\nnever closed.", []),
    ],
)  # fmt: skip
def test_sentences_are_prose_only(text: str, sentences: list[str]) -> None:
    assert list(find_sentences(text)) == sentences


def test_sentences_behind_the_first_piece_are_found() -> None:
    text = "\n\n".join(f"Sentence number {i} stands here." for i in range(80))
    assert list(find_sentences(text)) == [f"Sentence number {i} stands here." for i in range(80)]


def test_a_lead_is_short_and_never_empty() -> None:
    assert lead("One. Two. Three. Four.") == "One. Two. Three."
    assert lead("| a | b |\n| 1 | 2 |") == "| a | b | | 1 | 2 |"
    long = lead("word " * 500)
    assert long.endswith("...")
    assert 80 <= estimate_tokens(long) <= ABSTRACT_TOKENS
    assert estimate_tokens(lead("\u5b57" * 900)) <= ABSTRACT_TOKENS


def test_an_own_text_is_the_abstract() -> None:
    assert SUMMARIZER.abstract("Docs", ["# Docs\n\nAll about pumps. Nothing else."]) == "All about pumps. Nothing else."


def test_without_own_text_titles_and_the_most_central_sentence() -> None:
    children = [
        "Valves\nClosing valves protects pumps from pressure. Unrelated remark.",
        "Pumps\nPumps need pressure and valves.",
        "Lunch\nSoup today.",
    ]
    abstract = SUMMARIZER.abstract("Plant", children)
    assert abstract.startswith("Plant: Valves, Pumps, Lunch. ")
    assert "Closing valves protects pumps from pressure." in abstract
    assert "Soup" not in abstract


@pytest.mark.parametrize("n", [2, 60, 5_000])
def test_abstracts_are_bounded_and_say_what_they_leave_out(n: int) -> None:
    abstract = SUMMARIZER.abstract("T", [f"Title number {i}\nSome sentence about {i}." for i in range(n)])
    assert estimate_tokens(abstract) <= ABSTRACT_TOKENS + 5
    assert ("more" in abstract) == (n > 2)


@pytest.mark.parametrize("n", [1, 50, 400])
def test_overviews_are_bounded_and_state_the_cut(n: int) -> None:
    sections = [("", "Own abstract.")] + [(f"child-{i}.md", "words and more words " * 18) for i in range(n)]
    overview = SUMMARIZER.overview("Title", sections)
    lines = overview.split("\n")
    assert estimate_tokens(overview) <= OVERVIEW_TOKENS
    assert lines[:4] == ["# Title", "", "Own abstract.", ""]
    listed = [line for line in lines if line.startswith("- child-")]
    if n <= 50:
        assert len(listed) == n
    else:
        assert lines[-1] == f"- ... and {n - len(listed)} more"


def test_empty_directories_and_titles() -> None:
    assert SUMMARIZER.abstract("T", []) == ""
    assert SUMMARIZER.overview("", [("a", "")]) == "\n- a"
