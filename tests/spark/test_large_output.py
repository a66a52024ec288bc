"""Outputs that are too large to pass the driver, on Spark: tasks write them, and nobody sees a difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from eventide.database import Database
from eventide.storage.results import OUTPUT_OP, Results, read_batch
from tests.conftest import DatabaseFactory

ROWS = 60_000
FIRST_MS = 1_700_000_000_000
SQL = """
CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)
  WITH ('connector' = 'files', 'path' = '{folder}/in', 'format' = 'json');
CREATE STREAM plain AS SELECT k, v, ts FROM s WHERE v >= 0;
CREATE STREAM by_spark AS SELECT k, v, reverse(k) AS r FROM s;
CREATE STREAM reader AS SELECT k, v * 2 AS twice FROM plain;
CREATE STREAM latest AS SELECT k, max(v) AS top FROM s GROUP BY k EMIT CHANGES;
CREATE STREAM strict WITH ('late.policy' = 'strict') AS SELECT k, v FROM s LATE DATA TO behind;
CREATE SINK plain_out FROM plain WITH ('connector' = 'files', 'path' = '{folder}/plain', 'format' = 'parquet');
CREATE SINK by_spark_out FROM by_spark WITH ('connector' = 'files', 'path' = '{folder}/by_spark', 'format' = 'csv');
CREATE SINK behind_out FROM behind WITH ('connector' = 'files', 'path' = '{folder}/behind', 'format' = 'json');
"""


def write(folder: Path, name: str, first: int, count: int = ROWS, ms: int = FIRST_MS) -> None:
    rows = [{"k": f"key number {n % ROWS:07d}", "v": n, "ts": ms} for n in range(first, first + count)]
    temporary = folder / f".{name}"
    temporary.write_text("".join(json.dumps(row) + "\n" for row in rows))
    temporary.rename(folder / "in" / name)


def checked(db: Database, folder: Path, rows: int) -> None:
    total = sum(range(rows))
    for name in ("plain", "by_spark", "reader"):
        assert (name, len(db.read(name)), db.accounting(name)["used"]) == (name, rows, rows)
    assert sum(row["twice"] for row in db.read("reader")) == 2 * total
    for path in (f"{folder}/plain/*.parquet", f"{folder}/by_spark/*.csv"):
        found = duckdb.sql(f"SELECT count(*), sum(v), max(k) FROM '{path}'").fetchall()
        assert found == [(rows, total, f"key number {ROWS - 1:07d}")]
    assert not list(folder.glob("*/.*"))


def sizes(results: Results, batch: int, kind: str = "main") -> list[int]:
    return [table.num_rows for table in read_batch(results.folder, batch, kind)]


def test_large_outputs_are_written_by_tasks(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    checkpoint = tmp_path / "checkpoint"
    db = db_factory(checkpoint=checkpoint)
    db.execute(SQL.format(folder=tmp_path))
    write(tmp_path, "a.json", 0)
    db.tick()
    checked(db, tmp_path, ROWS)
    write(tmp_path, "b.json", ROWS, ms=FIRST_MS - 1)  # late for a strict stream
    db.tick()
    write(tmp_path, "c.json", 2 * ROWS, 3, FIRST_MS + 1)
    db.tick()
    checked(db, tmp_path, 2 * ROWS + 3)
    stored = {name: Results(checkpoint / "streams" / name / "results") for name in ("plain", "by_spark", "latest")}
    for results in stored.values():
        batches = [batch for batch in results.batches() if results.has_rows(batch, "main")]
        assert [results.folder.joinpath(f"{batch:012d}.parts").exists() for batch in batches] == [True, True, False]
    change_log = pa.concat_tables(read_batch(stored["latest"].folder, batch_of(stored["latest"], 1), "main"))
    assert change_log[OUTPUT_OP].to_pylist() == [-1] * ROWS + [1] * ROWS
    assert late_of(db, tmp_path) == (ROWS, ROWS, ROWS)
    db.close()
    again = db_factory(checkpoint=checkpoint)
    checked(again, tmp_path, 2 * ROWS + 3)


def batch_of(results: Results, number: int) -> int:
    return [batch for batch in results.batches() if results.has_rows(batch, "main")][number]


def late_of(db: Database, folder: Path) -> tuple[Any, ...]:
    in_files = duckdb.sql(f"SELECT count(*) FROM '{folder}/behind/*.json'").fetchall()
    return db.accounting("strict")["late"], len(db.side_output("strict", "late")), in_files[0][0]
