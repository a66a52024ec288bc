"""How long the phases of a batch take."""

from __future__ import annotations

import time


class Stopwatch:
    """Runs from batch to batch: `begin` when Spark hands one over, `lap` after each phase, `end` when it is done."""

    def __init__(self) -> None:
        self._laps: dict[str, int] = {}
        self._begun = self._last = self._ready = _now()

    def begin(self) -> None:
        self._laps = {}
        self._begun = self._last = _now()

    def lap(self, phase: str) -> None:
        now = _now()
        self._laps[phase] = now - self._last
        self._last = now

    def took(self, planned_at: int | None) -> dict[str, int]:
        """Microseconds by phase. Spark has planned the batch since `planned_at`, or since the batch before has ended:
        one that is taken up again after a restart was planned before.
        """
        self.lap("store")
        since = self._begun if planned_at is None else max(planned_at, self._ready)
        return {"plan": max(0, self._begun - since), **self._laps}

    def end(self) -> None:
        self._ready = _now()


def _now() -> int:
    return time.time_ns() // 1000
