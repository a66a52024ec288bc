"""The embedded API on Spark: what it accepts, what it returns, and what it leaves behind."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import textwrap
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import eventide
from eventide.database import Database
from eventide.errors import CatalogError, CheckpointError, EventideError, OptionError, SourceError, SqlError
from tests.conftest import DatabaseFactory

CLICKS = """
CREATE SOURCE clicks (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE STREAM totals AS SELECT window_start, k, sum(v) AS total FROM clicks GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
"""


def rows(result: eventide.Result) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in result]


def test_rows_may_be_dicts_tuples_pandas_or_arrow(db: Database) -> None:
    db.execute("CREATE SOURCE s (k STRING, v BIGINT, at TIMESTAMP); CREATE STREAM o AS SELECT k, v, at FROM s")
    moment = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    db.write("s", [{"k": "dict", "v": 1, "at": moment}, {"K": "case", "v": 2}])
    db.write("s", [("tuple", 3, "2024-05-01T12:00:00Z"), ["list", 4, None]])
    db.write("s", pd.DataFrame({"k": ["pandas"], "v": [5], "at": [pd.Timestamp(moment)]}))
    db.write("s", pa.table({"k": ["arrow"], "v": [6], "at": pa.array([moment], pa.timestamp("us", tz="UTC"))}))
    assert db.write("s", []) == 0
    db.tick()
    got = {row["k"]: (row["v"], row["at"]) for row in db.read("o")}
    assert got == {
        "dict": (1, moment), "case": (2, None), "tuple": (3, moment), "list": (4, None), "pandas": (5, moment),
        "arrow": (6, moment)
    }  # fmt: skip


def test_values_of_every_type_come_back_as_they_went_in(db: Database) -> None:
    db.execute("""
        CREATE SOURCE s (a TINYINT, b DOUBLE, c DECIMAL(20,5), d DATE, e BOOLEAN, f BINARY, g ARRAY<INT>, h MAP<STRING,
          INT>,
                         i STRUCT<x: INT, y: STRING>, j STRING);
        CREATE STREAM o AS SELECT * FROM s;
    """)
    given = {
        "a": 7, "b": 1.5, "c": Decimal("123456789012345.12345"), "d": dt.date(2024, 2, 29), "e": True,
        "f": b"\x00\xff", "g": [1, 2],
        "h": {"p": 1}, "i": {"x": 1, "y": "z"}, "j": "it's \"odd\" \\ ü",
    }  # fmt: skip
    db.write("s", [given, {}])
    db.tick()
    assert db.read("o").fetchall() == [given, dict.fromkeys(given)]


def test_a_result_is_iterable_a_table_and_a_frame(db: Database) -> None:
    db.execute(CLICKS)
    db.write("clicks", [("A", 1, 100)])
    db.advance_watermark("clicks", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC))
    db.tick()
    result = db.read("totals")
    assert result.columns == ["window_start", "k", "total"] and len(result) == 1
    assert result.arrow().num_rows == 1
    assert list(result.df()["total"]) == [1]
    assert "| A |" in result.to_text()


def test_a_payload_has_every_field(db: Database) -> None:
    db.execute(CLICKS)
    db.write("clicks", [("A", 1, 5000)])
    db.tick()
    db.write("clicks", [("B", 2, 300)])
    db.tick()
    (payload,) = db.side_output("totals")
    assert list(payload) == [
        "kind", "reason", "source", "event_time", "processing_time", "watermark", "window", "group_key",
        "original_event",
        "error_detail",
        "plan_id", "shard",
    ]  # fmt: skip
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert payload["kind"] == "late" and payload["reason"] == "allowed_lateness_exceeded"
    assert payload["event_time"] == epoch + dt.timedelta(milliseconds=300)
    assert payload["watermark"] == epoch + dt.timedelta(seconds=5)
    assert payload["window"] == {"start": epoch, "end": epoch + dt.timedelta(seconds=1)}
    assert payload["group_key"] == {"k": "B"} and payload["original_event"] == {"k": "B", "v": 2, "ts": 300}
    assert payload["error_detail"] is None and payload["shard"] in (0, 1) and len(payload["plan_id"]) == 32
    assert abs(payload["processing_time"] - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=5)


def test_window_id_is_stable_and_differs_by_window(db_factory: DatabaseFactory) -> None:
    sql = CLICKS.replace("window_start, k", "window_id, k")
    ids = []
    for _ in range(2):
        db = db_factory()
        db.execute(sql)
        db.write("clicks", [("A", 1, 100), ("B", 1, 100), ("A", 1, 1500), ("A", 1, 9000)])
        db.tick()
        ids.append(sorted(rows(db.read("totals"))))
    assert ids[0] == ids[1]
    assert len({row[0] for row in ids[0]}) == 2


def test_show_describe_explain_select_and_drop(db: Database) -> None:
    db.execute(CLICKS + "CREATE SINK out FROM totals WITH ('connector' = 'console');")
    assert [row["name"] for row in db.execute("SHOW SOURCES")] == ["clicks"]
    assert [row["name"] for row in db.execute("SHOW STREAMS")] == ["totals"]
    assert [row["name"] for row in db.execute("SHOW SINKS")] == ["out"]
    assert [(row["column"], row["type"]) for row in db.execute("DESCRIBE clicks")] == [
        ("k", "string"),
        ("v", "bigint"),
        ("ts", "bigint"),
    ]
    assert [row["column"] for row in db.execute("DESCRIBE totals")] == ["window_start", "k", "total"]
    plan = "\n".join(row["plan"] for row in db.execute("EXPLAIN totals"))
    assert "watermark" in plan.lower() and "tumbl" in plan.lower()
    assert plan == db.explain("totals")
    assert (
        "watermark" in "\n".join(row["plan"] for row in db.execute("EXPLAIN SELECT k FROM clicks ORDER BY ts")).lower()
    )
    db.write("clicks", [("A", 1, 100), ("B", 2, 200), ("A", 1, 9000)])
    db.tick()
    assert rows(db.execute("SELECT max(total) AS m, count(*) AS n FROM totals WHERE k <> 'zzz'")) == [(2, 2)]
    with pytest.raises(CatalogError, match="totals"):
        db.execute("DROP SOURCE clicks")
    with pytest.raises(CatalogError, match="out"):
        db.execute("DROP STREAM totals")
    db.execute("DROP SINK out; DROP STREAM totals; DROP SOURCE clicks; DROP SOURCE IF EXISTS clicks")
    assert len(db.execute("SHOW SOURCES")) == 0


def test_a_script_run_again_continues_from_its_checkpoint(tmp_path: Path, db_factory: DatabaseFactory) -> None:
    first = db_factory(checkpoint=tmp_path)
    first.execute(CLICKS)
    first.write("clicks", [("A", 1, 100)])
    first.tick()
    first.close()
    second = db_factory(checkpoint=tmp_path)
    second.execute(CLICKS)
    second.write("clicks", [("A", 2, 200), ("A", 4, 5000)])
    second.tick()
    assert [row["total"] for row in second.read("totals")] == [3]


def test_a_checkpoint_of_another_query_is_refused_and_the_difference_shown(
    tmp_path: Path, db_factory: DatabaseFactory
) -> None:
    first = db_factory(checkpoint=tmp_path)
    first.execute(CLICKS)
    first.close()
    second = db_factory(checkpoint=tmp_path)
    second.execute(CLICKS.split(";")[0])
    with pytest.raises(CheckpointError, match="size 5s"):
        second.execute(CLICKS.split(";")[1].replace("'1' SECOND", "'5' SECOND"))
    with pytest.raises(CatalogError, match="with this clicks, totals would be wrong: ts is a bigint"):
        db_again(second, tmp_path, db_factory).execute("CREATE SOURCE clicks (k STRING, ts BIGINT)")


def db_again(db: Database, folder: Path, db_factory: DatabaseFactory) -> Database:
    db.close()
    return db_factory(checkpoint=folder)


def test_two_databases_on_one_checkpoint_are_refused(tmp_path: Path, db_factory: DatabaseFactory) -> None:
    db_factory(checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="is open in process"):
        db_factory(checkpoint=tmp_path)


def test_streams_run_in_the_background_after_start(db: Database) -> None:
    db.execute(CLICKS)
    db.start()
    db.write("clicks", [("A", 1, 100), ("A", 2, 9000)])
    deadline = dt.datetime.now() + dt.timedelta(seconds=60)
    while len(db.read("totals")) == 0 and dt.datetime.now() < deadline:
        pass
    assert [row["total"] for row in db.read("totals")] == [1]
    (line,) = db.progress()
    assert line["stream"] == "totals" and line["rows_in"] == 2 and line["open_windows"] == 1 and line["error"] is None
    db.stop()
    assert [row["total"] for row in db.read("totals")] == [1, 2]


def test_metrics_name_every_figure(db: Database) -> None:
    db.execute(CLICKS)
    db.write("clicks", [("A", 1, 100), ("A", 2, 9000), ("A", 3, None)])
    db.tick()
    figures = db.metrics()["totals"]
    assert figures["rows_in"] == 3 and figures["used"] == 3
    assert figures["event_time_from_metadata"] == 1  # the row without a time took that of its arrival
    assert figures["sources"]["clicks"]["max_timestamp_seen"] > 1_700_000_000_000
    assert figures["windows_opened"] == 3 and figures["windows_closed"] == 1 and figures["open_windows"] == 2
    # that row did not move the watermark, which is still in 1970
    assert figures["watermark_lag_ms"] > 1_700_000_000_000 and figures["batches"] >= 2


# Bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"k": "a", "w": 1}], "no column w"),
        ([("a", 1)], "2 values for 3 columns"),
        (["abc"], "a row is a dict or a tuple"),
        ({"k": "a"}, "cannot take a dict"),
        ("abc", "cannot take a str"),
        (None, "cannot take a NoneType"),
        ([("a", object(), 1)], "a object cannot be written"),
    ],
)
def test_rows_that_cannot_be_rows_are_refused_at_once(given: Any, message: str, clicks_db: Database) -> None:
    with pytest.raises(SourceError, match=message):
        clicks_db.write("clicks", given)


@pytest.fixture(scope="module")
def clicks_db(keep_spark: Any) -> Any:
    with eventide.connect(spark=keep_spark) as db:
        db.execute(CLICKS)
        yield db


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda db: db.read("nothing"), CatalogError, "no stream nothing"),
        (lambda db: db.read("clicks"), CatalogError, "is a source"),
        (lambda db: db.write("totals", []), CatalogError, "no source totals"),
        (lambda db: db.side_output("totals", kind="lost"), OptionError, "no side output lost"),
        (lambda db: db.advance_watermark("clicks", "noon"), OptionError, "milliseconds or a datetime"),
        (lambda db: db.watermark("x"), CatalogError, "no stream x"),
        (lambda db: db.execute("SELEC 1"), SqlError, "SELEC"),
        (lambda db: db.execute("SELECT * FROM nowhere"), CatalogError, "nowhere"),
        (lambda db: db.execute("SELECT nope FROM totals"), SqlError, "nope"),
        (lambda db: db.execute("CREATE STREAM x AS SELECT nosuch(v) AS y FROM clicks"), SqlError, "nosuch"),
        (lambda db: db.execute("CREATE STREAM x AS SELECT sum(k) AS y, k + 1 FROM clicks GROUP BY 2, "
"TUMBLE(ts, 'x')"), SqlError, "x"),
        (lambda db: db.execute("CREATE SOURCE f (a INT) WITH ('connector' = 'files', 'path' = '/no/such/folder'); "
                               "CREATE STREAM x AS SELECT a FROM f"), OptionError, "does not exist"),
        (lambda db: eventide.connect(shard=3), OptionError, "did you mean shards"),
        (lambda db: eventide.connect("/proc/nothing/here"), OptionError, "cannot be created"),
    ],
)  # fmt: skip
def test_bad_calls_raise_clear_errors(clicks_db: Database, call: Any, error: type[EventideError], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        call(clicks_db)
    assert "Traceback" not in str(raised.value) and "py4j" not in str(raised.value).lower()
    assert "x" not in clicks_db.catalog.streams


def test_a_closed_database_says_so(db_factory: DatabaseFactory) -> None:
    db = db_factory()
    db.close()
    db.close()
    with pytest.raises(EventideError, match="closed"):
        db.execute("SHOW SOURCES")


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """In a process of its own: Spark starts, works and stops; then no thread, no child process and no folder is
    left.
    """
    program = textwrap.dedent("""
        import os, sys, threading, tempfile, pathlib
        import psutil
        import eventide
        assert "pyspark" not in sys.modules
        before = set(pathlib.Path(tempfile.gettempdir()).iterdir())
        with eventide.connect() as db, eventide.connect() as other:
            assert other.spark is db.spark
            db.execute('''CREATE SOURCE s (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
                CREATE STREAM o AS SELECT sum(v) AS t FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)''')
            db.write("s", [(1, 100), (2, 5000)])
            db.tick()
            assert db.read("o").fetchall() == [{"t": 1}]
        left = [t.name for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
        assert not left, left
        children = [p.name() for p in psutil.Process().children(recursive=True)]
        assert not children, children
        files = set(pathlib.Path(tempfile.gettempdir()).iterdir()) - before
        assert not files, files
        print("clean")
    """)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=500, check=False
    )
    assert done.stdout.strip() == "clean", done.stdout + done.stderr
    assert done.stderr == ""
