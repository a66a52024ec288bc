"""What Spark is told while a query starts, and only then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from eventide.database import Database
from eventide.spark.session import streaming_session
from eventide.spark.starting import start_query

WINDOWS = "SELECT window_start, count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"


@pytest.mark.parametrize(("evaluates_rows", "reads_streams"), [(True, False), (False, False), (True, True)])
def test_a_query_keeps_what_it_was_started_with_and_the_session_does_not(
    keep_spark: Any, tmp_path: Path, evaluates_rows: bool, reads_streams: bool
) -> None:
    session = streaming_session(keep_spark, 2)
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode", "spark.sql.streaming.pollingDelay")
    seen: list[tuple[str | None, ...]] = []

    def look(frame: DataFrame, batch: int) -> None:
        seen.append(tuple(frame.sparkSession.conf.get(name) for name in names))

    frame = session.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
    writer = frame.writeStream.foreachBatch(look).option("checkpointLocation", str(tmp_path)).trigger(once=True)
    before = tuple(session.conf.get(name) for name in names)
    query = start_query(session, writer, "pool", ends=True, evaluates_rows=evaluates_rows, reads_streams=reads_streams)
    query.awaitTermination()
    code = before[:2] if evaluates_rows else ("false", "NO_CODEGEN")
    assert seen == [(*code, "30ms" if reads_streams else before[2])]
    assert tuple(session.conf.get(name) for name in names) == before == ("true", "FALLBACK", before[2])


def test_spark_generates_code_only_for_streams_whose_rows_it_evaluates(db: Database, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"ts": 1}) + "\n")
    options = f"'connector' = 'files', 'path' = '{tmp_path}'"
    columns = "ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms"
    db.execute(f"CREATE SOURCE s ({columns}) WITH ({options})")
    db.execute(f"CREATE SOURCE t ({columns})")
    db.execute(f"CREATE STREAM read_by_tasks AS {WINDOWS}")
    db.execute(f"CREATE STREAM read_by_spark AS {WINDOWS.replace('FROM s', 'FROM t')}")
    db.execute(f"CREATE STREAM finished_by_spark AS {WINDOWS.replace('count(*)', 'sequence(1, count(*))')}")
    expected = {"read_by_tasks": False, "read_by_spark": True, "finished_by_spark": True}
    opened = {name: db._engine.opened(name) for name in expected}
    assert {name: each and each.compiled.evaluates_rows for name, each in opened.items()} == expected


def test_a_stream_that_reads_streams_does_not_look_for_rows_as_often(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, bool] = {}

    def start(session: Any, writer: Any, pool: str, **how: bool) -> Any:
        told[pool] = how["reads_streams"]
        return start_query(session, writer, pool, **how)

    monkeypatch.setattr("eventide.spark.running.start_query", start)
    db.execute("CREATE SOURCE s (ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)")
    db.execute("CREATE STREAM o AS SELECT ts FROM s")
    db.execute("CREATE STREAM p AS SELECT ts FROM o")
    db.execute("CREATE STREAM q AS SELECT ts FROM o UNION ALL SELECT ts FROM s")
    db.tick()
    assert told == {"eventide o": False, "eventide p": True, "eventide q": False}
