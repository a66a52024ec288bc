"""All measurements: the comparison on one Spark session, and what needs separate processes."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import eventide
from benchmarks import alone, cold, latency, many_streams, memory, runner, scaling
from benchmarks.bars import (
    COLD_AGAIN,
    COLD_FIRST,
    COLD_START,
    LATENCY,
    LONG_RUN,
    MANY_STREAMS,
    SCALING_OF_CORES,
    alone_of,
)
from benchmarks.engines.contract import Engine, OneShot
from benchmarks.engines.eventide import Eventide
from benchmarks.engines.native import in_memory, with_rocksdb
from benchmarks.figures import (
    BATCHES,
    COLD,
    GROWTH,
    LONGEST_DELAY,
    MEDIAN_DELAY,
    MEMORY,
    OURS,
    SCALING,
    Results,
    Sample,
)
from benchmarks.runner import Apart, Say
from benchmarks.workloads import Workload

Wanted = Callable[[str, str], bool]  # by workload and engine name


def any_engine(workload: str, engine: str) -> bool:
    return True


def comparison(
    workloads: Sequence[Workload],
    one_shots: Sequence[OneShot],
    repeat: int,
    say: Say,
    is_wanted: Wanted = any_engine,
    apart: Sequence[Apart] = (),
) -> tuple[Results, list[str]]:
    """Runs on one Spark session; returns the results, and what went wrong."""
    with eventide.connect() as holder:
        engines: list[Engine] = [Eventide(holder.spark), with_rocksdb(holder.spark), in_memory(holder.spark)]
        results: Results = {}
        problems: list[str] = []
        for engine in engines:
            say(f"warming up: {engine.name}")
            runner.heat(engine)
        for workload in workloads:
            wanted = [engine for engine in engines if is_wanted(workload.name, engine.name)]
            beside = [one_shot for one_shot in one_shots if is_wanted(workload.name, one_shot.name)]
            later = [engine for engine in apart if is_wanted(workload.name, engine.name)]
            found, failed = runner.compare_all([workload], wanted, beside, repeat, say, later)
            results.update(found)
            problems += failed
        return results, problems


def cold_starts(repeat: int, say: Say, engines: Sequence[str] = cold.ENGINES) -> Results:
    say(COLD_START)
    samples: dict[str, list[Sample]] = {engine: [] for engine in engines}
    for turn in range(repeat):
        for engine in engines:
            samples[engine].append(cold.measure(engine))
            say(f"  {turn + 1}/{repeat} {engine}: {samples[engine][-1][COLD.key]:.1f} s")
    return {COLD_START: samples}


def cold_starts_with_pip(repeat: int, say: Say, engines: Sequence[str] = cold.ENGINES) -> Results:
    """Without anything that `make` has prepared, the first time and the second."""
    results: Results = {COLD_FIRST: {}, COLD_AGAIN: {}}
    say(f"{COLD_FIRST}; {COLD_AGAIN}")
    for turn in range(repeat):
        for engine in engines:
            pair = cold.measure_with_pip(engine)
            for workload, sample in zip(results, pair, strict=True):
                results[workload].setdefault(engine, []).append(sample)
            say(f"  {turn + 1}/{repeat} {engine}: {pair[0][COLD.key]:.1f} s, then {pair[1][COLD.key]:.1f} s")
    return results


def scaling_of_cores(say: Say) -> Results:
    say(f"{SCALING_OF_CORES}: {scaling.WORKLOAD.name}")
    sample = scaling.measure(OURS, scaling.TURNS, say)
    say(f"  {sample[SCALING.key]:.2f} times")
    return {SCALING_OF_CORES: {OURS: [sample]}}


def many_streams_at_once(say: Say) -> Results:
    say(MANY_STREAMS)
    samples: dict[str, list[Sample]] = {}
    for engine, speed, _ in many_streams.compared(10, many_streams.ROUNDS):
        samples[engine] = [{BATCHES.key: speed}]
        say(f"  {engine}: {speed:.1f} batches/s")
    return {MANY_STREAMS: samples}


def latencies(seconds: float, say: Say) -> Results:
    """Ours, and native Spark's beside it."""
    results: Results = {}
    with eventide.connect() as holder:
        engines: list[Engine] = [Eventide(holder.spark), with_rocksdb(holder.spark)]
        for engine in engines:
            runner.heat(engine)
        for rate, workload in LATENCY.items():
            say(workload)
            for engine in engines:
                found = latency.delays(engine, rate, seconds)
                middle, longest = statistics.median(found), float(np.quantile(found, 0.99))
                results.setdefault(workload, {})[engine.name] = [{MEDIAN_DELAY.key: middle, LONGEST_DELAY.key: longest}]
                say(f"  {engine.name}: median {middle:.2f} s, 99th percentile {longest:.2f} s, {len(found)} windows")
    return results


def peak_memory(workloads: Sequence[Workload], engines: Sequence[str], repeat: int, say: Say) -> Results:
    """Each run in a separate process."""
    results: Results = {}
    for workload in workloads:
        heading = alone_of(workload)
        say(heading)
        samples: dict[str, list[Sample]] = {engine: [] for engine in engines}
        with tempfile.TemporaryDirectory(prefix="bench-alone-") as folder:
            alone.write_files(workload, Path(folder))
            for turn in range(repeat):
                for engine in runner.rotated(engines, turn):
                    samples[engine].append(alone.measure(engine, workload, Path(folder)))
                    say(f"  {turn + 1}/{repeat} {engine}: {samples[engine][-1][MEMORY.key]:,.0f} MB")
        results[heading] = samples
    return results


def long_run(rows: int, say: Say) -> Results:
    say(f"{LONG_RUN}: {rows:,} rows")
    sample = memory.measure(rows)
    say(f"  memory {sample[GROWTH.key]:.2f} times")
    return {LONG_RUN: {OURS: [sample]}}
