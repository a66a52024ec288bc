"""Groups without a window."""

from __future__ import annotations

from typing import Any

import pytest

from eventide.errors import OptionError
from eventide.kernels.logic.windowed import WindowedAggregation
from eventide.plan.modes import EmitMode
from eventide.plan.windows import Unbounded
from tests.kernels.harness import KEYED_SUMS, Driver


def groups(emit: EmitMode = EmitMode.ON_UPDATE, ttl: int | None = None) -> Driver:
    return Driver(WindowedAggregation(Unbounded(ttl), **KEYED_SUMS, emit=emit))


def told(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """op, key, count, sum"""
    return [row[4:] for row in rows]


def test_a_group_is_told_in_every_batch_that_changes_it() -> None:
    driver = groups()
    assert told(driver.batch([(100, "a", 1), (50, "b", 2), (90, "a", 4)])) == [(1, "a", 2, 5), (1, "b", 1, 2)]
    assert told(driver.batch([(5, "a", 8)], watermark=100)) == [(1, "a", 3, 13)]
    assert (driver.counts, driver.wake_at, driver.flush()) == ({"used": 4}, None, [])


def test_a_change_log_takes_back_what_it_replaces() -> None:
    driver = groups(EmitMode.CHANGES)
    driver.batch([(100, "a", 1)])
    assert told(driver.batch([(100, "a", 8)])) == [(-1, "a", 1, 1), (1, "a", 2, 9)]


def test_a_group_is_forgotten_when_its_newest_row_is_too_old() -> None:
    driver = groups(ttl=10)
    driver.batch([(100, "a", 1), (105, "b", 1)])
    assert driver.wake_at == 110
    assert told(driver.batch([(103, "a", 1)], watermark=109)) == [(1, "a", 2, 2)]
    assert driver.advance(114) == []
    assert told(driver.batch([(116, "a", 1), (116, "b", 1)])) == [(1, "a", 1, 1), (1, "b", 2, 2)]
    assert driver.events["groups_expired"] == 1
    driver.advance(200)
    assert driver.store.spaces() == []


def test_only_modes_that_tell_of_changes_are_taken() -> None:
    with pytest.raises(OptionError, match="never close"):
        groups(EmitMode.ON_WINDOW_CLOSE)


def times(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """time, op, count"""
    return [(row[2], row[4], row[6]) for row in rows]


def test_what_is_told_has_the_time_of_the_newest_row_and_is_taken_back_with_the_same() -> None:
    driver = groups(EmitMode.CHANGES)
    assert times(driver.batch([(100, "a", 1), (70, "a", 1)])) == [(100, 1, 2)]
    assert times(driver.batch([(50, "a", 8)])) == [(100, -1, 2), (100, 1, 3)]
    assert times(driver.batch([(130, "a", 8)])) == [(100, -1, 3), (130, 1, 4)]
