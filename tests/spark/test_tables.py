"""Tables on Spark: what is found in them, when they are read anew, and that a batch that comes again finds the same."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventide.database import Database
from eventide.errors import EventideError
from eventide.spark.lookup import places
from eventide.testing import ReferenceDatabase
from tests.conftest import DatabaseFactory

ORDERS = """
CREATE SOURCE orders (id STRING, customer STRING, country STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms,
  WATERMARK FOR ts AS ts - INTERVAL '1' HOUR, DEDUPLICATE BY id WITHIN INTERVAL '10' MINUTE);
"""


def table(name: str, columns: str, path: Path, format: str, more: str = "") -> str:
    options = f"'connector' = 'files', 'path' = '{path}', 'format' = '{format}'{more}"
    return f"CREATE TABLE {name} ({columns}) WITH ({options});"


def found(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows), key=str)


def test_rows_of_every_format_are_found_as_the_model_finds_them(db: Database, tmp_path: Path) -> None:
    (tmp_path / "customers").mkdir()
    (tmp_path / "customers" / "a.csv").write_text("id,name\nc1,Ann\nc2,Bob\n")
    (tmp_path / "customers" / "b.csv").write_text("id,name\nc2,Bea\n,nobody\n")
    rates = [{"country": "DE", "rate": 19}, {"country": "FR", "rate": 20}]
    (tmp_path / "rates.json").write_text("".join(f"{json.dumps(rate)}\n" for rate in rates))
    pq.write_table(pa.table({"country": ["DE", "US"], "zone": [1, 2]}), tmp_path / "zones.parquet")
    sql = f"""{ORDERS}
        {table("customers", "id STRING, name STRING", tmp_path / "customers", "csv", ", 'header' = 'true'")}
        {table("rates", "country STRING, rate BIGINT", tmp_path / "rates.json", "json")}
        {table("zones", "country STRING, zone BIGINT", tmp_path / "zones.parquet", "parquet")}
        CREATE STREAM o AS SELECT orders.id, name, rate, zone FROM orders JOIN customers c ON customer = c.id
          LEFT JOIN rates r ON r.country = orders.country AND rate > 19 LEFT JOIN zones z ON orders.country = z.country;
        CREATE STREAM n AS SELECT zone, count(*) AS n FROM orders LEFT JOIN zones USING (country)
          GROUP BY zone, TUMBLE(ts, INTERVAL '1' MINUTE);
    """
    given = [
        ("o1", "c1", "DE", 1000),
        ("o2", "c2", "FR", 2000),
        ("o3", "c3", "DE", 3000),
        ("o4", None, "US", 4000),
        ("o2", "c2", "FR", 2000),
        ("o5", "c1", None, 5000),
    ]
    model = ReferenceDatabase()
    for each in (db, model):
        each.execute(sql)
        each.write("orders", given)
        each.write("orders", [{"id": "bad", "customer": "c1", "country": "DE", "ts": "soon"}])
        each.advance_watermark("orders", 60_000)
        each.tick()
    for stream in ("o", "n"):
        assert found(db.read(stream)) == found(model.read(stream))
        assert db.accounting(stream) == model.accounting(stream)
    assert found(db.read("o")) == [
        ("o1", "Ann", None, 1),
        ("o2", "Bea", 20, None),
        ("o2", "Bob", 20, None),
        ("o5", "Ann", None, None),
    ]
    assert (db.accounting("o")["duplicate"], db.accounting("o")["error"]) == (2, 1), "a row that is no row passes"
    names = [row["name"] for row in db.execute("SELECT name FROM customers ORDER BY name")]
    assert names == ["Ann", "Bea", "Bob", "nobody"]


def test_a_table_that_cannot_be_read_anew_keeps_its_last_version_and_says_so(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "customers.csv"
    path.write_text("c1,Ann\n")
    db.execute(ORDERS)
    db.execute(table("customers", "id STRING, name STRING", path, "csv", ", 'refresh' = '1 millisecond'"))
    db.execute("CREATE STREAM o AS SELECT orders.id, name FROM orders LEFT JOIN customers ON customer = customers.id")

    def names(order: str) -> list[str | None]:
        db.write("orders", [(order, "c1", None, 1000)])
        db.tick()
        return [row["name"] for row in db.read("o") if row["id"] == order]

    assert names("o1") == ["Ann"]
    path.write_text("c1,Anna\n")
    assert names("o2") == ["Anna"]
    path.unlink()
    assert names("o3") == ["Anna"]
    figures = db.metrics()["o"]["tables"]["customers"]
    assert figures["version"] == 2 and figures["refresh_failures"] >= 1
    assert "customers.csv does not exist" in figures["refresh_error"]
    assert "The table customers could not be read anew" in db.why("o") and "Version 2" in db.why("o")
    path.write_text("c1,Annabel\n")
    assert names("o4") == ["Annabel"]
    assert db.metrics()["o"]["tables"]["customers"]["refresh_error"] is None
    with pytest.raises(EventideError, match="the stream o reads the table customers"):
        db.execute("DROP TABLE customers")


def test_a_running_stream_finds_new_rows_of_a_table_without_being_asked(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "customers.csv"
    path.write_text("c1,Ann\n")
    db.execute(ORDERS + table("customers", "id STRING, name STRING", path, "csv", ", 'refresh' = '100 milliseconds'"))
    db.execute("CREATE STREAM o AS SELECT orders.id, name FROM orders LEFT JOIN customers c ON customer = c.id")
    db.start()
    names: set[str | None] = set()
    path.write_text("c1,Bea\n")
    deadline = time.monotonic() + 500
    for number in itertools.count():
        db.write("orders", [(f"o{number}", "c1", "DE", 1000 + number)])
        names = {row["name"] for row in db.read("o")}
        if "Bea" in names:
            break
        assert time.monotonic() < deadline, names
        time.sleep(0.2)
    db.stop()
    last = max((row for row in db.read("o")), key=lambda row: int(row["id"][1:]))
    assert last["name"] == "Bea" and names <= {"Ann", "Bea"}
    assert db.accounting("o")["rows_in"] == number + 1


def test_a_batch_that_comes_again_finds_what_it_found(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    """A crash between the state of a batch and its commit, and the table was read anew in between."""
    path, checkpoint = tmp_path / "customers.json", tmp_path / "checkpoint"
    sql = f"""{ORDERS} {table("customers", "id STRING, city STRING", path, "json")}
        CREATE STREAM o AS SELECT city, count(*) AS n FROM orders JOIN customers ON customer = customers.id
          GROUP BY city, TUMBLE(ts, INTERVAL '1' MINUTE);"""
    path.write_text('{"id": "c1", "city": "Bonn"}\n')
    db = db_factory(checkpoint=str(checkpoint))
    db.execute(sql)
    db.write("orders", [("o1", "c1", None, 1000)])
    db.tick()
    db.close()
    commits = checkpoint / "streams" / "o" / "spark" / "commits"
    for file in [path for path in commits.iterdir() if path.name != "metadata"]:
        file.unlink()
    path.write_text('{"id": "c1", "city": "Köln"}\n')
    db = db_factory(checkpoint=str(checkpoint))
    db.execute(sql.replace("'format' = 'json'", "'format' = 'json', 'refresh' = '1 hour'"))  # which may change
    db.execute("REFRESH TABLE customers")
    db.tick()
    db.write("orders", [("o2", "c1", None, 2000)])
    db.advance_watermark("orders", 60_000)
    db.tick()
    assert found(db.read("o")) == [("Bonn", 1), ("Köln", 1)]


def test_places_number_the_rows_of_one_key() -> None:
    rows = pa.table({"k": ["a", "b", None, "a", "a", None], "j": [1, 1, 1, 1, 2, 1]})
    assert places(rows, ["k"]).to_pylist() == [0, 0, 0, 1, 2, 1]
    assert places(rows, ["k", "j"]).to_pylist() == [0, 0, 0, 1, 0, 1]
    assert places(rows, []).to_pylist() == [0, 1, 2, 3, 4, 5]
    assert places(rows.slice(0, 0), ["k"]).to_pylist() == []
