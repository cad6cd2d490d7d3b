"""Path variables against what `datetime` itself prints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import NOW_US
from viking_rpc.domain.variables import disarm_variables, expand_variables
from viking_rpc.errors import InvalidArgumentError

#: strftime is an independent way to the same texts; it knows no quarters.
FORMATS = {
    "today": "%Y/%m/%d",
    "year": "%Y",
    "month": "%m",
    "day": "%d",
    "ym": "%Y/%m",
    "week": "%V",
    "yw": "%G/w%V",
}


def us(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, 23, 59, 59, tzinfo=UTC).timestamp()) * 1_000_000


@pytest.mark.parametrize(
    ("now_us", "variable", "expected"),
    [
        (us(2026, 1, 1), "{calendar:today}", "2026/01/01"),
        (us(2026, 1, 1), "{calendar:yesterday}", "2025/12/31"),
        (us(2026, 2, 28), "{calendar:tomorrow}", "2026/03/01"),
        (us(2026, 1, 1), "{calendar:yq}", "2026/Q1"),
        (us(2026, 12, 31), "{calendar:quarter}", "Q4"),
        (us(2026, 1, 1), "{calendar:week}", "01"),
        (us(2025, 12, 29), "{calendar:yw}", "2026/w01"),
        (us(2027, 1, 1), "{calendar:yw}", "2026/w53"),
        (us(2026, 4, 5), "a{calendar:year}b{calendar:month}", "a2026b04"),
        (us(2026, 4, 5), "{calendar: today}", "{calendar: today}"),
        (us(2026, 4, 5), "{calendar:today", "{calendar:today"),
        (us(2026, 4, 5), "{:today} {calendar:} {a-b:c}", "{:today} {calendar:} {a-b:c}"),
    ],
)
def test_values(now_us: int, variable: str, expected: str) -> None:
    assert expand_variables(variable, now_us) == expected


@pytest.mark.parametrize("text", ["{calendar:nope}", "{foo:bar}", "{CALENDAR:today}", "{a{calendar:day}:b}"])
def test_unknown_variables(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="unknown path variable") as caught:
        expand_variables(text, 0)
    assert caught.value.reason == "INVALID_ARGUMENT"
    assert "{calendar:today}" in caught.value.message


@given(NOW_US, st.sampled_from(sorted(FORMATS)))
def test_values_are_those_of_strftime(now_us: int, key: str) -> None:
    now = datetime.fromtimestamp(now_us // 1_000_000, tz=UTC)
    assert expand_variables(f"{{calendar:{key}}}", now_us) == now.strftime(FORMATS[key])


@given(NOW_US)
def test_neighbours_and_quarters(now_us: int) -> None:
    now = datetime.fromtimestamp(now_us // 1_000_000, tz=UTC)
    for key, days in (("yesterday", -1), ("tomorrow", 1)):
        expected = (now + timedelta(days=days)).strftime("%Y/%m/%d")
        assert expand_variables(f"{{calendar:{key}}}", now_us) == expected
    quarter = "Q" + "111222333444"[now.month - 1]
    assert expand_variables("{calendar:quarter}", now_us) == quarter
    assert expand_variables("{calendar:yq}", now_us) == f"{now.year}/{quarter}"


@given(st.text(alphabet="{}:ab{calendar:today}", max_size=30))
@example("{{a:b}:c}")
@example("{a:{b:c}}")
def test_disarmed_names_mean_themselves(name: str) -> None:
    disarmed = disarm_variables(name)
    assert expand_variables(disarmed, 0) == disarmed
    assert len(disarmed) == len(name)
