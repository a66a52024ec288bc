"""A wall clock that is set back: time continues."""

from __future__ import annotations

from eventide.eventtime.heartbeat import Heartbeat, SourceTiming
from eventide.spark.clock import SteadyClock

SECOND = 1_000_000_000


def test_time_continues_when_the_clock_is_set_back_and_follows_when_it_is_set_forward() -> None:
    wall, steady = [1000 * SECOND], [5 * SECOND]
    clock = SteadyClock(lambda: wall[0], lambda: steady[0])
    seen = []
    for jump in (1, 1, -3600, 1, 7200, 1):  # seconds that the wall clock moves while one passes
        wall[0] += jump * SECOND
        steady[0] += SECOND
        seen.append(clock.micros() // 1_000_000)
    assert seen == [1001, 1002, 1003, 1004, 4603, 4604]


def test_periodic_emission_and_idle_sources_outlive_a_clock_that_is_set_back() -> None:
    wall, steady = [10_000 * SECOND], [0]
    clock = SteadyClock(lambda: wall[0], lambda: steady[0])
    heartbeat = Heartbeat([SourceTiming("a", idle_timeout=5_000_000), SourceTiming("b")], tick_every=2_000_000)
    heartbeat.heard("a", clock.micros())
    heartbeat.decide(clock.micros(), {"a": 1, "b": 9}, is_open=True)
    wall[0] -= 3600 * SECOND
    steady[0] += 6 * SECOND
    decisions = heartbeat.decide(clock.micros(), {"a": 1, "b": 9}, is_open=True)
    assert [(decision.kind, decision.source) for decision in decisions] == [("watermark", "a"), ("tick", None)]
