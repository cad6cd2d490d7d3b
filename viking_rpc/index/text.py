"""Turn text into lexical terms, the same way for rows and for queries."""

from __future__ import annotations

import re
import sys
import threading
import unicodedata
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from operator import add
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import Stemmer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Scripts written without spaces (and Hangul, whose words carry endings): their runs become character bigrams.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e"  # Thai
    "\u0e81-\u0ece\u0edc-\u0edf"  # Lao
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d"  # Myanmar
    "\u1780-\u17d3\u17dd"  # Khmer
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3005-\u3007\u3021-\u3029\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Kana, Bopomofo, Han
)
# Joiners and hints inside a word that carry no meaning for search.
_INVISIBLE = re.compile("[\u00ad\u200c\u200d\u2060\ufeff]+")


def _marks() -> str:
    # Python's word class leaves combining marks out, yet they stand inside words (Hindi, Arabic).
    spans = ((0x300, 0x3000), (0xA000, 0xAC00), (0xFB00, 0x10000), (0x10A00, 0x12000))
    return "".join(chr(c) for lo, hi in spans for c in range(lo, hi) if unicodedata.category(chr(c)) in ("Mn", "Mc"))


_NUMBER = r"(?<!\d,)\d{1,3}(?:,\d{3})++(?:\.\d++)?(?!\w|,\d)"  # 1,234.5: the commas group digits
_ASCII = re.compile(rf"{_NUMBER}|\w++(?:[-.']\w++)*+", re.ASCII)
_WORD = rf"(?:[^\W{_UNSPACED}]++[{_marks()}]*+)++"
_ANY = re.compile(rf"{_NUMBER}|{_WORD}(?:[-.']{_WORD})*+|[{_UNSPACED}]++")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")

_PART = re.compile(r"[-.'_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_CONTRACTION = re.compile(r"'(?:s|t|d|m|re|ve|ll)$", re.IGNORECASE)
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+$")

# Last code point of a script -> its Snowball stemmer, in order; "" means none.
_STEMMERS = (
    (0x024F, "english"),
    (0x036F, ""),
    (0x03FF, "greek"),
    (0x052F, "russian"),
    (0x058F, "armenian"),
    (0x05FF, ""),
    (0x06FF, "arabic"),
    (0x08FF, ""),
    (0x097F, "hindi"),
    (0x0B7F, ""),
    (0x0BFF, "tamil"),
    (0x1DFF, ""),
    (0x1EFF, "english"),
    (0x1FFF, "greek"),
    (sys.maxunicode, ""),
)

#: Says by which rules texts become terms; a store that was filled by other rules must be filled again.
ANALYSIS_VERSION = "1"
_MAX_CACHED = 400_000  # entries a cache may hold before it starts afresh; results never depend on it
_MAX_CACHED_CHARS = 48  # longer surface forms are rare and large: analysed each time

Value = TypeVar("Value")
_local = threading.local()  # Snowball stemmers hold a buffer: one set a thread
_terms_of: dict[str, tuple[str, ...]] = {}
_hash_of: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class TermCounts:
    """The terms of one text, counted.

    Attributes:
        hashes: uint64[n], ascending and distinct.
        frequencies: float32[n], how often each term occurs (weighted, after `merge_counts`).
        n_terms: the sum of the frequencies, which is the text's length for BM25.
    """

    hashes: npt.NDArray[np.uint64]
    frequencies: npt.NDArray[np.float32]
    n_terms: float


def terms(text: str) -> list[str]:
    """Split a text into terms, in order of occurrence.

    Words are NFKC-normalised, lower-cased and stemmed by script; runs of unspaced scripts become overlapping character
    bigrams (one character alone stays itself); identifiers and joined words give the whole and then their parts.

    Args:
        text: any text.

    Returns:
        The terms; empty when the text holds no word.
    """
    found: list[str] = []
    for surface in _surfaces(text):
        found.extend(_analyse(surface))
    return found


def count_terms(text: str) -> TermCounts:
    """Count the terms of a text.

    Args:
        text: any text.

    Returns:
        The hashes of `terms(text)` with their frequencies.
    """
    counted: dict[int, int] = {}
    get = counted.get
    for surface, n in Counter(_surfaces(text)).items():
        for term in _analyse(surface):
            key = _hash_of.get(term) or term_hash(term)
            counted[key] = get(key, 0) + n
    hashes = np.fromiter(counted.keys(), np.uint64, len(counted))
    frequencies = np.fromiter(counted.values(), np.float32, len(counted))
    order = np.argsort(hashes)
    return TermCounts(hashes[order], frequencies[order], float(sum(counted.values())))


def merge_counts(parts: Sequence[tuple[TermCounts, float]]) -> TermCounts:
    """Add up the counts of several fields of one row.

    Args:
        parts: each field's counts with its weight, > 0.

    Returns:
        The weighted sum; its length is weighted alike.
    """
    if not parts:
        return count_terms("")
    hashes, where = np.unique(np.concatenate([counts.hashes for counts, _ in parts]), return_inverse=True)
    weighted = np.concatenate([counts.frequencies * np.float32(weight) for counts, weight in parts])
    frequencies = np.bincount(where, weighted, len(hashes)).astype(np.float32)
    return TermCounts(hashes, frequencies, sum(counts.n_terms * weight for counts, weight in parts))


def term_hash(term: str) -> int:
    """Hash a term to 64 bits, the same in every process and release.

    Args:
        term: one of `terms`.

    Returns:
        The first eight bytes of BLAKE2b of its UTF-8 form, little-endian.
    """
    value = _hash_of.get(term)
    if value is None:
        digest = blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        value = int.from_bytes(digest, "little")
        if len(term) <= _MAX_CACHED_CHARS:
            _remember(_hash_of, term, value)
    return value


def hash_terms(found: Iterable[str]) -> npt.NDArray[np.uint64]:
    """Hash many terms.

    Args:
        found: terms, repeats allowed.

    Returns:
        uint64[n], in the order given.
    """
    return np.array([term_hash(term) for term in found], dtype=np.uint64)


def _surfaces(text: str) -> list[str]:
    """Find the surface forms: joined words with their case, and whole runs of unspaced scripts."""
    if text.isascii():
        return _ASCII.findall(text)
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    return _ANY.findall(text.replace("\u2019", "'").replace("\u2010", "-"))


def _analyse(surface: str) -> Sequence[str]:
    cached = _terms_of.get(surface)
    if cached is not None:
        return cached
    if _IS_UNSPACED.match(surface):
        # Bigrams come from short-lived runs: caching the runs would fill the cache with sentences.
        return surface if len(surface) == 1 else list(map(add, surface, surface[1:]))
    found = tuple(_expand(surface))
    if len(surface) <= _MAX_CACHED_CHARS:
        _remember(_terms_of, surface, found)
    return found


def _expand(surface: str) -> Iterator[str]:
    """Give the terms of one joined word: itself, then its parts where it has any."""
    surface = _CONTRACTION.sub("", surface).strip("_")
    if not surface:
        return
    parts = [piece for part in _PART.split(surface) if part for piece in _CAMEL.split(part)]
    whole = _lower(surface)
    if "," in whole:
        yield whole.replace(",", "")
    elif len(parts) == 1:
        yield _stem(whole)
    elif _INITIALS.match(whole):  # U.S. is one word
        yield _stem(whole.replace(".", ""))
    elif whole.replace(".", "").isdigit():  # 3.14 and 1.2.0 mean nothing in parts
        yield whole
    else:
        yield whole if _PART.search(whole) else _stem(whole)
        for part in parts:
            yield _stem(_lower(part))


def _lower(word: str) -> str:
    return word.lower().replace("i\u0307", "i")  # the Turkish capital I with a dot leaves the dot behind


def _stem(word: str) -> str:
    last = max(word)
    if last <= "9":
        return word
    language = next(name for end, name in _STEMMERS if ord(last) <= end)
    if not language:
        return word
    stemmers: dict[str, Stemmer.Stemmer] = _local.__dict__
    if language not in stemmers:
        stemmers[language] = Stemmer.Stemmer(language, 0)
    # A stemmer may strip a word of nothing but suffixes to nothing.
    return str(stemmers[language].stemWord(word)) or word


def _remember(cache: dict[str, Value], key: str, value: Value) -> None:
    if len(cache) >= _MAX_CACHED:
        cache.clear()
    cache[key] = value
