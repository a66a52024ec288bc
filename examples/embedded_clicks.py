"""Eventide inside a program: rows go in with `write`, results come out with `read`. Run: python
examples/embedded_clicks.py
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import eventide

SQL = """
CREATE SOURCE clicks (visitor STRING, ts TIMESTAMP, amount DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);

CREATE STREAM spending AS
SELECT window_start, visitor, count(*) AS clicks, sum(amount) AS spent
FROM clicks
GROUP BY visitor, TUMBLE(ts, INTERVAL '1' MINUTE)
HAVING sum(amount) >= 60;
"""
NOON = datetime(2025, 1, 31, 12, tzinfo=UTC)


def clicks() -> list[dict[str, Any]]:
    """Three minutes of clicks, newest first: the order of arrival does not matter within a batch."""
    return [
        {"visitor": f"v{second % 3}", "ts": NOON + timedelta(seconds=second), "amount": float(second % 7)}
        for second in reversed(range(180))
    ]


def main(db: Any = None) -> list[tuple[str, str, int, float]]:
    """Print and return what visitors spent per minute. A caller's database is used and left open."""
    own = db is None
    db = db or eventide.connect()
    try:
        db.execute(SQL)
        db.write("clicks", clicks())
        db.advance_watermark("clicks", NOON + timedelta(minutes=3))
        db.tick()
        rows = sorted(
            (f"{row['window_start']:%H:%M}", row["visitor"], row["clicks"], row["spent"]) for row in db.read("spending")
        )
    finally:
        if own:
            db.close()
    for minute, visitor, count, spent in rows:
        print(f"{minute}  {visitor}  {count} clicks  {spent:.2f}")
    return rows


if __name__ == "__main__":
    main()
