"""Session joins: pairs as (window_start, window_end, rowtime, key, left value, right value)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from eventide.plan.joins import OverlappingSessions
from tests.kernels.harness import Driver, join_spec

GAP = OverlappingSessions(100)


def test_sessions_that_overlap_give_all_their_pairs_when_both_have_closed() -> None:
    #   left   100 ●──────── 200
    #   right        150 ●──────── 250
    join = Driver(join_spec(GAP))
    join.batch([(100, "k", 1)], right=[(150, "k", 10)])
    assert join.advance(220) == []
    assert join.advance(260) == [(100, 250, 150, "k", 1, 10)]
    assert join.events["sessions_closed"] == 2
    assert join.store.spaces() == []


def test_sessions_that_touch_in_one_point_meet() -> None:
    join = Driver(join_spec(GAP))
    join.batch([(100, "k", 1), (100, "j", 2)], right=[(200, "k", 10), (201, "j", 20)])
    assert join.advance(400) == [(100, 300, 200, "k", 1, 10)]


def test_rows_without_a_partner_come_with_the_bounds_of_their_own_session() -> None:
    join = Driver(join_spec(GAP, "full"))
    join.batch([(100, "k", 1), (150, "k", 2), (50, None, 3)], right=[(500, "k", 10)])
    assert join.advance(150) == [(50, 150, 50, None, 3, None)]
    assert join.advance(250) == [(100, 250, 100, "k", 1, None), (100, 250, 150, "k", 2, None)]
    assert join.advance(600) == [(500, 600, 500, None, None, 10)]


def test_a_closed_session_stays_while_one_that_it_overlaps_is_open() -> None:
    #   left    100 ●──────── 200 closes; kept for the right one
    #   right        150 ●──────────●240───────── 340
    join = Driver(join_spec(GAP, "left"))
    join.batch([(100, "k", 1)], right=[(150, "k", 10)])
    assert join.advance(210) == []
    assert join.batch([], right=[(240, "k", 20)]) == []
    assert join.advance(339) == []
    assert sorted(join.advance(340)) == [(100, 340, 150, "k", 1, 10), (100, 340, 240, "k", 1, 20)]


def test_a_closed_session_takes_no_more_rows_and_one_behind_it_is_its_own() -> None:
    join = Driver(join_spec(GAP, "left"))
    join.batch([(100, "k", 1)], right=[(190, "k", 10)])
    join.advance(200)  # the left session has closed
    join.batch([(150, "k", 2)])
    assert sorted(join.advance(290)) == [(100, 290, 190, "k", 1, 10), (150, 290, 190, "k", 2, 10)]


def test_a_row_that_has_matched_does_not_come_out_alone_when_its_session_is_over() -> None:
    #   left          100 ●────●180 ─────── 280
    #   right   50 ●───────150       270 ●─────────── 370
    def less(pairs: pa.Table) -> pa.Array:
        return pc.less(pairs.column("v"), pairs.column("w"))

    join = Driver(join_spec(GAP, "left", condition=less))
    join.batch([(100, "k", 1), (180, "k", 99)], right=[(50, "k", 10), (270, "k", 0)])
    assert join.advance(280) == [(50, 280, 100, "k", 1, 10)]
    assert join.advance(370) == [(100, 280, 180, "k", 99, None)]
    assert join.store.spaces() == []


def test_a_row_is_late_if_its_session_would_be_closed() -> None:
    join = Driver(join_spec(GAP, lateness=50))
    join.batch([], watermark=250)
    join.batch([(100, "k", 1), (101, "j", 2)], right=[(99, "k", 3)])
    assert (join.counts["used"], join.counts["late"]) == (1, 2)
    assert [late["source"] for late in join.side] == ["l", "r"]


def test_a_stop_closes_sessions_and_rows_that_would_have_joined_them_are_late() -> None:
    join = Driver(join_spec(GAP, "left semi"))
    join.batch([(100, "k", 1)], right=[(150, "k", 10)])
    assert join.flush() == [(100, 200, 100, "k", 1, None)]
    join.batch([(200, "k", 2), (201, "k", 3)], right=[(250, "k", 4)])
    assert (join.counts["used"], join.counts["late"]) == (3, 2)
    assert join.advance(1000) == []
    assert join.store.spaces() == []
