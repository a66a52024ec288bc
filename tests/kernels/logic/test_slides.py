"""Data-triggered sliding windows: one answer per row."""

import pytest

from eventide.errors import OptionError
from tests.kernels.harness import KEYED_SUMS, Driver, micros, slide_spec


def slide(lookback: int, lookahead: int | None = None, **more: object) -> Driver:
    return Driver(slide_spec(lookback, lookahead, **KEYED_SUMS, **more))  # type: ignore[arg-type]


def test_without_lookahead_the_answer_leaves_at_once() -> None:
    #  100   105        115
    #   1     2          4      lookback 10, both ends included
    driver = slide(10)
    assert driver.batch([(100, "A", 1)]) == [(90, 100, 0, 1, "A", 1, 1)]
    assert driver.batch([(105, "A", 2)], watermark=100) == [(95, 105, 0, 1, "A", 2, 3)]
    assert driver.batch([(115, "A", 4)], watermark=105) == [(105, 115, 0, 1, "A", 2, 6)]


def test_rows_of_one_batch_see_each_other() -> None:
    driver = slide(10)
    assert driver.batch([(8, "A", 2), (3, "A", 1), (8, "B", 4)]) == [
        (-7, 3, 0, 1, "A", 1, 1),
        (-2, 8, 0, 1, "A", 2, 3),
        (-2, 8, 0, 1, "B", 1, 4),
    ]


def test_rows_with_equal_times_have_an_answer_each() -> None:
    driver = slide(10)
    assert driver.batch([(8, "A", 1), (8, "A", 2)]) == [(-2, 8, 0, 1, "A", 2, 3), (-2, 8, 1, 1, "A", 2, 3)]
    assert driver.batch([(8, "A", 4)]) == [(-2, 8, 2, 1, "A", 3, 7)]


def test_with_lookahead_the_answer_waits_for_its_deadline() -> None:
    driver = slide(10, 15)
    assert driver.batch([(100, "A", 1), (110, "A", 1)]) == []
    assert driver.wake_at == 115
    assert driver.batch([(115, "A", 1)], watermark=114) == []
    assert driver.advance(115) == [(90, 115, 0, 1, "A", 3, 3)]
    driver.restart()
    assert driver.flush() == [(100, 125, 0, 1, "A", 3, 3), (105, 130, 0, 1, "A", 2, 2)]


def test_a_row_whose_window_is_closed_is_late_and_in_no_window() -> None:
    driver = slide(10)
    driver.batch([(100, "A", 1)])
    assert driver.batch([(99, "A", 8), (101, "A", 2)], watermark=100) == [(91, 101, 0, 1, "A", 2, 3)]
    (late,) = driver.side
    assert (late["reason"], micros(late["window_start"]), micros(late["window_end"])) == (
        "allowed_lateness_exceeded",
        89,
        99,
    )
    assert driver.counts == {"used": 2, "late": 1}


def test_lateness_lets_older_rows_ask() -> None:
    driver = slide(10, lateness=5)
    driver.batch([(100, "A", 1)])
    assert driver.batch([(96, "A", 2)], watermark=100) == [(86, 96, 0, 1, "A", 1, 2)]


def test_rows_that_are_no_longer_needed_are_forgotten() -> None:
    driver = slide(10)
    for ts in range(0, 1_000, 10):
        driver.batch([(ts, "A", 1)], watermark=ts - 1)
    assert driver.gauges["buffer_size"] < 5
    driver.batch([], watermark=5_000)
    assert driver.store.spaces() == []


def test_other_emit_modes_are_refused() -> None:
    with pytest.raises(OptionError, match="one row per input row"):
        slide_spec(10, emit="changes")
    with pytest.raises(OptionError, match="cannot be negative"):
        slide_spec(-1)
