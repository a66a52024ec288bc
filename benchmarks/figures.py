"""The arithmetic of the results: medians, spreads and ratios. No engine, no clock."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

OURS = "eventide"


@dataclass(frozen=True)
class Figure:
    """One kind of measurement: its key in a sample, its heading, and which direction is better."""

    key: str
    title: str
    unit: str
    higher_is_better: bool = False
    digits: int = 2


SPEED = Figure("rows_per_second", "speed", "rows/s", higher_is_better=True, digits=0)
CPU = Figure("cpu_per_million", "CPU", "s per million rows")
SINGLE = Figure("single_row_seconds", "a batch of one row", "s")
CLOSING = Figure("closing_seconds", "a row that closes windows", "s")
STATE = Figure("state_bytes_per_row", "state written", "bytes per row")
CHECKPOINT = Figure("checkpoint_bytes_per_batch", "other checkpoint files", "bytes per batch", digits=0)
BATCHES = Figure("batches_per_second", "batches of one row", "batches/s", higher_is_better=True, digits=1)
MEDIAN_DELAY = Figure("median_delay_seconds", "from a window's end to its result, median", "s")
LONGEST_DELAY = Figure("p99_delay_seconds", "from a window's end to its result, 99th percentile", "s")
COLD = Figure("first_result_seconds", "first result, cold", "s", digits=1)
MEMORY = Figure("peak_megabytes", "peak memory", "MB", digits=0)
SCALING = Figure("speed_times", "speed with two cores by that with one", "times", higher_is_better=True)
GROWTH = Figure("memory_growth", "memory, last third by middle third", "times")
STATE_GROWTH = Figure("state_growth", "state held, last third by middle third", "times")
FIGURES = (
    *(SPEED, CPU, SINGLE, CLOSING, STATE, CHECKPOINT),
    *(BATCHES, MEDIAN_DELAY, LONGEST_DELAY, COLD, MEMORY, SCALING, GROWTH, STATE_GROWTH),
)

Sample = dict[str, float]
Results = dict[str, dict[str, list[Sample]]]  # samples by workload and engine


@dataclass(frozen=True)
class Spread:
    median: float
    lowest: float
    highest: float


def spread(samples: Sequence[Sample], figure: Figure) -> Spread | None:
    """None if the figure was not measured."""
    values = [sample[figure.key] for sample in samples if figure.key in sample]
    return Spread(statistics.median(values), min(values), max(values)) if values else None


def advantage(results: Results, workload: str, figure: Figure, other: str, ours: str = OURS) -> float | None:
    """How many times better our median is than another engine's: above 1 is better for us, whichever direction is
    better for the figure.
    """
    engines = results.get(workload, {})
    mine, theirs = (spread(engines.get(name, []), figure) for name in (ours, other))
    if mine is None or theirs is None:
        return None
    better, worse = (mine.median, theirs.median) if figure.higher_is_better else (theirs.median, mine.median)
    return better / worse if worse else None
