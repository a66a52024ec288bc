"""ASOF joins: one right row for each left row, when no better one can come on time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from eventide.plan.joins import Asof, Nearest
from tests.kernels.harness import Driver, join_spec

AFTER, EITHER = Nearest.AFTER, Nearest.EITHER


def shown(rows: list[Any]) -> list[Any]:
    return sorted((row[3:] for row in rows), key=str)


def test_the_newest_row_that_is_not_later_is_taken_when_no_other_can_come() -> None:
    #   quotes   90 95                180
    #   trades        100      150*         200
    join = Driver(join_spec(Asof(), "left"))
    join.batch([], right=[(90, "A", 1), (180, "A", 2), (140, "G", 3)])
    assert join.batch([(100, "A", 1), (200, "A", 2), (150, "G", 3), (150, "M", 4)]) == []
    join.batch([], right=[(95, "A", 4)])
    assert shown(join.advance(150)) == [("A", 1, 4), ("G", 3, 3), ("M", 4, None)]
    assert shown(join.advance(200)) == [("A", 2, 2)]


def test_the_time_of_a_pair_is_the_later_of_the_two() -> None:
    assert Driver(join_spec(Asof())).batch([(5, "a", 1)], right=[(3, "a", 2)]) == []
    after = Driver(join_spec(Asof(AFTER)))
    after.batch([(5, "a", 1)], right=[(8, "a", 2)])
    assert after.advance(8) == [(None, None, 8, "a", 1, 2)]


def test_of_equal_times_the_row_that_came_last_counts() -> None:
    join = Driver(join_spec(Asof()))
    join.batch([], right=[(10, "a", 1), (10, "a", 2)])
    join.batch([(10, "a", 0)], right=[(10, "a", 3)])
    assert shown(join.advance(10)) == [("a", 0, 3)]


@pytest.mark.parametrize(
    ("bound", "answer"),
    [
        (Asof(strict=True), 1),
        (Asof(), 2),
        (Asof(tolerance=0), 2),
        (Asof(strict=True, tolerance=2), None),
        (Asof(AFTER, strict=True), 3),
        (Asof(AFTER, strict=True, tolerance=2), None),
        (Asof(EITHER, strict=True), 1),
        (Asof(EITHER), 2),
    ],
)
def test_strictness_and_tolerance(bound: Asof, answer: int | None) -> None:
    #   r 7 ── 3 ── l 10, r 10 ── 3 ── r 13: of two equally near ones the earlier
    join = Driver(join_spec(bound, "left"))
    join.batch([(10, "a", 0)], right=[(7, "a", 1), (10, "a", 2), (13, "a", 3)])
    assert shown(join.advance(1000)) == [("a", 0, answer)]


def test_a_row_behind_waits_until_no_nearer_one_can_come() -> None:
    join = Driver(join_spec(Asof(EITHER)))
    join.batch([(10, "a", 0)], right=[(4, "a", 1)])
    assert join.advance(14) == []  # at 15 a row could come that is nearer than 4
    assert join.batch([], right=[(15, "a", 2)]) == []
    assert shown(join.advance(15)) == [("a", 0, 2)]
    join.batch([(30, "a", 5)], right=[(24, "a", 6)])
    assert shown(join.advance(35)) == [("a", 5, 6)]


def test_the_answer_of_a_row_that_waits_for_a_nearer_one_stays_as_long() -> None:
    join = Driver(join_spec(Asof(EITHER, tolerance=10)))
    join.batch([(10, "a", 0)], right=[(0, "a", 1)])
    assert join.advance(12) == []
    assert join.advance(18) == []
    assert shown(join.advance(19)) == [("a", 0, 1)]
    join.advance(20)
    assert join.store.spaces() == []


def test_a_late_right_row_is_used_if_it_can_answer_a_row_to_come() -> None:
    join = Driver(join_spec(Asof()))
    join.batch([], right=[(50, "a", 1)])
    join.advance(100)
    join.batch([], right=[(40, "a", 2), (60, "a", 3), (60, "b", 4)])
    assert (join.counts["used"], join.counts["late"]) == (3, 1)
    join.batch([(110, "a", 0), (110, "b", 0), (100, "a", 9)])
    assert join.counts["late"] == 2
    assert shown(join.advance(110)) == [("a", 0, 3), ("b", 0, 4)]


def test_of_right_rows_only_those_are_kept_that_can_still_answer() -> None:
    join = Driver(join_spec(Asof()))
    join.batch([], right=[(n, "ab"[n % 2], n) for n in range(100)])
    join.advance(89)
    assert join.gauges["right_buffered"] == 2 + 10
    near = Driver(join_spec(Asof(tolerance=5)))
    near.batch([], right=[(n, "ab"[n % 2], n) for n in range(100)])
    near.advance(1000)
    assert near.store.spaces() == []


def test_a_condition_takes_the_next_nearest_row_that_meets_it() -> None:
    def even(pairs: pa.Table) -> pa.Array:
        return pc.equal(pc.bit_wise_and(pairs.column("w"), 1), 0)

    join = Driver(join_spec(Asof(), condition=even))
    join.batch([(50, "a", 0)], right=[(n, "a", 2 * n + 1 if n > 3 else 2 * n) for n in range(40)])
    assert shown(join.advance(50)) == [("a", 0, 6)]


def test_a_stop_gives_answers_as_they_are_known() -> None:
    join = Driver(join_spec(Asof(AFTER), "left"))
    join.batch([(10, "a", 1), (10, "b", 2), (10, None, 3)], right=[(20, "a", 5)])
    assert shown(join.flush()) == [("a", 1, 5), ("b", 2, None), (None, 3, None)]
    join.batch([(20, "a", 6)], right=[(20, "a", 7)])
    assert join.counts["late"] == 2
