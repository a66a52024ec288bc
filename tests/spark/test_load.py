"""Streams under load on Spark: whole windows that go, writers that are slowed down, batches that keep to a size."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from eventide.admission.pacing import MIB
from eventide.admission.shed_log import ShedLog
from eventide.admission.shedder import ShedOrder, ShedRatios
from eventide.database import Database
from tests.conftest import DatabaseFactory

COLUMNS = "id BIGINT, k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms"
HALF = ShedRatios(medium=0.5)


def is_balanced(counts: dict[str, int]) -> bool:
    return counts["rows_in"] == sum(count for kind, count in counts.items() if kind != "rows_in")


def test_windows_go_as_a_whole_and_say_how_many_they_stand_for(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    """40 keys and 5 windows of 6 rows, under an order that lets half of the windows go."""
    order = ShedOrder(HALF, 0.5, 1.5, "latency", ((-(1 << 62), HALF),))
    ShedLog(tmp_path / "streams" / "o" / "shed_orders.json").add(0, order)
    db = db_factory(checkpoint=str(tmp_path), shards=2)
    db.execute(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ('shed.mode' = 'windows', 'shed.target_latency' = '1 hour');
        CREATE STREAM o AS SELECT k, window_start, count(*) AS n, shed_ratio FROM s
        GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
    """)
    rows = [(id, f"k{id % 40}", id // 240 * 1000 + id % 7) for id in range(1200)]
    db.write("s", rows[:700])
    db.tick()
    db.write("s", rows[700:])
    db.tick()
    db.stop()
    given = list(db.read("o"))
    assert 60 < len(given) < 140
    assert {(row["n"], row["shed_ratio"]) for row in given} == {(6, 0.5)}
    counts = db.accounting("o")
    assert counts["shed"] == 1200 - 6 * len(given) and is_balanced(counts)
    shed = Counter((row["group_key"]["k"], row["event_time"].second) for row in db.side_output("o", "shed"))
    assert set(shed.values()) == {6}


def test_windows_of_pairs_and_steps_of_windows_go_as_a_whole(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    """Two rows of a left source and one of a right for each of 40 keys in 3 windows: all their pairs, or none; and
    both steps of a cumulating window, or none.
    """
    order = ShedOrder(HALF, 0.5, 1.5, "latency", ((-(1 << 62), HALF),))
    for stream in ("pairs", "steps"):
        ShedLog(tmp_path / "streams" / stream / "shed_orders.json").add(0, order)
    db = db_factory(checkpoint=str(tmp_path), shards=2)
    options = "WITH ('shed.mode' = 'windows', 'shed.target_latency' = '1 hour')"
    db.execute(f"""
        CREATE SOURCE l ({COLUMNS}) {options};
        CREATE SOURCE r (other INT, k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) {options};
        CREATE STREAM pairs AS SELECT l.k AS k, window_start, id, other FROM l FULL JOIN r
        WITHIN TUMBLE(INTERVAL '1' SECOND) ON l.k = r.k;
        CREATE STREAM steps AS SELECT k, window_start, window_end, count(*) AS n FROM l
        GROUP BY k, CUMULATE(ts, INTERVAL '500' MILLISECOND, INTERVAL '1' SECOND);
    """)
    left = [(id, f"k{id % 40}", id // 80 * 1000 + id % 80 // 40 * 600) for id in range(240)]
    right = [(id, f"k{id % 40}", id // 40 * 1000 + 300) for id in range(120)]
    for source, rows in (("l", left[:100]), ("r", right[:100]), ("l", left[100:]), ("r", right[100:])):
        db.write(source, rows)
    db.tick()
    db.stop()
    pairs = list(db.read("pairs"))
    assert all(row["id"] is not None and row["other"] is not None for row in pairs)
    found = Counter((row["k"], row["window_start"]) for row in pairs)
    assert 30 < len(found) < 90 and set(found.values()) == {2}
    steps: dict[tuple[str, object], list[int]] = {}
    for row in sorted(db.read("steps"), key=lambda row: row["window_end"]):
        steps.setdefault((row["k"], row["window_start"]), []).append(row["n"])
    assert set(steps) == set(found) and all(counts == [1, 2] for counts in steps.values())
    for stream in ("pairs", "steps"):
        assert is_balanced(db.accounting(stream)) and db.accounting(stream)["shed"] > 0


def test_a_writer_that_is_too_fast_is_told_to_wait_and_batches_take_a_piece_at_a_time(db: Database) -> None:
    """A batch takes 4 MiB before anything is known, and two of them may wait."""
    db.execute("""
        CREATE SOURCE s (id BIGINT, text STRING) WITH ('shed.policy' = 'prefer_throttle');
        CREATE STREAM o AS SELECT id, length(text) AS n FROM s;
    """)
    rows = [(id, "x" * MIB) for id in range(10)]
    taken = 0
    for row in rows:
        written = db.write("s", [row])
        taken += written
    assert taken == 7 and written == 0 and written.wait > 0  # eight do not quite fit
    db.tick()
    assert db.metrics()["o"]["batches"] >= 2
    assert db.write("s", rows[taken:], timeout=600.0) == 3
    db.tick()
    assert sorted((row["id"], row["n"]) for row in db.read("o")) == [(id, MIB) for id in range(10)]
    assert db.metrics()["o"]["load_latency"] > 0


def test_files_of_a_source_that_is_throttled_are_read_in_pieces(db: Database, tmp_path: Path) -> None:
    for number in range(4):
        line = json.dumps({"id": number, "text": "x" * (3 * MIB)})
        (tmp_path / f"{number}.json").write_text(f"{line}\n")
    db.execute(f"""
        CREATE SOURCE s (id BIGINT, text STRING)
        WITH ('connector' = 'files', 'path' = '{tmp_path}', 'shed.policy' = 'prefer_throttle');
        CREATE STREAM o AS SELECT id FROM s;
    """)
    db.tick()
    assert sorted(row["id"] for row in db.read("o")) == [0, 1, 2, 3]
    metrics = db.metrics()["o"]
    assert metrics["batches"] >= 2 and metrics["load_backlog"] == 0
