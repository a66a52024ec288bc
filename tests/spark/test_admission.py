"""Limits of a source on Spark: exact, whatever the number of tasks and shards, and whatever happens to a batch."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from eventide.admission.shed_log import ShedLog
from eventide.admission.shedder import ShedOrder, ShedRatios
from eventide.admission.trust import Regaining
from eventide.database import Database
from tests.conftest import DatabaseFactory

COLUMNS = "id BIGINT, k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms"
NO_REFILL = "'sla.max_events_per_sec' = '0.001'"


def ids(db: Database, stream: str = "o") -> list[int]:
    return sorted(row["id"] for row in db.read(stream))


def write_file(folder: Path, name: str, first: int, count: int, modified: int, form: str = "json") -> None:
    """Rows with ids from `first`, in order; all of one key."""
    lines = [
        json.dumps({"id": id, "k": "one", "ts": id}) if form == "json" else f"{id},one,{id}"
        for id in range(first, first + count)
    ]
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (modified, modified))


def limited_files(db: Database, folder: Path, burst: int, form: str, rest: str) -> None:
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ('connector' = 'files', 'path' = '{folder}', 'format' = '{form}',
          {NO_REFILL}, 'sla.burst' = '{burst}');
        {rest}
    """)


@pytest.mark.parametrize("shards", [pytest.param(2, marks=pytest.mark.slow), 7])
def test_files_that_many_tasks_read_are_admitted_in_the_order_of_their_arrival(
    db_factory: DatabaseFactory, tmp_path: Path, shards: int
) -> None:
    """Three files, of which the last one came first; 1.3 MB each, so that a task reads a part of them."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number, modified in enumerate((1001, 1002, 1000)):
        write_file(folder, f"{number}.json", number * 40_000, 40_000, modified)
    db = db_factory(shards=shards)
    limited_files(
        db,
        folder,
        90_001,
        "json",
        """
        CREATE STREAM o AS SELECT id FROM s;
        CREATE STREAM n AS SELECT k, count(*) AS n, max(id) AS top FROM s WHERE id % 2 = 0
        GROUP BY k, TUMBLE(ts, INTERVAL '1000' SECOND) EMIT ON UPDATE;
        """,
    )
    db.tick()
    admitted = {*range(80_000, 120_000), *range(40_000), *range(40_000, 50_001)}
    assert ids(db) == sorted(admitted)
    counts = db.accounting("o")
    assert (counts["rows_in"], counts["used"], counts["rejected"]) == (120_000, 90_001, 29_999)
    even = [id for id in admitted if id % 2 == 0]
    assert [(row["n"], row["top"]) for row in db.read("n")] == [(len(even), 119_998)]
    assert db.accounting("n")["used"] == len(even)
    assert db.watermark("o") == 119_999  # of an admitted row; the files in between are not late for forwarding


def test_rows_are_folded_while_there_are_tokens_for_all_and_asked_for_when_there_are_not(
    db_factory: DatabaseFactory, tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    counted = """
        CREATE STREAM n AS SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
        CREATE STREAM o AS SELECT id FROM s;
    """
    db = db_factory(checkpoint=checkpoint, shards=2)
    limited_files(db, folder, 7_000, "json", counted)

    def after(number: int) -> tuple[list[int], dict[str, int], list[int], float]:
        """What windows have closed, the account, what was forwarded, and the tokens that are left."""
        write_file(folder, f".{number}", number * 5_000, 5_000, 1000 + number)
        (folder / f".{number}").rename(folder / f"{number}.json")
        db.tick()
        figures = db.metrics()["n"]["sources"]["s"]["admission"]
        return [row["n"] for row in db.read("n")], db.accounting("n"), ids(db), figures["tokens_left"]

    closed, counts, forwarded, tokens = after(0)
    assert (closed, forwarded, int(tokens)) == ([1_000] * 4, list(range(5_000)), 2_000)
    assert (counts["used"], counts["rejected"]) == (5_000, 0)
    assert "pack → fold" in db.explain("n") and "pack → forward → select list" in db.explain("o")

    closed, counts, forwarded, tokens = after(1)
    assert (closed, forwarded, int(tokens)) == ([1_000] * 6, list(range(7_000)), 0)
    assert (counts["rows_in"], counts["used"], counts["rejected"]) == (10_000, 7_000, 3_000)
    for stream in ("n", "o"):
        originals = [payload["original_event"] for payload in db.side_output(stream, "rejected")]
        assert sorted(each["id"] for each in originals) == list(range(7_000, 10_000))
        assert all(each == {"id": each["id"], "k": "one", "ts": each["id"]} for each in originals)
        assert "→ fold" not in db.explain(stream) and "→ forward" not in db.explain(stream)

    db.close()
    db = db_factory(checkpoint=checkpoint)
    closed, counts, forwarded, _ = after(2)
    assert (len(closed), len(forwarded), counts["rows_in"], counts["rejected"]) == (6, 7_000, 15_000, 8_000)


def test_rows_are_folded_again_when_limits_have_let_all_pass_for_a_while(
    db_factory: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.spark.cheaper_plan.Regaining", lambda: Regaining(batches=2))
    db = db_factory(shards=2)
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ('connector' = 'files', 'path' = '{tmp_path}', 'format' = 'json',
          'sla.max_events_per_sec' = '1', 'sla.burst' = '70');
        CREATE STREAM n AS SELECT count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '10' MILLISECOND);
    """)
    seen = []
    for number, arrived in enumerate((1000, 1001, 2000, 3000, 4000, 4001)):  # the bucket is full again at each thousand
        write_file(tmp_path, f".{number}", number * 50, 50, arrived)
        (tmp_path / f".{number}").rename(tmp_path / f"{number}.json")
        db.tick()
        seen.append((db.accounting("n")["rejected"], "→ fold" in db.explain("n")))
    assert seen == [(0, True), (29, False), (29, False), (29, True), (29, True), (58, False)]
    assert sum(row["n"] for row in db.read("n")) >= 6 * 50 - 58 - 10
    assert db.accounting("n")["used"] == 6 * 50 - 58


def test_files_that_spark_reads_are_admitted_exactly(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, modified in enumerate((1001, 1000)):
        write_file(folder, f"{number}.csv", number * 100, 100, modified, "csv")
    db = db_factory(shards=2)
    limited_files(db, folder, 130, "csv", "CREATE STREAM o AS SELECT id FROM s;")
    db.tick()
    assert ids(db) == [*range(30), *range(100, 200)]


@pytest.mark.parametrize("shards", [2, pytest.param(7, marks=pytest.mark.slow)])
def test_rows_of_many_writes_in_one_batch_are_admitted_in_order(db_factory: DatabaseFactory, shards: int) -> None:
    db = db_factory(shards=shards)
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ({NO_REFILL}, 'sla.burst' = '25');
        CREATE STREAM o AS SELECT id FROM s;
        CREATE STREAM spread AS SELECT id, count(*) AS n FROM s GROUP BY id, TUMBLE(ts, INTERVAL '1' SECOND)
        EMIT ON UPDATE;
    """)
    for first in range(0, 40, 10):
        db.write("s", [(id, "one", id) for id in range(first, first + 10)])
    db.tick()
    assert ids(db) == ids(db, "spread") == list(range(25))


def test_a_rejected_row_says_why_with_figures(db: Database) -> None:
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ({NO_REFILL}, 'sla.burst' = '2', 'sla.max_lag' = '20000 days');
        CREATE STREAM o AS SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
    """)
    now = 1_700_000_000_000
    db.write("s", [(1, "a", -1_000_000_000_000), (2, "a", now), (3, "a", now), (4, "b", now)])
    db.tick()
    payloads = {row["original_event"]["id"]: row for row in db.side_output("o", "rejected")}
    assert {id: row["reason"] for id, row in payloads.items()} == {1: "lag", 4: "rate"}
    detail = json.loads(payloads[4]["error_detail"])
    assert detail["burst"] == 2 and detail["tokens_per_sec"] == 0.001 and 0 <= detail["tokens_left"] < 0.1
    assert json.loads(payloads[1]["error_detail"])["max_lag_ms"] == 20_000 * 86_400_000.0
    assert payloads[4]["group_key"] == {"k": "b"} and payloads[4]["source"] == "s"
    figures = db.metrics()["o"]["sources"]["s"]["admission"]
    assert {name: figures[name] for name in ("admitted", "rejected_lag", "rejected_jitter", "rejected_rate")} == {
        "admitted": 2, "rejected_lag": 1, "rejected_jitter": 0, "rejected_rate": 1
    }  # fmt: skip
    assert 0 <= figures["tokens_left"] < 0.1


def test_a_gap_rejects_one_row(db: Database) -> None:
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ('sla.jitter_budget' = '1 milliseconds');
        CREATE STREAM o AS SELECT id FROM s;
    """)
    for first in (0, 10):
        db.write("s", [(id, "a", id) for id in range(first, first + 3)])
        db.tick()  # which takes longer than the budget
    assert ids(db) == [0, 1, 2, 11, 12]
    (rejected,) = db.side_output("o", "rejected")
    assert rejected["reason"] == "jitter" and json.loads(rejected["error_detail"])["gap_ms"] > 1


def test_a_batch_that_is_repeated_admits_the_same_rows(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    """As after a crash between a batch's results and Spark's commit of it."""
    sql = f"""
        CREATE SOURCE s ({COLUMNS}) WITH ({NO_REFILL}, 'sla.burst' = '15');
        CREATE STREAM o AS SELECT window_start, count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '5' MILLISECOND);
    """
    db = db_factory(checkpoint=str(tmp_path), shards=2)
    db.execute(sql)
    db.write("s", [(id, "a", id) for id in range(10)])
    db.tick()
    db.close()
    commits = sorted((tmp_path / "streams" / "o" / "spark" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for commit in commits[1:]:
        commit.unlink()
    db = db_factory(checkpoint=str(tmp_path))
    db.write("s", [(id, "a", id) for id in range(10, 30)])
    db.tick()
    db.stop()
    assert sorted(row["n"] for row in db.read("o")) == [5, 5, 5]
    counts = db.accounting("o")
    assert (counts["rows_in"], counts["used"], counts["rejected"]) == (30, 15, 15)


def test_both_sides_of_a_join_have_their_own_limits(db: Database) -> None:
    db.execute(f"""
        CREATE SOURCE l ({COLUMNS}) WITH ({NO_REFILL}, 'sla.burst' = '2');
        CREATE SOURCE r ({COLUMNS}) WITH ({NO_REFILL}, 'sla.burst' = '3');
        CREATE STREAM o AS SELECT l.id AS id, r.id AS other
        FROM l JOIN r WITHIN TUMBLE(INTERVAL '1' SECOND) ON l.k = r.k;
    """)
    rows: list[tuple[Any, ...]] = [(id, "a", id) for id in range(5)]
    db.write("l", rows)
    db.write("r", rows)
    db.tick()
    assert sorted((row["id"], row["other"]) for row in db.read("o")) == [
        (left, right) for left in range(2) for right in range(3)
    ]
    assert db.accounting("o")["rejected"] == 5


SHEDDING = """
    CREATE SOURCE s (id BIGINT, k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH (
      'shed.policy' = 'strict', 'shed.target_latency' = '1 milliseconds', 'sla.priority' = 'k');
    CREATE STREAM o AS SELECT id FROM s;
"""


def test_a_batch_that_is_repeated_sheds_the_same_rows(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    """Half of the rows of low priority go, and which they are depends on the rows alone."""
    log = ShedLog(tmp_path / "streams" / "o" / "shed_orders.json")
    log.add(0, ShedOrder(ShedRatios(low=0.5), 0.25, 1.5, "latency"))
    db = db_factory(checkpoint=str(tmp_path), shards=2)
    db.execute(SHEDDING)
    db.write("s", [(id, ("low", "critical")[id % 2], id) for id in range(400)])
    db.tick()
    shed = {row["original_event"]["id"]: row for row in db.side_output("o", "shed")}
    assert 60 < len(shed) < 140 and all(id % 2 == 0 for id in shed)
    assert {row["error_detail"] for row in shed.values()} == {
        '{"ratio": 0.5, "share": 0.25, "priority": "low", "score": 1.5, "cause": "latency"}'
    }
    assert ids(db) == [id for id in range(400) if id not in shed]
    counts = db.accounting("o")
    assert (counts["rows_in"], counts["used"], counts["shed"]) == (400, 400 - len(shed), len(shed))
    metrics = db.metrics()["o"]
    assert metrics["load_latency"] > 1 and metrics["sources"]["s"]["admission"]["shed"] == len(shed)
    db.close()
    stream = tmp_path / "streams" / "o"
    log.add(1 << 60, ShedOrder(ShedRatios(low=1.0), 0.5, 9.0, "latency"))  # a later order changes nothing
    later = [path for path in (stream / "spark" / "offsets").glob("[0-9]*") if path.name != "0"]
    for path in [*later, *(stream / "spark" / "commits").glob("[0-9]*"), *(stream / "results").glob("0*")]:
        path.unlink()
    db = db_factory(checkpoint=str(tmp_path))
    db.tick()
    assert {row["original_event"]["id"] for row in db.side_output("o", "shed")} == set(shed)


def test_the_watermark_follows_admitted_rows_while_a_stream_runs_in_the_background(db: Database) -> None:
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ({NO_REFILL}, 'sla.burst' = '3');
        CREATE STREAM o AS SELECT window_start, count(*) AS n FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND);
    """)
    db.start()
    db.write("s", [(1, "a", 100), (2, "a", 200), (3, "a", 1500), (4, "a", 9000)])
    end = time.monotonic() + 500
    while not list(db.read("o")) and time.monotonic() < end:
        time.sleep(0.1)
    assert [row["n"] for row in db.read("o")] == [2]
    assert db.accounting("o")["rejected"] == 1
