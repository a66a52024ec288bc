"""The dashboard of a database that runs: figures that only the engine has, and a stream that fails."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("starlette", reason="the dashboard needs eventide[dashboard]")

from eventide.errors import EventideError
from tests.conftest import DatabaseFactory

SQL = """
CREATE SOURCE clicks (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE SOURCE taps (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE STREAM o AS SELECT window_start, k, count(*) AS n
FROM (SELECT * FROM clicks UNION ALL SELECT * FROM taps) GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
"""


def asked(url: str, path: str) -> Any:
    with urllib.request.urlopen(f"{url}api/{path}", timeout=30) as answer:
        return json.loads(answer.read())


def test_a_running_database_shows_what_its_batches_did(db_factory: DatabaseFactory) -> None:
    db = db_factory()
    db.execute(SQL)
    dashboard = db.dashboard(port=0)
    assert db.dashboard() is dashboard
    before = asked(dashboard.url, "snapshot")["streams"][0]
    assert before["state"] == "new" and before["standing"][0].startswith("o has not run yet")

    told: list[tuple[str, int]] = []
    db._engine.listeners += [lambda name, account: 1 / 0, lambda name, account: told.append((name, account.batch))]
    db.write("clicks", [{"k": "a", "ts": 100}, {"k": "b", "ts": 200}, {"k": "a", "ts": 2500}, {"k": "a", "ts": None}])
    db.write("taps", [{"k": "a", "ts": 3000}, {"k": "a", "ts": 3100}])
    db.tick()
    db.write("taps", [{"k": "a", "ts": 5}, {"k": "a", "ts": 6}])
    db.tick()

    whole = asked(dashboard.url, "snapshot")
    (stream,) = whole["streams"]
    assert whole["kind"] == "live" and stream["state"] == "running" and stream["error"] is None
    assert stream["accounting"] == db.accounting("o") and stream["accounting"]["rows_in"] == 8
    assert {source["name"]: source["rows"] for source in stream["sources"]} == {"clicks": 4, "taps": 4}
    assert stream["given"] == len(db.read("o")) == 2 and db.metrics()["o"]["rows_out"] == 2
    points = [dict(zip(whole["columns"], point, strict=True)) for point in stream["points"]]
    assert sum(point["rows_in"] for point in points) == 8 and sum(point["given"] for point in points) == 2
    assert sum(point["batches"] for point in points) == stream["batch"] + 1
    assert all(point["compute"] > 0 and point["plan"] >= 0 and point["store"] >= 0 for point in points)
    assert all(point["plan"] + point["compute"] < 600_000 for point in points)
    assert told == [("o", batch) for batch in range(stream["batch"] + 1)]  # one that fails harms nobody
    assert asked(dashboard.url, "side?stream=o&kind=late")["rows"][0]["source"] == "taps"
    stages = json.dumps(asked(dashboard.url, "plan?stream=o"))
    assert '"scan clicks"' in stages and '"rows", 4' in stages

    def fail(batch: int, rows: pa.Table) -> None:
        raise RuntimeError("the other end is gone")

    db.foreach("o", fail)
    db.write("clicks", [{"k": "a", "ts": 9000}])
    db.write("taps", [{"k": "a", "ts": 9000}])
    with pytest.raises(EventideError):
        db.tick()
    failed = asked(dashboard.url, "snapshot")["streams"][0]
    assert failed["state"] == "failed" and "the other end is gone" in failed["error"]
    db.close()
    with pytest.raises(OSError):
        asked(dashboard.url, "snapshot")
