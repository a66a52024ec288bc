"""Columns of dates, inside files and in the names of folders: tasks and Spark see the same in them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventide import Database
from tests.connectors.test_fused_scan import outcome

PLAIN = [f"2026-{month:02d}-{day:02d}" for month in (1, 2, 12) for day in range(1, 29)]
ODD = ["2026-02-30", "2026-1-5", "0001-01-01", "2026-01-31T10:00:00", "2026", "2026/01/31", " 2026-01-31", "x", ""]
COLUMNS = "v BIGINT, d DATE, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms"
GROUPED = "SELECT d, count(*) AS n, max(d) AS newest FROM s GROUP BY d EMIT ON UPDATE"


def write(folder: Path, format: str) -> int:
    """A file of plain dates, and one of others; how many rows they have."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [*(PLAIN * 20), None]
    plain = [{"v": number, "d": text, "ts": 1000} for number, text in enumerate(texts)]
    if format == "parquet":
        dates = [None if text is None else dt.date.fromisoformat(text) for text in texts]
        table = pa.table({"v": list(range(len(texts))), "d": pa.array(dates, pa.date32()), "ts": [1000] * len(texts)})
        pq.write_table(table, folder / "plain.parquet")
        return len(plain)
    odd = [{"v": 10_000 + number, "d": text, "ts": 1000} for number, text in enumerate(ODD)]
    for name, rows in (("plain", plain), ("odd", odd)):
        if format == "json":
            lines = [json.dumps(row) for row in rows]
        else:
            lines = [f"{row['v']},{'' if row['d'] is None else row['d']},{row['ts']}" for row in rows]
        (folder / f"{name}.{format}").write_text("".join(f"{line}\n" for line in lines))
    return len(plain) + len(odd)


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
@pytest.mark.parametrize("query", ["SELECT v, d FROM s", pytest.param(GROUPED, marks=pytest.mark.slow)])
def test_dates_in_files_mean_the_same_on_all_roads(db: Database, tmp_path: Path, format: str, query: str) -> None:
    count = write(tmp_path, format)
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ('connector' = 'files', 'path' = '{tmp_path}', 'format' = '{format}');
        CREATE STREAM fused AS {query};
        CREATE STREAM plain WITH ('fusion.enabled' = 'false') AS {query}
    """)
    assert "fused: scan" in db.explain("fused")
    db.tick()
    fused = outcome(db, "fused")
    assert fused == outcome(db, "plain") and fused["accounts"]["rows_in"] == count
    assert any('"d": "2026-12-28"' in row for row in fused["rows"]) and any('"d": null' in row for row in fused["rows"])


def test_dates_in_the_names_of_folders_mean_the_same_on_all_roads(db: Database, tmp_path: Path) -> None:
    for number, text in enumerate([*PLAIN[:5], *(text for text in ODD if text), "__HIVE_DEFAULT_PARTITION__"]):
        folder = tmp_path / f"d={text.replace(':', '%3A').replace('/', '%2F')}"
        folder.mkdir()
        (folder / "a.json").write_text(f'{{"v": {number}, "ts": 1000}}\n')
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ('connector' = 'files', 'path' = '{tmp_path}');
        CREATE STREAM fused AS SELECT v, d FROM s;
        CREATE STREAM plain WITH ('fusion.enabled' = 'false') AS SELECT v, d FROM s
    """)
    assert "fused: scan" in db.explain("fused")
    db.tick()
    fused = outcome(db, "fused")
    assert fused == outcome(db, "plain")
    assert any('"d": "2026-01-05"' in row for row in fused["rows"]) and fused["accounts"]["error"] > 0


def test_an_expression_on_a_date_is_left_to_spark(db: Database, tmp_path: Path) -> None:
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ('connector' = 'files', 'path' = '{tmp_path}');
        CREATE STREAM o AS SELECT v FROM s WHERE d > DATE '2026-01-01'
    """)
    assert "not fused: " in db.explain("o")
