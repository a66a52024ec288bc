"""How long the phases of a batch take, on a clock that the test moves."""

from __future__ import annotations

import pytest

from eventide.spark import stopwatch


def test_phases_add_up_and_planning_does_not_reach_back_behind_the_batch_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000]
    monkeypatch.setattr(stopwatch, "_now", lambda: now[0])
    watch = stopwatch.Stopwatch()
    now[0] = 1500
    watch.begin()
    now[0] = 1800
    watch.lap("compute")
    now[0] = 1850
    watch.lap("sinks")
    now[0] = 1860
    assert watch.took(planned_at=1400) == {"plan": 100, "compute": 300, "sinks": 50, "store": 10}
    watch.end()
    now[0] = 2000
    watch.begin()
    assert watch.took(planned_at=5) == {"plan": 140, "store": 0}  # planned before a restart
