"""What an open dashboard costs: the same batches with a page listening and without, in turns.

    python -m benchmarks.dashboard_cost [--rounds 12] [--rows 300000]

The page's reader is a process of its own that only takes in the events, so that what is measured is the server's part.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import eventide

SQL = """
CREATE SOURCE s (k BIGINT, ts BIGINT, v DOUBLE, EVENT TIME ts TYPE unixtimestamp_ms)
WITH ('connector' = 'files', 'path' = '{folder}', 'format' = 'parquet');
CREATE STREAM o AS SELECT window_start, k, count(*) AS n, sum(v) AS total
FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND);
"""
FIRST = 1_738_324_800_000


def write(folder: Path, number: int, rows: int) -> None:
    rng = np.random.default_rng(number)
    times = FIRST + number * 10_000 + rng.integers(0, 10_000, rows)
    table = pa.table({"k": rng.integers(0, 1000, rows), "ts": times, "v": rng.random(rows)})
    hidden = folder / f"_{number}.parquet"
    pq.write_table(table, hidden)
    hidden.rename(folder / f"{number:05d}.parquet")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--ticks", type=int, default=4, help="batches in a round")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, eventide.connect() as db:
        folder = Path(name)
        db.execute(SQL.format(folder=folder))
        url = db.dashboard(port=0).url
        times: dict[bool, list[float]] = {False: [], True: []}
        driver: dict[bool, list[float]] = {False: [], True: []}  # processor time of this process
        number = 0
        for turn in range(-2, 2 * given.rounds):
            watched = turn % 2 == 1
            page = subprocess.Popen(["curl", "-sN", f"{url}events"], stdout=subprocess.DEVNULL) if watched else None
            for _ in range(given.ticks):
                write(folder, number, given.rows)
                number += 1
            began, used = time.perf_counter(), time.process_time()
            db.tick()
            if turn >= 0:
                times[watched].append(time.perf_counter() - began)
                driver[watched].append(time.process_time() - used)
            if page is not None:
                page.terminate()
                page.wait()
        without, watched_time = (median(times[each]) for each in (False, True))
        rows = given.rows * given.ticks
        print(f"without a page {rows / without:,.0f} rows/s, with one {rows / watched_time:,.0f} rows/s")
        print(
            f"cost {100 * (watched_time / without - 1):+.1f} % of the time of a tick, medians of {given.rounds} rounds"
        )
        more = sum(driver[True]) / sum(times[True]) - sum(driver[False]) / sum(times[False])
        print(f"the driver's process: {1000 * more:+.1f} ms of processor time more per second with a page")


if __name__ == "__main__":
    main()
