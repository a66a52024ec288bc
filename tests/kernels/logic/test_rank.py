"""The place of rows among those of their partition, when the watermark has passed them."""

from __future__ import annotations

from typing import Any

import pytest

from eventide.kernels.logic.rank import RankSpec, SortKey
from eventide.plan.modes import RankFunction
from tests.kernels.harness import BIGINT, KEYED, STRING, Driver

ROWS = [(9, "a", 5), (9, "b", 5), (9, "c", 7), (9, "d", None), (19, "a", 1)]


def ranked(function: RankFunction = RankFunction.ROW_NUMBER, key: SortKey | None = None, **more: Any) -> Driver:
    key = key or SortKey("__i0", descending=True, nulls_first=False)
    types = (("__i0", BIGINT),)
    return Driver(RankSpec(function, (), (key,), KEYED["originals"], (STRING, BIGINT), types, **more))


def values(rows: list[tuple[Any, ...]]) -> list[tuple[Any, int]]:
    return [(row[1], row[2]) for row in rows]


#      window [0, 10)                window [10, 20)
#   ts 9: 5 5 7 NULL                  ts 19: 1
#                    W = 10 ^                    W = 20 ^
def test_a_windows_rows_leave_with_their_places_when_it_closes() -> None:
    driver = ranked()
    assert driver.batch(ROWS, watermark=9) == []
    assert values(driver.advance(10)) == [(7, 1), (5, 2), (5, 3), (None, 4)]
    assert values(driver.advance(20)) == [(1, 1)]
    assert driver.gauges["buffer_size"] == 0


@pytest.mark.parametrize(
    ("function", "places"), [(RankFunction.RANK, [1, 2, 2, 4]), (RankFunction.DENSE_RANK, [1, 2, 2, 3])]
)
def test_equal_values_have_equal_places(function: RankFunction, places: list[int]) -> None:
    driver = ranked(function)
    driver.batch(ROWS)
    assert [row[2] for row in driver.advance(10)] == places


def test_nulls_come_where_the_order_says() -> None:
    driver = ranked(key=SortKey("__i0"))
    driver.batch(ROWS)
    assert values(driver.advance(10)) == [(None, 1), (5, 2), (5, 3), (7, 4)]


def test_a_row_that_comes_when_its_window_has_closed_is_late() -> None:
    driver = ranked()
    driver.batch(ROWS, watermark=9)
    driver.advance(10)
    assert driver.batch([(9, "z", 1), (10, "y", 2)]) == []
    assert (driver.counts["late"], driver.counts["used"]) == (1, 6)


def test_allowed_lateness_keeps_a_window_open_for_longer() -> None:
    driver = ranked(lateness=5)
    driver.batch(ROWS, watermark=12)
    assert driver.batch([(9, "z", 6)], watermark=14) == []
    assert values(driver.advance(15)) == [(7, 1), (6, 2), (5, 3), (5, 4), (None, 5)]


def test_a_flush_gives_out_what_has_begun_and_closes_it() -> None:
    driver = ranked()
    driver.batch(ROWS)
    assert values(driver.flush(until=9)) == [(7, 1), (5, 2), (5, 3), (None, 4)]
    driver.batch([(9, "z", 6)])
    assert driver.counts["late"] == 1


def test_a_restart_changes_nothing() -> None:
    driver = ranked()
    driver.batch(ROWS, watermark=9)
    driver.restart()
    assert values(driver.advance(30)) == [(7, 1), (5, 2), (5, 3), (None, 4), (1, 1)]
