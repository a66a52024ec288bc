"""Flink SQL over the measured files, in a process of its own, with its state in RocksDB or on the heap.

A run is a job that reads all files, closes all windows at their end, and writes the results as CSV, which are compared
with what DuckDB says. The first runs of a workload only warm Flink up: after one the next are still faster by a third,
after five by little. What a job takes to start and end is measured by the same job over two rows, and does not count.

Flink reads files of a folder in no order, so there are just two, one for each of its readers, and in each the rows are
in the order in which the other engines get them.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb

from benchmarks.data import FIRST_MS
from benchmarks.engines import flink_sql
from benchmarks.engines.limit import events_sql, results_sql
from benchmarks.figures import CPU, SPEED, Sample
from benchmarks.flink_jobs import BACKENDS, Job, Outcome, run
from benchmarks.runner import Material, Say, WrongResult
from benchmarks.totals import Totals
from benchmarks.workloads import EVENTS_PER_SECOND, LEFT, RIGHT, Workload

_READERS = 2
_WARM_RUNS = 5
_FULL, _START = "full", "start"


class FlinkCannot(Exception):
    """Flink has refused a job, has failed in it, or has too little to do."""


class Flink:
    def __init__(self, python: str, name: str) -> None:
        """`python`: an interpreter that has apache-flink and psutil."""
        self.name = name
        self._python = python

    def can(self, workload: Workload) -> bool:
        return flink_sql.can_express(workload)

    def turns(self, material: Material, repeat: int, say: Say) -> list[Sample]:
        with tempfile.TemporaryDirectory(prefix="bench-flink-") as name:
            folder = Path(name)
            files = [path for span in material.plan.measured for path in material.files[span.batch]]
            in_two(files, folder / "full")
            first_rows(folder / "full", folder / "start")
            before, jobs = tasks(material.workload, folder, repeat)
            outcomes = run(self._python, self.name, before, jobs)
            failed = [one.error for one in outcomes if one.error is not None]
            if failed:
                raise FlinkCannot(failed[0])
            since = first_ms(material)
            right = truth(material, files, since)
            for number in range(sum(one.name == _FULL for one in outcomes)):
                found = written(material.workload, folder / "results" / str(number), since)
                check(self.name, material.workload, found, right)
        return self._samples(material.workload, outcomes, say)

    def _samples(self, workload: Workload, outcomes: Sequence[Outcome], say: Say) -> list[Sample]:
        start = start_of(outcomes)
        full = [one for one in outcomes if one.name == _FULL]
        counted = full[_WARM_RUNS:] or full[-1:]  # one that takes long is the only one
        samples = [sample(workload, one, start) for one in counted]
        for number, (one, found) in enumerate(zip(counted, samples, strict=True)):
            say(
                f"  {number + 1}/{len(samples)} {self.name}: {found[SPEED.key]:,.0f} rows/s "
                f"({one.seconds:.1f} s, of which {start.seconds:.1f} s to start and end)"
            )
        return samples


def flinks(python: str | None) -> list[Flink]:
    """Both, or none if there is no interpreter that has Flink."""
    return [Flink(python, name) for name in BACKENDS] if python else []


def tasks(workload: Workload, folder: Path, repeat: int) -> tuple[list[str], list[Job]]:
    """The statements that declare tables and views, and the jobs: some to warm up, then in each turn one over next to
    nothing and one over everything.
    """
    runs = range(_WARM_RUNS + repeat)
    before = [
        *flink_sql.sources_sql(workload.data, folder / "full"),
        *flink_sql.sources_sql(workload.data, folder / "start", "_start"),
        flink_sql.sink_sql(workload, "o_start", folder / "results" / "start"),
        *(flink_sql.sink_sql(workload, f"o_{number}", folder / "results" / str(number)) for number in runs),
    ]
    full = [Job(_FULL, f"INSERT INTO o_{number} {flink_sql.query_sql(workload)}") for number in runs]
    start = Job(_START, f"INSERT INTO o_start {flink_sql.query_sql(workload, '_start')}")
    return before, [*full[:_WARM_RUNS], *(job for one in full[_WARM_RUNS:] for job in (start, one)), start]


def in_two(files: Sequence[Path], folder: Path) -> None:
    """A file for each of Flink's readers; of a join, for each of its sides. Parts of a batch go to them in turn."""
    for path in sorted(files):
        side = path.parent.name if path.parent.name in (LEFT, RIGHT) else ""
        part = int(path.stem.rsplit("-", 1)[1])
        target = folder / side / f"{part % _READERS}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as rows, target.open("ab") as together:
            shutil.copyfileobj(rows, together)


def first_rows(folder: Path, target: Path) -> None:
    """The first row of each file, in a file of the same name."""
    for path in folder.rglob("*.json"):
        own = target / path.relative_to(folder)
        own.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as rows:
            own.write_bytes(rows.readline())


def start_of(outcomes: Sequence[Outcome]) -> Outcome:
    """What a job takes that has next to nothing to do: the median."""
    found = [one for one in outcomes if one.name == _START]
    return Outcome(_START, statistics.median(one.seconds for one in found), statistics.median(one.cpu for one in found))


def sample(workload: Workload, one: Outcome, start: Outcome) -> Sample:
    if one.seconds <= start.seconds or one.cpu <= start.cpu:
        raise FlinkCannot(f"show its speed with {workload.rows:,} rows: a job without any takes as long")
    rows = workload.rows
    return {SPEED.key: rows / (one.seconds - start.seconds), CPU.key: (one.cpu - start.cpu) / rows * 1_000_000}


def first_ms(material: Material) -> int:
    """The time from which on the measured rows are, except those that are late from the beginning."""
    return FIRST_MS + material.plan.measured[0].first * 1000 // EVENTS_PER_SECOND


def truth(material: Material, files: list[Path], since: int) -> Totals:
    """All windows of the measured files. Of windows that hold only late rows Flink gives those that came before its
    first watermark, a fifth of a second after its start; they are left aside on both sides.
    """
    if not material.workload.data.late_one_in:
        if material.all_windows is None:
            raise ValueError(f"{material.workload.name}: nobody knows what is right")
        return material.all_windows
    results = results_sql(material.workload, events_sql(material.workload.data, files))
    return _totals(f"SELECT * FROM ({results}) WHERE window_end > {since}")


def written(workload: Workload, folder: Path, since: int) -> Totals:
    """What a job has written: windows that end after `since`, or pairs."""
    files = sorted(str(path) for path in folder.rglob("part-*") if path.stat().st_size)
    if not files:
        return Totals()
    types = {"n": "DOUBLE", "t": "DOUBLE", "m": "DOUBLE"}
    if not workload.data.sides:
        types = {"window_end": "TIMESTAMP", "k": "VARCHAR", **types}
    schema = ", ".join(f"'{name}': '{type}'" for name, type in types.items())
    ended = "" if workload.data.sides else f" WHERE epoch_ms(window_end) > {since}"
    return _totals(f"SELECT * FROM read_csv({files}, header = false, columns = {{{schema}}}){ended}")


def _totals(results: str) -> Totals:
    with duckdb.connect() as database:
        found = database.execute(f"SELECT count(*), sum(n), sum(t), sum(m) FROM ({results})").fetchone()
    return Totals(*(value or 0 for value in found or ()))


def check(name: str, workload: Workload, found: Totals, right: Totals) -> None:
    if found != right:
        raise WrongResult(f"{workload.name}: {name} returned {found}, but {right} is right")
