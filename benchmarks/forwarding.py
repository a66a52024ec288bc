"""Rows from JSON files to Parquet files, nothing else: Eventide's `files` sink and native Spark's, in one session.

    python -m benchmarks.forwarding [--rows 5_000_000] [--repeat 3] [--singles 40]
    python -m benchmarks.forwarding --memory     # how much memory the driver takes for 2 and for 10 million rows

Engines take turns. A turn is a fresh query over files of a quarter of a million rows, four to a batch; the first batch
is the warm-up, and the others become visible at once. Then single rows come one by one, to find what a batch of one row
takes. The rows of both sinks are counted, and their values added up, by DuckDB.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import duckdb

import eventide
from benchmarks import data
from benchmarks.engines.eventide import source_sql
from benchmarks.process_tree import Sampler
from benchmarks.runner import rotated, timed
from benchmarks.workloads import MILLION, Data
from eventide.spark.session import default_shards, streaming_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROWS = Data("json", keys=100_000, text_keys=True, extra_columns=2)
MEMORY_SIZES = (2 * MILLION, 10 * MILLION)
HEAP = {"spark.driver.memory": "1g"}


class Run(Protocol):
    def take(self) -> None: ...

    def close(self) -> None: ...


class EventideForward:
    name = "eventide"

    def __init__(self, spark: SparkSession | None, folder: Path) -> None:
        self.db = eventide.connect(folder / "checkpoint", spark, conf=None if spark else HEAP)
        self.db.execute(source_sql(ROWS, folder / "watched"))
        self.db.execute(f"CREATE STREAM o AS SELECT {', '.join(ROWS.columns)} FROM s")
        self.db.execute(
            f"CREATE SINK out FROM o WITH ('connector' = 'files', 'path' = '{folder / 'out'}', 'format' = 'parquet')"
        )

    def take(self) -> None:
        self.db.tick()

    def close(self) -> None:
        self.db.close()


class NativeForward:
    name = "native"

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        session = streaming_session(spark, default_shards(spark))
        schema = ", ".join(f"{name} {type}" for name, type in ROWS.columns.items())
        reader = session.readStream.schema(schema).option("maxFilesPerTrigger", str(data.files_per_batch(ROWS)))
        writer = reader.format("json").load(str(folder / "watched")).writeStream.format("parquet")
        self._writer = writer.option("checkpointLocation", str(folder / "checkpoint")).option(
            "path", str(folder / "out")
        )
        self._query: StreamingQuery | None = None

    def take(self) -> None:
        if self._query is None:
            self._query = self._writer.start()
        self._query.processAllAvailable()

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()


ENGINES = (EventideForward, NativeForward)


@dataclass(frozen=True)
class Sample:
    rows_per_second: float
    cpu: float  # seconds per million rows
    single: float  # seconds


def measure(
    engine: type[EventideForward] | type[NativeForward], spark: SparkSession, spans: data.Plan, files: data.Files
) -> Sample:
    with tempfile.TemporaryDirectory(prefix="bench-run-") as name:
        folder = Path(name)
        (folder / "watched").mkdir()
        with contextlib.closing(engine(spark, folder)) as run:
            timed(run, folder / "watched", _of(files, spans.warm))
            seconds, cpu = timed(run, folder / "watched", _of(files, spans.measured))
            singles = [timed(run, folder / "watched", files[span.batch])[0] for span in spans.single]
        check(engine.name, folder / "out", [path for paths in _taken(files, spans) for path in paths])
    rows = sum(span.rows for span in spans.measured)
    return Sample(rows / seconds, cpu / rows * MILLION, statistics.median(singles))


def _taken(files: data.Files, spans: data.Plan) -> list[list[Path]]:
    return [files[span.batch] for span in (*spans.warm, *spans.measured, *spans.single)]


def _of(files: data.Files, spans: Sequence[data.Span]) -> list[Path]:
    return [path for span in spans for path in files[span.batch]]


def check(name: str, out: Path, files: Sequence[Path]) -> None:
    """Every row once, with its values: a wrong result has no speed."""
    sums = "SELECT count(*), sum(v), sum(hash(k, ts, c0, c1)) FROM"
    with duckdb.connect() as database:
        found = database.execute(f"{sums} read_parquet('{out}/*.parquet')").fetchone()
        given = database.execute(f"{sums} read_json({[str(path) for path in files]})").fetchone()
    if found != given:
        raise RuntimeError(f"{name} wrote {found}, and {given} is right")


def plan(rows: int, singles: int) -> data.Plan:
    whole = [data.Span(batch, batch * MILLION, MILLION) for batch in range(1 + rows // MILLION)]
    end = len(whole) * MILLION
    single = [data.Span(len(whole) + number, end + number, 1, files=1) for number in range(singles)]
    closing = data.Span(len(whole) + singles, end + singles, 1, files=1)
    return data.Plan(tuple(whole[:1]), tuple(whole[1:]), tuple(single), closing)


def compare(rows: int, repeat: int, singles: int) -> None:
    spans = plan(rows, singles)
    samples: dict[str, list[Sample]] = {engine.name: [] for engine in ENGINES}
    with tempfile.TemporaryDirectory(prefix="bench-files-") as made, eventide.connect() as holder:
        files = data.write(ROWS, (*spans.warm, *spans.measured, *spans.single), Path(made))
        for turn in range(repeat):
            for engine in rotated(ENGINES, turn):
                sample = measure(engine, holder.spark, spans, files)
                samples[engine.name].append(sample)
                print(
                    f"{turn + 1}/{repeat} {engine.name:9} {sample.rows_per_second:>10,.0f} rows/s  "
                    f"{sample.cpu:5.2f} s of CPU per million rows  {sample.single * 1000:4.0f} ms for one row",
                    flush=True,
                )
    ours, theirs = (samples[engine.name] for engine in ENGINES)
    for what, ratio in (
        ("rows/s", _median(ours, "rows_per_second") / _median(theirs, "rows_per_second")),
        ("CPU", _median(ours, "cpu") / _median(theirs, "cpu")),
        ("a batch of one row", _median(ours, "single") / _median(theirs, "single")),
    ):
        print(f"{what}: {ratio:.2f} times native")


def _median(samples: Sequence[Sample], name: str) -> float:
    return statistics.median(getattr(sample, name) for sample in samples)


def peak_memory(rows: int) -> dict[str, float]:
    """MB by kind of process while all rows are there at once."""
    spans = plan(rows, 0)
    with tempfile.TemporaryDirectory(prefix="bench-files-") as name:
        folder = Path(name)
        (folder / "watched").mkdir()
        (folder / "made").mkdir()
        files = data.write(ROWS, spans.measured, folder / "made")
        with contextlib.closing(EventideForward(None, folder)) as run, Sampler() as sampler:
            data.link(_of(files, spans.measured), folder / "watched")
            run.take()
    return {kind: max(sample[kind] for sample in sampler.samples) / 1e6 for kind in sampler.samples[0]}


def memory() -> None:
    """Each size in a separate process."""
    peaks = {}
    for rows in MEMORY_SIZES:
        command = [sys.executable, "-m", "benchmarks.forwarding", "--peak", str(rows)]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        peaks[rows] = json.loads(told.splitlines()[-1])
        parts = ", ".join(f"{kind} {size:,.0f} MB" for kind, size in peaks[rows].items())
        print(f"{rows:>12,} rows: {parts}", flush=True)
    few, many = (peaks[rows]["driver"] for rows in MEMORY_SIZES)
    print(f"driver: {many / few:.2f} times the memory for {MEMORY_SIZES[1] // MEMORY_SIZES[0]} times the rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5 * MILLION)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--singles", type=int, default=40)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(json.dumps(peak_memory(given.peak)))
    elif given.memory:
        memory()
    else:
        compare(given.rows, given.repeat, given.singles)


if __name__ == "__main__":
    main()
