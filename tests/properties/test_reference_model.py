"""The reference model by itself: each rule of the time contract once, on a timeline that can be checked by hand."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.testing import ReferenceDatabase, ReferenceModel, UnsupportedExpressionError

SECOND = 1_000_000
SOURCE = "CREATE SOURCE {name} (k STRING, v BIGINT, ts {type}, EVENT TIME ts TYPE {kind}{more})"
TUMBLE = "SELECT window_start, sum(v) AS t FROM s GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"


def source(name: str = "s", type: str = "BIGINT", kind: str = "unixtimestamp_s", more: str = "") -> str:
    return SOURCE.format(name=name, type=type, kind=kind, more=more)


def model(query: str, *sources: str, options: str = "") -> ReferenceModel:
    catalog = Catalog()
    for statement in parse_statements(";".join([*(sources or (source(),)), f"CREATE STREAM o{options} AS {query}"])):
        catalog.apply(statement)
    return ReferenceModel(catalog.stream("o"))


def plain(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows as tuples, times in seconds."""
    return [
        tuple(value.timestamp() if isinstance(value, dt.datetime) else value for value in row.values()) for row in rows
    ]


def test_in_a_batch_lateness_is_judged_by_the_batches_before_it() -> None:
    #  batch 1   1, 25       W none → 25: [0, 10) closes with 1
    #  batch 2   31, 26      26 is behind 31, but W is still 25 here
    one = model(TUMBLE)
    assert plain(one.batch({"s": [("a", 1, 1), ("a", 2, 25)]}).main) == [(0.0, 1)]
    step = one.batch({"s": [("a", 4, 31), ("a", 8, 26)]})
    assert (plain(step.main), step.side, step.watermark) == ([(20.0, 10)], [], 31 * SECOND)


def test_the_slower_of_two_sources_holds_the_watermark_until_it_is_idle() -> None:
    #  s  ──────● 5
    #  t  ─────────────────● 50       W = 5; when s is idle, W = 50
    query = TUMBLE.replace("FROM s", "FROM (SELECT k, v, ts FROM s UNION ALL SELECT k, v, ts FROM t)")
    one = model(query, source("s"), source("t"))
    assert one.batch({"t": [("a", 1, 50)]}).watermark is None
    assert one.batch({"s": [("a", 2, 5)]}).watermark == 5 * SECOND
    step = one.mark_idle("s")
    assert (plain(step.main), step.watermark) == ([(0.0, 2)], 50 * SECOND)
    assert one.batch({"s": [("a", 4, 20)]}).watermark == 50 * SECOND


def test_a_watermark_is_no_finer_than_sparks_milliseconds() -> None:
    one = model(TUMBLE, source(kind="unixtimestamp_us"))
    assert one.batch({"s": [("a", 1, 1999)]}).watermark == 1000
    assert one.batch({"s": [("a", 1, -1)]}).watermark == 1000


def test_a_null_event_time_falls_back_to_the_time_of_arrival() -> None:
    one = model(TUMBLE)
    step = one.batch({"s": [("a", 1, None)]}, now=100 * SECOND, received=7 * SECOND)
    assert (step.watermark, step.counts["used"]) == (None, 1)


def test_a_row_without_a_time_does_not_make_history_late() -> None:
    one = model(TUMBLE)
    one.batch({"s": [("a", 1, 5)]}, now=1_000_000 * SECOND)
    one.batch({"s": [("a", 1, None)]}, now=1_000_000 * SECOND)
    step = one.batch({"s": [("a", 1, 6)]}, now=1_000_000 * SECOND)
    assert (step.watermark, step.counts["used"], step.counts["late"]) == (6 * SECOND, 1, 0)


def test_without_a_declared_time_the_time_of_the_batch_counts() -> None:
    one = model("SELECT k FROM s", "CREATE SOURCE s (k STRING)")
    assert one.batch({"s": [("a",)]}, now=42 * SECOND).watermark == 42 * SECOND


@pytest.mark.parametrize(
    ("type", "kind", "value", "seconds"),
    [
        ("STRING", "iso8601", "1970-01-01T00:00:07Z", 7),
        ("STRING", "iso8601", "1970-01-01T01:00:07+01:00", 7),
        ("STRING", "iso8601", "1970-01-01 00:00:07", 7),
        ("STRING", "unixtimestamp_ms", " 7000 ", 7),
        ("DOUBLE", "unixtimestamp_s", 7.0, 7),
        ("BIGINT", "unixtimestamp_ns", 7_000_000_000, 7),
        ("TIMESTAMP", "spark", "1970-01-01T00:00:07Z", 7),
        ("DATE", "spark", "1970-01-02", 86_400),
    ],
)
def test_event_times_of_every_type(type: str, kind: str, value: Any, seconds: int) -> None:
    one = model("SELECT k FROM s", source(type=type, kind=kind))
    assert one.batch({"s": [("a", 1, value)]}, now=10**6 * SECOND).watermark == seconds * SECOND


def test_a_time_that_does_not_parse_or_lies_in_the_future_is_an_error_and_moves_nothing() -> None:
    one = model(TUMBLE, source(type="STRING"))
    step = one.batch({"s": [("a", 1, "soon"), ("a", 1, "301"), ("a", 1, "300")]})
    assert [(payload.kind, payload.reason) for payload in step.side] == [
        ("error", "event_time_unparseable"),
        ("error", "future_timestamp"),
    ]
    assert (step.watermark, dict(step.counts)) == (300 * SECOND, {"rows_in": 3, "error": 2, "used": 1})


def test_a_row_that_where_filters_out_does_not_move_the_watermark() -> None:
    one = model("SELECT k FROM s WHERE v > 0")
    assert one.batch({"s": [("a", 1, 5), ("a", -1, 500)]}).watermark == 5 * SECOND


def test_events_exactly_a_gap_apart_are_one_session_and_one_more_is_another() -> None:
    #  1 ───5─── 6 ───5─── 11            17: six after 11
    one = model("SELECT window_start, window_end, sum(v) AS t FROM s GROUP BY SESSION(ts, INTERVAL '5' SECOND)")
    one.batch({"s": [("a", 1, 1), ("a", 2, 6), ("a", 4, 11), ("a", 8, 17)]})
    assert plain(one.flush().main) == [(17.0, 22.0, 8)]


def test_an_old_row_that_an_open_session_takes_is_not_late() -> None:
    #  W at 15. open session [10, 20): a row at 9 touches it, a row at 2 touches nothing
    one = model("SELECT window_start, window_end, sum(v) AS t FROM s GROUP BY SESSION(ts, INTERVAL '5' SECOND)")
    one.batch({"s": [("a", 1, 10), ("a", 2, 15)]})
    step = one.batch({"s": [("a", 4, 9), ("a", 8, 2)]})
    assert [(payload.kind, payload.event_time) for payload in step.side] == [("late", 2 * SECOND)]
    assert plain(one.flush().main) == [(9.0, 20.0, 7)]


def test_a_sliding_window_includes_both_of_its_ends() -> None:
    #  trigger 20: [10, 20]     9 is out, 10 is in
    one = model("SELECT window_start, window_end, count(*) AS n FROM s GROUP BY slidingwindow('ss', 10)")
    step = one.batch({"s": [("a", 1, 9), ("a", 1, 10), ("a", 1, 20)]})
    assert plain(step.main)[-1] == (10.0, 20.0, 2)


def test_ordered_forwarding_is_stable_and_lets_nothing_pass_behind_what_it_flushed() -> None:
    one = model("SELECT k, ts FROM s ORDER BY ts", source(more=", WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"))
    assert plain(one.batch({"s": [("b", 1, 7), ("c", 1, 3), ("d", 1, 7), ("e", 1, 3), ("a", 1, 9)]}).main) == [
        ("c", 3),
        ("e", 3),
    ]
    assert plain(one.flush().main) == [("b", 7), ("d", 7), ("a", 9)]
    step = one.batch({"s": [("f", 1, 9), ("g", 1, 10)]})
    assert [payload.reason for payload in step.side] == ["behind_watermark"]
    assert plain(one.flush().main) == [("g", 10)]


def test_emit_every_emits_what_has_changed_and_everything_once_at_close() -> None:
    one = model(TUMBLE.replace("sum(v) AS t", "emit_epoch, sum(v) AS t") + " EMIT EVERY INTERVAL '1' SECOND")
    one.batch({"s": [("a", 1, 1)]})
    assert plain(one.tick().main) == [(0.0, 0, 1)]
    assert one.tick().main == []
    assert plain(one.batch(advance={"s": 10 * SECOND}).main) == [(0.0, 1, 1)]


def test_a_change_log_of_sessions_retracts_every_part_of_a_merged_one() -> None:
    query = (
        "SELECT op, window_start, window_end, sum(v) AS t FROM s GROUP BY SESSION(ts, INTERVAL '5' SECOND) EMIT CHANGES"
    )
    one = model(query, source(more=", WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE"))
    one.batch({"s": [("a", 1, 0), ("a", 2, 10)]})
    assert plain(one.batch({"s": [("a", 4, 5)]}).main) == [(-1, 0.0, 5.0, 1), (-1, 10.0, 15.0, 2), (1, 0.0, 15.0, 7)]


def test_an_expression_that_the_model_does_not_know_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedExpressionError, match="REVERSE"):
        model("SELECT reverse(k) AS r FROM s").batch({"s": [("a", 1, 1)]})


def test_a_database_that_is_closed_and_reopened_continues(tmp_path: Any) -> None:
    first = ReferenceDatabase(tmp_path, clock=lambda: 0)
    first.execute(f"{source()}; CREATE STREAM o AS {TUMBLE}")
    first.write("s", [("a", 1, 1)])
    first.tick()
    first.close()
    again = ReferenceDatabase(tmp_path, clock=lambda: 0)
    again.write("s", [{"k": "a", "v": 2, "ts": 2}])
    again.advance_watermark("s", 10_000)
    again.tick()
    assert plain(list(again.read("o"))) == [(0.0, 3)]
    assert again.accounting("o")["used"] == 2


def test_a_silent_source_is_released_when_its_timeout_has_passed() -> None:
    now = [0]
    db = ReferenceDatabase(clock=lambda: now[0])
    quiet = source("s") + " WITH ('idle_timeout' = '30 seconds')"
    union = TUMBLE.replace("FROM s", "FROM (SELECT k, v, ts FROM s UNION ALL SELECT k, v, ts FROM t)")
    db.execute(f"{quiet}; {source('t')}; CREATE STREAM o AS {union}")
    db.write("t", [("a", 1, 1), ("a", 2, 50)])
    db.tick()
    assert db.watermark("o") is None
    now[0] = 31 * SECOND
    db.tick()
    assert db.watermark("o") == 50_000
    assert plain(list(db.read("o"))) == [(0.0, 1)]


def test_windows_of_processing_time_close_by_the_clock() -> None:
    now = [1 * SECOND]
    db = ReferenceDatabase(clock=lambda: now[0])
    db.execute(
        "CREATE SOURCE s (k STRING, v BIGINT); CREATE STREAM o AS SELECT window_start, sum(v) AS t FROM s GROUP "
        "BY tumblingwindow('ss', 10)"
    )
    db.write("s", [("a", 1)])
    db.tick()
    now[0] = 10 * SECOND
    db.tick()
    assert plain(list(db.read("o"))) == [(0.0, 1)]
