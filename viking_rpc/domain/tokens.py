"""An estimate of how many tokens a language model counts in a text, without a tokenizer."""

from __future__ import annotations

import re

# Scripts whose characters are about one token each: Kana, Han, Hangul and what stands between them.
_WIDE = re.compile("[\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]+")
_CHARS_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for each CJK character, one for each four others.

    Args:
        text: any text.

    Returns:
        The estimate, 0 for an empty text.
    """
    n_wide = 0 if text.isascii() else sum(map(len, _WIDE.findall(text)))
    return n_wide + -(-(len(text) - n_wide) // _CHARS_PER_TOKEN)


def cut_to_tokens(text: str, n_tokens: int) -> str:
    """Cut a text to an estimated number of tokens, at a space where one is near, and mark the cut.

    Args:
        text: any text.
        n_tokens: the most that the result may count, its mark included; at least 2.

    Returns:
        The text itself when it fits, else its beginning with `...` at the end.
    """
    if estimate_tokens(text) <= n_tokens:
        return text
    lo, hi = 0, min(len(text), n_tokens * _CHARS_PER_TOKEN)
    while lo < hi:  # the longest beginning that fits; the estimate only grows with the length
        middle = (lo + hi + 1) // 2
        if estimate_tokens(text[:middle]) < n_tokens:
            lo = middle
        else:
            hi = middle - 1
    space = text.rfind(" ", lo // 2, lo + 1)
    return text[: space if space > 0 else lo].rstrip(" ,;:-") + "..."
