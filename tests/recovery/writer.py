"""A process that writes and ticks, made to be killed at any moment: `python writer.py CHECKPOINT SINK BATCHES`.

It goes on where its checkpoint stands: batches in the spool are not written again. Each batch is ticked on its own, so
that batches end at the same rows in every run, however often it was killed.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import eventide
from eventide.storage.spool import Spool

SQL = """
CREATE SOURCE clicks (id BIGINT, ts STRING, visitor STRING, amount BIGINT,
  EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND);
CREATE STREAM totals AS
SELECT window_start, visitor, count(*) AS n, sum(amount) AS total, count(DISTINCT id) AS ids, emit_epoch
FROM clicks GROUP BY visitor, TUMBLE(ts, INTERVAL '2' SECOND)
EMIT ON WINDOW CLOSE ALLOW LATENESS INTERVAL '1' SECOND LATE DATA TO late_clicks;
CREATE SINK out FROM totals WITH ('connector' = 'files', 'path' = '{sink}', 'format' = 'parquet');
CREATE SINK late FROM late_clicks WITH ('connector' = 'files', 'path' = '{sink}-late', 'format' = 'parquet');
"""
END = 10_000_000


def batch(number: int) -> list[tuple[int, str, str, int]]:
    """Rows of one batch: mostly around `number` seconds, some far behind, some without a usable time."""
    chance = random.Random(number)
    rows = []
    for row in range(200):
        at = number * 1000 + chance.randint(-2500, 500)
        if chance.random() < 0.05:
            at -= 8000
        ts = "soon" if chance.random() < 0.02 else str(at)
        rows.append((number * 1000 + row, ts, f"v{chance.randint(0, 20)}", chance.randint(1, 100)))
    return rows


def run(checkpoint: Path, sink: Path, batches: int, db: eventide.Database) -> None:
    db.execute(SQL.format(sink=sink))
    db.tick()
    for number in range(Spool(checkpoint / "sources" / "clicks").last(), batches):
        db.write("clicks", batch(number))
        print(f"written {number}", flush=True)
        db.tick()
        print(f"ticked {number}", flush=True)
    db.advance_watermark("clicks", END)
    db.tick()


if __name__ == "__main__":
    checkpoint, sink, batches = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    with eventide.connect(checkpoint, shards=2) as database:
        print("open", flush=True)
        run(checkpoint, sink, batches, database)
    print("done", flush=True)
