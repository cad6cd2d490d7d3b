"""A logging handler that formats and writes from a thread of its own.

Whoever logs puts a record into a queue and goes on: neither a slow terminal nor a full pipe holds up a call. When
nobody takes the lines any more, records beyond `MAX_WAITING` are counted and dropped.
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
from typing import Final, TextIO

MAX_WAITING: Final = 10_000
#: Lines of one write.
_MAX_LINES: Final = 256
#: After a write, so that the lines of many calls share the next one; the thread takes the interpreter from them.
_PAUSE_S: Final = 0.02
#: For what waits at the end; longer, and a pipe that nobody reads would hold up the end of the process.
_CLOSE_S: Final = 1.0

_pipelines: list[LogPipeline] = []


def take_dropped() -> int:
    """Return how many records of this process were dropped since the last time."""
    return sum(pipeline.take_dropped() for pipeline in _pipelines)


class LogPipeline(logging.Handler):
    """Takes records, and writes them until `close`."""

    def __init__(self, stream: TextIO, formatter: logging.Formatter) -> None:
        """Start the thread.

        Args:
            stream: where the lines go.
            formatter: makes them.
        """
        super().__init__()
        self.setFormatter(formatter)
        self._stream = stream
        self._waiting: queue.SimpleQueue[logging.LogRecord | None] = queue.SimpleQueue()
        self._n_dropped = 0
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        _pipelines.append(self)

    def createLock(self) -> None:  # noqa: N802 - the name is the library's
        """Make none: the queue has its own."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        """Let a record wait to be written."""
        if self._waiting.qsize() < MAX_WAITING:
            self._waiting.put(record)
        else:
            self._n_dropped += 1

    def take_dropped(self) -> int:
        """Return how many records were dropped since the last time."""
        n, self._n_dropped = self._n_dropped, 0
        return n

    def close(self) -> None:
        """Write what waits, and end; a second call does nothing."""
        if not self._is_closed.is_set():
            self._is_closed.set()
            self._waiting.put(None)
            self._thread.join(_CLOSE_S)
            atexit.unregister(self.close)
            _pipelines.remove(self)
        super().close()

    def _write(self) -> None:
        is_over = False
        while not is_over:
            records = [self._waiting.get()]
            while len(records) < _MAX_LINES and not self._waiting.empty():
                records.append(self._waiting.get())
            is_over = None in records
            lines = [self._line(record) for record in records if record is not None]
            try:
                self._stream.write("".join(lines))
                self._stream.flush()
            except (OSError, ValueError):  # the terminal is gone, or the stream closed
                self._n_dropped += len(lines)
            self._is_closed.wait(_PAUSE_S)

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return f"{self.format(record)}\n"
        except Exception as error:  # noqa: BLE001 - a record that cannot be formatted must not end the log
            return f"log_failed logger={record.name} error={type(error).__name__}\n"
