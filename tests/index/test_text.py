"""The text analysis: what becomes a term, and that rows and queries agree on it."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from viking_rpc.index.text import count_terms, hash_terms, merge_counts, term_hash, terms

ANY_TEXT = st.text(alphabet=st.characters(), max_size=200)  # unpaired surrogates included


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t...---___", []),
        ("ERR-4711", ["err-4711", "err", "4711"]),
        ("snake_case", ["snake_case", "snake", "case"]),
        ("getHTTPResponse", ["gethttprespons", "get", "http", "respons"]),
        ("spec.template.metadata", ["spec.template.metadata", "spec", "templat", "metadata"]),
        ("__init__", ["init"]),
        ("APIs", ["api"]),
        ("the user's files don't", ["the", "user", "file", "don"]),
        ("3.14 costs 1,234.5", ["3.14", "cost", "1234.5"]),
        ("1,200,000, or 12,345.", ["1200000", "or", "12345"]),
        ("1,2,345", ["1", "2", "345"]),
        ("2023-10-05", ["2023-10-05", "2023", "10", "05"]),
        ("U.S. law", ["us", "law"]),
        ("Running, runs; RUN!", ["run", "run", "run"]),
    ],
)
def test_latin_words_and_identifiers(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u8c01\u53ef\u4ee5", ["\u8c01\u53ef", "\u53ef\u4ee5"]),  # Han: bigrams
        ("\u6211", ["\u6211"]),  # one character alone
        ("iPhone\u624b\u673a", ["iphon", "i", "phone", "\u624b\u673a"]),  # Latin beside Han, no space
        ("\u0e44\u0e17\u0e22", ["\u0e44\u0e17", "\u0e17\u0e22"]),  # Thai: bigrams
        ("\ud55c\uad6d\uc5b4", ["\ud55c\uad6d", "\uad6d\uc5b4"]),  # Hangul: bigrams
        ("\u043a\u043d\u0438\u0433\u0438", ["\u043a\u043d\u0438\u0433"]),  # Russian stem
        ("\u0915\u093f\u0924\u093e\u092c\u094b\u0902", ["\u0915\u093f\u0924\u093e\u092c"]),  # Hindi: marks stay inside
        ("\uff21\uff22\uff23\uff11 \ufb01le", ["abc1", "file"]),  # compatibility forms
        ("cafe\u0301", ["caf\u00e9"]),  # composed
        ("\u0130stanbul", ["istanbul"]),  # dotted capital I
        ("exam\u00adple user\u2019s", ["exampl", "user"]),  # soft hyphen, typographic apostrophe
    ],
)
def test_other_scripts(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("row", "query"),
    [
        ("see camelCase here", "camelcase"),
        ("see camelCase here", "camel case"),
        ("code ERR-4711 raised", "err-4711"),
        ("code ERR-4711 raised", "4711"),
        ("max_scored_rows", "MAX_SCORED_ROWS"),
        ("well-known ports", "known port"),
        ("revenue of 1,200,000", "1200000"),
        (
            "\u0431\u0438\u0431\u043b\u0438\u043e\u0442\u0435\u043a\u0430",
            "\u0431\u0438\u0431\u043b\u0438\u043e\u0442\u0435\u043a\u0438",
        ),
    ],
)
def test_a_query_meets_its_row(row: str, query: str) -> None:
    assert set(terms(query)) <= set(terms(row))


@given(ANY_TEXT)
@example("\ud800")
@example("a\u0301'\u0301-'")
def test_counts_are_those_of_the_terms(text: str) -> None:
    found = terms(text)
    counts = count_terms(text)
    hashes, n = np.unique(hash_terms(found), return_counts=True)
    np.testing.assert_array_equal(counts.hashes, hashes)
    np.testing.assert_array_equal(counts.frequencies, n)
    assert counts.hashes.dtype == np.uint64
    assert counts.frequencies.dtype == np.float32
    assert counts.n_terms == len(found)
    assert all(found)


@given(st.lists(st.text(alphabet="abcXYZ09_-.' \u6211\u4eec\u0e01", max_size=20), max_size=10))
def test_lines_are_independent(lines: list[str]) -> None:
    assert terms("\n".join(lines)) == [term for line in lines for term in terms(line)]


@given(st.text(alphabet=st.characters(max_codepoint=0x7F), max_size=200))
def test_ascii_text_means_the_same_beside_other_scripts(text: str) -> None:
    assert terms(f"{text}\n\u6211") == [*terms(text), "\u6211"]


def test_merged_fields_are_weighted() -> None:
    merged = merge_counts([(count_terms("alpha beta"), 2.0), (count_terms("beta beta gamma"), 1.0)])
    frequency = dict(zip(merged.hashes.tolist(), merged.frequencies.tolist(), strict=True))
    assert frequency == {term_hash("alpha"): 2.0, term_hash("beta"): 4.0, term_hash("gamma"): 1.0}
    assert merged.n_terms == 7.0
    assert list(merged.hashes) == sorted(merged.hashes)
    assert len(merge_counts([]).hashes) == 0


def test_hashes_do_not_depend_on_the_process() -> None:
    assert term_hash("viking") == 0xFD160832D7A3BB1F
    code = "from viking_rpc.index.text import term_hash; print(term_hash('caf\\u00e9'))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(other.stdout) == term_hash("caf\u00e9")
    assert hash_terms([]).dtype == np.uint64


def test_threads_agree() -> None:
    words = [f"{stem}{ending}{n}x" for n in range(200) for stem in ("connect", "relat") for ending in ("ion", "ed")]
    words += [f"\u043a\u043d\u0438\u0433{chr(0x430 + n % 32)}\u043c\u0438" for n in range(200)]
    text = " ".join(words)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(terms, [text] * 16))
    assert all(answer == answers[0] for answer in answers)


def test_a_very_long_word_is_kept_whole() -> None:
    word = "x" * 100_000
    assert terms(f"{word} end") == [word, "end"]
