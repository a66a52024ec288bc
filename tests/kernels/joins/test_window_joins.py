"""Joins in windows: pairs as (window_start, window_end, rowtime, key, left value, right value), in microseconds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from eventide.kernels.contract import Clock
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.joins import OverlappingPanes, SameWindow
from eventide.plan.windows import Cumulate, Hop, Tumble
from tests.kernels.harness import Driver, join_spec, table

SECOND = SameWindow(Tumble(1000))


def test_rows_of_one_key_and_one_pane_are_a_pair_as_soon_as_both_are_there() -> None:
    #   0        1000       2000
    #   [l   r   )[l    r    )
    join = Driver(join_spec(SECOND))
    assert join.batch([(100, "k1", 1)]) == []
    assert join.batch([], right=[(800, "k1", 10)]) == [(0, 1000, 800, "k1", 1, 10)]
    assert join.batch([(1500, "k2", 2)]) == []
    assert join.batch([], right=[(1900, "k2", 20), (1500, "k1", 30)]) == [(1000, 2000, 1900, "k2", 2, 20)]
    assert join.batch([(500, "k1", 3)], watermark=1001) == []
    assert (join.counts["used"], join.counts["late"]) == (5, 1)
    assert [(late["source"], late["original_event"]) for late in join.side] == [("l", '{"k": "k1", "v": 3}')]
    assert (join.events["left_late"], join.events["right_late"], join.events["pairs"]) == (1, 0, 2)
    assert (join.events["left_rows"], join.events["right_rows"], join.events["panes_closed"]) == (2, 3, 1)


def test_no_batch_is_run_for_rows_that_are_only_forgotten() -> None:
    batch = {0: table([(100, "a", 1), (150, "b", 2)]), 1: table([(200, "b", 3)])}
    for kind, at_close, only_forgets in [
        ("inner", False, True),
        ("inner", True, False),  # the pair waits for its window to close
        ("left", False, False),
        ("left anti", False, False),
    ]:
        output = join_spec(SECOND, kind, at_close=at_close).build().on_rows(batch, Clock(None, 0), MemoryStore())
        assert output.wake_at is not None
        assert output.only_forgets is only_forgets, (kind, at_close)


def test_a_late_row_names_the_window_that_it_has_missed() -> None:
    join = Driver(join_spec(SECOND, lateness=100))
    join.batch([], watermark=1099)
    assert join.batch([(500, "k", 1)], right=[(600, "k", 2)]) == [(0, 1000, 600, "k", 1, 2)]
    join.batch([(500, "k", 1)], watermark=1100, right=[(999, "k", 2)])
    assert [(late["source"], late["reason"], late["window_start"].microsecond) for late in join.side] == [
        ("l", "allowed_lateness_exceeded", 0),
        ("r", "allowed_lateness_exceeded", 0),
    ]


def test_unmatched_rows_of_an_outer_join_come_out_when_the_window_closes() -> None:
    join = Driver(join_spec(SECOND, "full"))
    join.batch([(100, "a", 1), (200, "b", 2), (300, None, 3)])
    pairs = join.batch([], right=[(900, "a", 10), (950, "c", 30), (960, None, 40)])
    assert pairs == [(0, 1000, 900, "a", 1, 10)]
    assert join.advance(999) == []
    assert join.advance(1000) == [
        (0, 1000, 200, "b", 2, None),
        (0, 1000, 300, None, 3, None),
        (0, 1000, 950, None, None, 30),
        (0, 1000, 960, None, None, 40),
    ]
    assert join.store.spaces() == []
    assert join.counts == {"used": 6}


def test_null_equals_null_only_where_the_key_says_so() -> None:
    rows: dict[str, Any] = {"rows": [(1, None, 1)], "right": [(2, None, 2)]}
    assert Driver(join_spec(SECOND)).batch(**rows) == []
    assert Driver(join_spec(SECOND, null_safe=(True,))).batch(**rows) == [(0, 1000, 2, None, 1, 2)]


def test_pairs_can_wait_until_their_window_closes() -> None:
    join = Driver(join_spec(SECOND, at_close=True))
    assert join.batch([(100, "a", 1), (200, "a", 2)], right=[(900, "a", 10), (1000, "a", 20)]) == []
    assert sorted(join.advance(1000)) == [(0, 1000, 900, "a", 1, 10), (0, 1000, 900, "a", 2, 10)]


@pytest.mark.parametrize(
    ("kind", "at_once", "at_close"),
    [
        ("left", [("a", 1, 5)], [("a", 9, None), ("b", 2, None)]),
        ("right", [("a", 1, 5)], [(None, None, 0)]),
        ("left semi", [("a", 1, None)], []),
        ("left anti", [], [("a", 9, None), ("b", 2, None)]),
    ],
)
def test_a_condition_takes_part_in_the_matching(kind: str, at_once: list[Any], at_close: list[Any]) -> None:
    def less(pairs: pa.Table) -> pa.Array:
        return pc.less(pairs.column("v"), pairs.column("w"))

    join = Driver(join_spec(SECOND, kind, condition=less))
    join.batch([(1, "a", 1), (2, "b", 2), (3, "a", 9)])
    assert [row[3:] for row in join.batch([], right=[(4, "a", 5), (5, "a", 0)])] == at_once
    assert sorted((row[3:] for row in join.advance(1000)), key=str) == at_close


def test_a_semi_join_gives_a_row_once_however_many_partners_come() -> None:
    join = Driver(join_spec(SECOND, "left semi"))
    assert join.batch([(1, "a", 1)], right=[(2, "a", 2), (3, "a", 3)]) == [(0, 1000, 1, "a", 1, None)]
    assert join.batch([(5, "a", 7)], right=[(4, "a", 4)]) == [(0, 1000, 5, "a", 7, None)]
    assert join.batch([], right=[(6, "a", 6)]) == []


def test_a_pair_counts_once_for_every_hopping_window_that_holds_both() -> None:
    #   -500    0     500    1000   1500
    #     [-----------)
    #             [------------)
    #                  [-------------)        l at 300, r at 600: both in [0, 1000) only
    join = Driver(join_spec(SameWindow(Hop(1000, 500)), "left"))
    assert join.batch([(300, "k", 1)], right=[(600, "k", 2)]) == [(0, 1000, 600, "k", 1, 2)]
    assert join.batch([], right=[(400, "k", 3)]) == [(-500, 500, 400, "k", 1, 3), (0, 1000, 400, "k", 1, 3)]
    assert join.batch([(450, "j", 4)], watermark=500) == []
    assert join.advance(1000) == [(0, 1000, 450, "j", 4, None)]
    assert join.store.spaces() == ["meta", "right", "right_slots"]
    assert join.advance(1500) == []
    assert join.store.spaces() == []


def test_cumulating_windows_grow_from_the_same_start() -> None:
    join = Driver(join_spec(SameWindow(Cumulate(30, 10))))
    assert join.batch([(5, "k", 1)], right=[(12, "k", 2)]) == [(0, 20, 12, "k", 1, 2), (0, 30, 12, "k", 1, 2)]


def test_a_tumbling_pane_meets_every_sliding_pane_that_overlaps_it_each_pair_once() -> None:
    #   l at 200 is in [0, 1000)
    #   r at 1100 is in [500, 1500) too, which overlaps it; r at 1600 is in [1000, 2000) and [1500, 2500), which do not
    join = Driver(join_spec(OverlappingPanes(Tumble(1000), Hop(1000, 500))))
    join.batch([], right=[(300, "k", 10), (1100, "k", 20), (1600, "k", 30)])
    assert sorted(join.batch([(200, "k", 1)])) == [(0, 1000, 300, "k", 1, 10), (0, 1000, 1100, "k", 1, 20)]


def test_the_window_of_a_pair_is_the_tumbling_pane_whichever_side_it_is_of() -> None:
    join = Driver(join_spec(OverlappingPanes(Hop(1000, 500), Tumble(1000)), "full"))
    pairs = join.batch([(1100, "k", 20), (1600, "k", 30)], right=[(200, "k", 1)])
    assert pairs == [(0, 1000, 1100, "k", 20, 1)]
    assert join.advance(5000) == [(None, None, 1600, "k", 30, None)]  # it was in several panes


def test_a_row_waits_for_the_last_pane_that_could_bring_a_partner() -> None:
    join = Driver(join_spec(OverlappingPanes(Tumble(1000), Hop(1000, 500)), "left"))
    join.batch([(200, "k", 1)])
    assert join.advance(1499) == []  # the sliding pane [500, 1500) is open
    assert join.advance(1500) == [(0, 1000, 200, "k", 1, None)]


def test_a_graceful_stop_closes_the_windows_that_have_begun() -> None:
    join = Driver(join_spec(SECOND, "left"))
    join.batch([(100, "a", 1)], right=[(1200, "b", 2)])
    assert join.flush() == [(0, 1000, 100, "a", 1, None)]
    assert join.batch([(1300, "b", 3)], right=[(200, "a", 4)]) == []
    assert join.counts["late"] == 2
    assert join.batch([(2300, "b", 3)], right=[(2200, "b", 4)]) == [(2000, 3000, 2300, "b", 3, 4)]


def test_a_window_that_has_closed_is_settled_before_rows_of_the_same_batch_are_taken() -> None:
    join = Driver(join_spec(SECOND, "left"))
    join.batch([(100, "a", 1)])
    assert join.batch([], watermark=1000, right=[(100, "a", 2)]) == [(0, 1000, 100, "a", 1, None)]
    assert join.counts["late"] == 1


@pytest.mark.parametrize("kind", ["left semi", "left anti"])
def test_a_row_with_very_many_partners_is_known_to_have_one_without_asking_all(kind: str) -> None:
    """A pane of one key: of the hundred million pairs none but the first of each row is looked at."""
    count = 10_000
    kernel, store = join_spec(SameWindow(Tumble(10**9)), kind).build(), MemoryStore()
    rows = [table([(ts, "a", ts) for ts in range(count)]) for _ in (0, 1)]
    output = kernel.on_rows({0: rows[0]}, Clock(None, 0), store)
    output = output.merge(kernel.on_rows({1: rows[1]}, Clock(None, 0), store))
    output = output.merge(kernel.on_time(Clock(10**9, 0), store))
    assert sum(given.num_rows for given in output.main) == (count if kind == "left semi" else 0)
    assert output.events["pairs"] <= 2 * count
