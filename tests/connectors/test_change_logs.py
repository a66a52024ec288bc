"""A table that a change log keeps: after every batch it holds exactly the query's answer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import DatabaseFactory
from tests.connectors.postgres_server import MISSING, binaries, server

deltalake = pytest.importorskip("deltalake", reason="no deltalake: pip install 'eventide[delta]'")
psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'eventide[postgres]'")


@pytest.mark.skipif(binaries() is None, reason=MISSING)
def test_tables_equal_the_answer_after_every_batch_and_over_a_restart(
    db_factory: DatabaseFactory, tmp_path: Path
) -> None:
    """Groups come, change, fall below the HAVING, and come back."""
    lake = tmp_path / "lake"
    batches = [["a", "a", "b"], ["b", "b", "c"], ["a", "a", "a"], ["c", "c", "a", "b"], ["b"]]
    seen: Counter[str] = Counter()
    with server() as postgres:
        sql = f"""
            CREATE SOURCE s (k STRING);
            CREATE STREAM o AS SELECT k, n, op FROM (SELECT k, count(*) AS n FROM s GROUP BY k) WHERE n % 4 > 1
            EMIT CHANGES;
            CREATE SINK d FROM o WITH ('connector' = 'delta', 'path' = '{lake}', 'key' = 'k');
            CREATE SINK p FROM o WITH ('connector' = 'postgres', 'url' = '{postgres.url}', 'table' = 't',
                'key' = 'k')"""
        for number, batch in enumerate(batches):
            if number in (0, 3):
                db = db_factory(checkpoint=tmp_path / "checkpoint")
                db.execute(sql)
            db.write("s", [(key,) for key in batch])
            db.tick()
            seen.update(batch)
            answer = {key: count for key, count in seen.items() if count % 4 > 1}
            in_lake = {row["k"]: row["n"] for row in deltalake.DeltaTable(str(lake)).to_pyarrow_table().to_pylist()}
            with psycopg.connect(postgres.url) as connection:
                in_postgres = dict(connection.execute("SELECT k, n FROM t").fetchall())
            assert (in_lake, in_postgres) == (answer, answer), f"after batch {number}"
            if number == 2:
                db.close()
