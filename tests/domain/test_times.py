"""Times and tags as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viking_rpc.domain.times import parse_expiry, parse_tags, parse_time, parse_time_range
from viking_rpc.errors import InvalidArgumentError


def us(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000)


NOW_US = us("2026-11-30T12:00:00+00:00")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", "2026-11-30T10:00:00+00:00"),
        ("90s", "2026-11-30T11:58:30+00:00"),
        ("5m", "2026-11-30T11:55:00+00:00"),
        ("7d", "2026-11-23T12:00:00+00:00"),
        ("1w", "2026-11-23T12:00:00+00:00"),
        ("0s", "2026-11-30T12:00:00+00:00"),
        ("2026-03-10", "2026-03-10T00:00:00+00:00"),
        (" 2026-03-10 ", "2026-03-10T00:00:00+00:00"),
        ("2026-03-10T10:00:00+08:00", "2026-03-10T02:00:00+00:00"),
        ("2026-03-10T10:00:00Z", "2026-03-10T10:00:00+00:00"),
        ("2026-03-10t10:00:00.25z", "2026-03-10T10:00:00.250000+00:00"),
        ("2026-03-10T10:00:00", "2026-03-10T10:00:00+00:00"),
        ("2026-03-10 10:00", "2026-03-10T10:00:00+00:00"),
    ],
)
def test_start_of_a_range(text: str, expected: str) -> None:
    assert parse_time(text, NOW_US, end=False) == us(expected)


def test_end_of_a_range_is_inclusive() -> None:
    assert parse_time("2026-03-10", NOW_US, end=True) == us("2026-03-11T00:00:00+00:00")
    assert parse_time("1d", NOW_US, end=True) == us("2026-11-29T12:00:00+00:00") + 1
    assert parse_time("2026-03-10T10:00:00Z", NOW_US, end=True) == us("2026-03-10T10:00:00+00:00") + 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "7D",
        "2 h",
        "1M",
        "-1d",
        "+1d",
        "1.5h",
        "h",
        "2hours",
        "yesterday",
        "999999w",
        "9" * 40 + "d",
        "20260310",
        "2026-3-1",
        "2026-02-30",
        "2026-W11-2",
        "2026-03-10T24:00",
        "2026-03-10T10:61",
        "2026-03-10T10",
        "2026-03-10T10:00:00+8",
        "0000-01-01",
        "0001-01-01T00:00:00+08:00",
        "9999-12-31T23:59:59-01:00",
        "\u0667d",
        "2026-03-1\u0660",
        "7d\ud800",
    ],
)
def test_no_times(text: str) -> None:
    for end in (False, True):
        with pytest.raises(InvalidArgumentError) as caught:
            parse_time(text, NOW_US, end=end, field="since")
        assert caught.value.reason == "INVALID_TIME"
        assert [v.field for v in caught.value.violations] == ["since"]


def test_ranges() -> None:
    day = parse_time_range("2026-03-10", "2026-03-10", NOW_US)
    assert day == (us("2026-03-10T00:00:00+00:00"), us("2026-03-11T00:00:00+00:00"))
    assert parse_time_range("7d", "1d", NOW_US) == (
        us("2026-11-23T12:00:00+00:00"),
        us("2026-11-29T12:00:00+00:00") + 1,
    )
    assert parse_time_range("2h", "2h", NOW_US) == (
        us("2026-11-30T10:00:00+00:00"),
        us("2026-11-30T10:00:00+00:00") + 1,
    )
    assert parse_time_range("", "  ", NOW_US) == parse_time_range(None, None, NOW_US) == (None, None)
    assert parse_time_range("2h", None, NOW_US) == (us("2026-11-30T10:00:00+00:00"), None)


@pytest.mark.parametrize(("since", "until"), [("2026-03-11", "2026-03-10"), ("1d", "7d")])
def test_reversed_ranges(since: str, until: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is after until") as caught:
        parse_time_range(since, until, NOW_US)
    assert [v.field for v in caught.value.violations] == ["since"]


def test_both_bounds_are_told() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_time_range("1M", "yesterday", NOW_US)
    assert [v.field for v in caught.value.violations] == ["since", "until"]


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),  # noqa: DTZ001
        max_value=datetime(9998, 1, 1),  # noqa: DTZ001
        timezones=st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda m: timezone(timedelta(minutes=m))),
    )
)
def test_what_isoformat_writes_is_read(time: datetime) -> None:
    expected = (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert parse_time(time.isoformat(), NOW_US, end=False) == expected
    assert parse_time(time.isoformat(), NOW_US, end=True) == expected + 1


@given(st.integers(0, 10**9), st.sampled_from("smhdw"))
def test_ages_count_back(n: int, unit: str) -> None:
    seconds = n * {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}[unit]
    try:
        found = parse_time(f"{n}{unit}", NOW_US, end=False)
    except InvalidArgumentError:
        assert NOW_US // 1_000_000 - seconds < -62_135_596_800
    else:
        assert found == NOW_US - seconds * 1_000_000


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(parse_time(text, NOW_US, end=True), int)
    except InvalidArgumentError as error:
        assert error.reason == "INVALID_TIME"


@pytest.mark.parametrize(
    ("text", "after_us"),
    [
        ("90s", NOW_US + 90 * 1_000_000),
        (" 30d ", NOW_US + 30 * 86_400 * 1_000_000),
        ("1w", NOW_US + 7 * 86_400 * 1_000_000),
        ("2100-01-31", 4_105_123_200 * 1_000_000),  # the day is included
        ("2100-01-31T12:00:00+02:00", 4_105_072_800 * 1_000_000),
    ],
)
def test_when_something_ends(text: str, after_us: int) -> None:
    assert parse_expiry(text, NOW_US) == after_us


@pytest.mark.parametrize("text", ["", "soon", "0s", "2000-01-01", "9999-12-31", "999999999999w", "2100-02-30", "-1d"])
def test_no_end(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_expiry(text, NOW_US, "expires")
    assert [(v.field, v.reason) for v in caught.value.violations] == [("expires", "INVALID_TIME")]


@given(st.text(max_size=20))
def test_any_end_is_read_or_refused(text: str) -> None:
    try:
        assert parse_expiry(text, NOW_US) > NOW_US
    except InvalidArgumentError as error:
        assert error.reason == "INVALID_TIME"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], {}),
        (["a=b", "c=d"], {"a": "b", "c": "d"}),
        (["A=B", "a=c"], {"a": "c"}),
        ([" Team = Core "], {"team": "core"}),
    ],
)
def test_tags(texts: list[str], expected: dict[str, str]) -> None:
    assert parse_tags(texts) == expected


@pytest.mark.parametrize("text", ["a", "a=b=c", "=b", "a=", "=", "", "a=\ud800"])
def test_no_tags(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_tags(["x=y", text, text])
    assert caught.value.reason == "INVALID_TAG"
    assert [v.field for v in caught.value.violations] == ["tags[1]", "tags[2]"]
