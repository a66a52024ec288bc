"""Interval joins: lower <= r.ts - l.ts <= upper."""

from __future__ import annotations

import pytest

from eventide.kernels.contract import Clock
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.joins import Interval
from tests.kernels.harness import Driver, join_spec
from tests.kernels.joins.test_cost_of_joins import rows


def test_both_ends_of_an_interval_are_included() -> None:
    #        -10          +100
    #   989   990  l 1000  1100   1101
    #    .     |─────●──────|      .
    join = Driver(join_spec(Interval(-10, 100), "left"))
    join.batch([(1000, "a", 1), (1000, "b", 2)])
    pairs = join.batch([], right=[(989, "a", 10), (990, "a", 20), (1100, "a", 30), (1101, "a", 40)])
    assert sorted(pairs) == sorted([(None, None, 1000, "a", 1, 20), (None, None, 1100, "a", 1, 30)], key=str)
    assert join.advance(1099) == []
    assert join.advance(1100) == [(None, None, 1000, "b", 2, None)]


@pytest.mark.parametrize(("lower", "upper", "left", "right"), [(5, 10, 10, 0), (-10, -5, 0, 10), (-3, 4, 4, 3)])
def test_a_row_is_kept_as_long_as_a_partner_can_come_on_time(lower: int, upper: int, left: int, right: int) -> None:
    join = Driver(join_spec(Interval(lower, upper), "full", lateness=2))
    join.batch([(100, "a", 1)], right=[(200, "b", 2)])
    assert join.advance(100 + left + 1) == []
    assert len(join.advance(100 + left + 2)) == 1
    assert join.advance(200 + right + 1) == []
    assert len(join.advance(200 + right + 2)) == 1
    assert join.store.spaces() == []


def test_a_row_that_would_no_longer_be_kept_is_late_and_one_on_time_never_is() -> None:
    join = Driver(join_spec(Interval(-10, 5)))
    join.batch([], watermark=100)
    join.batch([(95, "a", 1), (96, "a", 2), (101, "a", 3)], right=[(90, "a", 4), (91, "a", 5), (101, "a", 6)])
    assert join.counts == {"used": 4, "late": 2}
    assert {(late["source"], late["window_start"]) for late in join.side} == {("l", None), ("r", None)}


def test_what_a_stop_gives_out_alone_stays_alone_and_all_others_can_still_match() -> None:
    join = Driver(join_spec(Interval(-10, 10), "left"))
    join.batch([(100, "a", 1)], right=[(100, "b", 2)])
    assert join.flush() == [(None, None, 100, "a", 1, None)]
    assert join.batch([(105, "b", 3)], right=[(105, "a", 4)]) == [(None, None, 105, "b", 3, 2)]
    assert join.advance(1000) == []
    assert join.store.spaces() == []


def test_rows_of_inputs_that_are_the_same_side_are_joined_alike() -> None:
    spec = join_spec(Interval(0, 0), sides=(0, 0), inputs=join_spec(Interval(0, 0)).inputs)
    assert Driver(spec).batch([(1, "a", 1)], right=[(1, "a", 2)]) == []  # both are left


def test_many_rows_of_one_key_give_tables_of_bounded_size() -> None:
    kernel, store = join_spec(Interval(0, 0)).build(), MemoryStore()
    kernel.on_rows({0: rows(1500, 1, 0, 1, 1)}, Clock(None, 0), store)
    output = kernel.on_rows({1: rows(1500, 1, 0, 1, 2)}, Clock(None, 0), store)
    assert sum(table.num_rows for table in output.main) == 1500 * 1500
    assert max(table.num_rows for table in output.main) <= 1_000_000
