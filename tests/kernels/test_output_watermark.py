"""The watermark of what a kernel gives: the largest that makes none of its rows to come late for a window."""

from __future__ import annotations

from eventide.kernels.contract import OLDEST
from eventide.kernels.joins.spec import JoinSpec
from eventide.kernels.logic.forward import ForwardSpec
from eventide.plan.joins import Asof, Interval, JoinBound, Nearest, OverlappingSessions, SameWindow
from eventide.plan.modes import JoinKind
from eventide.plan.windows import Hop, Tumble
from tests.kernels.harness import KEYED_SUMS, paned_spec, slide_spec


def joined(bound: JoinBound, lateness: int = 0) -> JoinSpec:
    return JoinSpec(JoinKind.INNER, bound, lateness)


def test_forwarded_rows_have_the_watermark_that_they_came_with() -> None:
    assert ForwardSpec((), ()).output_watermark(100, {}) == 100


def test_a_window_that_is_still_to_close_ends_later() -> None:
    assert paned_spec(10, 10, **KEYED_SUMS).output_watermark(100, {}) == 100
    assert paned_spec(10, 10, **KEYED_SUMS, lateness=7).output_watermark(100, {}) == 93
    assert slide_spec(10, 5, **KEYED_SUMS).output_watermark(100, {}) == 95


#   panes of 10, W = 27:  [0, 10) [10, 20) are closed; a pair of [20, 30) may be as old as 20
def test_a_pair_to_come_is_no_older_than_the_oldest_open_pane() -> None:
    assert joined(SameWindow(Tumble(10))).output_watermark(27, {}) == 20
    assert joined(SameWindow(Tumble(10)), lateness=8).output_watermark(27, {}) == 10
    assert joined(SameWindow(Hop(10, 5))).output_watermark(27, {}) == 20


def test_a_pair_of_an_interval_is_no_older_than_the_row_that_brings_it() -> None:
    assert joined(Interval(-3, 8), lateness=1).output_watermark(100, {}) == 91


def test_a_session_may_go_far_back() -> None:
    sessions = joined(OverlappingSessions(10))
    assert sessions.output_watermark(100, {}) == 90
    assert sessions.output_watermark(100, {OLDEST: [95, 30]}) == 30


def test_the_nearest_of_all_is_not_certain_while_a_row_waits() -> None:
    nearest = joined(Asof(Nearest.EITHER))
    assert nearest.output_watermark(100, {"left_buffered": [0, 2]}) is None
    assert nearest.output_watermark(100, {"left_buffered": [0, 0]}) == 100
    assert joined(Asof()).output_watermark(100, {"left_buffered": [3]}) == 100
