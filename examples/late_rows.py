"""What happens to late rows and to rows without a usable time. Run: python examples/late_rows.py"""

from __future__ import annotations

from typing import Any

import eventide

SQL = """
CREATE SOURCE readings (sensor STRING, ts STRING, celsius DOUBLE,
  EVENT TIME ts TYPE iso8601,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);

CREATE STREAM hottest AS
SELECT window_start, sensor, max(celsius) AS celsius
FROM readings
GROUP BY sensor, TUMBLE(ts, INTERVAL '10' SECOND)
EMIT ON WINDOW CLOSE ALLOW LATENESS INTERVAL '20' SECOND LATE DATA TO late_readings;
"""
# Window [12:00:00, 12:00:10) closes when the watermark reaches 12:00:30, that is, with the reading of 12:00:35.
BATCHES = [
    [("roof", "2025-01-31T12:00:01Z", 3.5), ("roof", "2025-01-31T12:00:20Z", 4.0)],
    [("roof", "2025-01-31T12:00:05Z", 9.9)],  # behind the watermark (12:00:15), but the window is still open: used
    [("roof", "2025-01-31T12:00:35Z", 4.5)],
    [("roof", "2025-01-31T12:00:06Z", 7.7), ("roof", "a minute ago", 4.4)],  # late, and not a time
]


def main(db: Any = None) -> dict[str, int]:
    """Print results and payloads, and return the accounts. A caller's database is used and left open."""
    own = db is None
    db = db or eventide.connect()
    try:
        db.execute(SQL)
        for batch in BATCHES:
            db.write("readings", batch)
            db.tick()
        for row in db.read("hottest"):
            print(f"{row['window_start']:%H:%M:%S}  {row['sensor']}  {row['celsius']}")
        for payload in db.side_output("hottest"):
            print(f"{payload['kind']}: {payload['reason']}: {payload['original_event']}")
        accounts: dict[str, int] = db.accounting("hottest")
    finally:
        if own:
            db.close()
    print(accounts)
    return accounts


if __name__ == "__main__":
    main()
