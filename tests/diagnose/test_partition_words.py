"""Which partition keeps windows open."""

from __future__ import annotations

from eventide.diagnose.partition_words import partition_lines
from eventide.eventtime.lanes import Lanes


def told(lanes: Lanes, idle_timeout: int | None = None, idle: tuple[str, ...] = ()) -> str:
    return "\n".join(partition_lines("clicks", lanes, idle_timeout, str, idle))


def test_the_partition_behind_the_others_is_named_with_what_is_unread_in_it() -> None:
    lanes: Lanes = {"c-0": {"watermark": 90, "unread": 0}, "c-1": {"watermark": 20, "unread": 1200}}
    assert "smallest of its 2 partitions: c-1 is at 20, and 1,200 messages are unread" in told(lanes)
    assert "idle_timeout" not in told(lanes)


def test_a_silent_partition_is_an_occasion_for_an_idle_timeout() -> None:
    lanes: Lanes = {"c-0": {"watermark": 90, "unread": 0}, "c-1": {"watermark": 20, "unread": 0}}
    assert "give clicks an idle_timeout" in told(lanes)
    assert "After 30s without rows c-1 no longer holds the others back" in told(lanes, 30_000_000)


def test_a_partition_that_nothing_is_known_of_yet_is_named() -> None:
    lanes: Lanes = {"c-0": {"watermark": 90, "unread": 0}, "c-1": {"unread": 1}}
    assert (
        told(lanes)
        == "No row of c-1 has come in yet, and 1 message is unread in it: until then clicks has no watermark."
    )


def test_without_partitions_nothing_is_told() -> None:
    assert told({}) == "" and told({"c-0": {"unread": 0}}) == ""


def test_idle_partitions_are_named_and_do_not_hold_anybody_back() -> None:
    lanes: Lanes = {"c-0": {"watermark": 90}, "c-1": {"watermark": 20}, "c-2": {"watermark": 50, "unread": 3}}
    lines = told(lanes, 30_000_000, ("c-1", "c-2")).splitlines()
    assert lines[0] == "c-1 is idle (no row for 30s), and holds nobody back."  # c-2 has something to read
    assert "c-2 is at 50" in lines[1] and "c-1" not in lines[1]
    many: Lanes = {f"p-{number}": {"watermark": number} for number in range(9)}
    assert told(many, None, tuple(many)).startswith("p-0, p-1, p-2, p-3, p-4 and 4 more are idle, and hold nobody")
