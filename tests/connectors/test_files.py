"""Files in, files out: formats, files that appear later, rows that do not decode, sinks that others can read."""

from __future__ import annotations

import json
import time
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventide.database import Database
from eventide.errors import EventideError

SQL = """ CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH ('connector' =
'files', 'path' = '{path}', 'format' = '{format}'{more}); CREATE STREAM o AS SELECT window_start, k, sum(v) AS total
FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND) LATE DATA TO late_ones; CREATE SINK out FROM o WITH ('connector' =
'files', 'path' = '{path}-out', 'format' = '{sink}'); CREATE SINK late_out FROM late_ones WITH ('connector' = 'files',
'path' = '{path}-late', 'format' = 'json');
"""
FIRST = [("A", 1, 100), ("B", 2, 200), ("A", 4, 5000)]
SECOND = [("B", 8, 300), ("A", 16, 5100), ("A", 32, 9000)]


def write_file(folder: Path, number: int, format: str, rows: list[tuple[str, int, int]]) -> None:
    """It appears whole: a stream that runs may look at any moment."""
    frame = pd.DataFrame(rows, columns=["k", "v", "ts"])
    path = folder / f".{number}.{format}"
    if format == "json":
        path.write_text(frame.to_json(orient="records", lines=True))
    elif format == "csv":
        frame.to_csv(path, index=False)
    else:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    path.rename(folder / f"{number}.{format}")


def test_a_running_stream_meets_a_line_that_only_spark_can_judge(db: Database, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    db.execute(SQL.format(path=folder, format="json", sink="json", more=""))
    write_file(folder, 1, "json", FIRST)
    db.start()
    (folder / "2.json").write_text('{"k": "A", "v": "many", "ts": 5100}\n{"k": "A", "v": 7, "ts": 5200}\n')
    until = time.monotonic() + 60
    while db.accounting("o")["error"] == 0 and time.monotonic() < until:
        assert [line["error"] for line in db.progress()] == [None]
        time.sleep(0.1)
    assert db.accounting("o") == {
        "rows_in": 5, "used": 4, "late": 0, "duplicate": 0, "error": 1, "evicted": 0, "rejected": 0, "shed": 0
    }  # fmt: skip
    db.stop(graceful=True)
    assert sorted((row["k"], row["total"]) for row in db.read("o")) == [("A", 1), ("A", 11), ("B", 2)]


@pytest.mark.parametrize(("format", "sink"), [("json", "parquet"), ("csv", "json"), ("parquet", "csv")])
def test_files_that_appear_later_are_taken_in_too(db: Database, tmp_path: Path, format: str, sink: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    more = ", 'header' = 'true'" if format == "csv" else ""
    db.execute(SQL.format(path=folder, format=format, sink=sink, more=more))
    write_file(folder, 1, format, FIRST)
    db.tick()
    assert [(row["k"], row["total"]) for row in db.read("o")] == [("A", 1), ("B", 2)]
    write_file(folder, 2, format, SECOND)
    db.tick()
    assert [row["total"] for row in db.read("o")][2:] == [20]
    assert db.accounting("o") == {
        "rows_in": 6, "used": 5, "late": 1, "duplicate": 0, "error": 0, "evicted": 0, "rejected": 0, "shed": 0
    }  # fmt: skip
    db.advance_watermark("s", 20_000)
    db.tick()
    reader = {"parquet": "read_parquet", "json": "read_json_auto", "csv": "read_csv_auto"}[sink]
    total = duckdb.sql(f"SELECT count(*), sum(total) FROM {reader}('{folder}-out/*.{sink}')").fetchall()
    assert total == [(4, 55)]
    late = [json.loads(line) for path in Path(f"{folder}-late").iterdir() for line in path.read_text().splitlines()]
    assert late == [{"k": "B", "v": 8, "ts": 300}]


def test_a_line_that_does_not_decode_is_an_error_payload(db: Database, tmp_path: Path) -> None:
    db.execute(SQL.format(path=tmp_path, format="json", sink="json", more=""))
    (tmp_path / "1.json").write_text(
        '{"k": "A", "v": 1, "ts": 100}\n{"k": "A", "v": "one", "ts": 100}\nnot json at all\n'
    )
    db.advance_watermark("s", 1000)
    db.tick()
    assert [row["total"] for row in db.read("o")] == [1]
    payloads = db.side_output("o", kind="error").fetchall()
    assert sorted(payload["error_detail"] for payload in payloads) == [
        "not json at all",
        '{"k": "A", "v": "one", "ts": 100}',
    ]
    assert {payload["reason"] for payload in payloads} == {"row_undecodable"}


def test_a_row_without_a_time_takes_that_of_its_file(db: Database, tmp_path: Path) -> None:
    db.execute(f"""
        CREATE SOURCE s (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH ('connector' = 'files', 'path' =
          '{tmp_path}');
        CREATE STREAM o AS SELECT window_start, sum(v) AS t FROM s GROUP BY TUMBLE(ts, INTERVAL '1' DAY)
    """)
    (tmp_path / "1.json").write_text('{"v": 1, "ts": null}')
    db.tick()
    db.advance_watermark("s", round((time.time() + 86_400) * 1000))
    db.tick()
    (row,) = db.read("o")
    assert (
        abs(row["window_start"].timestamp() - time.time()) <= 86_400
        and db.metrics()["o"]["event_time_from_metadata"] == 1
    )


def test_a_parquet_file_of_another_schema_stops_the_stream_with_a_clear_error(db: Database, tmp_path: Path) -> None:
    db.execute(SQL.format(path=tmp_path, format="parquet", sink="json", more=""))
    pq.write_table(pa.table({"k": ["A"], "v": ["many"], "ts": [1]}), tmp_path / "1.parquet")
    with pytest.raises(EventideError, match="stream o") as raised:
        db.tick()
    assert "1.parquet" in str(raised.value) and "bigint" in str(raised.value)
    assert "py4j" not in str(raised.value) and len(str(raised.value).splitlines()) < 6


def test_the_rate_source_generates_rows(db: Database) -> None:
    db.execute("""
        CREATE SOURCE r WITH ('connector' = 'rate', 'rows_per_second' = '50');
        CREATE STREAM o AS SELECT window_start, count(*) AS n FROM r GROUP BY TUMBLE(timestamp, INTERVAL '1' SECOND)
    """)
    db.start()
    deadline = time.monotonic() + 60
    while len(db.read("o")) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    db.stop(graceful=False)
    assert [row["n"] for row in db.read("o")][1] == 50


def test_a_console_sink_prints(db: Database, capsys: pytest.CaptureFixture[str]) -> None:
    db.execute("""
        CREATE SOURCE s (v BIGINT); CREATE STREAM o AS SELECT v * 2 AS twice FROM s;
        CREATE SINK screen FROM o WITH ('connector' = 'console')
    """)
    db.write("s", [(21,)])
    db.tick()
    assert "| 42    |" in capsys.readouterr().out
