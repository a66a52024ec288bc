"""What guards cost: the same batches through a stream that has none and through one that has, in turns.

    python -m benchmarks.guards [--rounds 7] [--rows 500000]

Both streams evaluate an expression that only Spark can, and that can raise. The second one has met a row for which it
does, in a batch that is not measured, and evaluates it inside a guard from then on (docs/row_errors.md). Processor time
is that of all processes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import eventide
from benchmarks.process_tree import cpu_seconds

QUERIES = {
    "in a filter, before a window": "SELECT window_start, k, count(*) AS n FROM s WHERE url_decode(k) <> 'x' "
    "GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)",
    "in the select list of forwarded rows": "SELECT url_decode(k) AS k, v FROM s WHERE v % 100 = 0",
}
FIRST = 1_738_324_800_000
WARM = 2  # batches of each that are not measured


class Guarded:
    """A stream with a folder of its own; `is_guarded` from its first batch on, which has a row that fails."""

    def __init__(self, spark: eventide.Database, query: str, is_guarded: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="eventide-guards-"))
        self._number = 0
        self.db = eventide.connect(spark=spark.spark)
        self.db.execute(f"""
            CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)
            WITH ('connector' = 'files', 'path' = '{self._folder}', 'format' = 'parquet');
            CREATE STREAM o AS {query};
        """)
        self.take(1000, "100%" if is_guarded else "a%20b")
        failed = self.db.accounting("o")["error"] + self.db.metrics()["o"].get("failed_results", 0)
        if failed != is_guarded:
            raise RuntimeError("the row that should fail did not, or another did")
        self.seconds: list[float] = []
        self.cpu: list[float] = []

    def take(self, rows: int, last: str = "a%20b") -> tuple[float, float]:
        """A batch of so many rows: seconds and seconds of processor time."""
        rng = np.random.default_rng(self._number)
        keys = pa.array([f"key%20{number}" for number in range(100)])
        texts = pa.concat_arrays([keys.take(pa.array(rng.integers(0, 100, rows - 1))), pa.array([last])])
        times = FIRST + self._number * 10_000 + rng.integers(0, 10_000, rows)
        hidden = self._folder / f"_{self._number}.parquet"
        values = rng.integers(0, 1000, rows)
        values[-1] = 0  # passes every filter
        pq.write_table(pa.table({"k": texts, "v": values, "ts": times}), hidden)
        hidden.rename(self._folder / f"{self._number:05d}.parquet")
        self._number += 1
        began, used = time.perf_counter(), cpu_seconds()
        self.db.tick()
        return time.perf_counter() - began, cpu_seconds() - used

    def measure(self, rows: int) -> None:
        seconds, cpu = self.take(rows)
        self.seconds.append(seconds)
        self.cpu.append(cpu)


def compare(spark: eventide.Database, place: str, rounds: int, rows: int) -> None:
    streams = [Guarded(spark, QUERIES[place], is_guarded) for is_guarded in (False, True)]
    for stream in streams * WARM:
        stream.take(rows)
    for turn in range(rounds):
        for stream in streams if turn % 2 == 0 else reversed(streams):
            stream.measure(rows)
    print(f"{place}: medians of {rounds} batches of {rows:,} rows, in turns")
    for name, stream in zip(("without", "with guards"), streams, strict=True):
        cpu = median(stream.cpu) / rows * 1_000_000
        print(f"  {name:12} {rows / median(stream.seconds):>10,.0f} rows/s  {cpu:6.2f} CPU-s per million")
    without, guarded = streams
    speed = median(one / other for one, other in zip(without.seconds, guarded.seconds, strict=True))
    cost = median(other / one for one, other in zip(without.cpu, guarded.cpu, strict=True))
    print(f"  ratio: {speed:.2f} of the rows/s, {cost:.2f} of the CPU (medians of the rounds)", flush=True)
    for stream in streams:
        stream.db.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=500_000)
    given = parser.parse_args()
    with eventide.connect() as spark:
        for place in QUERIES:
            compare(spark, place, given.rounds, given.rows)


if __name__ == "__main__":
    main()
