"""An expression that raises for a row makes that row an `error`; the stream and the other rows go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from eventide.database import Database

SOURCE = "CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)"
WINDOW = "TUMBLE(ts, INTERVAL '1' SECOND)"
ROWS = [
    {"k": "a%20b", "v": 1, "ts": 1_000},
    {"k": "100%", "v": 2, "ts": 1_100},
    {"k": "a%20b", "v": 3, "ts": 1_200},
    {"k": "c", "v": 4, "ts": 5_000},
]


def balanced(db: Database, stream: str) -> dict[str, int]:
    account = db.accounting(stream)
    assert account["rows_in"] == sum(account[kind] for kind in account if kind != "rows_in")
    return account


def taken(db: Database, query: str, rows: Sequence[dict[str, Any]] = ROWS, source: str = SOURCE) -> Database:
    db.execute(source)
    db.execute(f"CREATE STREAM o AS {query}")
    db.write("s", rows)
    db.tick()
    return db


IN_FRONT = {
    "where": f"SELECT k, count(*) AS n FROM s WHERE url_decode(k) <> 'x' GROUP BY k, {WINDOW}",
    "projection": f"SELECT d, count(*) AS n FROM (SELECT url_decode(k) AS d, ts FROM s) GROUP BY d, {WINDOW}",
    "key": f"SELECT url_decode(k) AS d, count(*) AS n FROM s GROUP BY url_decode(k), {WINDOW}",
    "argument": f"SELECT max(url_decode(k)) AS m, count(*) AS n FROM s GROUP BY {WINDOW}",
    "filter": f"SELECT count(*) FILTER (WHERE url_decode(k) = 'a b') AS n FROM s GROUP BY {WINDOW}",
    "time": "SELECT count(*) AS n FROM s "
    "WINDOW TUMBLING (ON timestamp_millis(ts + length(url_decode(k)) * 0), SIZE INTERVAL '1' SECOND)",
    "forwarded": "SELECT url_decode(k) AS d, v FROM s",
    "common part": f"SELECT max(url_decode(k)) AS m, min(length(url_decode(k))) AS n FROM s GROUP BY {WINDOW}",
    "exploded": "SELECT w, count(*) AS n FROM s LATERAL VIEW explode(split(url_decode(k), ' ')) t AS w "
    f"GROUP BY w, {WINDOW}",
}


@pytest.mark.parametrize("place", IN_FRONT)
def test_a_row_for_which_an_expression_raises_is_an_error_wherever_it_stands(db: Database, place: str) -> None:
    taken(db, IN_FRONT[place])
    (payload,) = db.side_output("o", "error")
    assert payload["reason"] == "expression_failed"
    assert "url_decode(k)" in payload["error_detail"] and "k = 100%" in payload["error_detail"]
    assert balanced(db, "o")["error"] == 1
    assert db.read("o").fetchall()
