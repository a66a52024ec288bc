"""What the last batches did: a point per second, bounded, whatever the number of batches."""

from __future__ import annotations

from eventide.storage.history import History, history_of, rates, read_rates
from eventide.storage.results import Account

SECOND = 1_000_000


def account(batch: int, at: float, rows: int = 10, late: int = 1, read: int | None = None) -> Account:
    """A batch that ended at `at` seconds, after a fifth of a second."""
    counts = {"rows_in": rows, "used": rows - late, "late": late}
    took = {"plan": 50_000, "compute": 150_000}
    sources = {
        "s": {"max_timestamp_seen": round(at * SECOND), "rows": read if read is not None else rows * (batch + 1)}
    }
    gauges = {"open_windows#0": 2, "open_windows#1": 3, "state_bytes#0": 100, "dedup_bytes#0": 11}
    began = round(at * SECOND) - 200_000
    events = {"rows_out": 4, "windows_closed": 2}
    return Account(batch, counts, {}, events, gauges, began - SECOND, sources, {}, began, took=took)


def test_batches_that_end_in_one_second_are_one_point() -> None:
    history = history_of([account(0, 10.3), account(1, 10.6), account(2, 12.1)])
    first, second = history.points()
    assert (first.second, first.batch, first.batches, second.second, second.batches) == (10, 1, 2, 12, 1)
    assert first.counts["rows_in"] == 20 and first.counts["late"] == 2 and first.given == 8 and first.closed == 4
    assert first.took == {"plan": 100_000, "compute": 300_000}
    assert (first.open, first.state_bytes, first.newest) == (5, 111, 10_600_000)
    assert [point.second for point in history.points(since=11)] == [12]


def test_a_batch_that_comes_again_counts_once() -> None:
    history = history_of([account(0, 10.3), account(0, 10.4)])
    assert [point.batches for point in history.points()] == [1]


def test_a_clock_that_goes_back_loses_no_batch() -> None:
    history = history_of([account(0, 20.5), account(1, 18.5), account(2, 21.5)])
    assert [(point.second, point.batches) for point in history.points()] == [(20, 2), (21, 1)]


def test_a_day_of_quick_batches_leaves_a_quarter_of_an_hour() -> None:
    history = History()
    for batch in range(24 * 3600 * 2):
        history.add(account(batch, 1000 + batch / 2))
    assert len(history.points()) == 900
    assert history.last_batch == 24 * 3600 * 2 - 1
    first = history.first_batch
    assert first is not None and history.last_batch - first + 1 == 1800


def test_rates_are_of_the_last_seconds() -> None:
    points = history_of([account(batch, 100 + batch, rows=50) for batch in range(60)]).points()
    found = rates(points, 160 * SECOND, seconds=10)
    assert 45 <= found["rows_in"] <= 50 and 0.9 <= found["late"] <= 1 and 3.6 <= found["given"] <= 4
    assert 45 <= read_rates(points, 160 * SECOND, seconds=10)["s"] <= 50
    assert rates(points, 300 * SECOND) == {} and read_rates(points, 300 * SECOND) == {}


def test_a_rate_does_not_take_what_came_before_the_first_point_for_new() -> None:
    points = history_of([account(batch, 100 + batch, rows=50, read=10**9 + 50 * batch) for batch in range(5)]).points()
    assert 0 < read_rates(points[1:], 105 * SECOND)["s"] <= 50


def test_a_stream_that_has_just_begun_has_the_rate_of_its_short_life() -> None:
    points = history_of([account(0, 100.5, rows=300)]).points()
    assert rates(points, 101 * SECOND)["rows_in"] == 300 and read_rates(points, 101 * SECOND)["s"] == 300
