"""Rows that tasks look up by themselves: what they find is what Spark's join finds, in the version that counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eventide.database import Database
from eventide.spark import task_lookup
from tests.conftest import DatabaseFactory
from tests.spark.test_tables import found, table

EVENTS = """CREATE SOURCE events (k BIGINT, i INT, s STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms,
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'files', 'path' = '{path}',
  'max_files_per_batch' = '1');
"""
QUERIES = {
    "plain": "SELECT k, v, name FROM events JOIN names ON k % 5 = id",
    "outer_join": "SELECT k, v, name, upper(name) AS u FROM events LEFT JOIN names n ON n.id = k WHERE v > 1",
    "filtered": "SELECT k, name FROM events JOIN names ON i = id WHERE name LIKE 'A%' OR v = 2",
    "two_keys": "SELECT v, name FROM events JOIN names n ON n.id = k AND s = n.kind",
    "windows": "SELECT name, count(*) AS n, sum(v) AS t FROM events LEFT JOIN names ON k = id GROUP BY name, "
    "TUMBLE(ts, INTERVAL '1' SECOND)",
    "nobody": "SELECT v FROM events JOIN names ON k = id AND s = kind WHERE kind = 'none'",
}  # fmt: skip


def lines(number: int) -> str:
    rows = [
        {"k": k, "i": None if k is None else -k, "s": s, "v": v, "ts": 1000 * number + v}
        for v, (k, s) in enumerate([(1, "x"), (2, "y"), (7, None), (None, "x"), (-1, "z"), (2, "x"), (1, "q")])
    ]
    bad = ['{"k": "no", "ts": 1}', '{"k": 1, "v": 9, "ts": -1000000}']  # of which one is late in the second batch
    return "".join(f"{line}\n" for line in [*map(json.dumps, rows), *bad[number - 1 :]])


def names(path: Path, *more: tuple[int | None, str | None, str]) -> None:
    rows = [(1, "x", "Ann"), (2, "y", "Bob"), (2, "y", "Bea"), (None, "x", "nobody"), (-1, None, "Al"), *more]
    path.write_text("".join(json.dumps({"id": id, "kind": kind, "name": name}) + "\n" for id, kind, name in rows))


@pytest.mark.parametrize(
    ("largest", "queries"),
    [
        pytest.param(500_000, ["outer_join", "windows"], id="by_tasks"),
        pytest.param(500_000, ["plain", "filtered", "two_keys", "nobody"], id="more_by_tasks", marks=pytest.mark.slow),
        pytest.param(2, list(QUERIES), id="too_large", marks=pytest.mark.slow),
    ],
)
def test_tasks_find_what_spark_finds(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int, queries: list[str]
) -> None:
    monkeypatch.setattr(task_lookup, "LARGEST", largest)
    (tmp_path / "in").mkdir()
    names(tmp_path / "names.json")
    db.execute(EVENTS.format(path=tmp_path / "in"))
    db.execute(table("names", "id BIGINT, kind STRING, name STRING", tmp_path / "names.json", "json"))
    db.execute("SELECT * FROM names")  # so that it has been read
    for name in queries:
        db.execute(f"CREATE STREAM {name} AS {QUERIES[name]}")
        db.execute(f"CREATE STREAM {name}_by_spark WITH ('fused_scan' = 'false') AS {QUERIES[name]}")
        assert "look up" in db.explain(name)
    for number in (1, 2):
        (tmp_path / "in" / f"{number}.json").write_text(lines(number))
    db.tick()
    db.advance_watermark("events", 60_000)
    db.tick()
    for name in queries:
        assert found(db.read(name)) == found(db.read(f"{name}_by_spark")), name
        assert db.accounting(name) == db.accounting(f"{name}_by_spark"), name
    if "outer_join" in queries:
        assert ("Bea", 5) in [(row["name"], row["v"]) for row in db.read("outer_join")]


def test_a_batch_that_comes_again_is_looked_up_in_the_same_version(db_factory: DatabaseFactory, tmp_path: Path) -> None:
    """A crash between the state of a batch and its commit, and the table was read anew in between."""
    checkpoint, path = tmp_path / "checkpoint", tmp_path / "names.json"
    (tmp_path / "in").mkdir()
    names(path)
    sql = f"""{EVENTS.format(path=tmp_path / "in")}
        {table("names", "id BIGINT, kind STRING, name STRING", path, "json", ", 'refresh' = '1 hour'")}
        CREATE STREAM o AS SELECT name, count(*) AS n FROM events JOIN names ON k = id
          GROUP BY name, TUMBLE(ts, INTERVAL '1' MINUTE);"""
    db = db_factory(checkpoint=str(checkpoint))
    db.execute(sql)
    assert "look up" in db.explain("o")
    (tmp_path / "in" / "1.json").write_text('{"k": 7, "v": 1, "ts": 1000}\n{"k": 1, "v": 1, "ts": 1000}\n')
    db.tick()
    db.close()
    for file in (checkpoint / "streams" / "o" / "spark" / "commits").iterdir():
        if file.name != "metadata":
            file.unlink()
    names(path, (7, None, "Zoe"))
    db = db_factory(checkpoint=str(checkpoint))
    db.execute(sql)
    db.execute("REFRESH TABLE names")
    db.tick()
    (tmp_path / "in" / "2.json").write_text('{"k": 7, "v": 1, "ts": 2000}\n')
    db.tick()
    db.advance_watermark("events", 60_000)
    db.tick()
    assert found(db.read("o")) == [("Ann", 1), ("Zoe", 1)]
