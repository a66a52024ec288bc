"""Streams that read streams: tasks read, filter and pack what the other has given, and the outcome is Spark's."""

from __future__ import annotations

from typing import Any

import pytest

from eventide.database import Database

BASE = """
CREATE SOURCE s (k STRING, v BIGINT, place STRUCT<city: STRING, zip: INT>, ts TIMESTAMP,
  WATERMARK FOR ts AS ts - INTERVAL '0' SECOND);
CREATE STREAM rows_of_s AS SELECT k, v, place, v * 1.5D AS half, ts FROM s;
"""
OTHERS = """
CREATE STREAM counts AS SELECT window_start, k, count(*) AS n, sum(v) AS total, max(ts) AS newest
  FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND) EMIT ON WINDOW CLOSE LATE DATA TO late_of_s;
CREATE STREAM latest AS SELECT op, k, sum(v) AS total FROM s GROUP BY k EMIT CHANGES;
"""
READERS = {
    "filtered": "SELECT k, upper(k) AS u, place.city AS city, half FROM rows_of_s WHERE v > 1 OR v IS NULL",
    "larger_windows": "SELECT window_start, sum(n) AS n, max(newest) AS newest FROM counts "
    "GROUP BY TUMBLE(window_time, INTERVAL '20' SECOND)",
    "of_late_rows": "SELECT k, count(*) AS n FROM late_of_s GROUP BY k EMIT ON UPDATE",
    "of_changes": "SELECT op, count(*) AS n, sum(total) AS t FROM latest WHERE total > 2 GROUP BY k IS NULL "
    "EMIT CHANGES",
    "joined": "SELECT a.k, a.v, b.n FROM rows_of_s a JOIN counts b WITHIN INTERVAL '15' SECOND ON a.k = b.k",
}
ROWS: list[list[dict[str, Any]]] = [
    [
        {"k": "a", "v": 1, "place": {"city": "Ulm", "zip": 89073}, "ts": "2025-01-01T00:00:01Z"},
        {"k": "é", "v": None, "place": None, "ts": "2025-01-01T00:00:03.25Z"},
        {"k": None, "v": 3, "place": {"city": None, "zip": 1}, "ts": "2025-01-01T00:00:09Z"},
    ],
    [
        {"k": "a", "v": 5, "place": {"city": "Bern", "zip": None}, "ts": "2025-01-01T00:00:12Z"},
        {"k": "a", "v": 2, "place": None, "ts": "2025-01-01T00:00:31Z"},
    ],
    [
        {"k": "a", "v": 9, "place": None, "ts": "2025-01-01T00:00:02Z"},  # late for its window
        {"k": "é", "v": 7, "place": None, "ts": "2025-01-01T00:00:55Z"},
    ],
]


def found(db: Database, name: str) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in db.read(name))


def is_fused(db: Database, name: str) -> list[bool]:
    """Whether tasks finish each of a stream's inputs."""
    running = db._engine.opened(name)
    assert running is not None
    return [input.fusion is not None for input in running.compiled.physical.inputs]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["larger_windows"], id="windows"),
        pytest.param(["filtered", "of_late_rows", "of_changes", "joined"], id="others", marks=pytest.mark.slow),
    ],
)
def test_what_tasks_make_of_a_stream_is_what_spark_makes_of_it(db: Database, names: list[str]) -> None:
    db.execute(BASE + OTHERS)
    for name in names:
        db.execute(f"CREATE STREAM {name} AS {READERS[name]}")
        db.execute(f"CREATE STREAM {name}_by_spark WITH ('fused_scan' = 'false') AS {READERS[name]}")
    for rows in ROWS:
        db.write("s", rows)
        db.tick()
    db.advance_watermark("s", 1_735_689_900_000)
    db.tick()
    for name in names:
        assert all(is_fused(db, name)), name
        assert not any(is_fused(db, f"{name}_by_spark")), name
        assert found(db, name) == found(db, f"{name}_by_spark") != [], name
        assert db.accounting(name) == db.accounting(f"{name}_by_spark"), name
        assert db.watermark(name) == db.watermark(f"{name}_by_spark"), name


def test_what_only_spark_can_evaluate_is_handed_to_it(db: Database) -> None:
    db.execute(BASE)
    db.execute("CREATE STREAM words AS SELECT k, soundex(k) AS sound FROM rows_of_s")
    db.execute("CREATE STREAM parts AS SELECT k, part FROM rows_of_s LATERAL VIEW explode(split(k, '')) AS part")
    db.write("s", ROWS[0])
    db.tick()
    assert is_fused(db, "parts") == [False]
    assert [row["part"] for row in db.read("parts") if row["k"] == "a"] == ["a"]
    assert {row["k"]: row["sound"] for row in db.read("words")}["a"] == "A000"


def test_a_reader_for_which_an_expression_raises_goes_on_with_guards(db: Database) -> None:
    """A query that fails is taken up by a plan in which Spark evaluates expressions, row by row."""
    db.execute(BASE)
    db.execute("CREATE STREAM strict AS SELECT k, raise_error('no') AS e FROM rows_of_s WHERE v = 3")
    db.execute("CREATE STREAM checked AS SELECT k, assert_true(v < 3) AS ok FROM rows_of_s")
    db.write("s", ROWS[0])
    db.tick()
    assert db.accounting("strict")["error"] == 1
    assert db.accounting("checked")["error"] == 2  # one of them has no v
    db.write("s", ROWS[1])
    db.tick()
    assert db.accounting("checked") == {**db.accounting("checked"), "rows_in": 5, "used": 2, "error": 3}
