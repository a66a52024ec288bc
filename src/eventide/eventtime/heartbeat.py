"""What the passing of time causes when no row arrives: idle sources, the clock as a watermark, periodic emission.

A heartbeat looks at the clock and decides; its decisions enter the stream as logged entries, so that a replay makes the
same ones in the same place. It holds no state that a restart would need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceTiming:
    """What the heartbeat must know about one source of a stream. Durations in microseconds."""

    source: str
    idle_timeout: int | None = None
    by_clock: bool = False  # processing time: the clock is the watermark


@dataclass(frozen=True)
class Decision:
    """`kind` is 'watermark' (of `source`, at `at`) or 'tick' (processing time has reached `at`)."""

    kind: str
    at: int
    source: str | None = None


@dataclass
class Heartbeat:
    timings: Sequence[SourceTiming]
    tick_every: int | None = None
    _heard: dict[str, int] = field(default_factory=dict)
    _ticked: int | None = None
    _dirty: bool = False

    def heard(self, source: str, now: int) -> None:
        """Rows of `source` were taken in at wall-clock time `now`: its silence is counted from here."""
        self._heard[source] = now
        self._dirty = True

    def idle(self, now: int) -> set[str]:
        """The sources that have been silent for their idle timeout."""
        return {
            timing.source
            for timing in self.timings
            if timing.idle_timeout is not None
            and now - self._heard.setdefault(timing.source, now) >= timing.idle_timeout
        }

    def decide(self, now: int, watermarks: Mapping[str, int | None], is_open: bool) -> list[Decision]:
        """What is due at `now`. `watermarks` are the sources' own; `is_open` says whether anything is waiting for time
        to pass.
        """
        return [*self._clock(now, watermarks, is_open), *self._release_idle(now, watermarks), *self._tick(now)]

    def _clock(self, now: int, watermarks: Mapping[str, int | None], is_open: bool) -> list[Decision]:
        if not is_open:
            return []
        clocked = [timing.source for timing in self.timings if timing.by_clock]
        return [Decision("watermark", now, source) for source in clocked if (watermarks.get(source) or 0) < now]

    def _release_idle(self, now: int, watermarks: Mapping[str, int | None]) -> list[Decision]:
        """Raise each idle source to the minimum of the others, so that it no longer holds the stream back."""
        idle = self.idle(now)
        active = [watermarks.get(timing.source) for timing in self.timings if timing.source not in idle]
        known = [watermark for watermark in active if watermark is not None]
        if not idle or not active or len(known) < len(active):
            return []
        target = min(known)
        behind = [source for source in sorted(idle) if (own := watermarks.get(source)) is None or own < target]
        return [Decision("watermark", target, source) for source in behind]

    def _tick(self, now: int) -> list[Decision]:
        if self.tick_every is None:
            return []
        if self._ticked is None:
            self._ticked = now
        if now - self._ticked < self.tick_every or not self._dirty:
            return []
        self._ticked, self._dirty = now, False
        return [Decision("tick", now)]
