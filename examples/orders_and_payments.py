"""Orders with their payments within ten minutes, customers as a table, and an alert for what nobody paid.

Run: python examples/orders_and_payments.py
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import eventide

SQL = """
CREATE SOURCE orders (id STRING, customer STRING, item STRING, price DOUBLE, ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE);
CREATE SOURCE payments (order_id STRING, amount DOUBLE, ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH ('idle_timeout' = '5 minutes');

-- What seldom changes is looked up: the files are read anew every ten minutes.
CREATE TABLE customers (id STRING, name STRING, phone STRING)
WITH ('connector' = 'files', 'path' = '{customers}', 'format' = 'csv', 'header' = 'true', 'refresh' = '10 minutes');

-- A pair comes as soon as both are there; less than the price does not count.
CREATE STREAM paid AS
SELECT o.id, o.item, p.amount, p.ts - o.ts AS took
FROM orders o JOIN payments p
ON o.id = p.order_id AND p.amount >= o.price AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '10' MINUTE;

-- An order comes out when no payment can come any more that would be on time.
CREATE STREAM unpaid AS
SELECT o.id, o.item, o.ts AS ordered, name, phone
FROM orders o LEFT JOIN customers c ON o.customer = c.id
LEFT ANTI JOIN payments p
ON o.id = p.order_id AND p.amount >= o.price AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '10' MINUTE
LATE DATA TO too_late;

-- A stream that reads a stream: rowtime is the time of the payment, the later of the two.
CREATE STREAM revenue AS
SELECT window_start, count(*) AS orders, sum(amount) AS total
FROM paid
GROUP BY TUMBLE(rowtime, INTERVAL '10' MINUTE);
"""
CUSTOMERS = """id,name,phone
c1,Ann,0170 11
c2,Bob,0170 22
"""
ORDERS = [
    ("o1", "c1", "tea", 4.5, "2025-01-31T12:00:00Z"),
    ("o2", "c2", "coffee", 6.0, "2025-01-31T12:01:00Z"),
    ("o3", "c3", "cake", 3.0, "2025-01-31T12:02:00Z"),
    ("o4", "c1", "lunch", 12.0, "2025-01-31T12:25:00Z"),
]
PAYMENTS = [
    ("o1", 4.5, "2025-01-31T12:03:00Z"),
    ("o3", 1.0, "2025-01-31T12:04:00Z"),  # not enough
    ("o2", 6.0, "2025-01-31T12:11:30Z"),  # half a minute too late
    ("o4", 12.0, "2025-01-31T12:25:20Z"),
]


def alert(batch: int, rows: Any) -> None:
    """A function that gets every batch of a stream: here it prints, elsewhere it would send a message."""
    for row in rows.to_pylist():
        who = "an unknown customer" if row["name"] is None else f"{row['name']}, {row['phone']}"
        print(f"ALERT  {row['id']} ({row['item']}), ordered at {row['ordered']:%H:%M} by {who}, has not been paid")


def main(db: Any = None) -> dict[str, list[tuple[Any, ...]]]:
    """Print and return what was paid, what was not, and the revenue. A caller's database is used and left open."""
    own = db is None
    db = db or eventide.connect()
    folder = Path(tempfile.mkdtemp(prefix="customers-"))
    try:
        (folder / "customers.csv").write_text(CUSTOMERS)
        db.execute(SQL.format(customers=folder))
        db.foreach("unpaid", alert)
        db.write("orders", ORDERS)
        db.write("payments", PAYMENTS)
        db.tick()
        db.write("payments", [("o2", 6.0, "2025-01-31T12:10:00Z")])  # would have been in time, but arrives too late
        db.tick()
        found = {name: [tuple(row.values()) for row in db.read(name)] for name in ("paid", "unpaid", "revenue")}
        for order, item, amount, took in sorted(found["paid"]):
            print(f"paid   {order} ({item}), {amount} after {took}")
        for start, orders, total in sorted(found["revenue"]):
            print(f"{start:%H:%M}  {orders} paid, {total}")
        for row in db.read("too_late"):
            print(f"late   a row of {row['source']} at {row['ts']:%H:%M}, for {row['order_id'] or row['id']}")
    finally:
        shutil.rmtree(folder)
        if own:
            db.close()
    return found


if __name__ == "__main__":
    main()
