"""kill -9 of Spark's Python workers in the middle of batches: tasks are repeated, or the stream fails clearly and goes on."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time

import psutil

from eventide.database import Database
from eventide.errors import StreamFailedError

KILLS = 6


def workers() -> list[psutil.Process]:
    found = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "pyspark.daemon" in " ".join(process.cmdline()):
                found.append(process)
    return found


def kill_one_after(seconds: float, chance: random.Random, killed: list[int]) -> None:
    time.sleep(seconds)
    for process in chance.sample(found := workers(), min(1, len(found))):
        with contextlib.suppress(psutil.Error):
            process.kill()
            killed.append(process.pid)


def test_a_worker_that_dies_changes_nothing(db: Database) -> None:
    db.execute("""
        CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE STREAM o AS SELECT window_start, k, count(*) AS n, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
    """)
    chance, killed = random.Random(3), list[int]()
    for number in range(KILLS):
        db.write("s", [(f"k{row % 7}", row, number * 1000 + row % 1000) for row in range(2000)])
        killer = threading.Thread(target=kill_one_after, args=(chance.uniform(0, 0.6), chance, killed))
        killer.start()
        try:
            db.tick()
        except StreamFailedError:
            db.stop(graceful=False)
            db.tick()
        killer.join()
    db.advance_watermark("s", 1_000_000)
    db.tick()
    assert killed
    assert sum(row["n"] for row in db.read("o")) == KILLS * 2000 and sum(row["total"] for row in db.read("o")) == KILLS * 1_999_000
    assert len(db.read("o")) == 7 * KILLS and db.accounting("o")["used"] == KILLS * 2000
