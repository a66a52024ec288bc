"""Partitions of a source, each with a watermark of its own: the source's is the least of them.

Rows come in order, or nearly so, within a partition only. Were the newest row of all to decide, one partition that is
read faster than another would make the rows of the slower one late.

    lane    watermark   unread    counts
    c-0     12:00:05    0         yes
    c-1     11:59:58    812       yes: the source's watermark is 11:59:58
    c-2     none        40        yes: nobody knows yet what it will give, so there is no watermark
    c-3     none        0         no: nothing was ever in it

A lane that has been silent for the idle timeout does not count either, unless there is something to read in it. When
all are silent nobody is held back: the newest counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

Lanes = dict[str, dict[str, int]]  # by name: `watermark` that its rows allow, messages that were `unread`


def add_lanes(so_far: Lanes, found: Mapping[str, Mapping[str, int]]) -> None:
    """A watermark never goes back; what is unread is what was found last."""
    for lane, figures in found.items():
        known = so_far.setdefault(lane, {})
        for name, value in figures.items():
            known[name] = max(value, known.get(name, value)) if name == "watermark" else value


def least_watermark(lanes: Lanes, idle: Collection[str] = ()) -> int | None:
    """The watermark of a source; None if there is none yet."""
    marks = [lane.get("watermark") for name, lane in lanes.items() if _counts(lane, name in idle)]
    if not marks:
        return max((lane["watermark"] for lane in lanes.values() if "watermark" in lane), default=None)
    known = [mark for mark in marks if mark is not None]
    return min(known) if len(known) == len(marks) else None


def held_back_by(lanes: Lanes, idle: Collection[str] = ()) -> str | None:
    """The lane that determines the watermark, or that keeps it from being there."""
    counting = {name: lane.get("watermark") for name, lane in lanes.items() if _counts(lane, name in idle)}
    unknown = sorted(name for name, mark in counting.items() if mark is None)
    if unknown:
        return unknown[0]
    return min(counting, key=lambda name: (counting[name], name), default=None)


def _counts(lane: Mapping[str, int], is_idle: bool) -> bool:
    return bool(lane.get("unread")) or ("watermark" in lane and not is_idle)


@dataclass
class LaneSilence:
    """How long the lanes of one source have been silent. Nothing here reads a clock."""

    idle_timeout: int | None
    _heard: dict[str, int] = field(default_factory=dict)

    def heard(self, lane: str, now: int) -> None:
        self._heard[lane] = now

    def idle(self, lanes: Collection[str], now: int) -> set[str]:
        """Of `lanes` those that have been silent for the timeout; a new one is as if it were heard now."""
        if self.idle_timeout is None:
            return set()
        return {lane for lane in lanes if now - self._heard.setdefault(lane, now) >= self.idle_timeout}
