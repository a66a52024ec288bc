"""Event-time types by name."""

from __future__ import annotations

import pytest

from eventide.errors import OptionError
from eventide.eventtime.registry import CustomParser, EpochUnit, EventTimeTypes, Iso8601, SparkTimestamp


def test_built_in_types_are_known_in_any_case() -> None:
    types = EventTimeTypes()
    assert types.resolve("UnixTimestamp_MS") == EpochUnit(1_000)
    assert types.resolve("unixtimestamp_ns") == EpochUnit(1, 1_000)
    assert types.resolve("unixtimestamp") == types.resolve("unixtimestamp_s") == EpochUnit(1_000_000)
    assert types.resolve("iso8601") == Iso8601()
    assert types.resolve("spark") == SparkTimestamp()
    assert types.list() == [
        "iso8601",
        "spark",
        "unixtimestamp_ms",
        "unixtimestamp_ns",
        "unixtimestamp_s",
        "unixtimestamp_us",
    ]
    assert types.canonical("UNIXTIMESTAMP") == "unixtimestamp_s"


def test_an_unknown_type_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(OptionError, match="fortnights") as raised:
        EventTimeTypes().resolve("fortnights")
    assert "unixtimestamp_ms" in str(raised.value)


def test_a_custom_type_can_be_registered_and_replaced() -> None:
    types = EventTimeTypes()
    types.register("Mine", str)
    assert types.resolve("mine") == CustomParser(str)
    types.register("mine", int, kind="python")
    assert types.resolve("MINE") == CustomParser(int, "python")
    assert "mine" in types.list()


@pytest.mark.parametrize("name", ["spark", "ISO8601", "unixtimestamp"])
def test_a_built_in_type_cannot_be_replaced(name: str) -> None:
    with pytest.raises(OptionError, match="built in"):
        EventTimeTypes().register(name, str)


def test_nonsense_cannot_be_registered() -> None:
    types = EventTimeTypes()
    with pytest.raises(OptionError, match="not a function"):
        types.register("x", 5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="unknown kind"):
        types.register("x", str, kind="java")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="cannot be the name"):
        types.register("a b", str)
