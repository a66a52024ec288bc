"""The watermark of a source whose partitions have one each."""

from __future__ import annotations

from eventide.eventtime.lanes import Lanes, LaneSilence, add_lanes, held_back_by, least_watermark


def test_the_slowest_partition_decides() -> None:
    lanes: Lanes = {"c-0": {"watermark": 50, "unread": 0}, "c-1": {"watermark": 20, "unread": 9}}
    assert least_watermark(lanes) == 20 and held_back_by(lanes) == "c-1"


def test_a_partition_with_unread_messages_and_no_row_yet_keeps_the_watermark_from_being_there() -> None:
    lanes: Lanes = {"c-0": {"watermark": 50, "unread": 0}, "c-1": {"unread": 3}}
    assert least_watermark(lanes) is None and held_back_by(lanes) == "c-1"


def test_a_partition_in_which_nothing_ever_was_does_not_count() -> None:
    lanes: Lanes = {"c-0": {"watermark": 50, "unread": 0}, "c-1": {"unread": 0}}
    assert least_watermark(lanes) == 50 and held_back_by(lanes) == "c-0"


def test_an_idle_partition_does_not_count_unless_there_is_something_to_read() -> None:
    lanes: Lanes = {"c-0": {"watermark": 50, "unread": 0}, "c-1": {"watermark": 20, "unread": 0}}
    assert least_watermark(lanes, {"c-1"}) == 50
    lanes["c-1"]["unread"] = 1
    assert least_watermark(lanes, {"c-1"}) == 20


def test_when_all_are_idle_nobody_is_held_back() -> None:
    lanes: Lanes = {"c-0": {"watermark": 50, "unread": 0}, "c-1": {"watermark": 20, "unread": 0}, "c-2": {"unread": 0}}
    assert least_watermark(lanes, {"c-0", "c-1", "c-2"}) == 50
    assert held_back_by(lanes, {"c-0", "c-1", "c-2"}) is None


def test_without_rows_there_is_no_watermark() -> None:
    assert least_watermark({}) is None and held_back_by({}) is None
    assert least_watermark({"c-0": {"unread": 0}}) is None


def test_a_watermark_never_goes_back_and_what_is_unread_is_what_was_found_last() -> None:
    lanes: Lanes = {}
    add_lanes(lanes, {"c-0": {"watermark": 50}, "c-1": {"unread": 7}})
    add_lanes(lanes, {"c-0": {"watermark": 40, "unread": 1}, "c-1": {"unread": 2}})
    assert lanes == {"c-0": {"watermark": 50, "unread": 1}, "c-1": {"unread": 2}}


def test_silence_is_counted_from_the_last_row_or_from_when_the_lane_was_first_seen() -> None:
    silence = LaneSilence(idle_timeout=10)
    silence.heard("c-0", 0)
    assert silence.idle(["c-0", "c-1"], 9) == set()
    assert silence.idle(["c-0", "c-1"], 10) == {"c-0"}
    assert silence.idle(["c-0", "c-1"], 19) == {"c-0", "c-1"}
    silence.heard("c-1", 20)
    assert silence.idle(["c-0", "c-1"], 25) == {"c-0"}
    assert LaneSilence(idle_timeout=None).idle(["c-0"], 1 << 60) == set()
