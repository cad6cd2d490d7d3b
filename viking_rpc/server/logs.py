"""The log of a server: one line for each record, JSON or for people, rendered by structlog."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog

from viking_rpc.server import access_log
from viking_rpc.server.access_log import EVENT, CallRecord
from viking_rpc.server.log_pipeline import LogPipeline

if TYPE_CHECKING:
    from viking_rpc.config import LogSettings

#: What records of this project look like: the event, then `name=value` with one conversion each.
_FACTS: Final = re.compile(r"(\w+)((?: \w+=%[^\s%]*[a-zA-Z])+)")
_NAME: Final = re.compile(r" (\w+)=%")
#: What a line says itself; a fact of that name gets an underscore.
_OWN: Final = frozenset({"timestamp", "level", "event", "logger", "exc_info", "exception"})
#: Made once: the library's own shortcut makes one for each line.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


def set_up_logging(settings: LogSettings, stream: TextIO | None = None) -> LogPipeline:
    """Write the log of this process to standard error; called in every process of a server.

    Args:
        settings: the format, and from which level on.
        stream: instead of standard error.
    """
    to = stream or sys.stderr
    is_text = settings.format == "text" or (settings.format == "auto" and to.isatty())
    pipeline = LogPipeline(to, LineFormatter(is_text=is_text, has_colors=to.isatty()))
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if type(handler) in {logging.StreamHandler, LogPipeline}]:
        root.removeHandler(handler)
        handler.close()
    root.addHandler(pipeline)
    root.setLevel(logging.WARNING)
    logging.getLogger("viking_rpc").setLevel(settings.level.upper())
    # Nothing below is told, and finding it out takes as long as the rest of a record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    return pipeline


class LineFormatter(logging.Formatter):
    """Makes one line of a record, by structlog's renderers."""

    def __init__(self, *, is_text: bool, has_colors: bool = False) -> None:
        """Choose the renderer.

        Args:
            is_text: for people; else one JSON object.
            has_colors: whether a line for people may have colours.
        """
        super().__init__()
        if is_text:
            text = structlog.dev.ConsoleRenderer(
                colors=has_colors,
                pad_event_to=0,
                pad_level=False,
                sort_keys=False,
                # The renderer's own way to show errors shows local variables: texts of callers.
                exception_formatter=structlog.dev.plain_traceback,
            )
            self._processors: tuple[Any, ...] = (text,)
        else:
            as_json = structlog.processors.JSONRenderer(serializer=_to_json)
            self._processors = (structlog.processors.format_exc_info, as_json)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, or several where there is a traceback and it is for people."""
        event: Any = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            **_facts_of(record),
        }
        if record.name != access_log.logger.name:  # which says no more than the event does
            event["logger"] = record.name
        if record.exc_info:
            event["exc_info"] = record.exc_info
        for processor in self._processors:
            event = processor(None, event["level"], event)
        return str(event)


def _facts_of(record: logging.LogRecord) -> dict[str, object]:
    """Tell the event and its facts apart, where a record has them."""
    if isinstance(record, CallRecord):
        return {"event": EVENT, **{name: value for name, value in record.facts.items() if value != "-"}}
    args = record.args if isinstance(record.args, tuple) else ()
    found = _FACTS.fullmatch(record.msg) if isinstance(record.msg, str) and args else None
    if found is None or len(names := _NAME.findall(found[2])) != len(args):
        return {"event": record.getMessage()}
    named = ((f"{name}_" if name in _OWN else name, value) for name, value in zip(names, args, strict=True))
    return {"event": found[1], **{name: _plain(value) for name, value in named}}


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, int | float) else str(value)


def _to_json(event: dict[str, object], **_: object) -> str:
    return _ENCODER.encode(event)
