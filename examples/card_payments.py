"""Card payments: what a shop has taken in, to the cent, and cards that are declined again and again.

Run: python examples/card_payments.py
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import eventide

SQL = """
CREATE SOURCE payments (id STRING, card STRING, shop STRING, kind STRING, amount DECIMAL(12, 2), ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL '2' MINUTE,
  DEDUPLICATE BY id WITHIN INTERVAL '1' HOUR);

-- Refunds count against what was taken in.
CREATE STREAM takings AS
SELECT window_start AS hour, shop, count(*) AS n,
  sum(CASE WHEN kind = 'refund' THEN -amount ELSE amount END) AS total
FROM payments
WHERE kind <> 'declined'
GROUP BY shop, TUMBLE(ts, INTERVAL '1' HOUR);

-- Three or more within ten minutes; looked at every five.
CREATE STREAM suspects AS
SELECT window_start AS since, card, count(*) AS declined, count(DISTINCT shop) AS shops
FROM payments
WHERE kind = 'declined'
GROUP BY card, HOP(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)
HAVING count(*) >= 3;
"""
START = dt.datetime(2025, 1, 31, 9, tzinfo=dt.UTC)
Payment = tuple[str, str, str, str, Decimal, dt.datetime]


def payments() -> list[Payment]:
    """Three hours, as they arrive: within two minutes, some of them twice."""
    chance = random.Random(3)
    found: list[tuple[float, Payment]] = []
    for number in range(500):
        second = chance.uniform(0, 3 * 3600)
        kind = chance.choices(("sale", "refund", "declined"), (6, 1, 3))[0]
        card = f"c{chance.randrange(4 if kind == 'declined' else 60)}"
        amount = Decimal(chance.randint(100, 20_000)) / 100
        time = START + dt.timedelta(seconds=round(second))
        payment = (f"p{number}", card, f"shop {chance.randrange(3)}", kind, amount, time)
        found.append((second + chance.uniform(0, 60), payment))
        if number % 25 == 0:
            found.append((second + chance.uniform(60, 110), payment))
    return [payment for _, payment in sorted(found)]


def main(db: Any = None) -> dict[str, list[tuple[Any, ...]]]:
    """Print takings and suspects, and give them back. A caller's database is used and left open."""
    own = db is None
    db = db or eventide.connect()
    try:
        db.execute(SQL)
        rows = payments()
        for first in range(0, len(rows), 270):
            db.write("payments", rows[first : first + 270])
            db.tick()
        db.advance_watermark("payments", START + dt.timedelta(days=1))
        db.tick()
        found = {name: [tuple(row.values()) for row in db.read(name)] for name in ("takings", "suspects")}
        for hour, shop, count, total in sorted(found["takings"]):
            print(f"{hour:%H:%M}  {shop}  {count:3} payments, {total}")
        for since, card, declined, shops in sorted(found["suspects"]):
            print(f"{since:%H:%M}  {card} was declined {declined} times in {shops} shops")
    finally:
        if own:
            db.close()
    return found


if __name__ == "__main__":
    main()
