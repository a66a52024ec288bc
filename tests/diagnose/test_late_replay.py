"""Late rows folded into closed windows, and the ledger that says what was late and what would have caught it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from eventide.cli.app import app
from eventide.connectors.foreach.write import ForeachSink
from eventide.database import Database
from eventide.diagnose.late import advise, ledger, used_share
from eventide.errors import OptionError, SinkError
from eventide.plan.planner import plan
from eventide.storage import results
from eventide.storage.payloads import PAYLOAD_SCHEMA
from eventide.storage.replays import Replays
from eventide.storage.results import Account
from tests.conftest import DatabaseFactory
from tests.sql.support import catalog

SOURCE = "CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);"
QUERY = """SELECT window_start, window_id, k, count(*) AS n, sum(v) AS total, min(v) AS low, sum(v) / count(*) AS mean,
emit_epoch
FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)"""
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def values(rows: Any) -> list[tuple[Any, ...]]:
    return [(row["k"], row["n"], row["total"], row["low"], row["mean"], row["emit_epoch"]) for row in rows]


def run(arguments: list[str]) -> str:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert done.exception is None, done.output
    return done.output


def test_late_rows_correct_what_their_windows_gave_and_each_does_so_once(
    db_factory: DatabaseFactory, tmp_path: Path
) -> None:
    db = db_factory(checkpoint=tmp_path / "checkpoint")
    db.execute(f"{SOURCE} CREATE STREAM o AS {QUERY}; "
               f"CREATE SINK out FROM o WITH ('connector' = 'files', 'path' = '{tmp_path / 'out'}', 'format' = "
"'parquet')")  # fmt: skip
    db.write("s", [("a", 5, 100), (None, 7, 200), ("a", 1, 9000)])
    db.tick()
    db.write("s", [("a", 1, 300), ("a", 3, 400), (None, 2, 500), ("b", 4, 600)])
    db.tick()
    assert values(db.read("o")) == [(None, 1, 7, 7, 7.0, 0), ("a", 1, 5, 5, 5.0, 0)]
    corrected = db.late_replay("o")
    assert values(corrected) == [(None, 2, 9, 2, 4.5, 1), ("a", 3, 9, 1, 3.0, 1), ("b", 1, 4, 4, 4.0, 0)]
    assert len(db.late_replay("o")) == 0, "a second time there is nothing to do"
    db.write("s", [("a", 10, 700)])
    db.tick()
    assert values(db.late_replay("o")) == [("a", 4, 19, 1, 4.75, 2)]
    figures = db.metrics()["o"]
    assert (figures["late"], figures["late_replayed"], figures["late_corrections"]) == (5, 5, 4)
    assert len({row["window_id"] for row in db.read("o") if row["window_start"] == EPOCH}) == 1
    assert len(db.read("o")) == 2 + 3 + 1 and pq.read_table(tmp_path / "out").num_rows == 6
    db.close()

    listed = run(["late", "list", "o", "--checkpoint", str(tmp_path / "checkpoint")])
    assert "o: 5 late rows, 5 replayed" in listed and "allowed_lateness_exceeded 5" in listed and "up to 15s" in listed
    advice = run(["late", "advise", "o", "--checkpoint", str(tmp_path / "checkpoint")])
    assert "37.5 % of the rows were on time" in advice and "8s 1ms" in advice
    held = run(["state", "o", "--checkpoint", str(tmp_path / "checkpoint")])
    assert "open windows" in held and "watermark at which the oldest closes" in held


STEPS = {
    "before it has decided what to take": (Replays, "begin", False),
    "when it has": (Replays, "begin", True),
    "between a file and a function": (ForeachSink, "write", False),
    "when all sinks have its corrections": (Replays, "finish", False),
    "before they count": (results, "write_json", False),
}


def failing(function: Callable[..., Any], afterwards: bool) -> Callable[..., Any]:
    """Raises instead of calling `function`, or after calling it."""

    def fail(*arguments: Any, **options: Any) -> None:
        if afterwards:
            function(*arguments, **options)
        raise OSError("the lights went out")

    return fail


def test_a_replay_that_is_cut_short_anywhere_folds_each_late_row_once(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[int, list[dict[str, Any]]] = {}

    def keep(batch: int, rows: pa.Table) -> None:
        assert kept.setdefault(batch, rows.to_pylist()) == rows.to_pylist(), (
            "a number that comes again has the same rows"
        )

    db.execute(
        f"{SOURCE} CREATE STREAM o AS {QUERY}; "
        f"CREATE SINK out FROM o WITH ('connector' = 'files', 'path' = '{tmp_path}', 'format' = 'parquet')"
    )
    db.foreach("o", keep)
    db.write("s", [("a", 1, 100), ("a", 1, 9000)])
    db.tick()
    for number, (owner, name, afterwards) in enumerate(STEPS.values()):
        db.write("s", [("a", 10, 200)])
        db.tick()
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, failing(getattr(owner, name), afterwards))
            with pytest.raises((OSError, SinkError), match="the lights went out"):
                db.late_replay("o")
        db.write("s", [("a", 100, 300)])  # between the failure and the next try
        db.tick()
        while len(db.late_replay("o")):
            pass
        newest = max(db.read("o"), key=lambda row: row["emit_epoch"])
        assert (newest["n"], newest["total"]) == (3 + 2 * number, 1 + 110 * (number + 1))
    assert db.metrics()["o"]["late_replayed"] == db.accounting("o")["late"] == 2 * len(STEPS)
    given = sorted(row["emit_epoch"] for row in db.read("o"))
    assert given == list(range(len(given))), "each emission of the window is there once"
    assert given == sorted(row["emit_epoch"] for row in pq.read_table(tmp_path).to_pylist())
    assert given == sorted(row["emit_epoch"] for rows in kept.values() for row in rows)


def test_a_hopping_window_is_corrected_in_each_of_its_windows(db: Database) -> None:
    db.execute(f"{SOURCE} CREATE STREAM o AS SELECT window_end, sum(v) AS total, emit_epoch FROM s "
               "GROUP BY HOP(ts, INTERVAL '1' SECOND, INTERVAL '2' SECOND)")  # fmt: skip
    db.write("s", [("a", 1, 1500), ("a", 1, 9000)])
    db.tick()
    db.write("s", [("a", 10, 2500)])
    db.tick()
    got = [
        ((row["window_end"] - EPOCH).total_seconds(), row["total"], row["emit_epoch"]) for row in db.late_replay("o")
    ]
    assert got == [(3.0, 11, 1), (4.0, 10, 0)]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            "SELECT window_start, avg(v) AS m FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)",
            "avg(v) cannot be merged from its result",
        ),
        (
            "SELECT window_start, count(DISTINCT v) AS m FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)",
            "count(DISTINCT v) cannot be",
        ),
        (
            "SELECT window_start, sum(v) + 1 AS m FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)",
            "sum(v) is not selected by itself",
        ),
        (
            "SELECT window_start, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)",
            "the key k is not selected",
        ),
        (
            "SELECT count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)",
            "neither window_start nor window_end is selected",
        ),
        (
            "SELECT window_start, count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND) HAVING count(*) > 1",
            "HAVING may have",
        ),
        (
            "SELECT window_start, count(*) AS n FROM s GROUP BY SESSION(ts, INTERVAL '1' SECOND)",
            "only tumbling and hopping windows",
        ),
        (
            "SELECT window_start, count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND) EMIT FINAL",
            "EMIT FINAL keeps no late rows",
        ),
    ],
)
def test_what_cannot_be_replayed_exactly_is_refused_by_name(query: str, reason: str) -> None:
    from eventide.spark.replay import check_replayable

    with pytest.raises(OptionError) as raised:
        check_replayable(plan(catalog(f"{SOURCE} CREATE STREAM o AS {query}").streams["o"]))
    assert reason in str(raised.value)


# The ledger, without Spark ------------------------------------------------------------------------------------------


def late(watermark_ms: int, ts_ms: int, end_ms: int) -> dict[str, Any]:
    def at(ms: int) -> dt.datetime:
        return EPOCH + dt.timedelta(milliseconds=ms)

    window = {"start": at(end_ms - 1000), "end": at(end_ms)}
    return {
        "kind": "late",
        "reason": "allowed_lateness_exceeded",
        "event_time": at(ts_ms),
        "watermark": at(watermark_ms),
        "window": window,
    }


def test_advice_is_how_much_longer_the_missed_windows_had_to_wait() -> None:
    stream = catalog(f"{SOURCE} CREATE STREAM o AS {QUERY} ALLOW LATENESS INTERVAL '1' SECOND").streams["o"]
    rows = [late(2000, 500, 1000), late(2500, 500, 1000), late(60_000, 500, 1000)]
    found = ledger(stream, pa.Table.from_pylist(rows, schema=PAYLOAD_SCHEMA))
    assert found.behind == (1_500_000, 2_000_000, 59_500_000) and found.missed == (0, 500_000, 58_000_000)
    assert found.histogram() == [(5_000_000, 2), (15_000_000, 0), (60_000_000, 1)]
    account = Account(0, {}, {"used": 9_988, "late": 3}, gauges={"open_windows#0": 4, "state_bytes#0": 400})
    assert [(a.percent, a.extra, a.more_windows, a.more_bytes) for a in advise(stream, found, account)] == [
        (99.0, 0, 0, 0),
        (99.9, 0, 0, 0),
        (100.0, 58_001_000, 59, 5900),
    ]
    assert round(used_share(found, account) or 0, 2) == 99.97


def test_advice_for_the_rows_between_the_targets() -> None:
    stream = catalog(f"{SOURCE} CREATE STREAM o AS {QUERY}").streams["o"]
    rows = [late(1000 + n, 500, 1000) for n in range(20)]
    found = ledger(stream, pa.Table.from_pylist(rows, schema=PAYLOAD_SCHEMA))
    extras = [a.extra for a in advise(stream, found, Account(0, {}, {"used": 980}))]
    assert extras == [10_000, 19_000, 20_000], (
        "10, 19 and 20 of the 20 late rows, each a millisecond later than the one before"
    )


# Joins ----------------------------------------------------------------------------------------------------------------

SIDES = (
    "CREATE SOURCE l (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms); "
    "CREATE SOURCE r (k STRING, w BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);"
)


def late_of(source: str, watermark_ms: int, ts_ms: int) -> dict[str, Any]:
    return {**late(watermark_ms, ts_ms, 0), "source": source, "window": None}


def test_a_row_of_a_join_is_late_by_what_its_side_would_have_had_to_wait() -> None:
    r"""l may wait for r up to 3 s behind it, r never waits for l.

    l          ts────────────3s──┐ until here, and the allowed lateness of 1 s
    r          ts─┐
    """
    join = (
        "SELECT v, w FROM l JOIN r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '3' SECOND "
        "ALLOW LATENESS INTERVAL '1' SECOND"
    )
    stream = catalog(f"{SIDES} CREATE STREAM o AS {join}").streams["o"]
    rows = [late_of("l", 10_000, 6000), late_of("r", 10_000, 8900)]
    found = ledger(stream, pa.Table.from_pylist(rows, schema=PAYLOAD_SCHEMA))
    assert found.behind == (1_100_000, 4_000_000) and found.missed == (0, 100_000)


def test_a_row_of_a_window_join_is_late_by_how_long_its_pane_has_been_closed() -> None:
    join = "SELECT v, w FROM l JOIN r WITHIN TUMBLE(INTERVAL '2' SECOND) ON l.k = r.k"
    stream = catalog(f"{SIDES} CREATE STREAM o AS {join}").streams["o"]
    found = ledger(stream, pa.Table.from_pylist([late_of("r", 5000, 1500)], schema=PAYLOAD_SCHEMA))
    assert found.missed == (3_000_000,)
    account = Account(0, {}, {"used": 1, "late": 1}, gauges={"open_windows#0": 1, "state_bytes#0": 50})
    assert [(a.extra, a.more_windows, a.more_bytes) for a in advise(stream, found, account)][-1] == (3_001_000, 2, 100)


def test_a_join_of_a_source_with_itself_is_advised_for_both_sides() -> None:
    join = "SELECT a.v FROM l a JOIN l b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '3' SECOND"
    stream = catalog(f"{SIDES} CREATE STREAM o AS {join}").streams["o"]
    found = ledger(stream, pa.Table.from_pylist([late_of("l", 10_000, 6000)], schema=PAYLOAD_SCHEMA))
    assert found.missed == (4_000_000,), "the right side has missed more than the left"


def test_a_join_is_counted_by_side_shown_by_side_and_not_replayed(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    db = db_factory(checkpoint=tmp_path / "checkpoint")
    db.execute(
        f"{SIDES} CREATE STREAM o AS SELECT v, w FROM l LEFT JOIN r WITHIN INTERVAL '1' SECOND ON l.k = r.k "
        "LATE DATA TO missed"
    )
    db.write("l", [("a", 1, 1000), ("b", 2, 1000), ("c", 3, 1500)])
    db.write("r", [("a", 10, 1200), ("a", 20, 1300)])
    db.tick()
    figures = db.metrics()["o"]
    names = ("left_rows", "right_rows", "pairs", "left_late", "right_late", "left_buffered", "right_buffered")
    assert [figures[name] for name in names] == [3, 2, 2, 0, 0, 3, 2]
    assert "3 rows of l and 2 of r are kept; 2 pairs have been found." in db.why("o")
    assert "r holds the join back" in db.why("o")
    db.advance_watermark("l", 5000)
    db.advance_watermark("r", 5000)
    db.tick()
    db.write("l", [("a", 4, 2000)])
    db.write("r", [("a", 30, 3999), ("a", 40, 4001)])
    db.tick()
    assert [db.metrics()["o"][name] for name in names] == [3, 3, 2, 1, 1, 0, 1]
    assert [row["source"] for row in db.read("missed")] == ["l", "r"]
    with pytest.raises(OptionError, match="it is a join, and the rows that a late row would have met are no longer"):
        db.late_replay("o")
    db.close()

    listed = run(["late", "list", "o", "--checkpoint", str(tmp_path / "checkpoint")])
    assert "o: 2 late rows" in listed and '"w":30' in listed.replace(" ", "")
    advice = run(["late", "advise", "o", "--checkpoint", str(tmp_path / "checkpoint")])
    assert "75 % of the rows were on time" in advice and "2s 1ms" in advice
    held = run(["state", "o", "--checkpoint", str(tmp_path / "checkpoint")])
    assert "0  rows of l" in held and "1  rows of r" in held
