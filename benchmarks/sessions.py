"""What open sessions cost in a batch that does not touch them: `python benchmarks/sessions.py [--open 10000 100000
1000000]`.

Opens that many sessions, one per key, then sends batches of 10 and of 1,000 rows for a few of them, and prints the
median time of those batches on Spark, from file to result.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import eventide

REPEAT = 5


def put(folder: Path, keys: np.ndarray, ts: int) -> None:
    table = pa.table({"k": keys, "v": np.ones(len(keys), np.int64), "ts": np.full(len(keys), ts, np.int64)})
    number = len(list(folder.iterdir()))
    pq.write_table(table, folder / f".{number}")
    (folder / f".{number}").rename(folder / f"{number}.parquet")


def batch_seconds(db: eventide.Database, folder: Path, keys: np.ndarray, ts: int) -> float:
    put(folder, keys, ts)
    began = time.perf_counter()
    db.tick()
    return time.perf_counter() - began


def measure(holder: eventide.Database, sessions: int) -> None:
    chance = np.random.default_rng(sessions)
    with tempfile.TemporaryDirectory() as name, eventide.connect(spark=holder.spark) as db:
        folder = Path(name)
        db.execute(f"""
            CREATE SOURCE s (k BIGINT, v BIGINT, ts BIGINT,
              EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '1' HOUR)
            WITH ('connector' = 'files', 'path' = '{folder}', 'format' = 'parquet');
            CREATE STREAM o AS SELECT k, window_start, sum(v) AS t FROM s GROUP BY k, SESSION(ts, INTERVAL '30' MINUTE);
        """)
        opening = batch_seconds(db, folder, np.arange(sessions), 0)
        db.tick()
        medians = []
        for rows in (10, 1000):
            times = [batch_seconds(db, folder, chance.integers(0, sessions, rows), 0) for _ in range(REPEAT)]
            medians.append(statistics.median(times))
        figures = db.metrics()["o"]
        print(
            f"{sessions:>9,} open: opened in {opening:6.2f} s; a batch of 10 rows {medians[0]:.2f} s, of 1,000 "
            f"rows {medians[1]:.2f} s; "
            f"{figures['open_windows']:,} sessions, {figures['state_bytes'] / 1e6:.1f} MB of state"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--open", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    with eventide.connect() as holder:
        for sessions in [1000, *parser.parse_args().open]:
            measure(holder, sessions)


if __name__ == "__main__":
    main()
