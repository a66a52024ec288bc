"""Rows that Spark hands to tasks are folded there, but for those that may be late."""

from __future__ import annotations

import random
from typing import Any

from eventide import Database
from eventide.testing import ReferenceDatabase

SQL = """
CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms,
                 WATERMARK FOR ts AS ts - INTERVAL '2' SECOND);
CREATE STREAM o AS SELECT k, window_start, count(*) AS n, sum(v) AS total, max(v) AS top
FROM s GROUP BY k, TUMBLE(ts, INTERVAL '5' SECOND)
"""


def rows(number: int) -> list[dict[str, Any]]:
    """More than travel one by one; from the second batch on some are far behind, and one has no time that can be."""
    chance = random.Random(number)
    found = []
    for place in range(3000):
        behind = 60_000 if number and place % 100 == 0 else 0
        ts = 1_700_000_000_000 + number * 10_000 + chance.randint(0, 9_999) - behind
        found.append({"k": chance.choice("abcd"), "v": chance.randint(0, 99), "ts": ts})
    return found + ([{"k": "a", "v": 1, "ts": 1 << 62}] if number == 1 else [])


def test_folded_rows_give_what_single_rows_give_and_late_ones_keep_their_originals(db: Database) -> None:
    model = ReferenceDatabase()
    for each in (db, model):
        each.execute(SQL)
        for number in range(3):
            each.write("s", rows(number))
            each.tick()
    assert "fused: pack → fold, in the task that Spark hands rows to" in db.explain("o")
    assert sorted(map(str, db.read("o"))) == sorted(map(str, model.read("o")))
    assert db.accounting("o") == model.accounting("o") and db.accounting("o")["late"] == 60
    originals = [
        sorted(str(payload["original_event"]) for payload in each.side_output("o", "late")) for each in (db, model)
    ]
    assert originals[0] == originals[1]
