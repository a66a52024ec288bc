"""What partitions of a source do to its watermark, in words."""

from __future__ import annotations

from collections.abc import Callable

from eventide.eventtime.durations import format_duration
from eventide.eventtime.lanes import Lanes, held_back_by


def partition_lines(source: str, lanes: Lanes, idle_timeout: int | None, at: Callable[[int], str]) -> list[str]:
    """Which partition holds the source back, and what to do about it; `at` writes a time."""
    holder = held_back_by(lanes)
    if holder is None:
        return []
    unread, watermark = lanes[holder].get("unread", 0), lanes[holder].get("watermark")
    waiting = f"{unread:,} messages are unread in it" if unread != 1 else "1 message is unread in it"
    if watermark is None:
        return [f"No row of {holder} has come in yet, and {waiting}: until then {source} has no watermark."]
    told = [
        f"The watermark of {source} is the smallest of its {len(lanes):,} partitions: {holder} is at {at(watermark)}, "
        f"and {waiting}."
    ]
    if unread or len(lanes) == 1:
        return told
    if idle_timeout is None:
        return [
            *told,
            f"If {holder} stays silent, give {source} an idle_timeout: WITH ('idle_timeout' = '30 seconds'); then a "
            "silent partition holds nobody back.",
        ]
    return [*told, f"After {format_duration(idle_timeout)} without rows {holder} no longer holds the others back."]
