"""What people type for times and tags: `2h`, `2026-03-10`, RFC 3339, `key=value`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from viking_rpc.errors import InvalidArgumentError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_US: Final = 86_400_000_000
#: Years 1 to 9999, which is what protobuf's Timestamp holds.
_MIN_US: Final = -62_135_596_800_000_000
_MAX_US: Final = 253_402_300_800_000_000
_UNIT_US: Final = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": _DAY_US, "w": 7 * _DAY_US}

_AGO: Final = re.compile(r"([0-9]{1,18})([smhdw])")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]((?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)"
    r"([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-9]{2})?"
)


def parse_time(text: str, now_us: int, *, end: bool, field: str = "time") -> int:
    """Read a bound of a time range.

    Args:
        text: an age (`90s`, `30m`, `2h`, `7d`, `1w`), a UTC day (`2026-03-10`), or RFC 3339 where a missing offset
            means UTC.
        now_us: what ages count back from, microseconds since the epoch, UTC.
        end: whether it is the upper bound. Upper bounds are meant inclusively (a day includes all of it) and are
            returned as the first microsecond after.
        field: what the text is called in the violation.

    Returns:
        Microseconds since the epoch, UTC: the first one inside, or with `end` the first one behind the range.

    Raises:
        InvalidArgumentError: reason INVALID_TIME; it is none of these, or outside the years 1 to 9999.
    """
    value = text.strip()
    start_us, length_us = _read(value, now_us, field)
    result = start_us + length_us if end else start_us
    if not _MIN_US <= result < _MAX_US:
        raise _invalid(field, f"{value} is outside the years 1 to 9999")
    return result


def parse_time_range(
    since: str | None,
    until: str | None,
    now_us: int,
    *,
    since_field: str = "since",
    until_field: str = "until",
) -> tuple[int | None, int | None]:
    """Read both bounds of a time range; a blank one does not restrict.

    Returns:
        The first microsecond inside and the first one behind the range (a `Filter`'s `since` and `before`).

    Raises:
        InvalidArgumentError: reason INVALID_TIME; all that is wrong with both, or `since` lies after `until`.
    """
    bounds: list[int | None] = []
    violations: list[Violation] = []
    for text, end, field in ((since, False, since_field), (until, True, until_field)):
        try:
            is_set = text is not None and text.strip() != ""
            bounds.append(parse_time(text, now_us, end=end, field=field) if text is not None and is_set else None)
        except InvalidArgumentError as error:
            violations.extend(error.violations)
    if violations:
        raise InvalidArgumentError.of(violations)
    since_us, before_us = bounds
    if since_us is not None and before_us is not None and since_us >= before_us:
        raise _invalid(since_field, f"{since} is after {until_field} {until}")
    return since_us, before_us


def parse_expiry(text: str, now_us: int, field: str = "expires") -> int:
    """Read when something ends.

    Args:
        text: how long from now (`12h`, `90d`), a UTC day, which is included, or RFC 3339 where a missing offset means
            UTC.
        now_us: microseconds since the epoch, UTC.
        field: what the text is called in the violation.

    Returns:
        The first microsecond after the end.

    Raises:
        InvalidArgumentError: reason INVALID_TIME; it is none of these, or lies in the past, or after the year 9999.
    """
    value = text.strip()
    length = _AGO.fullmatch(value)
    if length:
        end_us = now_us + int(length[1]) * _UNIT_US[length[2]]
    else:
        start_us, length_us = _read(value, now_us, field)
        end_us = start_us + (length_us if length_us == _DAY_US else 0)
    if end_us <= now_us:
        raise _invalid(field, f"{value} is over already")
    if end_us >= _MAX_US:
        raise _invalid(field, f"{value} is after the year 9999")
    return end_us


def parse_tags(texts: Iterable[str], field: str = "tags") -> dict[str, str]:
    """Read `key=value` texts into tags, lower-cased; of equal keys the later wins.

    Raises:
        InvalidArgumentError: reason INVALID_TAG; one violation for each text that is not exactly `key=value`.
    """
    tags: dict[str, str] = {}
    violations: list[Violation] = []
    for i, text in enumerate(texts):
        key, separator, value = (part.strip().lower() for part in text.partition("="))
        if not key or not separator or not value or "=" in value or not _is_encodable(text):
            violations.append(Violation(f"{field}[{i}]", f"{text!a} is not key=value", "INVALID_TAG"))
        else:
            tags[key] = value
    if violations:
        raise InvalidArgumentError.of(violations)
    return tags


def _read(value: str, now_us: int, field: str) -> tuple[int, int]:
    """Return where the named time starts and how long it lasts."""
    ago = _AGO.fullmatch(value)
    if ago:
        return now_us - int(ago[1]) * _UNIT_US[ago[2]], 1
    instant = _INSTANT.fullmatch(value)
    try:
        if _DATE.fullmatch(value):
            return _to_us(datetime.fromisoformat(value).replace(tzinfo=UTC)), _DAY_US
        if instant:
            day, clock, offset = instant.groups()
            return _to_us(datetime.fromisoformat(f"{day}T{clock}{(offset or 'Z').upper()}")), 1
    except ValueError:  # 2026-02-30, 10:61
        pass
    raise _invalid(field, f"{value!a} is no time: use 90s, 30m, 2h, 7d, 1w, 2026-03-10 or 2026-03-10T10:00:00+08:00")


def _to_us(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _invalid(field: str, description: str) -> InvalidArgumentError:
    return InvalidArgumentError.of([Violation(field, description, "INVALID_TIME")])
