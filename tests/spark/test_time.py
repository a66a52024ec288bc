"""The passing of time: idle sources, processing time, periodic emission, and the decisions about it as data."""

from __future__ import annotations

import datetime as dt
import time

import pytest
from pyspark.sql import functions as F

import eventide
from eventide.database import Database
from eventide.spark.clock import SteadyClock

TWO = """
    CREATE SOURCE a (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
    CREATE SOURCE b (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH ('idle_timeout' = '4 seconds');
    CREATE STREAM o AS SELECT sum(v) AS t FROM (SELECT v, ts FROM a UNION ALL SELECT v, ts FROM b)
    GROUP BY TUMBLE(ts, INTERVAL '1' SECOND);
"""


def totals(db: Database) -> list[int]:
    return [row["t"] for row in db.read("o")]


class HandClock:
    """The clock of stream `o`, which stands still until it is told otherwise: by it no tick takes any time."""

    def __init__(self, db: Database) -> None:
        self._nanos = time.time_ns()
        db._streams.open("o")._clock = SteadyClock(lambda: self._nanos, lambda: self._nanos)

    def advance(self, seconds: float) -> None:
        self._nanos += round(seconds * 1e9)


def test_an_idle_source_no_longer_holds_the_watermark_back(db: Database) -> None:
    #  a  100 ........ 9000            watermark of a: 9000
    #  b      500                      watermark of b: 500, until it has been silent for 4 seconds
    db.execute(TWO)
    clock = HandClock(db)
    db.write("a", [(1, 100), (2, 9000)])
    db.write("b", [(4, 500)])
    db.tick()
    clock.advance(3.9)
    db.tick()
    assert totals(db) == [] and db.watermark("o") == 500
    clock.advance(0.2)
    db.tick()
    assert totals(db) == [5] and db.watermark("o") == 9000
    db.write("b", [(8, 9500), (16, 700)])  # b is back: what is behind the watermark is late, the rest is not
    db.tick()
    assert db.accounting("o")["late"] == 1
    db.write("a", [(32, 20000)])
    db.tick()
    assert db.watermark("o") == 9500 and totals(db) == [5]


def test_windows_of_processing_time_close_by_the_clock(db: Database) -> None:
    db.execute(
        "CREATE SOURCE s (v BIGINT); CREATE STREAM o AS SELECT sum(v) AS t FROM s GROUP BY tumblingwindow('ss', 1)"
    )
    db.write("s", [(1,), (2,)])
    db.tick()
    time.sleep(1.1)
    db.tick()
    assert sum(totals(db)) == 3


def test_lookahead_in_processing_time_fires_at_its_deadline_without_further_rows(db: Database) -> None:
    db.execute(
        "CREATE SOURCE s (v BIGINT); CREATE STREAM o AS SELECT sum(v) AS t FROM s GROUP BY slidingwindow('ss', 10, 1)"
    )
    db.start()
    db.write("s", [(1,), (2,)])
    deadline = time.monotonic() + 500
    while len(db.read("o")) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert totals(db) == [3, 3]


def test_closed_sessions_are_counted_by_what_closed_them(db: Database) -> None:
    db.execute("""
        CREATE SOURCE s (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE STREAM o AS SELECT sum(v) AS t FROM s GROUP BY SESSION(ts, INTERVAL '1' SECOND)
    """)
    db.write("s", [(1, 0), (2, 5000)])
    db.tick()
    assert totals(db) == [1] and db.metrics()["o"]["sessions_closed_by_timer"] == 1


def test_event_time_can_be_switched_off(db: Database) -> None:
    db.execute("""
        CREATE SOURCE s (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE STREAM o WITH ('eventtime.enabled' = 'false') AS SELECT sum(v) AS t FROM s GROUP BY tumblingwindow('ss',
          1)
    """)
    db.write("s", [(1, 100), (2, 9000)])
    db.tick()
    time.sleep(1.1)
    db.tick()
    assert sum(totals(db)) == 3 and db.accounting("o")["late"] == 0


def test_emit_every_emits_what_changed_and_once_more_at_close(db: Database) -> None:
    db.execute("""
        CREATE SOURCE s (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE STREAM o AS SELECT sum(v) AS t, emit_epoch FROM s GROUP BY TUMBLE(ts, INTERVAL '10' SECOND) EMIT EVERY
          INTERVAL '1' SECOND
    """)
    clock = HandClock(db)
    db.write("s", [(1, 100)])
    db.tick()
    db.write("s", [(2, 200)])
    db.tick()
    assert totals(db) == [], "a second has not passed"
    clock.advance(1.1)
    db.tick()
    assert totals(db) == [3]
    clock.advance(1.1)
    db.tick()
    assert totals(db) == [3], "nothing changed, nothing to emit"
    db.write("s", [(4, 300)])
    db.advance_watermark("s", 10_000)
    db.tick()
    assert totals(db)[-1] == 7


def test_a_running_database_notices_that_time_passes(db: Database) -> None:
    db.execute(TWO)
    db.start()
    db.write("a", [(1, 100), (2, 9000)])
    db.write("b", [(4, 500)])
    deadline = time.monotonic() + 500
    while totals(db) != [5] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert totals(db) == [5]


def test_numbers_and_numeric_text_of_every_unit_are_the_same_time(db: Database) -> None:
    units = {"unixtimestamp_s": 1, "unixtimestamp_ms": 10**3, "unixtimestamp_us": 10**6, "unixtimestamp_ns": 10**9}
    forms = {f"{type_}_{unit}": (type_, unit) for unit in units for type_ in ("BIGINT", "STRING")}
    for name, (type_, unit) in forms.items():
        db.execute(f"CREATE SOURCE {name} (ts {type_}, EVENT TIME ts TYPE {unit})")
    every = " UNION ALL ".join(f"SELECT '{name}' AS form, ts FROM {name}" for name in forms)
    db.execute(
        f"CREATE STREAM o AS SELECT window_start, form, count(*) AS c FROM ({every}) GROUP BY form, "
        "tumblingwindow('ss', 10)"
    )
    for name, (type_, unit) in forms.items():
        times = [moment * units[unit] for moment in (-3, 4, 25, 1_700_000_000)]
        db.write(name, [(time if type_ == "BIGINT" else f" {time} ",) for time in times])
    db.tick()
    for name in forms:
        assert sorted(row["window_start"].timestamp() for row in db.read("o") if row["form"] == name) == [-10, 0, 20]


def day_of_year(value: str) -> dt.datetime | None:
    """A parser in plain Python: '2024-060' is the 60th day of 2024."""
    return dt.datetime.strptime(value, "%Y-%j").replace(tzinfo=dt.UTC)


def test_event_times_of_a_custom_type(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    types = eventide.event_time_types
    monkeypatch.setattr(types, "_custom", dict(types._custom))  # what is registered here is gone afterwards
    types.register("minutes_test", lambda column: F.timestamp_seconds(column * 60))
    types.register("day_of_year_test", day_of_year)
    assert {"minutes_test", "day_of_year_test", "iso8601"} <= set(types.list())
    db.execute("""
        CREATE SOURCE m (v BIGINT, at BIGINT, EVENT TIME at TYPE minutes_test);
        CREATE SOURCE d (v BIGINT, at STRING, EVENT TIME at TYPE day_of_year_test);
        CREATE STREAM a AS SELECT window_start, sum(v) AS t FROM m GROUP BY TUMBLE(at, INTERVAL '1' HOUR);
        CREATE STREAM b AS SELECT window_start, sum(v) AS t FROM d GROUP BY TUMBLE(at, INTERVAL '1' DAY);
    """)
    db.write("m", [(1, 59), (2, 60), (4, 500)])
    db.write("d", [(1, "2024-060"), (2, "2024-061"), (4, "soon"), (8, "2024-070")])
    db.tick()
    assert [(row["window_start"].hour, row["t"]) for row in db.read("a")] == [(0, 1), (1, 2)]
    assert [(row["window_start"].strftime("%m-%d"), row["t"]) for row in db.read("b")] == [("02-29", 1), ("03-01", 2)]
    (payload,) = db.side_output("b", kind="error")
    assert payload["reason"] == "event_time_unparseable" and payload["error_detail"] == "soon"


def test_why_names_the_source_that_holds_a_window_back(db: Database) -> None:
    db.execute(TWO)
    assert "has not run yet" in db.why("o")
    db.write("a", [(1, 100), (2, 9000)])
    db.write("b", [(4, 500)])
    db.tick()
    told = db.why("o")
    assert "b" in told and "holds" in told and "advance_watermark" in told
