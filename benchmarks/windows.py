"""Tumbling windows over JSON files: Eventide and native Spark Structured Streaming, interleaved in one run.

    python benchmarks/windows.py [--rows 2000000] [--files 4] [--keys 1000 100000] [--repeat 3]

Prints rows/s, CPU-seconds per million rows of the whole process tree, and ratios of medians. One file is one batch. The
first round of each engine and key count warms up and is not counted.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import SparkSession, functions as F

import eventide

STATE = "org.apache.spark.sql.execution.streaming.state."
NATIVE = {"native, memory state": STATE + "HDFSBackedStateStoreProvider", "native, RocksDB state": STATE + "RocksDBStateStoreProvider"}


def write_files(folder: Path, rows: int, files: int, keys: int) -> None:
    """Events of a minute per file, slightly out of order."""
    chance = np.random.default_rng(keys)
    for number in range(files):
        count = rows // files
        ts = number * 60_000 + chance.integers(0, 62_000, count)
        table = pa.table({"k": chance.integers(0, keys, count), "v": chance.integers(0, 1000, count), "ts": ts})
        lines = table.to_pandas().to_json(orient="records", lines=True)
        (folder / f"{number:04d}.json").write_text(lines)


def cpu_seconds() -> float:
    """Of this process and all its descendants that are alive or have been waited for."""
    process = psutil.Process()
    everyone = [process, *process.children(recursive=True)]
    return sum(t.user + t.system + t.children_user + t.children_system for t in (one.cpu_times() for one in everyone if one.is_running()))


def run_eventide(holder: eventide.Database, folder: Path) -> int:
    with eventide.connect(spark=holder.spark) as db:
        db.execute(f"""
            CREATE SOURCE s (k BIGINT, v BIGINT, ts BIGINT,
              EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
            WITH ('connector' = 'files', 'path' = '{folder}', 'max_files_per_batch' = '1');
            CREATE STREAM o AS SELECT window_start, k, count(*) AS n, sum(v) AS t, max(v) AS m FROM s
            GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND);
        """)
        db.tick()
        return sum(db.read("o").arrow()["n"].to_pylist())


def run_native(spark: SparkSession, provider: str, folder: Path) -> int:
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    checkpoint = tempfile.mkdtemp(prefix="bench-")
    totals: list[int] = []

    def keep(frame: Any, batch: int) -> None:
        totals.append(sum(frame.toArrow()["n"].to_pylist()))

    rows = session.readStream.schema("k long, v long, ts long").option("maxFilesPerTrigger", "1").json(str(folder))
    windows = (
        rows.withColumn("time", F.timestamp_millis("ts"))
        .withWatermark("time", "5 seconds")
        .groupBy(F.window("time", "10 seconds"), "k")
        .agg(F.count("*").alias("n"), F.sum("v").alias("t"), F.max("v").alias("m"))
    )
    query = windows.writeStream.foreachBatch(keep).outputMode("append").option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    query.stop()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return sum(totals)


def measure(run: Callable[[], int], rows: int) -> tuple[float, float, int]:
    cpu, began = cpu_seconds(), time.perf_counter()
    closed = run()
    seconds = time.perf_counter() - began
    return rows / seconds, (cpu_seconds() - cpu) / rows * 1_000_000, closed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--keys", type=int, nargs="+", default=[1000, 100_000])
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    with eventide.connect() as holder:
        for keys in arguments.keys:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                write_files(folder, arguments.rows, arguments.files, keys)
                engines: dict[str, Callable[[], int]] = {"eventide": lambda folder=folder: run_eventide(holder, folder)}
                for label, provider in NATIVE.items():
                    engines[label] = lambda provider=provider, folder=folder: run_native(holder.spark, provider, folder)
                report(engines, arguments.rows, arguments.repeat, keys)


def report(engines: dict[str, Callable[[], int]], rows: int, repeat: int, keys: int) -> None:
    figures: dict[str, list[tuple[float, float, int]]] = {name: [] for name in engines}
    for turn in range(repeat + 1):
        for name, run in engines.items():
            figure = measure(run, rows)
            if turn:
                figures[name].append(figure)
    medians = {name: [statistics.median(values) for values in zip(*runs, strict=True)] for name, runs in figures.items()}
    print(f"\n{rows:,} rows, {keys:,} keys: median of {repeat}")
    for name, (speed, cpu, closed) in medians.items():
        faster, cheaper = medians["eventide"][0] / speed, cpu / medians["eventide"][1]
        compared = "" if name == "eventide" else f"   eventide: {faster:.2f}x rows/s, {cheaper:.2f}x fewer CPU-seconds"
        print(f"  {name:24s} {speed:10,.0f} rows/s {cpu:6.2f} CPU-s per million, {closed:,.0f} rows in closed windows{compared}")


if __name__ == "__main__":
    main()
