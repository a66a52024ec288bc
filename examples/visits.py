"""Clicks as visits, and how many visitors leave after one page: sessions, and a stream that reads them.

Run: python examples/visits.py
"""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import eventide

SQL = """
CREATE SOURCE clicks (visitor STRING, page STRING, ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE);

-- A visit ends when its visitor has not clicked for half an hour.
CREATE STREAM visits AS
SELECT visitor, window_start AS began, window_end AS ended, count(*) AS pages
FROM clicks
GROUP BY visitor, SESSION(ts, INTERVAL '30' MINUTE);

-- The time of a visit is when it ended.
CREATE STREAM bounces AS
SELECT window_start AS hour, count(*) AS visits, count(*) FILTER (WHERE pages = 1) / count(*) AS bounce_rate
FROM visits
GROUP BY TUMBLE(window_time, INTERVAL '1' HOUR);
"""
START = dt.datetime(2025, 1, 31, 8, tzinfo=dt.UTC)
Click = tuple[str, str, dt.datetime]


def clicks() -> list[Click]:
    """Those of a morning, as they arrive: up to eight minutes late, so that some overtake others."""
    chance = random.Random(7)
    found: list[tuple[float, Click]] = []
    for visit in range(120):
        second, visitor = chance.uniform(0, 4 * 3600), f"v{chance.randrange(40)}"
        for page in range(1 if visit % 3 == 0 else chance.randint(2, 6)):
            arrives = second + chance.uniform(0, 480)
            found.append((arrives, (visitor, f"/{page}", START + dt.timedelta(seconds=round(second)))))
            second += chance.uniform(5, 1500)
    return [click for _, click in sorted(found)]


def main(db: Any = None) -> dict[str, list[tuple[Any, ...]]]:
    """Print the bounce rates; give them back with the visits. A caller's database is used and left open."""
    own = db is None
    db = db or eventide.connect()
    try:
        db.execute(SQL)
        rows = clicks()
        for first in range(0, len(rows), 150):
            db.write("clicks", rows[first : first + 150])
            db.tick()
        db.advance_watermark("clicks", START + dt.timedelta(days=1))  # the morning is over
        db.tick()
        found = {name: [tuple(row.values()) for row in db.read(name)] for name in ("visits", "bounces")}
        for hour, visits, rate in sorted(found["bounces"]):
            print(f"{hour:%H:%M}  {visits:3} visits, {rate:.0%} left after one page")
    finally:
        if own:
            db.close()
    return found


if __name__ == "__main__":
    main()
