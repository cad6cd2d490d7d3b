"""Where each figure lies: a process has one header, and for each account that was searched one block, of 8-byte words.

Words are int64, durations in nanoseconds; scores are float64 in the same places.
"""

from __future__ import annotations

from typing import Final

import grpc

from viking_rpc.domain.context import ContextType
from viking_rpc.domain.trace import StopReason
from viking_rpc.pb.v1 import admin_service_pb2, context_service_pb2, retrieval_service_pb2
from viking_rpc.server.histogram import N_BUCKETS

WORD_BYTES: Final = 8
#: Files are mapped by parts, so all sizes are multiples of the largest page that systems have.
HEADER_WORDS: Final = 8192
BLOCK_WORDS: Final = 2048
BLOCKS_PER_SEGMENT: Final = 32

METHODS: Final = tuple(
    f"{service.name}/{method.name}"
    for file in (retrieval_service_pb2, context_service_pb2, admin_service_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
)
CODES: Final = tuple(code.name for code in grpc.StatusCode)
STAGES: Final = ("embed", "seed", "descent", "rerank", "hydrate")
#: Why a call was refused before any work; what is not named here is told as OTHER.
REFUSALS: Final = ("TOO_MANY_CALLS", "NOT_READY", "SHUTTING_DOWN", "OTHER")
TYPES: Final = (0, *sorted(int(kind) for kind in ContextType))
#: Of depths of the descent that are told apart; the last one stands for all that are deeper, too.
N_DEPTHS: Final = 16


class _Words:
    """Gives out places one after the other."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, n: int = 1) -> int:
        at, self.size = self.size, self.size + n
        return at


_header = _Words()
IN_FLIGHT: Final = _header.take()
REVISION_LAG: Final = _header.take()
KERNEL_CACHE_MISSES: Final = _header.take()
LOADED_ACCOUNTS: Final = _header.take()
DROPPED_LOG_LINES: Final = _header.take()
#: What belongs to the process that lives, not to its predecessors.
GAUGES: Final = (IN_FLIGHT, REVISION_LAG, LOADED_ACCOUNTS)
ROWS_SCORED: Final = _header.take()
#: By number of the reason; 0 is QUICK, which descends nowhere.
STOPS: Final = _header.take(max(StopReason) + 1)
REFUSED: Final = _header.take(len(REFUSALS))

#: A histogram: the sum, then the buckets.
HISTOGRAM_WORDS: Final = 1 + N_BUCKETS
STAGE: Final = _header.take(len(STAGES) * HISTOGRAM_WORDS)
#: By method: a histogram, then the calls by code.
METHOD_WORDS: Final = HISTOGRAM_WORDS + len(CODES)
METHOD: Final = _header.take(len(METHODS) * METHOD_WORDS)

_block = _Words()
DIGEST: Final = _block.take(2)
QUERIES: Final = _block.take()
RESULTS: Final = _block.take()
ZERO_RESULTS: Final = _block.take()
BY_TYPE: Final = _block.take(len(TYPES))
RERANK_ATTEMPTED: Final = _block.take()
RERANK_USED: Final = _block.take()
RERANK_FALLBACK: Final = _block.take()
RERANK_PARTIAL: Final = _block.take()
SCORE_SUM: Final = _block.take()
SCORE_MAX: Final = _block.take()
SCORE_MIN: Final = _block.take()
LATENCY_MAX: Final = _block.take()
LATENCY: Final = _block.take(HISTOGRAM_WORDS)
#: By depth: directories, then a histogram. Last, so that pages of depths that nobody reaches stay untouched.
DEPTH_WORDS: Final = 1 + HISTOGRAM_WORDS
DEPTH: Final = _block.take(N_DEPTHS * DEPTH_WORDS)

if _header.size > HEADER_WORDS or _block.size > BLOCK_WORDS:
    text = "the figures do not fit into their pages"
    raise RuntimeError(text)
