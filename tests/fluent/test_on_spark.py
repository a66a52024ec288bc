"""The fluent API on a user's own Spark session: DataFrames back, one query with accounts, clear errors."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eventide
from eventide.admission.trust import Regaining
from eventide.errors import CheckpointError, EventideError
from eventide.spark.why_ended import Need

Row = tuple[str, int, int]


@pytest.fixture
def spark(keep_spark: Any) -> Any:
    return eventide.configure(keep_spark.newSession(), shards=2)


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., None]:
    (tmp_path / "in").mkdir()

    def write(name: str, *rows: Row) -> None:
        hidden = tmp_path / f"_{name}"
        hidden.write_text("".join(json.dumps({"k": k, "v": v, "ts": ts}) + "\n" for k, v, ts in rows))
        written = 1_700_000_000 + len(list((tmp_path / "in").iterdir()))  # Spark takes the oldest file first
        os.utime(hidden, (written, written))
        hidden.rename(tmp_path / "in" / name)

    return write


def source(spark: Any, tmp_path: Path) -> Any:
    return (
        spark.readStream.schema("k string, v bigint, ts bigint")
        .option("maxFilesPerTrigger", 1)
        .json(str(tmp_path / "in"))
    )


def per_key(spark: Any, tmp_path: Path) -> eventide.FluentStream:
    clicks = eventide.stream(source(spark, tmp_path), name="clicks").event_time("ts", type="unixtimestamp_ms")
    return (
        clicks.where("v > 0")
        .group_by("k")
        .window(eventide.tumble("1 second"))
        .agg(total="sum(v)")
        .allow_lateness("1 second")
    )


# window [0, 1) s closes at 2 s: the row at 900 is used in the second batch, and late in the fourth
#   a: (1 at 100, 2 at 1500)   b: (4 at 900)   c: (8 at 2500)   d: (16 at 300, 32 at 2600)
BATCHES: list[list[Row]] = [
    [("x", 1, 100), ("x", 2, 1500), ("x", -1, 0)],
    [("x", 4, 900)],
    [("y", 8, 2500)],
    [("x", 16, 300), ("y", 32, 2600)],
]


def test_rows_and_late_rows_are_streaming_data_frames(spark: Any, tmp_path: Path, put: Callable[..., None]) -> None:
    stream = per_key(spark, tmp_path)
    rows, late = stream.rows(), stream.late()
    assert rows.isStreaming and rows.columns == ["window_start", "window_end", "k", "total"]
    assert late.columns[:4] == ["kind", "reason", "source", "event_time"]
    for number, batch in enumerate(BATCHES):
        put(f"{number}.json", *batch)
    query = (
        rows.writeStream.format("memory").queryName("out").option("checkpointLocation", str(tmp_path / "state")).start()
    )
    try:
        query.processAllAvailable()
        assert [(row.k, row.total) for row in spark.sql("SELECT k, total FROM out").collect()] == [("x", 5)]
    finally:
        query.stop()


def test_one_query_gives_rows_side_output_and_a_balanced_account(
    spark: Any, tmp_path: Path, put: Callable[..., None]
) -> None:
    given: list[tuple[str, int]] = []
    late: list[tuple[str, int, int]] = []
    batches: list[int] = []

    def sink(rows: Any, side: Any, account: Any) -> None:
        given.extend((row.k, row.total) for row in rows.collect())
        late.extend(
            (row.reason, row.window.start.second, json.loads(row.original_event)["v"]) for row in side.collect()
        )
        batches.append(account.batch)

    stream = per_key(spark, tmp_path)
    for number, batch in enumerate(BATCHES[:2]):
        put(f"{number}.json", *batch)
    with stream.start(str(tmp_path / "state"), sink) as query:
        query.process_all()
        assert given == [] and query.watermark() == 1500
        with pytest.raises(CheckpointError, match="is open in"):
            stream.start(str(tmp_path / "state"), sink)
    for number, batch in enumerate(BATCHES[2:], 2):
        put(f"{number}.json", *batch)
    query = stream.start(str(tmp_path / "state"), sink)
    query.process_all()
    assert (given, late) == ([("x", 5)], [("allowed_lateness_exceeded", 0, 16)])
    query.advance_watermark(3000)
    query.process_all()
    assert given == [("x", 5), ("x", 2)]
    query.stop(graceful=True)
    assert given == [("x", 5), ("x", 2), ("y", 40)]
    assert {kind: count for kind, count in query.accounting().items() if count} == {"rows_in": 6, "used": 5, "late": 1}
    assert len(set(batches)) == len(batches) and not query.is_active
    with pytest.raises(CheckpointError, match="belongs to another query"):
        stream.having("total > 1").start(str(tmp_path / "state"), sink)


def test_a_batch_that_is_too_large_for_the_driver_is_read_where_tasks_have_written_it(
    spark: Any, tmp_path: Path, put: Callable[..., None]
) -> None:
    clicks = eventide.stream(source(spark, tmp_path), name="clicks").event_time("ts", type="unixtimestamp_ms")
    counts: list[tuple[int, int, int]] = []

    def sink(rows: Any, side: Any, account: Any) -> None:
        parts = list((tmp_path / "state").rglob("*.parts/*.arrow"))
        counts.append((rows.count(), sum(row.v for row in rows.collect()), len(parts)))

    put("0.json", *[(f"{number:0500}", number, number) for number in range(4_000)])  # two megabytes
    with clicks.select("k", "v").start(str(tmp_path / "state"), sink) as query:
        query.process_all()
    ((rows, total, parts),) = [found for found in counts if found[0]]
    assert (rows, total) == (4_000, sum(range(4_000))) and parts > 0
    assert not list((tmp_path / "state").rglob("*.parts")), "deleted when the function had them"


def columns_read(query: Any) -> str:
    """What Spark has read of files in the newest batch, as its plan shows it."""
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        query._running._query.explain()
    (schema,) = re.findall(r"ReadSchema: (\S+)", shown.getvalue())
    return schema


def test_columns_that_only_payloads_show_are_read_while_rows_are_put_aside(
    spark: Any, tmp_path: Path, put: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.spark.cheaper_plan.Regaining", lambda: Regaining(batches=2))
    rows = spark.readStream.schema("k string, v bigint, ts bigint, note string").json(str(tmp_path / "in"))
    clicks = eventide.stream(rows, name="clicks").event_time("ts", type="unixtimestamp_ms")
    stream = clicks.group_by("k").window(eventide.tumble("1 second")).agg(total="sum(v)")
    notes: list[str] = []

    def sink(rows: Any, side: Any, account: Any) -> None:
        notes.extend(json.loads(row.original_event)["note"] for row in side.collect())

    reads_all = []
    with stream.start(str(tmp_path / "state"), sink) as query:
        for number, is_late in enumerate([False, False, True, False, True, False, False, False, True]):
            row = {"k": "x", "v": 1, "ts": 0 if is_late else 2_000 * number, "note": f"n{number}"}
            (tmp_path / "row").write_text(json.dumps(row) + "\n")
            (tmp_path / "row").rename(tmp_path / "in" / f"{number}.json")
            query.process_all()
            reads_all.append(query._running._cheaper[Need.ORIGINALS].waits)
            if number in (0, 4):  # with no batch behind them that only closes windows
                assert ("note" in columns_read(query)) == reads_all[-1]
        counts = query.accounting()
    assert notes == ["n2", "n4", "n8"]
    assert (counts["rows_in"], counts["used"], counts["late"]) == (9, 6, 3)
    assert reads_all == [False, False, True, True, True, True, True, False, True]


def test_spark_generates_code_for_the_first_batches_only(spark: Any, tmp_path: Path, put: Callable[..., None]) -> None:
    """What differs between batches, the time of each above all, stays outside of the code."""
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    with per_key(spark, tmp_path).start(str(tmp_path / "state"), lambda rows, side, account: None) as query:
        counts = []
        for number in range(6):
            put(f"{number}.json", ("x", 1, 1000 * number), ("y", 2, 1000 * number + 10))
            query.process_all()
            counts.append(compiled.getCount())
    assert counts[-1] == counts[-3], counts


def joined(spark: Any, tmp_path: Path) -> eventide.FluentStream:
    """Rows of one folder, as two streams: those with an even value and those with an odd one."""
    even, odd = (
        eventide.stream(source(spark, tmp_path).where(f"v % 2 = {rest}"), name=name).event_time(
            "ts", type="unixtimestamp_ms"
        )
        for name, rest in (("even", 0), ("odd", 1))
    )
    pairs = even.join(odd, on="k", within=eventide.tumble("1 second"), how="left")
    return pairs.select("even.k AS k", "even.v AS v", "odd.v AS w")


@pytest.mark.parametrize(
    ("make", "outcome", "late"),
    [
        (per_key, [(0, "x", 5), (1, "x", 2), (2, "y", 40)], 1),
        pytest.param(
            joined,
            [("x", 2, None), ("x", 4, 1), ("x", 16, 1), ("y", 8, None), ("y", 32, None)],
            0,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["windows", "a join"],
)
def test_a_crash_between_the_delivery_of_a_batch_and_its_commit_changes_nothing(
    make: Callable[..., eventide.FluentStream],
    outcome: list[tuple[Any, ...]],
    late: int,
    spark: Any,
    tmp_path: Path,
    put: Callable[..., None],
) -> None:
    given: list[tuple[Any, ...]] = []

    def sink(rows: Any, side: Any, account: Any) -> None:
        for row in rows.collect():
            values = row.asDict()
            start = [values["window_start"].second] if "window_start" in values else []
            given.append((*start, *(value for name, value in values.items() if not name.startswith("window"))))

    for number, batch in enumerate(BATCHES):
        put(f"{number}.json", *batch)
        if number % 2:  # two batches in each life, of which the second comes again in the next one
            with make(spark, tmp_path).start(str(tmp_path / "state"), sink) as query:
                query.process_all()
            forget_last_commit(tmp_path / "state")
    query = make(spark, tmp_path).start(str(tmp_path / "state"), sink)
    query.process_all()
    query.stop(graceful=True)
    assert sorted(given, key=str) == sorted(outcome, key=str), "each row once"
    accounts = query.accounting()
    assert (accounts["rows_in"], accounts["used"], accounts["late"]) == (6, 6 - late, late)


def forget_last_commit(checkpoint: Path) -> None:
    """As if the process had died when the batch was delivered and Spark had not noted it yet."""
    (commits,) = checkpoint.rglob("commits")
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def test_a_failing_sink_ends_the_query_with_its_error(spark: Any, tmp_path: Path, put: Callable[..., None]) -> None:
    def sink(rows: Any, side: Any, account: Any) -> None:
        raise ValueError("the disk is full")

    put("0.json", *BATCHES[0])
    with per_key(spark, tmp_path).start(str(tmp_path / "state"), sink) as query:
        with pytest.raises(EventideError, match="the disk is full"):
            query.process_all()


def test_a_session_without_the_settings_is_refused_with_the_lines_to_write(
    keep_spark: Any, tmp_path: Path, put: Callable[..., None]
) -> None:
    bare = keep_spark.newSession()
    bare.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    with pytest.raises(EventideError) as raised:
        per_key(bare, tmp_path).rows()
    text = str(raised.value)
    assert 'spark.conf.set("spark.sql.session.timeZone", "UTC")' in text and "RocksDBStateStoreProvider" in text
    assert "help: eventide.configure(spark)" in text


def test_a_data_frame_that_cannot_be_a_stream_is_refused(spark: Any, tmp_path: Path, put: Callable[..., None]) -> None:
    with pytest.raises(EventideError, match="this one is not"):
        eventide.stream(spark.range(3))
    with pytest.raises(EventideError, match="takes a streaming DataFrame, not list"):
        eventide.stream([1, 2])  # type: ignore[arg-type]
    marked = source(spark, tmp_path).selectExpr("*", "timestamp_millis(ts) AS at").withWatermark("at", "1 second")
    with pytest.raises(EventideError, match="already has a watermark on at"):
        eventide.stream(marked)


def test_what_needs_a_heartbeat_needs_a_running_query(spark: Any, tmp_path: Path, put: Callable[..., None]) -> None:
    idle = eventide.stream(source(spark, tmp_path)).event_time("ts", type="unixtimestamp_ms", idle_timeout="1 minute")
    with pytest.raises(EventideError, match="idle_timeout needs a running query"):
        idle.window(eventide.tumble("1 s")).agg(n="count(*)").rows()


def test_a_wrong_expression_is_found_before_anything_starts(
    spark: Any, tmp_path: Path, put: Callable[..., None]
) -> None:
    stream = eventide.stream(source(spark, tmp_path)).event_time("ts", type="unixtimestamp_ms")
    with pytest.raises(EventideError, match="no_such_function"):
        stream.window(eventide.tumble("1 s")).agg(n="sum(no_such_function(v))").rows()


def test_the_columns_of_a_data_frame_keep_their_types(spark: Any) -> None:
    frame = spark.readStream.format("rate").load()
    kinds = "named_struct('a b', 1, 'c', array(map('x', 1.5D))) AS st"
    shaped = frame.selectExpr(
        "value", "timestamp", "CAST(value AS DECIMAL(10,2)) AS d", "CAST(NULL AS DATE) AS `odd name`", kinds
    )
    plan = eventide.stream(shaped).event_time("timestamp").select("*").plan()
    assert [(column.name, column.type) for column in plan.query.columns] == [
        ("value", "bigint"),
        ("timestamp", "timestamp"),
        ("d", "decimal(10,2)"),
        ("odd name", "date"),
        ("st", "struct<`a b`:int,c:array<map<string,double>>>"),
    ]


def test_a_table_is_looked_up(spark: Any, tmp_path: Path, put: Callable[..., None]) -> None:
    (tmp_path / "names.csv").write_text("x,Ann\n")
    names = eventide.table("names", {"k": "STRING", "name": "STRING"}, str(tmp_path / "names.csv"), format="csv")
    clicks = eventide.stream(source(spark, tmp_path), name="clicks").event_time("ts", type="unixtimestamp_ms")
    named = clicks.join(names, on="k", how="left").select("v", "name")
    put("0.json", ("x", 1, 100), ("y", 2, 200))
    found: list[Any] = []
    with named.start(str(tmp_path / "state"), lambda rows, side, account: found.extend(rows.collect())) as query:
        query.process_all()
    assert sorted(map(tuple, found), key=str) == [(1, "Ann"), (2, None)]
    query = named.rows().writeStream.format("memory").queryName("named").start()
    query.processAllAvailable()
    query.stop()
    assert sorted(map(tuple, spark.table("named").collect()), key=str) == [(1, "Ann"), (2, None)]
    often = eventide.table("names", "k STRING", str(tmp_path / "names.csv"), format="csv", refresh="1 hour")
    with pytest.raises(EventideError, match="names: refresh needs a running query"):
        clicks.join(often, on="k").select("v").rows()


@pytest.mark.slow
def test_a_row_for_which_an_expression_raises_is_an_error(spark: Any, tmp_path: Path, put: Callable[..., None]) -> None:
    put("0.json", ("a", 1, 100), ("100%", 2, 200), ("a", 4, 2500))
    clicks = eventide.stream(source(spark, tmp_path), name="clicks").event_time("ts", type="unixtimestamp_ms")
    decoded = clicks.where("url_decode(k) <> 'x'")
    stream = decoded.group_by("k").window(eventide.tumble("1 second")).agg(total="sum(v)")
    writer = stream.side_output("error").writeStream.format("memory").queryName("refused")
    bare = writer.option("checkpointLocation", str(tmp_path / "bare")).start()
    try:
        bare.processAllAvailable()
        assert [row.reason for row in spark.sql("SELECT reason FROM refused").collect()] == ["expression_failed"]
    finally:
        bare.stop()
    given: list[int] = []
    with stream.start(str(tmp_path / "state"), lambda rows, side, account: given.extend(totals(rows))) as query:
        query.process_all()
        assert query.accounting()["error"] == 1 and query.accounting()["used"] == 2
    assert given == [1]


def totals(rows: Any) -> list[int]:
    return [row.total for row in rows.collect()]
