"""Sessions. Timelines are drawn in microseconds; the gap is 5."""

import pyarrow as pa
import pytest

from eventide.errors import OptionError
from tests.kernels.harness import KEYED_SUMS, Driver, micros, session_spec


def session(gap: int = 5, **more: object) -> Driver:
    return Driver(session_spec(gap, **KEYED_SUMS, **more))  # type: ignore[arg-type]


def test_a_session_closes_a_gap_after_its_last_event() -> None:
    #  1   3 4         9
    #  A   A A---------|
    driver = session()
    driver.batch([(1, "A", 10), (3, "A", 20), (4, "A", 30)])
    assert driver.wake_at == 9
    assert driver.advance(8) == []
    assert driver.advance(9) == [(1, 9, 0, 1, "A", 3, 60)]
    assert driver.store.spaces() == []


def test_events_exactly_a_gap_apart_belong_together() -> None:
    driver = session()
    driver.batch([(0, "A", 1), (5, "A", 2), (11, "A", 4)])
    assert driver.advance(99) == [(0, 10, 0, 1, "A", 2, 3), (11, 16, 0, 1, "A", 1, 4)]


def test_an_event_between_two_sessions_merges_them() -> None:
    #  1-----6   8-----13
    #        ^ 5 touches both
    driver = session()
    driver.batch([(1, "A", 10), (8, "A", 20)])
    assert driver.gauges["open_windows"] == 2
    driver.restart()
    driver.batch([(5, "A", 30)])
    assert driver.gauges["open_windows"] == 1
    assert driver.events["sessions_merged"] == 1
    assert driver.advance(13) == [(1, 13, 0, 1, "A", 3, 60)]


def test_an_earlier_event_moves_the_start() -> None:
    driver = session()
    driver.batch([(8, "A", 1)])
    driver.batch([(4, "A", 2)])
    assert driver.advance(13) == [(4, 13, 0, 1, "A", 2, 3)]


def test_groups_do_not_share_sessions() -> None:
    driver = session()
    driver.batch([(1, "A", 1), (2, "B", 2), (3, None, 4)])
    assert driver.advance(99) == [(1, 6, 0, 1, "A", 1, 1), (2, 7, 0, 1, "B", 1, 2), (3, 8, 0, 1, None, 1, 4)]


def test_without_keys_there_is_one_session_at_a_time() -> None:
    driver = Driver(session_spec(5, aggregates=KEYED_SUMS["aggregates"]))
    driver.batch([(1, "A", 1), (2, "B", 2)])
    driver.batch([(30, "A", 3)])
    assert driver.advance(99) == [(1, 7, 0, 1, 2, 3), (30, 35, 0, 1, 1, 3)]


def test_a_row_is_late_unless_an_open_session_takes_it() -> None:
    #  watermark 12, so that a session of its own would be closed for ts <= 7
    #  6  7    12           A has an open session [10, 15)
    driver = session()
    driver.batch([(10, "A", 1)])
    driver.batch([(7, "A", 2), (7, "B", 4)], watermark=12)
    assert driver.counts == {"used": 2, "late": 1}
    (late,) = driver.side
    assert (late["reason"], micros(late["window_start"]), micros(late["window_end"])) == (
        "allowed_lateness_exceeded",
        7,
        12,
    )
    assert driver.advance(15) == [(7, 15, 0, 1, "A", 2, 3)]


def test_a_newer_row_of_the_same_batch_takes_an_old_one_along() -> None:
    driver = session()
    driver.batch([(7, "A", 1), (11, "A", 2)], watermark=12)
    assert driver.counts == {"used": 2}


def test_a_closed_session_takes_no_row_even_before_the_closing_call() -> None:
    driver = session()
    driver.batch([(1, "A", 1)])
    assert driver.batch([(5, "A", 2)], watermark=6) == [(1, 6, 0, 1, "A", 1, 1)]
    assert driver.advance(10) == [(5, 10, 0, 1, "A", 1, 2)]


def test_lateness_keeps_a_session_open() -> None:
    driver = session(lateness=10)
    driver.batch([(1, "A", 1)])
    assert driver.batch([(2, "A", 2)], watermark=15) == []
    assert driver.advance(16) == []
    assert driver.advance(17) == [(1, 7, 0, 1, "A", 2, 3)]


def test_changes_over_a_merge_take_both_back_and_insert_one() -> None:
    driver = session(emit="changes")
    assert driver.batch([(1, "A", 10), (8, "A", 20)]) == [(1, 6, 0, 1, "A", 1, 10), (8, 13, 0, 1, "A", 1, 20)]
    assert driver.batch([(5, "A", 30)]) == [
        (1, 6, 0, -1, "A", 1, 10),
        (8, 13, 0, -1, "A", 1, 20),
        (1, 13, 0, 1, "A", 3, 60),
    ]
    assert driver.batch([(6, "A", None)]) == [(1, 13, 0, -1, "A", 3, 60), (1, 13, 1, 1, "A", 4, 60)]
    assert driver.advance(99) == []


def test_on_update_counts_emissions_per_window() -> None:
    driver = session(emit="on update")
    assert driver.batch([(1, "A", 1)]) == [(1, 6, 0, 1, "A", 1, 1)]
    assert driver.batch([(1, "A", 1)]) == [(1, 6, 1, 1, "A", 2, 2)]
    assert driver.batch([(3, "A", 1)]) == [(1, 8, 0, 1, "A", 3, 3)]


def test_a_flushed_session_does_not_reopen() -> None:
    driver = session()
    driver.batch([(10, "A", 1)])
    assert driver.flush() == [(10, 15, 0, 1, "A", 1, 1)]
    driver.restart()
    driver.batch([(4, "A", 1), (5, "A", 1), (15, "A", 1), (16, "A", 8), (12, "B", 1)])
    assert driver.counts == {"used": 4, "late": 2}
    assert driver.advance(99) == [(4, 9, 0, 1, "A", 1, 1), (12, 17, 0, 1, "B", 1, 1), (16, 21, 0, 1, "A", 1, 8)]
    assert driver.store.spaces() == []


def test_a_full_shard_takes_no_further_sessions() -> None:
    driver = session(max_groups=2)
    driver.batch([(1, "A", 1), (2, "B", 1), (3, "C", 1), (4, "A", 1)])
    assert driver.counts == {"used": 3, "evicted": 1}
    (evicted,) = driver.side
    assert (evicted["kind"], evicted["reason"], evicted["group_key"]) == ("evicted", "max_groups", '{"k": "C"}')
    driver.batch([(20, "C", 1)], watermark=8)
    assert driver.counts == {"used": 4, "evicted": 1}


def test_every_emits_a_closing_session_once_more() -> None:
    driver = session(emit="every", every=1)
    driver.batch([(1, "A", 1)])
    assert driver.tick(now=1) == [(1, 6, 0, 1, "A", 1, 1)]
    assert driver.advance(6) == [(1, 6, 1, 1, "A", 1, 1)]
    assert driver.store.spaces() == []


def test_every_does_not_emit_a_flushed_session_again() -> None:
    driver = session(emit="every", every=1)
    driver.batch([(1, "A", 1)])
    assert driver.flush() == [(1, 6, 0, 1, "A", 1, 1)]
    assert driver.flush() == []
    assert driver.advance(6) == []


def test_it_is_counted_whether_a_timer_or_the_watermark_of_a_batch_closed_a_session() -> None:
    driver = session()
    driver.batch([(1, "A", 1), (2, "B", 1)])
    driver.advance(6)
    assert driver.events == {"windows_opened": 2, "windows_closed": 1, "sessions_closed_by_timer": 1}
    driver.batch([(20, "A", 1)], watermark=7)
    assert driver.events["sessions_closed_by_watermark"] == 1 and driver.events["windows_closed"] == 2
    driver.flush()
    assert driver.events["windows_closed"] == 3
    assert driver.events["sessions_closed_by_timer"] + driver.events["sessions_closed_by_watermark"] == 2


def test_a_long_session_of_many_batches_stays_one_row() -> None:
    driver = session()
    for ts in range(0, 300, 3):
        driver.batch([(ts, "A", 1)], watermark=ts - 1)
    assert driver.gauges["open_groups"] == 1
    assert driver.advance(400) == [(0, 302, 0, 1, "A", 100, 100)]


def test_keys_of_several_types() -> None:
    keys = {"keys": (("a", "__k0"), ("b", "__i0")), "key_types": (pa.string(), pa.int64())}
    driver = Driver(session_spec(5, aggregates=KEYED_SUMS["aggregates"], **keys))  # type: ignore[arg-type]
    driver.batch([(1, "A", 1), (2, "A", 2), (3, "A", 1), (4, "A", None)])
    assert [row[4:6] for row in driver.advance(99)] == [("A", 1), ("A", 2), ("A", None)]


def test_a_gap_must_be_positive() -> None:
    with pytest.raises(OptionError, match="gap must be positive"):
        session_spec(0)
