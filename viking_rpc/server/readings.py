"""What all processes of a server have counted, added up.

Every word is read whole, yet a call that is just being counted may be seen in one figure and not yet in the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viking_rpc.server import figure_layout as at
from viking_rpc.server.figures import RUN_FOLDER, SUFFIX, account_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from viking_rpc.server.figures import Figures

#: Blocks that are added up at once.
_AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class AccountReading:
    """Sums over the blocks of one account, or of all.

    Args:
        words: int64[BLOCK_WORDS], added up but for what follows, which is 0 in it.
        score_sum, score_max, score_min: of the final scores; meaningless while there are no results.
        latency_max_ns: the greatest.
    """

    words: NDArray[np.int64]
    score_sum: float
    score_max: float
    score_min: float
    latency_max_ns: int

    def histogram(self, place: int) -> NDArray[np.int64]:
        """Return the buckets of a histogram."""
        return self.words[place + 1 : place + at.HISTOGRAM_WORDS]


class Readings:
    """Reads the figures of a server of one process, or of all processes that serve a data directory."""

    def __init__(self, own: Figures | None, data: Path | None = None) -> None:
        """Remember where they are.

        Args:
            own: those of this process, if it counts anything.
            data: the data directory; None: no other process counts.
        """
        self._own = own
        self._folder = None if data is None else data / RUN_FOLDER

    def header(self) -> NDArray[np.int64]:
        """Return int64[HEADER_WORDS]: the sums, but of revisions the furthest behind."""
        headers = [words[: at.HEADER_WORDS] for words in self._files()]
        if self._own is not None and self._own.private_header is not None:
            headers.append(np.frombuffer(self._own.private_header, np.int64))
        if not headers:
            return np.zeros(at.HEADER_WORDS, np.int64)
        total: NDArray[np.int64] = np.sum(headers, axis=0, dtype=np.int64)
        total[at.REVISION_LAG] = max(int(words[at.REVISION_LAG]) for words in headers)
        return total

    def account(self, account: str | None) -> AccountReading:
        """Return the figures of an account; None: of all."""
        digest = None if account is None else np.frombuffer(account_digest(account), np.int64)
        total = np.zeros(at.BLOCK_WORDS, np.int64)
        score_sum, score_max, score_min, latency_max = 0.0, -np.inf, np.inf, 0
        for blocks in self._blocks():
            is_wanted = (blocks[:, : len(digest)] == digest).all(axis=1) if digest is not None else blocks[:, 0] != 0
            for i in _parts(np.flatnonzero(is_wanted)):
                found = np.array(blocks[i])
                total += found.sum(axis=0)
                scored = found[found[:, at.RESULTS] > 0].view(np.float64)
                score_sum += float(scored[:, at.SCORE_SUM].sum())
                score_max = float(scored[:, at.SCORE_MAX].max(initial=score_max))
                score_min = float(scored[:, at.SCORE_MIN].min(initial=score_min))
                latency_max = int(found[:, at.LATENCY_MAX].max(initial=latency_max))
        total[[at.DIGEST, at.DIGEST + 1, at.SCORE_SUM, at.SCORE_MAX, at.SCORE_MIN, at.LATENCY_MAX]] = 0
        return AccountReading(total, score_sum, score_max, score_min, latency_max)

    def _blocks(self) -> Iterator[NDArray[np.int64]]:
        """Yield int64[n, BLOCK_WORDS]."""
        for words in self._files():
            n_blocks = (len(words) - at.HEADER_WORDS) // at.BLOCK_WORDS
            yield words[at.HEADER_WORDS :][: n_blocks * at.BLOCK_WORDS].reshape(n_blocks, at.BLOCK_WORDS)
        for segment in self._own.private if self._own is not None else ():
            yield np.frombuffer(segment, np.int64).reshape(-1, at.BLOCK_WORDS)

    def _files(self) -> Iterator[NDArray[np.int64]]:
        """Yield the words of each process's file, those of this one among them."""
        for path in sorted(self._folder.glob(f"*{SUFFIX}")) if self._folder is not None else ():
            n_words = path.stat().st_size // at.WORD_BYTES
            if n_words >= at.HEADER_WORDS:
                yield np.memmap(path, np.int64, "r", shape=(n_words,))


def _parts(found: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for lo in range(0, len(found), _AT_ONCE):
        yield found[lo : lo + _AT_ONCE]
