"""Turn what commands show into JSON: the fields of the domain by their names, enums by theirs, times as RFC 3339."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

_TIME_END = "_us"
_TIMES = {"create_us", "update_us", "expire_us", "start_us"}


def to_json(value: Any) -> Any:
    """Return a value of the domain as JSON values.

    Args:
        value: dataclasses, enums, mappings, sequences and plain values, nested as they like. A time (`update_us`)
            becomes `update_time`, null where it is 0.
    """
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
        return dict(_time(name, one) if name in _TIMES else (name, to_json(one)) for name, one in pairs)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):  # a named one has fields, too
        return {name: to_json(one) for name, one in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(key): to_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(one) for one in value]
    return value


def _time(name: str, time_us: int) -> tuple[str, str | None]:
    key = name.removesuffix(_TIME_END) + "_time"
    if not time_us:
        return key, None
    return key, datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
