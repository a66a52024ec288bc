"""What partitions of a source do to its watermark, in words."""

from __future__ import annotations

from collections.abc import Callable, Collection

from eventide.eventtime.durations import format_duration
from eventide.eventtime.lanes import Lanes, held_back_by

_SHOWN = 5  # partitions that are named


def partition_lines(
    source: str,
    lanes: Lanes,
    idle_timeout: int | None,
    at: Callable[[int], str],
    idle: Collection[str] = (),
) -> list[str]:
    """Which partition holds the source back, and what to do about it; `at` writes a time.

    `idle` are those that have been silent for the idle timeout.
    """
    holder = held_back_by(lanes, idle)
    silent = _silent([name for name in sorted(idle) if name in lanes and not lanes[name].get("unread")], idle_timeout)
    if holder is None:
        return silent
    unread, watermark = lanes[holder].get("unread", 0), lanes[holder].get("watermark")
    waiting = f"{unread:,} messages are unread in it" if unread != 1 else "1 message is unread in it"
    if watermark is None:
        return [*silent, f"No row of {holder} has come in yet, and {waiting}: until then {source} has no watermark."]
    told = [
        *silent,
        f"The watermark of {source} is the smallest of its {len(lanes):,} partitions: {holder} is at {at(watermark)}, "
        f"and {waiting}.",
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


def _silent(names: list[str], idle_timeout: int | None) -> list[str]:
    """That partitions are idle; of many, the first few by name."""
    if not names:
        return []
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
    verb, they = ("is", "holds") if len(names) == 1 else ("are", "hold")
    since = "" if idle_timeout is None else f" (no row for {format_duration(idle_timeout)})"
    return [f"{shown} {verb} idle{since}, and {they} nobody back."]
