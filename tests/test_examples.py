"""Every example runs and prints what it should."""

from __future__ import annotations

import datetime as dt
import importlib.util
import shutil
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from eventide.cli.app import main
from tests.conftest import DatabaseFactory

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_embedded_clicks(db_factory: DatabaseFactory) -> None:
    spent: dict[tuple[int, str], float] = defaultdict(float)
    for second in range(180):
        spent[second // 60, f"v{second % 3}"] += second % 7
    expected = [
        (f"12:{minute:02d}", visitor, 20, total) for (minute, visitor), total in sorted(spent.items()) if total >= 60
    ]
    assert load("embedded_clicks").main(db_factory()) == expected


def test_late_rows(db_factory: DatabaseFactory, capsys: pytest.CaptureFixture[str]) -> None:
    accounts = load("late_rows").main(db_factory())
    assert {kind: count for kind, count in accounts.items() if count} == {
        "rows_in": 6,
        "used": 4,
        "late": 1,
        "error": 1,
    }
    out = capsys.readouterr().out
    assert "12:00:00  roof  9.9\n" in out
    assert "late: allowed_lateness_exceeded: " in out and "error: event_time_unparseable: " in out


def test_orders_and_payments(db_factory: DatabaseFactory, capsys: pytest.CaptureFixture[str]) -> None:
    found = load("orders_and_payments").main(db_factory())
    assert sorted((order, amount) for order, _, amount, _ in found["paid"]) == [("o1", 4.5), ("o4", 12.0)]
    assert sorted((row[0], row[3]) for row in found["unpaid"]) == [("o2", "Bob"), ("o3", None)]
    assert [(f"{start:%H:%M}", orders, total) for start, orders, total in found["revenue"]] == [("12:00", 1, 4.5)]
    out = capsys.readouterr().out
    assert "ALERT  o2 (coffee), ordered at 12:01 by Bob, 0170 22, has not been paid\n" in out
    assert "paid   o1 (tea), 4.5 after 0:03:00\n" in out
    assert "late   a row of payments at 12:10, for o2\n" in out


def test_overload(db_factory: DatabaseFactory, capsys: pytest.CaptureFixture[str]) -> None:
    accounts = load("overload").main(db_factory())
    for counts in accounts.values():
        assert counts["rows_in"] == sum(count for kind, count in counts.items() if kind != "rows_in")
    assert {kind: count for kind, count in accounts["revenue"].items() if count} == {
        "rows_in": 200,
        "used": 100,
        "duplicate": 100,
    }
    for name in ("bought_after", "visits"):
        assert accounts[name]["rows_in"] == 1200 and accounts[name]["duplicate"] == 100
        assert accounts[name]["rejected"] + accounts[name]["shed"] >= 700 and accounts[name]["used"] <= 400
    out = capsys.readouterr().out
    assert "gold    100 of 100 orders, 1099.0\n" in out
    assert "rows are rejected: source clicks has used its 300 tokens; 0.001 come back per second." in out


def answers(sql: str, columns: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What DuckDB makes of all rows at once, in the table `arrived`."""
    with duckdb.connect() as base:
        base.execute("SET TimeZone = 'UTC'")
        base.execute(f"CREATE TABLE arrived ({columns}, ts TIMESTAMPTZ)")
        base.executemany(f"INSERT INTO arrived VALUES ({', '.join('?' * len(rows[0]))})", rows)
        return sorted(base.execute(sql).fetchall())


def in_utc(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(
        tuple(value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value for value in row) for row in rows
    )


VISITS = """
WITH marked AS (
  SELECT *, coalesce(ts - lag(ts) OVER w > INTERVAL '30 minutes', true) AS begins FROM arrived
  WINDOW w AS (PARTITION BY visitor ORDER BY ts)),
numbered AS (SELECT *, sum(begins::INT) OVER (PARTITION BY visitor ORDER BY ts) AS visit FROM marked)
SELECT visitor, min(ts) AS began, max(ts) + INTERVAL '30 minutes' AS ended, count(*) AS pages
FROM numbered GROUP BY visitor, visit
"""
BOUNCES = f"""
SELECT date_trunc('hour', ended - INTERVAL '1 microsecond') AS hour, count(*), avg((pages = 1)::INT)
FROM ({VISITS}) GROUP BY hour
"""


def test_visits(db_factory: DatabaseFactory) -> None:
    example = load("visits")
    found, rows, columns = example.main(db_factory()), example.clicks(), "visitor TEXT, page TEXT"
    assert in_utc(found["visits"]) == in_utc(answers(VISITS, columns, rows))
    assert len(found["visits"]) > 50
    expected = in_utc(answers(BOUNCES, columns, rows))
    assert [(hour, visits, pytest.approx(rate)) for hour, visits, rate in in_utc(found["bounces"])] == expected


MINUTES = """
SELECT date_trunc('minute', ts) AS minute, sensor, count(*), min(celsius), max(celsius)
FROM (SELECT DISTINCT * FROM arrived WHERE year(ts) = 2025) GROUP BY minute, sensor
"""
CLOCKS = """
SELECT count(*), count(*) FILTER (WHERE year(ts) = 2099), count(*) FILTER (WHERE year(ts) = 1970) FROM arrived
"""


def test_sensors(db_factory: DatabaseFactory) -> None:
    example = load("sensors")
    (found, account), rows = example.main(db_factory()), example.readings()
    columns = "sensor TEXT, seq BIGINT, celsius DOUBLE"
    assert in_utc(found) == in_utc(answers(MINUTES, columns, rows))
    ((arrived, ahead, reset),) = answers(CLOCKS, columns, rows)
    assert account["rows_in"] == arrived == sum(account[kind] for kind in account if kind != "rows_in")
    assert (account["error"], account["used"]) == (ahead, sum(count for _, _, count, _, _ in found))
    assert account["late"] > 0 and account["late"] <= reset


TAKINGS = """
SELECT date_trunc('hour', ts) AS hour, shop, count(*), sum(CASE WHEN kind = 'refund' THEN -amount ELSE amount END)
FROM (SELECT DISTINCT * FROM arrived WHERE kind <> 'declined') GROUP BY hour, shop
"""
SUSPECTS = """
SELECT since, card, count(*), count(DISTINCT shop)
FROM (SELECT DISTINCT * FROM arrived WHERE kind = 'declined'),
  (SELECT unnest(generate_series(TIMESTAMPTZ '2025-01-31 08:50Z', TIMESTAMPTZ '2025-01-31 12:10Z',
    INTERVAL '5 minutes')) AS since)
WHERE ts >= since AND ts < since + INTERVAL '10 minutes' GROUP BY since, card HAVING count(*) >= 3
"""


def test_card_payments(db_factory: DatabaseFactory) -> None:
    example = load("card_payments")
    found, rows = example.main(db_factory()), example.payments()
    columns = "id TEXT, card TEXT, shop TEXT, kind TEXT, amount DECIMAL(12, 2)"
    assert in_utc(found["takings"]) == in_utc(answers(TAKINGS, columns, rows))
    assert in_utc(found["suspects"]) == in_utc(answers(SUSPECTS, columns, rows))
    assert found["suspects"]


def test_files_to_files(
    tmp_path: Path, keep_spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "files"
    shutil.copytree(EXAMPLES / "files", folder, ignore=shutil.ignore_patterns("out"))
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as end:
        main(["run", "app.sql", "--once", "--flush"])
    out, err = capsys.readouterr()
    assert (end.value.code, err) == (0, "")
    assert "per_page: rows in 8 = used 7 + error 1 ✓" in out
    rows = pq.read_table(folder / "out" / "pages").to_pylist()
    found = sorted((f"{row['window_start']:%H:%M}", row["page"], row["clicks"], row["visitors"]) for row in rows)
    assert found == [
        ("12:00", "/cart", 1, 1),
        ("12:00", "/home", 4, 3),
        ("12:01", "/cart", 1, 1),
        ("12:01", "/home", 1, 1),
    ]
