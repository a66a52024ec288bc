"""The bars to meet, and whether they were met."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.engines import flink_sql
from benchmarks.figures import (
    BATCHES,
    COLD,
    CPU,
    GROWTH,
    LONGEST_DELAY,
    MEDIAN_DELAY,
    MEMORY,
    OURS,
    SCALING,
    SINGLE,
    SPEED,
    STATE_GROWTH,
    Figure,
    Results,
    advantage,
    spread,
)
from benchmarks.flink_jobs import FLINK_MEMORY, FLINK_ROCKSDB
from benchmarks.workloads import (
    CLICKS,
    GENERAL_ROAD,
    JOINS,
    MILLION,
    ONE_SHOT_JOINS,
    OTHERS,
    SLIDING,
    TUMBLING,
    Workload,
)

MEMORY_STATE = "native, memory"
ROCKSDB_STATE = "native, RocksDB"
COLD_START = "cold start"
COLD_FIRST = "cold start with pip, first time"
COLD_AGAIN = "cold start with pip, second time"
SCALING_OF_CORES = "from one core to two"
LONG_RUN = "long run"
ONE_SHOT = "DuckDB, one shot"
MANY_STREAMS = "ten streams"
LATENCY = {rate: f"latency, {rate:,} rows/s" for rate in (10_000, 100_000)}  # by rows per second


@dataclass(frozen=True)
class Verdict:
    """`value` is None if it was not measured, and then the bar is not met."""

    title: str
    value: float | None
    bar: str
    is_met: bool
    is_asked: bool = True  # False: it was not measured, and nobody wanted it to be


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


def own_median(results: Results, workload: str, figure: Figure) -> float | None:
    found = spread(results.get(workload, {}).get(OURS, []), figure)
    return None if found is None else found.median


@dataclass(frozen=True)
class AtMost:
    """Our own median must not be above a limit."""

    workload: str
    figure: Figure
    limit: float

    def verdict(self, results: Results) -> Verdict:
        found = own_median(results, self.workload, self.figure)
        title, bar = f"{self.workload}: {self.figure.title}", f"<= {self.limit:g} {self.figure.unit}"
        return Verdict(title, found, bar, found is not None and found <= self.limit)


@dataclass(frozen=True)
class Reaches:
    """Our own median must not be below a limit."""

    workload: str
    figure: Figure
    limit: float

    def verdict(self, results: Results) -> Verdict:
        found = own_median(results, self.workload, self.figure)
        title, bar = f"{self.workload}: {self.figure.title}", f">= {self.limit:g} {self.figure.unit}"
        return Verdict(title, found, bar, found is not None and found >= self.limit)


@dataclass(frozen=True)
class NotFarBehind:
    """Our median may be above another engine's, by so much at most."""

    workload: str
    figure: Figure
    against: str
    margin: float

    def verdict(self, results: Results) -> Verdict:
        ours, theirs = (
            spread(results.get(self.workload, {}).get(engine, []), self.figure) for engine in (OURS, self.against)
        )
        title = f"{self.workload}: {self.figure.title} beyond {self.against}"
        found = None if ours is None or theirs is None else ours.median - theirs.median
        bar = f"<= {self.margin:g} {self.figure.unit}"
        return Verdict(title, found, bar, found is not None and found <= self.margin)


Bar = AtLeast | AtMost | Reaches | NotFarBehind


def speed_bars(workload: Workload) -> tuple[Bar, ...]:
    """From 100,000 keys on, twice as fast as native with RocksDB and as fast as native in memory; with fewer keys, at
    least as fast as RocksDB and nearly as fast as in memory, and of Parquet twice and half as fast again.
    """
    few, few_in_memory = (2.0, 1.5) if workload.data.format == "parquet" else (1.0, 0.9)
    has_many_keys = workload.data.keys >= 100_000
    return (
        AtLeast(workload.name, SPEED, ROCKSDB_STATE, 2.0 if has_many_keys else few),
        AtLeast(workload.name, SPEED, MEMORY_STATE, 1.0 if has_many_keys else few_in_memory),
    )


def cpu_bars(workload: Workload) -> tuple[Bar, ...]:
    if workload.data.format != "json" or workload.batch_rows < MILLION:
        return ()
    return tuple(AtLeast(workload.name, CPU, native, 2.0) for native in (ROCKSDB_STATE, MEMORY_STATE))


def floor_bars(workload: Workload) -> tuple[Bar, ...]:
    """A batch of one row takes no longer than in native Spark."""
    return tuple(AtLeast(workload.name, SINGLE, native, 1.0) for native in (ROCKSDB_STATE, MEMORY_STATE))


def other_bars(workload: Workload) -> tuple[Bar, ...]:
    times = {"sessions": 4.0, "deduplication": 4.0, "wide rows": 3.0}.get(workload.name, 1.0)
    against: tuple[Bar, ...] = (AtLeast(workload.name, SPEED, ROCKSDB_STATE, times),)
    if workload.name not in ("sessions", "deduplication"):
        return against
    return (*against, AtLeast(workload.name, SPEED, MEMORY_STATE, 2.0), AtMost(workload.name, CPU, 3.5))


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


def flink_bars(workload: Workload) -> tuple[Bar, ...]:
    """Against Flink SQL, which only runs where somebody says which interpreter has it."""
    return tuple(
        AtLeast(workload.name, figure, engine, times)
        for engine, times in ((FLINK_ROCKSDB, 3.0), (FLINK_MEMORY, 2.0))
        for figure in (SPEED, CPU)
    )


def alone_of(workload: Workload) -> str:
    """The name under which its peak memory stands, each engine alone in a process."""
    return f"alone: {workload.name}"


_ALONE = (
    *("clicks, 1k keys", "clicks, 100k keys", "json, 1k keys", "parquet, 1k keys"),
    *("sessions", "deduplication", "interval join, 100k keys"),
)  # one of each kind: every run starts a Spark of its own
ALONE = tuple(workload for workload in (*CLICKS, *TUMBLING, *OTHERS, *JOINS) if workload.name in _ALONE)
WITH_FLINK = tuple(workload for workload in (*CLICKS, *TUMBLING, *OTHERS, *JOINS) if flink_sql.can_express(workload))

BARS: tuple[Bar, ...] = (
    *(bar for workload in CLICKS for bar in click_bars(workload)),
    *(bar for workload in GENERAL_ROAD for bar in road_bars(workload)),
    *(bar for workload in TUMBLING for bar in (*speed_bars(workload), *cpu_bars(workload))),
    *floor_bars(TUMBLING[0]),
    *(bar for workload in OTHERS for bar in other_bars(workload)),
    *(AtMost(workload.name, CPU, 5.0) for workload in SLIDING),
    *(bar for workload in JOINS for bar in join_bars(workload)),
    *(AtLeast(workload.name, CPU, ONE_SHOT, 0.1) for workload in ONE_SHOT_JOINS),
    *(AtLeast(MANY_STREAMS, BATCHES, native, 2.0) for native in (ROCKSDB_STATE, MEMORY_STATE)),
    *(AtMost(workload, MEDIAN_DELAY, 0.5) for workload in LATENCY.values()),
    *(AtMost(workload, LONGEST_DELAY, 1.0) for workload in LATENCY.values()),
    *(AtLeast(alone_of(workload), MEMORY, ROCKSDB_STATE, 1.0) for workload in ALONE),
    Reaches(SCALING_OF_CORES, SCALING, 1.7),
    *(NotFarBehind(start, COLD, "native", 1.0) for start in (COLD_START, COLD_FIRST, COLD_AGAIN)),
    AtMost(LONG_RUN, GROWTH, 1.1),
    AtMost(LONG_RUN, STATE_GROWTH, 1.1),
    *(bar for workload in WITH_FLINK for bar in flink_bars(workload)),
)


def is_judged(workload: str, engine: str) -> bool:
    """Whether a bar needs this engine on this workload."""
    rivals = {bar.against for bar in BARS if isinstance(bar, AtLeast | NotFarBehind) and bar.workload == workload}
    return engine in {OURS, *rivals}


def verdicts(results: Results, bars: Iterable[Bar] = BARS, not_asked: Collection[str] = ()) -> list[Verdict]:
    """Bars against engines that nobody asked for are listed, and missed only if there is a figure all the same."""
    found = [(bar, bar.verdict(results)) for bar in bars]
    return [
        replace(verdict, is_asked=not (verdict.value is None and isinstance(bar, AtLeast) and bar.against in not_asked))
        for bar, verdict in found
    ]


def all_met(found: Sequence[Verdict]) -> bool:
    return all(verdict.is_met for verdict in found if verdict.is_asked)
