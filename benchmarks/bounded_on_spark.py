"""What a running query accumulates: real batches, each with one call of `db.write` or one small file, which is deleted.

    python -m benchmarks.bounded_on_spark [--minutes 8]

One stream reads rows of `db.write`, another the files, both keep nothing that need not be kept, and names of files are
forgotten after ten seconds. Shown are, at each tenth of the time, the checkpoint's bytes and files, what the driver's
Python holds (resident) and what its JVM does (heap after a collection), the CPU of both, and the time of a batch.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

import eventide
from eventide import Database

STATEMENTS = """
CREATE SOURCE written (k STRING, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('rows.keep' = 'none');
CREATE SOURCE found (k STRING, n INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'files', 'path' = '{folder}', 'forget_after' = '10 seconds');
CREATE STREAM of_written WITH ('results.keep' = 'none') AS
SELECT window_start, k, sum(n) AS n FROM written GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND);
CREATE STREAM of_found WITH ('results.keep' = 'none') AS
SELECT window_start, k, sum(n) AS n FROM found GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND);
"""
STREAMS = ("of_written", "of_found")
HEADER = "| batches | MB | files | Python, MB | JVM heap, MB | CPU, ms per batch | batch, ms |"


@dataclass(frozen=True)
class Seen:
    batches: int
    megabytes: float
    files: int
    python: float
    heap: float
    cpu: float  # seconds, of the driver's Python and its JVM since they began
    seconds: float  # the median of the rounds since the last look


def rounds(db: Database, folder: Path, end: float) -> Iterator[float]:
    """Lets both streams take in something new, again and again; gives how long it took."""
    number = 0
    while time.monotonic() < end:
        began, number = time.monotonic(), number + 1
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(number))
        row = f'{{"k": "key {number % 100}", "n": {number}, "ts": "{moment}"}}'
        temporary = folder / f".{number}.json"
        temporary.write_text(row + "\n")
        path = temporary.rename(folder / f"part-{number:08d}.json")
        db.write("written", [{"k": f"key {number % 100}", "n": number, "ts": moment}])
        while any(db.accounting(name)["rows_in"] < number for name in STREAMS):
            time.sleep(0.005)
        path.unlink()
        yield time.monotonic() - began


def look(db: Database, checkpoint: Path, took: list[float]) -> Seen:
    gc.collect()
    runtime = db.spark._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    for _ in range(3):
        db.spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    sizes = [os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(checkpoint) for name in names]
    process = psutil.Process()
    java = [child for child in process.children(recursive=True) if "java" in child.name()]
    cpu = sum(sum(each.cpu_times()[:2]) for each in (process, *java))
    batches = sum(int(db.metrics()[name]["batches"]) for name in STREAMS)
    heap = runtime.totalMemory() - runtime.freeMemory()
    recent = statistics.median(took) if took else 0.0
    return Seen(batches, sum(sizes) / 1e6, len(sizes), process.memory_info().rss / 1e6, heap / 1e6, cpu, recent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=8.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-bounded-") as root:
        folder, checkpoint = Path(root) / "in", Path(root) / "checkpoint"
        folder.mkdir()
        with eventide.connect(checkpoint, shards=1) as db:
            db.execute(STATEMENTS.format(folder=folder))
            db.start()
            print(HEADER, "|---|---|---|---|---|---|---|", sep="\n", flush=True)
            show(db, folder, checkpoint, given.minutes * 60)


def show(db: Database, folder: Path, checkpoint: Path, seconds: float) -> None:
    part, took, before = seconds / 10, [0.0], look(db, checkpoint, [])
    shown = time.monotonic()
    for each in rounds(db, folder, shown + seconds):
        took.append(each)
        if time.monotonic() - shown >= part:
            now = look(db, checkpoint, took)
            batches = now.batches - before.batches
            print(
                f"| {now.batches:,} | {now.megabytes:.2f} | {now.files:,} | {now.python:.0f} | {now.heap:.0f} "
                f"| {1000 * (now.cpu - before.cpu) / batches:.0f} | {1000 * now.seconds:.0f} |",
                flush=True,
            )
            before, took, shown = now, [], time.monotonic()


if __name__ == "__main__":
    main()
