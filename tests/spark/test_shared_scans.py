"""Inputs of one source share a scan: the outcome is that of two, and a checkpoint goes on as it began."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventide.spark import compile as compiling
from tests.conftest import DatabaseFactory
from tests.spark.test_tables import found

SOURCE = """CREATE SOURCE events (kind STRING, id BIGINT, other BIGINT, name STRING, ts BIGINT,
  EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
  WITH ('connector' = 'files', 'path' = '{path}', 'max_files_per_batch' = '1');"""
QUERIES = {
    "pairs": """SELECT a.id, a.name, b.id AS sold, b.ts FROM events a JOIN events b WITHIN INTERVAL '2' SECOND
        ON a.id = b.other WHERE a.kind = 'a' AND b.kind = 'b'""",
    "outer_pairs": """SELECT a.id, b.name FROM (SELECT * FROM events WHERE kind = 'a') a LEFT JOIN
        (SELECT * FROM events WHERE kind = 'b') b WITHIN TUMBLE(INTERVAL '1' SECOND) ON a.id = b.other""",
    "both": """SELECT kind, count(*) AS n, max(name) AS m FROM (SELECT kind, name, ts FROM events WHERE id > 1
        UNION ALL SELECT upper(kind) AS kind, name, ts FROM events WHERE id < 4) GROUP BY kind,
        TUMBLE(ts, INTERVAL '1' SECOND)""",
}


def lines(batch: int) -> str:
    made = []
    for number in range(40):
        kind, time = "abc"[number % 3], 1000 * batch + 31 * number
        row: dict[str, Any] = {"kind": kind, "id": number % 7, "other": number % 5, "name": f"n{number}", "ts": time}
        made.append(json.dumps(row))
    late = json.dumps({"kind": "a", "id": 1, "other": 1, "name": "late", "ts": -100_000})
    return "".join(f"{line}\n" for line in [*made, *([late] if batch > 1 else [])])


def begin(db_factory: DatabaseFactory, folder: Path, names: list[str]) -> Any:
    db = db_factory(checkpoint=str(folder / "checkpoint"))
    db.execute(SOURCE.format(path=folder / "in"))
    for name in names:
        db.execute(f"CREATE STREAM {name} AS {QUERIES[name]}")
        db.execute(f"CREATE STREAM {name}_apart WITH ('fused_scan' = 'false') AS {QUERIES[name]}")
    return db


def write(folder: Path, batch: int, more: str = "") -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / f"{batch}.json").write_text(lines(batch) + more)


def scans_of(folder: Path, name: str) -> set[str]:
    return {path.name for path in (folder / "checkpoint" / "streams" / name / "scans").iterdir() if path.is_dir()}


@pytest.mark.parametrize(
    ("is_older", "names"),
    [
        pytest.param(False, ["pairs"], id="one_scan"),
        pytest.param(False, ["both"], id="one_scan_for_a_union", marks=pytest.mark.slow),
        pytest.param(True, ["pairs"], id="two_scans_of_an_earlier_release", marks=pytest.mark.slow),
        pytest.param(False, ["outer_pairs"], id="one_scan_for_an_outer_join", marks=pytest.mark.slow),
        pytest.param(True, ["outer_pairs", "both"], id="more_scans_of_an_earlier_release", marks=pytest.mark.slow),
    ],
)
def test_what_comes_of_one_scan_is_what_came_of_two(
    db_factory: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_older: bool, names: list[str]
) -> None:
    """With a restart, late rows, and lines that only Spark can judge."""
    with monkeypatch.context() as earlier:
        if is_older:
            earlier.setattr(compiling, "inputs_together", lambda physical, inputs: ())
        write(tmp_path, 1)
        db = begin(db_factory, tmp_path, names)
        db.tick()
        write(tmp_path, 2)
        db.tick()
        db.close()
    for name in names:
        assert scans_of(tmp_path, name) == ({"0", "1"} if is_older else {"0"})
        path = tmp_path / "checkpoint" / "streams" / name / "plan.json"
        kept = json.loads(path.read_text())
        assert kept.pop("together") == ([] if is_older else [[0, 1]])
        if is_older:
            path.write_text(json.dumps(kept))
    db = begin(db_factory, tmp_path, names)
    write(tmp_path, 3, '{"kind": "a", "id": 1, "other": 1, "name": "twice", "ts": 3100, "ts": 3100}\nno json\n')
    db.tick()
    write(tmp_path, 4)
    db.tick()
    db.advance_watermark("events", 60_000)
    db.tick()
    for name in names:
        assert db.explain(name).count("read once: with the other inputs of events") == (0 if is_older else 2)
        assert found(db.read(name)) == found(db.read(f"{name}_apart")), name
        assert db.accounting(name) == db.accounting(f"{name}_apart"), name
        assert len(found(db.read(name))) > 10 and db.accounting(name)["error"] and db.accounting(name)["late"], name
