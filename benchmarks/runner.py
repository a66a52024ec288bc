"""Runs engines in turn over the same files, and measures the warm, steady state.

One run of an engine is a fresh query over one workload. It first processes the warm-up batches; then all measured
batches become visible at once, and rows per second come from the time until their last result has arrived. That
includes the batch without data in which both engines close what the last rows have made due, but not query start,
planning and warm-up. Afterwards single rows come one by one, to find the fixed cost of a batch. CPU is that of the
whole process tree over the same interval.

Engines take turns, in a different order each time, on one Spark session that has already run many small batches of
each; a first turn of warm-up batches is not counted.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from benchmarks import data
from benchmarks.engines.contract import Engine, OneShot, Run
from benchmarks.engines.limit import Limit, expected
from benchmarks.figures import CHECKPOINT, CLOSING, CPU, SINGLE, SPEED, STATE, Results, Sample
from benchmarks.process_tree import cpu_seconds
from benchmarks.totals import Totals
from benchmarks.workloads import Workload

_BATCHES_OF_HEAT = 60
_FAR_BEHIND = 6  # an engine so many times slower than the fastest is measured once: no bar is near

Say = Callable[[str], None]
T = TypeVar("T")


class WrongResult(Exception):
    """An engine returned a wrong result: its speed means nothing."""


@dataclass(frozen=True)
class Material:
    """A workload with its files and the truth about them: what a stream must return, and all windows of the measured
    batches.
    """

    workload: Workload
    plan: data.Plan
    files: dict[int, list[Path]]
    truth: Totals | None
    all_windows: Totals | None

    def of(self, spans: Sequence[data.Span]) -> list[Path]:
        return [path for span in spans for path in self.files[span.batch]]


class Apart(Protocol):
    """An engine in a process of its own, which takes all its turns when the others have had theirs."""

    @property
    def name(self) -> str: ...

    def can(self, workload: Workload) -> bool: ...

    def turns(self, material: Material, repeat: int, say: Say) -> list[Sample]: ...


def prepare(workload: Workload, folder: Path) -> Material:
    plan = data.plan(workload)
    files = data.write(workload.data, plan.spans, folder)
    measured = [path for span in plan.measured for path in files[span.batch]]
    return Material(
        workload,
        plan,
        files,
        expected(workload, [path for paths in files.values() for path in paths]),
        Limit().compute(workload, measured).totals if Limit().can(workload) else None,
    )


def compare(
    workload: Workload,
    engines: Sequence[Engine],
    one_shots: Sequence[OneShot],
    repeat: int,
    say: Say,
    apart: Sequence[Apart] = (),
) -> tuple[dict[str, list[Sample]], list[str]]:
    """Samples by engine, one per turn, and what went wrong with engines that run apart."""
    engines = [engine for engine in engines if engine.can(workload)]
    one_shots = [engine for engine in one_shots if engine.can(workload)]
    samples: dict[str, list[Sample]] = {
        name: [] for name in (*(engine.name for engine in engines), *(engine.name for engine in one_shots))
    }
    with tempfile.TemporaryDirectory(prefix="bench-files-") as folder:
        material = prepare(workload, Path(folder))
        for engine in engines:
            warm_up(engine, material)
        for turn in range(repeat):
            for engine in rotated(_in_the_race(engines, samples), turn):
                samples[engine.name].append(measure(engine, material))
                say(f"  {turn + 1}/{repeat} {engine.name}: {samples[engine.name][-1][SPEED.key]:,.0f} rows/s")
            for one_shot in one_shots:
                samples[one_shot.name].append(measure_one_shot(one_shot, material))
        taken, problems = _apart(apart, material, repeat, say)
    return samples | taken, problems


def _apart(
    engines: Sequence[Apart], material: Material, repeat: int, say: Say
) -> tuple[dict[str, list[Sample]], list[str]]:
    """One that fails has no samples; the others keep theirs."""
    samples: dict[str, list[Sample]] = {}
    problems = []
    for engine in engines:
        if not engine.can(material.workload):
            continue
        try:
            samples[engine.name] = engine.turns(material, repeat, say)
        except Exception as error:
            problems.append(f"{material.workload.name}, {engine.name}: {type(error).__name__}: {error}")
            say(f"  FAILED: {problems[-1]}")
    return samples, problems


def _in_the_race(engines: Sequence[Engine], samples: dict[str, list[Sample]]) -> list[Engine]:
    """Those that have no result yet, or one that is near the best."""
    slowest = max((one[SPEED.key] for each in engines for one in samples[each.name]), default=0) / _FAR_BEHIND
    return [each for each in engines if all(one[SPEED.key] >= slowest for one in samples[each.name][:1])]


def compare_all(
    workloads: Sequence[Workload],
    engines: Sequence[Engine],
    one_shots: Sequence[OneShot],
    repeat: int,
    say: Say,
    apart: Sequence[Apart] = (),
) -> tuple[Results, list[str]]:
    """Results, and what went wrong: a workload that fails has no results, but the others keep theirs."""
    results: Results = {}
    problems = []
    for workload in workloads:
        say(f"{workload.name}: {workload.batches} batches of {workload.batch_rows:,} rows")
        try:
            results[workload.name], failed = compare(workload, engines, one_shots, repeat, say, apart)
            problems += failed
        except Exception as error:
            problems.append(f"{workload.name}: {type(error).__name__}: {error}")
            say(f"  FAILED: {problems[-1]}")
    return results, problems


def rotated(engines: Sequence[T], turn: int) -> list[T]:
    at = turn % len(engines) if engines else 0
    return [*engines[at:], *engines[:at]]


@contextlib.contextmanager
def running(engine: Engine, workload: Workload) -> Iterator[tuple[Run, Path]]:
    """A new query on the engine, and the folder it watches."""
    with tempfile.TemporaryDirectory(prefix="bench-run-", ignore_cleanup_errors=True) as folder:
        watched = Path(folder) / "watched"
        watched.mkdir()
        with contextlib.closing(engine.start(workload, watched, Path(folder) / "checkpoint")) as run:
            yield run, watched


def heat(engine: Engine) -> None:
    """Single rows, one batch each, until Java has compiled the code that every batch runs, which takes a stream
    minutes.
    """
    workload = Workload("heat", batch_rows=1_000, single_rows=_BATCHES_OF_HEAT)
    with tempfile.TemporaryDirectory(prefix="bench-files-") as folder, running(engine, workload) as (run, watched):
        plan = data.plan(workload)
        files = data.write(workload.data, plan.spans, Path(folder))
        for span in plan.spans:
            data.link(files[span.batch], watched)
            run.take()


def warm_up(engine: Engine, material: Material) -> None:
    with running(engine, material.workload) as (run, watched):
        data.link(material.of(material.plan.warm), watched)
        run.take()


def measure(engine: Engine, material: Material) -> Sample:
    with running(engine, material.workload) as (run, watched):
        sample = steady_state(run, watched, material)
        check(engine.name, run.totals(), material)
        return sample


def steady_state(run: Run, watched: Path, material: Material) -> Sample:
    plan, workload = material.plan, material.workload
    timed(run, watched, material.of(plan.warm))
    before = run.written()
    seconds, cpu = timed(run, watched, material.of(plan.measured))
    after = run.written()
    singles = [timed(run, watched, material.of([span]))[0] for span in plan.single]
    closing, _ = timed(run, watched, material.of([plan.closing]))
    return {
        SPEED.key: workload.rows / seconds,
        CPU.key: cpu / workload.rows * 1_000_000,
        STATE.key: (after.state - before.state) / workload.rows,
        CHECKPOINT.key: (after.checkpoint - before.checkpoint) / workload.batches,
        SINGLE.key: statistics.median(singles),
        CLOSING.key: closing,
    }


def timed(run: Run, watched: Path, files: Sequence[Path]) -> tuple[float, float]:
    """Seconds, and CPU-seconds of the process tree, from the moment the files become visible until all their results
    are out.
    """
    cpu, began = cpu_seconds(), time.perf_counter()
    data.link(files, watched)
    run.take()
    return time.perf_counter() - began, cpu_seconds() - cpu


def measure_one_shot(engine: OneShot, material: Material) -> Sample:
    """Over the files of the measured batches, in a separate folder."""
    with tempfile.TemporaryDirectory(prefix="bench-once-") as folder:
        data.link(material.of(material.plan.measured), Path(folder))
        found = engine.compute(material.workload, sorted(path for path in Path(folder).rglob("*") if path.is_file()))
    if found.totals != material.all_windows:
        raise WrongResult(
            f"{material.workload.name}: {engine.name} returned {found.totals}, but {material.all_windows} is right"
        )
    rows = material.workload.rows
    return {SPEED.key: rows / found.seconds, CPU.key: found.cpu / rows * 1_000_000}


def check(name: str, found: Totals, material: Material) -> None:
    workload = material.workload
    if material.truth is None:
        rows_in = sum(span.rows for span in material.plan.spans)
        if found.rows != rows_in:
            raise WrongResult(
                f"{workload.name}: {name} returned {found.rows:,} rows for {rows_in:,}, but there must be one for each"
            )
    elif found != material.truth:
        raise WrongResult(f"{workload.name}: {name} returned {found}, but {material.truth} is right")
