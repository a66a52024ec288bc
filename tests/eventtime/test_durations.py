"""Durations as text."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from eventide.errors import OptionError
from eventide.eventtime.durations import LONGEST, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("5 seconds", 5_000_000),
        ("30s", 30_000_000),
        ("1 minute 30 seconds", 90_000_000),
        ("1m30s", 90_000_000),
        ("500 milliseconds", 500_000),
        ("1.5 Hours", 5_400_000_000),
        ("2 weeks", 1_209_600_000_000),
        ("3000 ns", 3),
        ("7 us", 7),
        ("PT5S", 5_000_000),
        ("P1DT2H", 93_600_000_000),
        ("p2w", 1_209_600_000_000),
        ("0", 0),
        ("0 seconds", 0),
    ],
)
def test_durations_are_read(text: str, micros: int) -> None:
    assert parse_duration(text) == micros


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a duration"),
        ("soon", "is not a duration"),
        ("5", "is not a duration"),
        ("5 seconds ago", "is not a duration"),
        ("5 parsecs", "not a unit"),
        ("1 month", "no fixed length"),
        ("2 years", "no fixed length"),
        ("-5 seconds", "negative"),
        ("1 ns", "finer than a microsecond"),
        ("P", "is not a duration"),
        ("P1Y", "is not a duration"),
        ("3652501 days", "longer than ten thousand years"),
        (f"{'9' * 5000} days", "over 30 digits"),
    ],
)
def test_text_that_is_not_a_duration_is_refused_with_help(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message) as raised:
        parse_duration(text)
    assert raised.value.help


@given(st.integers(min_value=0, max_value=LONGEST))
def test_a_formatted_duration_is_read_back(micros: int) -> None:
    assert parse_duration(format_duration(micros)) == micros


def test_a_signed_duration_may_be_below_zero() -> None:
    assert parse_duration("-1 minute 30 seconds", signed=True) == -30_000_000
    with pytest.raises(OptionError, match="longer than ten thousand years"):
        parse_duration("-3652501 days", signed=True)


def test_formatting_shows_the_largest_units_first() -> None:
    assert format_duration(90_000_000) == "1m 30s"
    assert format_duration(86_400_000_001) == "1d 1us"
    assert format_duration(-1_500_000) == "-1s 500ms"
