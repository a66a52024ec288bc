"""Two sources under an overload: gold keeps its promise, bronze pays, and every row is accounted for.

    orders (gold) ─┐
                   ├─ limits ─ shedder ─ watermark ─┬─ pairs in one window of 10 s
    clicks (bronze)┘                                ├─ pairs of sessions
                                                    └─ revenue, each order once ─ Parquet files

Run: python examples/overload.py
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from typing import Any

import eventide

SQL = """
CREATE SOURCE orders (id STRING, buyer STRING, amount DOUBLE, ts BIGINT,
  EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND,
  DEDUPLICATE BY id WITHIN INTERVAL '1' MINUTE)
WITH ('sla.class' = 'gold', 'sla.burst' = '500', 'sla.max_lag' = '10 minutes', 'shed.policy' = 'bypass');

-- 300 tokens, and next to none that come back; when the engine cannot keep up, what is left is shed.
CREATE SOURCE clicks (buyer STRING, page STRING, ts BIGINT,
  EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('sla.class' = 'bronze', 'sla.max_events_per_sec' = '0.001', 'sla.burst' = '300', 'sla.max_lag' = '10 minutes',
  'shed.policy' = 'strict', 'shed.target_latency' = '2 seconds', 'sla.priority' = 'low');

CREATE STREAM bought_after AS
SELECT o.id, c.page FROM orders o JOIN clicks c WITHIN TUMBLE(INTERVAL '10' SECOND) ON o.buyer = c.buyer;

CREATE STREAM visits AS
SELECT o.id, c.page, window_start, window_end
FROM orders o JOIN clicks c WITHIN SESSION(INTERVAL '5' SECOND) ON o.buyer = c.buyer;

CREATE STREAM revenue AS
SELECT window_start, count(*) AS orders, sum(amount) AS total
FROM orders GROUP BY TUMBLE(ts, INTERVAL '10' SECOND);

CREATE SINK books FROM revenue WITH ('connector' = 'files', 'path' = '{books}', 'format' = 'parquet');
"""
STREAMS = ("bought_after", "visits", "revenue")


def overload(db: Any, start: int) -> int:
    """Twenty seconds of orders, each delivered twice, and far too many clicks; the number of orders."""
    orders = [(f"o{n}", f"b{n % 7}", 10.0 + n % 3, start + n * 200) for n in range(100)]
    clicks = [(f"b{n % 7}", f"/page/{n % 5}", start + n * 20) for n in range(1000)]
    for part in range(2):
        db.write("orders", orders[part * 50 : part * 50 + 50])
        db.write("orders", orders[part * 50 : part * 50 + 50])  # delivered again: counted once
        db.write("clicks", clicks[part * 500 : part * 500 + 500])
        db.tick()
    db.stop()
    return len(orders)


def main(db: Any = None) -> dict[str, dict[str, int]]:
    """Print and return the accounts. A caller's database is used and left open."""
    own = db is None
    db = db or eventide.connect()
    try:
        with tempfile.TemporaryDirectory() as books:
            db.execute(SQL.format(books=books))
            # now, and at the start of a window: nothing may be older than ten minutes
            orders = overload(db, int(time.time()) // 10 * 10_000 - 30_000)
            revenue = db.read("revenue").fetchall()
        counted, total = sum(row["orders"] for row in revenue), sum(row["total"] for row in revenue)
        print(f"gold    {counted} of {orders} orders, {total}")
        for name in STREAMS:
            counts = Counter(db.accounting(name))
            told = ", ".join(f"{kind} {count}" for kind, count in counts.items() if count)
            print(f"{name}: {told}")
        for name, figures in db.metrics()["visits"]["classes"].items():
            print(f"{name:7} admitted {figures['admitted']:g}, rejected {figures['rejected_rate']:g}")
        print(db.why("visits").splitlines()[-1])
        return {name: db.accounting(name) for name in STREAMS}
    finally:
        if own:
            db.close()


if __name__ == "__main__":
    main()
