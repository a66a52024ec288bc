"""Triggers: when batches begin while streams run in the background. What comes out is the same under all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.conftest import DatabaseFactory

SQL = """
CREATE SOURCE s (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE STREAM slow WITH ('trigger' = '1 hour') AS SELECT k, ts FROM s;
CREATE STREAM quick AS SELECT k, ts FROM s;
CREATE STREAM now WITH ('trigger' = 'available now') AS
SELECT window_start, k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
CREATE STREAM after WITH ('trigger' = 'available now') AS SELECT k, n FROM now;
"""


def until(holds: Callable[[], bool], seconds: float = 500) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.1)


def test_each_stream_has_its_own_and_a_tick_does_not_wait(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    db = db_factory(checkpoint=tmp_path)
    db.execute(SQL)
    assert "trigger: a batch every 1h" in db.explain("slow") and "trigger" not in db.explain("quick")
    db.write("s", [{"k": "a", "ts": 100}, {"k": "a", "ts": 5000}])
    db.start()
    until(lambda: not db._engine._streams["now"].is_active and len(db.read("now")) == 1)
    until(lambda: len(db.read("after")) == 1 and db._engine._streams["after"].has_ended)  # though it reads the other
    until(lambda: len(db.read("quick")) == 2 and len(db.read("slow")) == 2)  # the first batch comes at once
    assert not db.has_ended()  # two of them go on

    db.write("s", [{"k": "b", "ts": 6000}])
    until(lambda: len(db.read("quick")) == 3)
    assert len(db.read("slow")) == 2  # its next batch is in an hour
    began = time.monotonic()
    db.tick()
    assert len(db.read("slow")) == 3 and time.monotonic() - began < 600
    assert db._engine._streams["slow"].is_active
    db.stop(graceful=False)
    db.close()

    again = db_factory(checkpoint=tmp_path)
    again.execute(SQL.replace("'1 hour'", "'continuous batches'"))  # another trigger goes on from the same state
    again.write("s", [{"k": "c", "ts": 7000}])
    again.start()
    until(lambda: len(again.read("slow")) == 4)


def test_streams_that_take_in_what_is_there_end(db_factory: DatabaseFactory) -> None:
    db = db_factory()
    db.execute(
        SQL.replace("'1 hour'", "'available now'").replace("quick AS", "quick WITH ('trigger'='available now') AS")
    )
    db.write("s", [{"k": "a", "ts": 100}, {"k": "a", "ts": 5000}])
    db.start()
    until(db.has_ended)
    assert [len(db.read(name)) for name in ("slow", "quick", "now", "after")] == [2, 2, 1, 1]
    db.write("s", [{"k": "a", "ts": 9000}])
    db.tick()
    assert [len(db.read(name)) for name in ("slow", "quick", "now", "after")] == [3, 3, 2, 2]
