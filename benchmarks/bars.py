"""The bars to meet, and whether they were met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.figures import COLD, CPU, GROWTH, OURS, SINGLE, SPEED, STATE_GROWTH, Figure, Results, advantage, spread
from benchmarks.workloads import CLICKS, GENERAL_ROAD, JOINS, MILLION, ONE_SHOT_JOINS, OTHERS, TUMBLING, Workload

MEMORY_STATE = "native, memory"
ROCKSDB_STATE = "native, RocksDB"
COLD_START = "cold start"
LONG_RUN = "long run"
ONE_SHOT = "DuckDB, one shot"


@dataclass(frozen=True)
class Verdict:
    """`value` is None if it was not measured, and then the bar is not met."""

    title: str
    value: float | None
    bar: str
    is_met: bool


@dataclass(frozen=True)
class AtLeast:
    """Our median must be this many times better than another engine's, in one run."""

    workload: str
    figure: Figure
    against: str
    times: float

    def verdict(self, results: Results) -> Verdict:
        found = advantage(results, self.workload, self.figure, self.against)
        title = f"{self.workload}: {self.figure.title} against {self.against}"
        return Verdict(title, found, f">= {self.times:g}x", found is not None and found >= self.times)


@dataclass(frozen=True)
class AtMost:
    """Our own median must not be above a limit."""

    workload: str
    figure: Figure
    limit: float

    def verdict(self, results: Results) -> Verdict:
        found = spread(results.get(self.workload, {}).get(OURS, []), self.figure)
        title, bar = f"{self.workload}: {self.figure.title}", f"<= {self.limit:g} {self.figure.unit}"
        median = None if found is None else found.median
        return Verdict(title, median, bar, median is not None and median <= self.limit)


Bar = AtLeast | AtMost


def speed_bars(workload: Workload) -> tuple[Bar, ...]:
    """From 100,000 keys on, twice as fast as native with RocksDB and as fast as native in memory; with fewer keys, at
    least as fast as RocksDB and nearly as fast as in memory.
    """
    has_many_keys = workload.data.keys >= 100_000
    return (
        AtLeast(workload.name, SPEED, ROCKSDB_STATE, 2.0 if has_many_keys else 1.0),
        AtLeast(workload.name, SPEED, MEMORY_STATE, 1.0 if has_many_keys else 0.9),
    )


def cpu_bars(workload: Workload) -> tuple[Bar, ...]:
    if workload.data.format != "json" or workload.batch_rows < MILLION:
        return ()
    return tuple(AtLeast(workload.name, CPU, native, 2.0) for native in (ROCKSDB_STATE, MEMORY_STATE))


def floor_bars(workload: Workload) -> tuple[Bar, ...]:
    """A batch of one row takes at most twice as long as in native Spark."""
    return tuple(AtLeast(workload.name, SINGLE, native, 0.5) for native in (ROCKSDB_STATE, MEMORY_STATE))


def join_bars(workload: Workload) -> tuple[Bar, ...]:
    """Against native Spark's join of two streams."""
    return (
        AtLeast(workload.name, SPEED, ROCKSDB_STATE, 2.0),
        AtLeast(workload.name, SPEED, MEMORY_STATE, 1.0),
        AtLeast(workload.name, CPU, ROCKSDB_STATE, 2.0),
    )


def click_bars(workload: Workload) -> tuple[Bar, ...]:
    """Rows as people have them, where tasks read the files."""
    return (
        AtLeast(workload.name, SPEED, ROCKSDB_STATE, 3.0),
        AtLeast(workload.name, CPU, ROCKSDB_STATE, 3.0),
        AtLeast(workload.name, SPEED, MEMORY_STATE, 2.0),
        AtLeast(workload.name, CPU, ONE_SHOT, 1 / 3),
    )


def road_bars(workload: Workload) -> tuple[Bar, ...]:
    """The same where Spark reads and decodes them, or any DataFrame is given."""
    times = 1.5 if workload.data.keys >= 100_000 else 1.0
    return tuple(AtLeast(workload.name, figure, ROCKSDB_STATE, times) for figure in (SPEED, CPU))


BARS: tuple[Bar, ...] = (
    *(bar for workload in CLICKS for bar in click_bars(workload)),
    *(bar for workload in GENERAL_ROAD for bar in road_bars(workload)),
    *(bar for workload in TUMBLING for bar in (*speed_bars(workload), *cpu_bars(workload))),
    *floor_bars(TUMBLING[0]),
    *(AtLeast(workload.name, SPEED, ROCKSDB_STATE, 1.0) for workload in OTHERS),
    *(bar for workload in JOINS for bar in join_bars(workload)),
    *(AtLeast(workload.name, CPU, ONE_SHOT, 0.1) for workload in ONE_SHOT_JOINS),
    AtMost(COLD_START, COLD, 15.0),
    AtMost(LONG_RUN, GROWTH, 1.1),
    AtMost(LONG_RUN, STATE_GROWTH, 1.1),
)


def is_judged(workload: str, engine: str) -> bool:
    """Whether a bar needs this engine on this workload."""
    rivals = {bar.against for bar in BARS if isinstance(bar, AtLeast) and bar.workload == workload}
    return engine in {OURS, *rivals}


def verdicts(results: Results, bars: Iterable[Bar] = BARS) -> list[Verdict]:
    return [bar.verdict(results) for bar in bars]


def all_met(found: Sequence[Verdict]) -> bool:
    return all(verdict.is_met for verdict in found)
