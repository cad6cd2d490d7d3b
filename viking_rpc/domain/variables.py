"""Path variables: `{calendar:today}` and its kin in a URI become the date that the server's clock shows (UTC)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from viking_rpc.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
#: What does not look exactly like this (a blank, another letter) stays in the path as it is.
_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*):([A-Za-z_][A-Za-z0-9_]*)\}")


def _path(day: date) -> str:
    return f"{day.year:04d}/{day.month:02d}/{day.day:02d}"


def _quarter(day: date) -> str:
    return f"Q{(day.month + 2) // 3}"


def _iso_year_week(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year:04d}/w{week:02d}"


_CALENDAR: Final[dict[str, Callable[[date], str]]] = {
    "today": _path,
    "yesterday": lambda day: _path(day - _DAY),
    "tomorrow": lambda day: _path(day + _DAY),
    "year": lambda day: f"{day.year:04d}",
    "month": lambda day: f"{day.month:02d}",
    "day": lambda day: f"{day.day:02d}",
    "ym": lambda day: f"{day.year:04d}/{day.month:02d}",
    "quarter": _quarter,
    "yq": lambda day: f"{day.year:04d}/{_quarter(day)}",
    "week": lambda day: f"{day.isocalendar().week:02d}",
    "yw": _iso_year_week,
}


def disarm_variables(name: str) -> str:
    """Return the name with the braces of path variables replaced by `_`, so that it means itself."""
    while _VARIABLE.search(name):
        name = _VARIABLE.sub(r"_\1:\2_", name)
    return name


def expand_variables(text: str, now_us: int) -> str:
    """Replace every path variable of a URI.

    Args:
        text: the URI before it is parsed.
        now_us: the server's time, microseconds since the epoch, UTC.

    Returns:
        The text without path variables.

    Raises:
        InvalidArgumentError: a variable is unknown, or is made up by the value of another one.
    """
    if "{" not in text:
        return text
    day = (_EPOCH + timedelta(microseconds=now_us)).date()

    def value(match: re.Match[str]) -> str:
        namespace, key = match.groups()
        if namespace != "calendar" or key not in _CALENDAR:
            raise _unknown(match.group())
        return _CALENDAR[key](day)

    expanded = _VARIABLE.sub(value, text)
    # "{a{calendar:year}:b}" would become a variable only now, and mean something else each time it is parsed.
    nested = _VARIABLE.search(expanded)
    if nested:
        raise _unknown(nested.group())
    return expanded


def _unknown(variable: str) -> InvalidArgumentError:
    known = ", ".join(f"{{calendar:{key}}}" for key in _CALENDAR)
    return InvalidArgumentError(
        reason="INVALID_ARGUMENT",
        message=f"unknown path variable {variable}; there are {known}",
        metadata={"variable": variable},
    )
