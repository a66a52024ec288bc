"""Spark's watermark and timers, shifted so that year 1 is Spark's zero.

Spark's watermark starts at 0 and never goes below, which it cannot tell from 1970. Event times are shifted by the
years 1 to 1970 before Spark sees them: 0 then really means "none yet", and times before 1970 are times like others.
Spark's own pages show watermarks shifted by 1,969 years; everything that Eventide shows is shifted back.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from eventide.eventtime.time_range import SHIFT_US

SHIFT_MS = SHIFT_US // 1000


def to_spark_ms(micros: int) -> int:
    """A timer for an event time: the next whole millisecond, shifted."""
    return -(-micros // 1000) + SHIFT_MS


def from_spark_ms(millis: int) -> int | None:
    """Event time in microseconds of Spark's watermark; None while there is none."""
    return None if millis <= 0 else (millis - SHIFT_MS) * 1000


class SteadyClock:
    """The wall clock, except that time goes on from where it was when the clock is set back."""

    def __init__(self, wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = time.monotonic_ns) -> None:
        self._wall = wall
        self._steady = steady
        self._now = wall()
        self._seen = steady()

    def micros(self) -> int:
        """Microseconds since the epoch; never less than before, and never standing still."""
        seen = self._steady()
        self._now = max(self._wall(), self._now + seen - self._seen)
        self._seen = seen
        return self._now // 1000
