"""The examples of pages that need a server or a table run, with its place in the place of the page's."""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.conftest import DatabaseFactory
from tests.connectors.postgres_server import MISSING, binaries, server
from tests.markdown import ROOT, blocks


def examples(page: str) -> list[str]:
    found = blocks(ROOT / "docs" / "connectors" / f"{page}.md")
    return [block.code for block in found if block.code.startswith("CREATE")]


def test_delta(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="no deltalake: pip install 'eventide[delta]'")
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    orders = {"id": [1, 2, 3], "customer": ["ann", "bob", "ann"], "amount": [1.0, 2.0, 3.0], "ts": [at] * 3}
    deltalake.write_deltalake(str(tmp_path / "orders"), pa.table(orders))
    customers = pa.table({"customer": ["ann", "bob"], "country": ["AT", "BE"]})
    deltalake.write_deltalake(str(tmp_path / "customers"), customers)
    (example,) = examples("delta")
    db = db_factory()
    db.execute(example.replace("lake/", f"{tmp_path}/"))
    db.tick()
    found = deltalake.DeltaTable(str(tmp_path / "totals")).to_pyarrow_table().to_pylist()
    assert sorted((row["country"], row["n"], row["total"]) for row in found) == [("AT", 2, 4.0), ("BE", 1, 2.0)]


@pytest.mark.skipif(binaries() is None, reason=MISSING)
def test_postgres(db_factory: DatabaseFactory) -> None:
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'eventide[postgres]'")
    sink, table = examples("postgres")
    with server() as postgres, psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE customers AS SELECT 7::bigint AS id, 'ann' AS name")
        db = db_factory()
        db.execute("""
            CREATE SOURCE clicks (visitor STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts);
            CREATE STREAM per_user AS SELECT window_id, visitor, count(*) AS n FROM clicks
            GROUP BY visitor, TUMBLE(ts, INTERVAL '10' SECOND)""")
        for statement in (sink, table):
            db.execute(statement.replace("postgresql://app@db/app", postgres.url))
        db.write("clicks", [("ann", "2026-01-01T00:00:00Z"), ("ann", "2026-01-01T00:00:11Z")])
        db.tick()
        assert db.read("customers").fetchall() == [{"id": 7, "name": "ann"}]
        assert connection.execute("SELECT visitor, n FROM totals").fetchall() == [("ann", 1)]
        db.close()


def test_jdbc(keep_spark: Any, db_factory: DatabaseFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hush")
    url = f"jdbc:derby:memory:{uuid.uuid4().hex};create=true"
    login = {"user": "app", "password": "hush"}
    keep_spark.createDataFrame([(7, "ann")], "ID bigint, NAME string").write.jdbc(url, "customers", properties=login)
    (example,) = examples("jdbc")
    db = db_factory()
    db.execute(example.replace("jdbc:mysql://db/app", url))
    assert db.read("customers").fetchall() == [{"id": 7, "name": "ann"}]
