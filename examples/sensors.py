"""Sensors in the field: readings that are sent twice, clocks that run ahead, and one that has lost the date.

Run: python examples/sensors.py
"""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import eventide

SQL = """
CREATE SOURCE readings (sensor STRING, seq BIGINT, celsius DOUBLE, ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE,
  DEDUPLICATE BY sensor, seq WITHIN INTERVAL '30' MINUTE
) WITH ('max_future_skew' = '5 minutes');

CREATE STREAM per_minute AS
SELECT window_start AS minute, sensor, count(*) AS n, min(celsius) AS lowest, max(celsius) AS highest
FROM readings
GROUP BY sensor, TUMBLE(ts, INTERVAL '1' MINUTE);
"""
START = dt.datetime(2025, 1, 31, 12, tzinfo=dt.UTC)
AHEAD, RESET = dt.datetime(2099, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
Reading = tuple[str, int, float, dt.datetime]


def readings() -> list[Reading]:
    """Ten minutes of five sensors, as they arrive. Each tenth reading is sent again; some clocks are wrong."""
    chance = random.Random(11)
    found: list[tuple[float, Reading]] = []
    for second in range(0, 600, 5):
        for number in range(5):
            seq = second * 5 + number
            time = START + dt.timedelta(seconds=second)
            if number == 3 and second % 60 == 30:
                time = AHEAD
            elif number == 4 and second >= 300:  # it has lost power, and begins with the year 1970
                time = RESET + dt.timedelta(seconds=second)
            reading = (f"s{number}", seq, round(chance.uniform(15, 30), 1), time)
            found.append((second + chance.uniform(0, 50), reading))
            if seq % 10 == 0:
                found.append((second + chance.uniform(50, 100), reading))
    return [reading for _, reading in sorted(found)]


def main(db: Any = None) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """Print the minutes and the account, and give them back. A caller's database is used and left open."""
    own = db is None
    db = db or eventide.connect()
    try:
        db.execute(SQL)
        rows = readings()
        for first in range(0, len(rows), 250):
            db.write("readings", rows[first : first + 250])
            db.tick()
        db.advance_watermark("readings", START + dt.timedelta(hours=1))
        db.tick()
        found = [tuple(row.values()) for row in db.read("per_minute")]
        for minute, sensor, count, lowest, highest in sorted(found):
            print(f"{minute:%H:%M}  {sensor}  {count:2} readings, {lowest} to {highest}")
        account = {kind: count for kind, count in db.accounting("per_minute").items() if count}
        print(account)
    finally:
        if own:
            db.close()
    return found, account


if __name__ == "__main__":
    main()
