"""Streams that change and go on from their state, on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventide.database import Database
from eventide.errors import CheckpointError
from tests.conftest import DatabaseFactory

SOURCE = "CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);"
TOTALS = "AS SELECT window_start, k, sum(v) AS total FROM s{} GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND){}"
OLD = f"{SOURCE} CREATE STREAM o {TOTALS.format('', '')};"


def rows(db: Database, *columns: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in columns) for row in db.read("o")), key=repr)


def texts(checkpoint: Path, stream: str = "o") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((checkpoint / "streams" / stream / "plan.json").read_text())["texts"]
    return found


def test_state_goes_on_and_a_new_aggregate_is_null_where_rows_came_before_it(db: Database) -> None:
    db.execute(OLD)
    db.write("s", [("a", 1, 100), ("a", 2, 200)])
    db.tick()
    said = db.execute("""
        CREATE OR REPLACE STREAM o AS
        SELECT window_start, upper(k) AS k, sum(v) AS total, count(*) AS n FROM s WHERE v < 100
        GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND) HAVING sum(v) > 4 KEEP STATE
    """)
    assert any("+ aggregate count()" in row["status"] and "next window" in row["status"] for row in said)
    db.write("s", [("a", 5, 300), ("b", 7, 400), ("c", 1, 500), ("a", 100, 600), ("a", 9, 1500)])
    db.advance_watermark("s", 3000)
    db.tick()
    assert rows(db, "k", "total", "n") == [("A", 8, None), ("A", 9, 1), ("B", 7, 1)]
    assert db.accounting("o")["used"] == 6


def test_windows_that_have_closed_stay_closed_when_more_lateness_is_allowed(db: Database) -> None:
    db.execute(OLD)
    db.write("s", [("a", 1, 100), ("a", 1, 1200)])
    db.tick()  # the watermark is at 1.2 s: the first window has closed
    db.execute("ALTER STREAM o SET ('allowed_lateness' = '10 seconds')")
    db.write("s", [("a", 1, 150), ("a", 1, 1300), ("a", 1, 2500)])
    db.tick()
    db.write("s", [("a", 1, 1400)])  # behind the watermark, which is at 2.5 s now, and within the new lateness
    db.advance_watermark("s", 20_000)
    db.tick()
    assert rows(db, "total") == [(1,), (1,), (3,)]
    assert db.accounting("o")["late"] == 1
    db.execute("ALTER STREAM o SET ('allowed_lateness' = '0 seconds')")
    assert "'allowed_lateness' = '0 seconds'" in db.catalog.text("o")


def test_a_changed_file_goes_on_and_the_checkpoint_knows_which_batch_ran_under_which_text(
    tmp_path: Path, db_factory: DatabaseFactory
) -> None:
    first = db_factory(checkpoint=tmp_path)
    first.execute(OLD)
    first.write("s", [("a", 1, 100)])
    first.tick()
    first.close()
    source = SOURCE.replace("ts BIGINT,", "ts BIGINT, country STRING,")
    query = TOTALS.replace("total FROM", "total, max(country) AS country FROM").format("", " EMIT ON WINDOW CLOSE")
    second = db_factory(checkpoint=tmp_path)
    second.execute(f"{source} CREATE STREAM o {query};")
    second.write("s", [("a", 2, 200, "de"), ("b", 3, 300, "fr")])
    second.advance_watermark("s", 5000)
    second.tick()
    assert rows(second, "k", "total", "country") == [("a", 3, None), ("b", 3, "fr")]
    old, new = texts(tmp_path)
    assert (old["from_batch"], "country" in old["sql"]) == (0, False)
    assert new["from_batch"] >= 1
    assert "max(country)" in new["sql"]
    assert any("+ s: column country string" in difference for difference in new["differences"])
    second.close()
    third = db_factory(checkpoint=tmp_path)
    third.tick()
    assert len(texts(tmp_path)) == 2
    assert rows(third, "total") == [(3,), (3,)]


def test_a_batch_that_was_planned_before_the_change_runs_under_its_own_text(
    tmp_path: Path, db_factory: DatabaseFactory
) -> None:
    first = db_factory(checkpoint=tmp_path)
    first.execute(f"{SOURCE} CREATE STREAM o {TOTALS.format(' WHERE v < 10', '')};")
    first.write("s", [("a", 1, 100), ("a", 20, 200)])
    first.tick()
    first.close()
    commits = tmp_path / "streams" / "o" / "spark" / "commits"
    last = max((path for path in commits.glob("[0-9]*")), key=lambda path: int(path.name))
    for path in (last, commits / f".{last.name}.crc"):  # as after a crash before Spark's commit
        path.unlink(missing_ok=True)
    second = db_factory(checkpoint=tmp_path)
    second.execute(f"{SOURCE} CREATE STREAM o {TOTALS.format(' WHERE v >= 10', '')};")
    assert texts(tmp_path)[-1]["from_batch"] == int(last.name) + 1
    second.write("s", [("a", 1, 300), ("a", 30, 400)])
    second.advance_watermark("s", 5000)
    second.tick()
    assert rows(second, "total") == [(31,)]


def test_what_cannot_go_on_is_refused_and_changes_nothing(tmp_path: Path, db_factory: DatabaseFactory) -> None:
    db = db_factory(checkpoint=tmp_path)
    db.execute(OLD)
    db.write("s", [("a", 1, 100)])
    db.tick()
    with pytest.raises(CheckpointError, match="window: tumble size 1s -> tumble size 2s"):
        db.execute(f"CREATE OR REPLACE STREAM o {TOTALS.replace('1', '2').format('', '')} KEEP STATE")
    with pytest.raises(Exception, match="no_such_function"):
        db.execute(f"CREATE OR REPLACE STREAM o {TOTALS.format(' WHERE no_such_function(v)', '')} KEEP STATE")
    db.write("s", [("a", 2, 200)])
    db.advance_watermark("s", 5000)
    db.tick()
    assert rows(db, "total") == [(3,)]
    assert len(texts(tmp_path)) == 1


@pytest.mark.slow
def test_streams_that_read_a_changed_stream_go_on_with_it(db: Database) -> None:
    db.execute(f"{OLD} CREATE STREAM p AS SELECT k, total FROM o WHERE total > 0")
    db.write("s", [("a", 1, 100), ("a", 1, 1500)])
    db.tick()
    twice = TOTALS.replace("AS total", "AS total, sum(v) * 2 AS twice").format("", "")
    db.execute(f"CREATE OR REPLACE STREAM o {twice} KEEP STATE")
    db.execute("CREATE OR REPLACE STREAM p AS SELECT k, total, twice FROM o KEEP STATE")
    db.advance_watermark("s", 5000)
    db.tick()
    got = sorted((row["total"], row["twice"] or 0) for row in db.read("p"))
    assert got == [(1, 0), (1, 2)]


@pytest.mark.slow
def test_a_fused_scan_goes_on_under_another_text(tmp_path: Path, db_factory: DatabaseFactory) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    source = SOURCE.replace(");", f") WITH ('connector' = 'files', 'path' = '{folder}');")
    first = db_factory(checkpoint=tmp_path / "checkpoint")
    first.execute(f"{source} CREATE STREAM o {TOTALS.format('', '')};")
    (folder / "1.json").write_text('{"k": "a", "v": 1, "ts": 100}\n{"k": "a", "v": 2, "ts": 200}\n')
    first.tick()
    first.close()
    second = db_factory(checkpoint=tmp_path / "checkpoint")
    query = TOTALS.replace("total FROM", "total, count(*) AS n FROM").format(" WHERE v < 9", "")
    second.execute(f"{source} CREATE STREAM o {query};")
    (folder / "2.json").write_text(
        '{"k": "a", "v": 4, "ts": 300}\n{"k": "a", "v": 9, "ts": 300}\n{"k": "b", "v": 1, "ts": 5000}\n'
    )
    second.tick()
    assert rows(second, "k", "total", "n") == [("a", 7, None)]


@pytest.mark.slow
def test_a_running_stream_is_altered_without_losing_a_row(db: Database) -> None:
    db.execute(OLD)
    db.start()
    written = 0
    for number in range(6):
        db.write("s", [("a", 1, 100 + number), ("b", 1, 100 + number)])
        written += 2
        if number % 2:
            db.execute(f"ALTER STREAM o SET ('allowed_lateness' = '{number} seconds')")
    db.stop(graceful=True)
    assert rows(db, "k", "total") == [("a", 6), ("b", 6)]
    assert db.accounting("o")["used"] == written
