"""One record in the log for each call, when it ends: its facts by name, which whoever writes the log may format."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The event's name in a log of names and values.
EVENT: Final = "rpc"

logger = logging.getLogger(__name__)


class CallRecord(logging.LogRecord):
    """A record with the facts of a call; its message is them in one line, which is made only when somebody asks."""

    def __init__(self, facts: Mapping[str, object]) -> None:
        """Take the facts, in the order in which they are told; no text, URI, vector or key is among them."""
        super().__init__(logger.name, logging.INFO, __file__, 0, EVENT, None, None)
        self.facts = facts

    def getMessage(self) -> str:  # noqa: N802 - the name is the library's
        """Return the event and each fact as `name=value`."""
        return " ".join((EVENT, *(f"{name}={value}" for name, value in self.facts.items())))


def is_wanted() -> bool:
    """Return whether anybody reads the records of calls."""
    return logger.isEnabledFor(logging.INFO)


def write(facts: Mapping[str, object]) -> None:
    """Write the record of a call."""
    logger.handle(CallRecord(facts))
