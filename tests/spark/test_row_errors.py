"""An expression that raises for a row makes that row an `error`; the stream and the other rows go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eventide
from eventide.database import Database
from eventide.errors import EngineError
from eventide.spark.running import RunningStream
from eventide.storage.atomic import read_json
from eventide.storage.layout import Layout
from tests.conftest import DatabaseFactory

SOURCE = "CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)"
WINDOW = "TUMBLE(ts, INTERVAL '1' SECOND)"
ROWS = [
    {"k": "a%20b", "v": 1, "ts": 1_000},
    {"k": "100%", "v": 2, "ts": 1_100},
    {"k": "a%20b", "v": 3, "ts": 1_200},
    {"k": "c", "v": 4, "ts": 5_000},
]


def balanced(db: Database, stream: str) -> dict[str, int]:
    account = db.accounting(stream)
    assert account["rows_in"] == sum(account[kind] for kind in account if kind != "rows_in")
    return account


def details(db: Database, stream: str) -> list[str]:
    payloads = list(db.side_output(stream, "error"))
    assert {payload["reason"] for payload in payloads} <= {"expression_failed"}
    return sorted(payload["error_detail"] for payload in payloads)


# In front of the operator ------------------------------------------------------------------------------------------

IN_FRONT = {
    "where": f"SELECT k, count(*) AS n FROM s WHERE url_decode(k) <> 'x' GROUP BY k, {WINDOW}",
    "projection": f"SELECT d, count(*) AS n FROM (SELECT url_decode(k) AS d, ts FROM s) GROUP BY d, {WINDOW}",
    "key": f"SELECT url_decode(k) AS d, count(*) AS n FROM s GROUP BY url_decode(k), {WINDOW}",
    "argument": f"SELECT max(url_decode(k)) AS m, count(*) AS n FROM s GROUP BY {WINDOW}",
    "filter": f"SELECT count(*) FILTER (WHERE url_decode(k) = 'a b') AS n FROM s GROUP BY {WINDOW}",
    "time": "SELECT count(*) AS n FROM s "
    "WINDOW TUMBLING (ON timestamp_millis(ts + length(url_decode(k)) * 0), SIZE INTERVAL '1' SECOND)",
    "forwarded": "SELECT url_decode(k) AS d, v FROM s",
    "common part": f"SELECT max(url_decode(k)) AS m, min(length(url_decode(k))) AS n FROM s GROUP BY {WINDOW}",
    "exploded": "SELECT w, count(*) AS n FROM s LATERAL VIEW explode(split(url_decode(k), ' ')) t AS w "
    f"GROUP BY w, {WINDOW}",
}


@pytest.mark.slow
@pytest.mark.parametrize("place", IN_FRONT)
def test_a_row_for_which_an_expression_raises_is_an_error_wherever_it_stands(db: Database, place: str) -> None:
    db.execute(SOURCE)
    db.execute(f"CREATE STREAM o AS {IN_FRONT[place]}")
    db.write("s", ROWS)
    db.tick()
    (detail,) = details(db, "o")
    assert "url_decode(k)" in detail and "k = 100%" in detail
    assert balanced(db, "o")["error"] == 1
    assert db.read("o").fetchall()


def dying(checkpoint: Path, left: Path, is_noted: bool) -> Callable[[RunningStream], bool]:
    """In place of taking up another plan: keeps the checkpoint as kill -9 would leave it at that moment, before the
    guards are noted or after.
    """
    take_up = RunningStream._take_up_another_plan

    def die(running: RunningStream) -> bool:
        if running._need() is None:
            return False
        if is_noted:
            take_up(running)
        shutil.copytree(checkpoint, left)
        raise EngineError("killed")

    return die


def test_rows_that_fail_in_different_places_are_errors_and_the_rest_is_used_whenever_the_process_dies(
    db_factory: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, left = tmp_path / "c", tmp_path / "left"
    db = db_factory(checkpoint=checkpoint)
    db.execute(SOURCE)
    db.execute(
        "CREATE STREAM o AS SELECT unbase64(k) IS NULL AS b, count(*) AS n, bool_or(concat('a', k) RLIKE k) AS m "
        f"FROM s WHERE url_decode(k) <> 'x' GROUP BY unbase64(k) IS NULL, {WINDOW}"
    )
    bad = [{"k": "%", "v": 1, "ts": 1_100}, {"k": "c", "v": 1, "ts": 1_200}, {"k": "+abc", "v": 1, "ts": 1_300}]
    db.write("s", [{"k": "abcd", "v": 1, "ts": 1_000}, *bad])
    for is_noted in (False, True):
        with monkeypatch.context() as death, pytest.raises(EngineError, match="killed"):
            death.setattr(RunningStream, "_take_up_another_plan", dying(checkpoint, left, is_noted))
            db.tick()
        db.close()
        shutil.rmtree(checkpoint)
        left.rename(checkpoint)
        assert read_json(Layout(checkpoint).plan("o")).get("guards", False) == is_noted
        assert not any(Layout(checkpoint).results("o").glob("*.json")), "no batch has ended"
        db = db_factory(checkpoint=checkpoint)
    db.tick()
    expressions = ["concat('a', k) RLIKE k", "unbase64(k) IS NULL", "url_decode(k) <> 'x'"]
    assert [detail.split(" raised ")[0] for detail in details(db, "o")] == expressions
    assert balanced(db, "o")["error"] == 3
    db.write("s", [{"k": "%", "v": 1, "ts": 1_400}, {"k": "abcd", "v": 1, "ts": 9_000}])
    db.tick()
    assert len(details(db, "o")) == 4
    assert [(row["b"], row["n"]) for row in db.read("o")] == [(False, 1)]
    balanced(db, "o")


# Behind the operator -----------------------------------------------------------------------------------------------


def test_a_result_for_which_an_expression_raises_is_an_error_and_its_rows_stay_used(db: Database) -> None:
    db.execute(SOURCE)
    db.execute(f"CREATE STREAM o AS SELECT url_decode(k) AS d, sum(v) AS t FROM s GROUP BY k, {WINDOW}")
    db.execute(
        "CREATE STREAM p AS SELECT a.k, b.v FROM s AS a JOIN s AS b WITHIN INTERVAL '1' SECOND "
        "ON a.v = b.v AND url_decode(concat(a.k, b.k)) <> 'x'"
    )
    db.write("s", ROWS)
    db.tick()
    assert [(row["d"], row["t"]) for row in db.read("o")] == [("a b", 4)]
    (payload,) = db.side_output("o", "error")
    assert payload["group_key"] == {"k": "100%"} and payload["original_event"] == {"k": "100%", "sum(v)": 2}
    assert payload["window"]["start"].second == 1 and payload["processing_time"] is not None
    assert "url_decode(k)" in payload["error_detail"]
    assert balanced(db, "o")["used"] == 4 and db.metrics()["o"]["failed_results"] == 1
    assert sorted(row["v"] for row in db.read("p")) == [1, 3, 4]
    (pair,) = db.side_output("p", "error")
    assert pair["original_event"] == {"left": {"k": "100%"}, "right": {"k": "100%", "v": 2}}
    balanced(db, "p")


# Functions of the user's own ---------------------------------------------------------------------------------------


def shout(text: str) -> str:
    if "%" in text:
        raise ValueError("no percent")
    return text.upper()


def add_digits(state: int, rows: pa.RecordBatch) -> int:
    return state + sum(int(text) for text in rows.column(0).to_pylist())


@pytest.fixture
def digits() -> Iterator[None]:
    eventide.aggregates.register("add_digits", lambda: 0, add_digits, lambda one, other: one + other)
    yield
    eventide.aggregates.forget("add_digits")


@pytest.mark.slow
def test_functions_and_aggregates_of_the_users_own_may_raise(db: Database, digits: None) -> None:
    db.spark.udf.register("shout", shout)
    db.execute(SOURCE)
    db.execute(f"CREATE STREAM o AS SELECT shout(k) AS d, count(*) AS n FROM s GROUP BY shout(k), {WINDOW}")
    db.execute(f"CREATE STREAM p AS SELECT add_digits(k) AS d FROM s GROUP BY {WINDOW}")
    db.write("s", [{"k": "1", "v": 1, "ts": 1_000}, {"k": "7%", "v": 1, "ts": 1_100}, {"k": "2", "v": 1, "ts": 9_000}])
    db.tick()
    assert details(db, "o") == ["shout(k) raised an error for k = 7%: ValueError: no percent"]
    assert [(row["d"], row["n"]) for row in db.read("o")] == [("1", 1)]
    (detail,) = details(db, "p")
    assert "add_digits(k)" in detail and "ValueError" in detail
    assert [row["d"] for row in db.read("p")] == [1]
    assert balanced(db, "o")["error"] == balanced(db, "p")["error"] == 1


# Sources -----------------------------------------------------------------------------------------------------------


def test_rows_that_are_forwarded_from_files_are_errors_whoever_reads_them(db: Database, tmp_path: Path) -> None:
    options = f"WITH ('connector' = 'files', 'path' = '{tmp_path}', 'format' = 'json')"
    db.execute(f"{SOURCE} {options}")
    streams = {"fused": "true", "plain": "false"}
    for name, fused in streams.items():
        db.execute(f"CREATE STREAM {name} WITH ('fused_scan' = '{fused}') AS SELECT url_decode(k) AS d FROM s")
    for number in range(2):  # the second file is read with guards from the beginning
        whole = tmp_path / f".{number}.json"  # a running stream must not find half of it
        whole.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n")
        whole.rename(tmp_path / f"{number}.json")
        db.tick()
    for name in streams:
        assert sorted(row["d"] for row in db.read(name)) == ["a b"] * 4 + ["c"] * 2, name
        assert len(details(db, name)) == 2 and balanced(db, name)["error"] == 2


@pytest.mark.slow
def test_files_and_streams_that_read_streams(db: Database, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text("\n".join(json.dumps(row) for row in ROWS) + "\n")
    options = f"WITH ('connector' = 'files', 'path' = '{folder}', 'format' = 'json')"
    db.execute(f"{SOURCE} {options}")
    db.execute("CREATE STREAM plain AS SELECT k, v, ts FROM s")
    db.execute("CREATE STREAM o AS SELECT url_decode(k) AS d FROM plain")
    db.execute(f"CREATE STREAM p AS SELECT count(*) AS n FROM s WHERE url_decode(k) <> 'x' GROUP BY {WINDOW}")
    db.tick()
    assert [len(details(db, name)) for name in ("plain", "o", "p")] == [0, 1, 1]
    assert sorted(row["d"] for row in db.read("o")) == ["a b", "a b", "c"]
    assert [row["n"] for row in db.read("p")] == [2]
    balanced(db, "p")


@pytest.mark.parametrize("fused", ["true", "false"])
def test_rows_without_a_declared_column_are_errors_if_the_source_says_so(
    db: Database, tmp_path: Path, fused: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    lines: Sequence[Any] = [{}, {"zzz": 1}, {"v": 1}, {"k": "a", "v": 1, "ts": 1_000}]
    (folder / "a.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    options = f"'connector' = 'files', 'path' = '{folder}', 'format' = 'json', 'empty_rows' = 'error'"
    db.execute(f"{SOURCE} WITH ({options})")
    db.execute(f"CREATE STREAM o WITH ('fused_scan' = '{fused}') AS SELECT k FROM s WHERE v > 0")
    db.tick()
    assert [payload["reason"] for payload in db.side_output("o", "error")] == ["row_empty", "row_empty"]
    account = balanced(db, "o")
    assert (account["error"], account["used"]) == (2, 2)


# Results that are wrong --------------------------------------------------------------------------------------------


def test_a_sum_that_bigint_cannot_hold_is_an_error_if_the_stream_says_so(db: Database) -> None:
    db.execute(SOURCE)
    query = f"SELECT k, sum(v) AS t, max(v) AS m FROM s GROUP BY k, {WINDOW}"
    db.execute(f"CREATE STREAM wraps AS {query}")
    db.execute(f"CREATE STREAM o WITH ('sum.overflow' = 'error') AS {query}")
    most = 2**63 - 1
    rows = [("a", most, 1_000), ("a", 1, 1_100), ("b", most, 1_000), ("b", -1, 1_100), ("c", 1, 9_000)]
    db.write("s", [{"k": k, "v": v, "ts": ts} for k, v, ts in rows])
    db.tick()
    assert sorted((row["k"], row["t"]) for row in db.read("wraps")) == [("a", -(2**63)), ("b", most - 1)]
    assert [(row["k"], row["t"], row["m"]) for row in db.read("o")] == [("b", most - 1, most)]
    (payload,) = db.side_output("o", "error")
    assert (payload["reason"], payload["group_key"]) == ("sum_overflow", {"k": "a"})
    assert payload["error_detail"] == "sum(v) is 9223372036854775808, which BIGINT cannot hold"
    assert balanced(db, "o")["used"] == 5
