"""Rows behind the watermark: what happens to them, how long a window waits for them, and where the rest is kept.

Times are microseconds since the epoch; a watermark of None is before every time.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from eventide.errors import OptionError

Window = TypeVar("Window", bound=Hashable)
Event = TypeVar("Event")


@dataclass(frozen=True)
class Drop:
    """Policy: drop a row behind the watermark. Decision: drop this one."""


@dataclass(frozen=True)
class SideOutput:
    """Policy: send a row behind the watermark to `channel`. Decision: send this one there."""

    channel: str


@dataclass(frozen=True)
class Reassign:
    """Policy: a row at most `max_lateness` behind takes the watermark as its event time; `otherwise` applies to older
    rows.
    """

    max_lateness: int
    otherwise: Drop | SideOutput = Drop()

    def __post_init__(self) -> None:
        if self.max_lateness < 0:
            raise OptionError("max_lateness cannot be negative")


@dataclass(frozen=True)
class Keep:
    """Decision: use the row, with this event time."""

    event_time: int


LatePolicy = Drop | Reassign | SideOutput
Decision = Keep | Drop | SideOutput


class LateDataHandler:
    """Decides row by row under one policy, and counts. A row is behind the watermark when its event time is <= it."""

    def __init__(self, policy: LatePolicy) -> None:
        self._policy = policy
        self.dropped = self.reassigned = self.side_output = 0

    def handle(self, event_time: int, watermark: int | None) -> Decision:
        if watermark is None or event_time > watermark:
            return Keep(event_time)
        if isinstance(self._policy, Reassign):
            if watermark - event_time <= self._policy.max_lateness:
                self.reassigned += 1
                return Keep(watermark)
            return self._refused(self._policy.otherwise)
        return self._refused(self._policy)

    def _refused(self, decision: Drop | SideOutput) -> Drop | SideOutput:
        if isinstance(decision, Drop):
            self.dropped += 1
        else:
            self.side_output += 1
        return decision


class AllowedLatenessTracker(Generic[Window]):
    """Which windows are open: each until the watermark reaches its end plus the allowed lateness.

    `is_open` answers for any end; `close` reports the closing of windows given to `track`, once each.
    """

    def __init__(self, allowed_lateness: int = 0) -> None:
        if allowed_lateness < 0:
            raise OptionError("allowed lateness cannot be negative")
        self._lateness = allowed_lateness
        self.passed: int | None = None  # what ends by then is closed, whatever the lateness
        self._ends: dict[Window, int] = {}

    def is_open(self, end: int, watermark: int | None) -> bool:
        if self.passed is not None and end <= self.passed:
            return False
        return watermark is None or watermark < end + self._lateness

    def track(self, window: Window, end: int) -> None:
        """Track a window, or change the end of one that is tracked."""
        self._ends[window] = end

    def forget(self, window: Window) -> None:
        """Stop tracking a window that was merged or flushed."""
        self._ends.pop(window, None)

    def close(self, watermark: int | None) -> list[Window]:
        """The tracked windows that are no longer open, ordered by their ends; they are tracked no more."""
        closed = [window for window, end in self._ends.items() if not self.is_open(end, watermark)]
        ends = {window: self._ends.pop(window) for window in closed}
        return sorted(closed, key=lambda window: ends[window])

    def __len__(self) -> int:
        return len(self._ends)


class SideOutputRouter(Generic[Event]):
    """Events by channel, in order of arrival, until they are drained."""

    def __init__(self) -> None:
        self._channels: dict[str, list[Event]] = {}
        self.routed: dict[str, int] = {}

    def route(self, channel: str, event: Event) -> None:
        self._channels.setdefault(channel, []).append(event)
        self.routed[channel] = self.routed.get(channel, 0) + 1

    def drain(self, channel: str) -> list[Event]:
        """The events of a channel since it was last drained; none for a channel that nobody has used."""
        return self._channels.pop(channel, [])

    @property
    def pending(self) -> dict[str, int]:
        """How many events are waiting in each channel that holds any."""
        return {channel: len(events) for channel, events in self._channels.items()}
