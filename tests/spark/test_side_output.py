"""Side output on Spark, routed by kind: to sinks, back to sources, or only counted."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventide.connectors.files.write import FilesSink
from eventide.database import Database
from eventide.errors import CatalogError, SqlError
from tests.conftest import DatabaseFactory

SOURCE = "CREATE SOURCE s (k STRING, v BIGINT, ts STRING, EVENT TIME ts TYPE unixtimestamp_ms);"
LONGEST_SECONDS = 500.0  # after which a test that hangs ends; nothing is measured by it
QUERY = "SELECT window_start, k, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)"


def create(db: Database, routes: dict[str, str], dlq: Path | None = None, name: str = "o") -> None:
    options = ", ".join(f"'side_output.{key}' = '{value}'" for key, value in routes.items())
    sink = "" if dlq is None else f"CREATE SINK dlq WITH ('connector' = 'files', 'path' = '{dlq}');"
    db.execute(f"{SOURCE} {sink} CREATE STREAM {name} WITH ({options}) AS {QUERY}")


def feed(db: Database, late: int = 3, bad: int = 2) -> None:
    db.write("s", [("a", 1, "100"), ("a", 2, "9000")])
    db.tick()
    db.write("s", [("a", n, "200") for n in range(late)] + [("b", n, "soon") for n in range(bad)])
    db.tick()


def in_files(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(folder.glob("*.json")) for line in path.read_text().splitlines()]


def test_kinds_go_where_they_are_sent_and_the_rest_stays(db: Database, tmp_path: Path) -> None:
    create(db, {"late.sink": "dlq", "error.sink": "metrics_only"}, tmp_path / "dlq")
    feed(db)
    sent = in_files(tmp_path / "dlq")
    assert [payload["original_event"]["v"] for payload in sent] == [0, 1, 2]
    assert sent[0]["kind"] == "late" and sent[0]["window"] == {
        "start": "1970-01-01T00:00:00Z",
        "end": "1970-01-01T00:00:01Z",
    }
    assert sent[0]["group_key"] == {"k": "a"} and sent[0]["event_time"] == "1970-01-01T00:00:00.200000Z"
    assert len(db.side_output("o", "late")) == 3 and len(db.side_output("o", "error")) == 0
    assert len(db.read("o$late")) == 3
    figures = db.metrics()["o"]
    assert (figures["side_sent_late"], figures["late"], figures["error"]) == (3, 3, 2)


def test_a_rate_limit_drops_from_the_sink_and_not_from_the_stream(db: Database, tmp_path: Path) -> None:
    create(db, {"late.sink": "dlq", "late.rate_limit": "5/h", "late.include_original": "false"}, tmp_path / "dlq")
    feed(db, late=12)
    assert len(in_files(tmp_path / "dlq")) == 5 and len(db.side_output("o", "late")) == 12
    assert {payload["original_event"] for payload in db.side_output("o", "late")} == {None}
    figures = db.metrics()["o"]
    assert (figures["side_sent_late"], figures["side_dropped_late"]) == (5, 7)
    with pytest.raises(CatalogError, match="the late rows of o are not kept"):
        db.read("o$late")


def test_a_side_sink_that_fails_or_hangs_does_not_stop_the_stream(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(db, {"late.sink": "dlq", "error.sink": "dlq"}, tmp_path / "dlq")

    def refuse(self: FilesSink, batch: int, rows: pa.Table) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(FilesSink, "write", refuse)
    feed(db)
    while not db.metrics()["o"].get("side_failed_late"):
        time.sleep(0.05)
    figures = db.metrics()["o"]
    assert (figures["side_failed_late"], figures["side_failed_error"], figures["side_sinks_failing"]) == (3, 2, 1)
    given_up, is_free = threading.Event(), threading.Event()
    monkeypatch.setattr(FilesSink, "write", lambda *_: is_free.wait(LONGEST_SECONDS) or given_up.set())
    db.write("s", [("a", 1, "12000"), ("a", 7, "300")])
    db.tick()
    assert [row["total"] for row in db.read("o")] == [1, 2] and db.accounting("o")["late"] == 4
    assert not given_up.is_set()  # the stream went on while the sink hung
    is_free.set()


def test_rows_can_be_sent_back_to_a_source_and_a_loop_ends(db: Database) -> None:
    create(db, {"late.sink": "reinject"})
    feed(db, bad=0)
    figures = db.metrics()["o"]
    assert figures["late"] == 6 and figures["rows_in"] == 8, "each late row came round once"
    assert (figures["side_sent_late"], figures["side_looped_late"]) == (3, 3)


def test_rows_can_be_sent_to_another_source_that_accepts_them(db: Database) -> None:
    db.execute("""
        CREATE SOURCE s (k STRING, v BIGINT, ts STRING, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE SOURCE mended (k STRING, v BIGINT, ts STRING);
        CREATE STREAM again AS SELECT k, v, ts FROM mended;
    """)
    db.execute(
        "CREATE STREAM o WITH ('side_output.error.sink' = 'reinject', 'side_output.error.source' = 'mended') "
        f"AS {QUERY}"
    )
    db.write("s", [("a", 1, "soon"), ("b", 2, "later")])
    db.tick()
    assert sorted(row["ts"] for row in db.read("again")) == ["later", "soon"]
    with pytest.raises(CatalogError, match="sends rows back to the source mended"):
        db.execute("DROP STREAM again; DROP SOURCE mended")


def test_routes_may_change_between_runs(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    for number, target in enumerate(("metrics_only", "dlq", "dlq")):
        db = db_factory(checkpoint=tmp_path / "checkpoint")
        create(db, {"late.sink": target}, tmp_path / "dlq")
        db.write("s", [("a", 2, "9000")])
        db.tick()
        db.write("s", [("a", number, "200")])
        db.tick()
        db.close()
    assert [payload["original_event"]["v"] for payload in in_files(tmp_path / "dlq")] == [1, 2]
    db = db_factory(checkpoint=tmp_path / "checkpoint")
    assert db.metrics()["o"]["side_sent_late"] == 2 and db.accounting("o")["late"] == 3


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        ({"late.sink": "dlx"}, "there is no sink dlx"),
        ({"late.sinc": "dlq"}, "unknown option 'side_output.late.sinc' of a stream"),
        ({"late.rate_limit": "5/s"}, "'side_output.late.rate_limit' is given without 'side_output.late.sink'"),
        ({"late.sink": "dlq", "late.rate_limit": "often"}, "'often' is not a rate"),
        ({"late.sink": "dlq", "late.source": "s"}, "'side_output.late.source' is for 'reinject'"),
        ({"late.sink": "reinject", "late.source": "t"}, "there is no source t"),
        ({"late.sink": "reinject", "late.source": "f"}, "the source f reads files"),
        ({"late.sink": "reinject", "late.source": "small"}, "the source small has no column v"),
        ({"late.sink": "metrics_only", "late.rate_limit": "1/s"}, "'metrics_only' sends nothing"),
        ({"late.sink": "taken"}, "the sink taken takes the rows of p"),
    ],
)
def test_a_route_that_cannot_be_is_an_error_at_its_place(routes: dict[str, str], message: str) -> None:
    from tests.sql.support import catalog

    options = ", ".join(f"'side_output.{key}' = '{value}'" for key, value in routes.items())
    with pytest.raises(SqlError) as raised:
        catalog(f"""{SOURCE} CREATE SOURCE small (k STRING, ts STRING);
            CREATE SOURCE f (k STRING) WITH ('connector' = 'files', 'path' = 'x');
            CREATE SINK dlq WITH ('connector' = 'console'); CREATE STREAM p AS SELECT k FROM s;
            CREATE SINK taken FROM p WITH ('connector' = 'console'); CREATE STREAM o WITH ({options}) AS {QUERY}""")
    assert message in str(raised.value) and "^" in str(raised.value)


def test_a_sink_that_side_output_goes_to_cannot_be_dropped() -> None:
    from tests.sql.support import catalog

    with pytest.raises(CatalogError, match="the stream o sends side output to the sink dlq"):
        catalog(f"{SOURCE} CREATE SINK dlq WITH ('connector' = 'console'); "
                f"CREATE STREAM o WITH ('side_output.late.sink' = 'DLQ') AS {QUERY}; DROP SINK dlq")  # fmt: skip
