"""`eventide migrate`: streams that cannot go on from their state begin anew from their sources."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from eventide.connectors.files.write import FilesSink
from eventide.errors import CheckpointError
from eventide.migration import migrate, stuck_streams
from eventide.sql.catalog import Catalog
from eventide.storage.layout import Layout
from tests.conftest import DatabaseFactory

TEXT = """
CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE STREAM o AS SELECT window_end, k, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
CREATE STREAM p AS SELECT k, v FROM s;
CREATE SINK out FROM o WITH ('connector' = 'files', 'path' = '{out}', 'format' = 'json');
"""


def delivered(folder: Path) -> list[int]:
    lines = [line for path in folder.glob("*.json") for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["total"] for line in lines)


def test_a_stream_begins_anew_and_its_sinks_get_what_they_had_not(tmp_path: Path, db_factory: DatabaseFactory) -> None:
    out, layout = tmp_path / "out", Layout(tmp_path / "checkpoint")
    old = TEXT.format(out=out)
    first = db_factory(checkpoint=layout.root)
    first.execute(old)
    first.write("s", [("a", 1, 100), ("a", 2, 1100), ("a", 4, 2100), ("a", 8, 2600)])
    first.tick()
    assert delivered(out) == [1, 2]
    first.close()
    new = old.replace("'1' SECOND", "'2' SECOND").replace("k, v FROM s", "k, v + 1 AS v FROM s")
    streams = stuck_streams(layout, Catalog.from_texts([old]), Catalog.from_texts([new]))
    assert streams == ["o"]
    (done,) = migrate(layout, new, streams, lambda: db_factory(checkpoint=layout.root), partial=False)
    assert (done.rows_before, done.rows, done.handed_over) == (4, 4, 0)
    again = db_factory(checkpoint=layout.root)
    again.execute(new)
    again.advance_watermark("s", 9000)
    again.tick()
    assert sorted(row["total"] for row in again.read("o")) == [3, 12]
    assert delivered(out) == [1, 2, 12]
    assert not layout.migration.exists()
    assert not layout.before.exists()


def killed_by_results(sink: FilesSink, batch: int, rows: pa.Table) -> None:
    """In place of `write`, which takes what is handed over, and payloads."""
    if "total" in rows.column_names:
        raise RuntimeError("killed")
    sink.commit(batch, [rows])


def test_sinks_get_every_row_once_even_if_a_crash_follows_the_switch(
    tmp_path: Path, db_factory: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    old, a second and two of lateness: |1 |2 | 4|  |  | 8 and 32|      watermark 4.2: has given up to 2.2
    new, two seconds, none late:       |  3  |  4  | 40         |      closes up to 4.2
    """
    layout, out, each, dead = (Layout(tmp_path / "c"), tmp_path / "out", tmp_path / "each", tmp_path / "dead")
    files = "WITH ('connector' = 'files', 'format' = 'json', 'path' = '{}')"
    old = f"""
        CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms,
          WATERMARK FOR ts AS ts - INTERVAL '1' SECOND);
        CREATE SINK dead {files.format(dead)};
        CREATE STREAM o AS SELECT window_end, sum(v) AS total FROM s GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)
          EMIT ON WINDOW CLOSE ALLOW LATENESS INTERVAL '2' SECOND;
        CREATE STREAM p WITH ('side_output.error.sink' = 'dead') AS SELECT k, v AS total FROM s;
        CREATE SINK out FROM o {files.format(out)};
        CREATE SINK each FROM p {files.format(each)};
    """
    never = 10**14  # too far ahead: an error
    first = db_factory(checkpoint=layout.root)
    first.execute(old)
    first.write("s", [("a", 1, 100), ("a", 2, 1100), ("a", 4, 2100), ("a", 8, 5100), ("a", 16, never)])
    first.tick()
    first.write("s", [("a", 32, 5200), ("a", 64, never)])  # the old streams have not seen them when they stop
    first.close()
    new = old.replace("TUMBLE(ts, INTERVAL '1' SECOND)", "TUMBLE(ts, INTERVAL '2' SECOND)").replace(
        "ALLOW LATENESS INTERVAL '2' SECOND", ""
    )
    with monkeypatch.context() as dying, pytest.raises(RuntimeError, match="killed"):
        dying.setattr(FilesSink, "write", killed_by_results)
        migrate(layout, new, ["o", "p"], lambda: db_factory(checkpoint=layout.root), partial=False)
    for _ in range(2):
        again = db_factory(checkpoint=layout.root)
        assert (delivered(out), delivered(each)) == ([1, 2, 4], [1, 2, 4, 8, 32])
        assert sum(len(path.read_text().splitlines()) for path in dead.glob("*.json")) == 2
        assert not layout.migration.exists() and not layout.before.exists() and not layout.handover.exists()
        again.execute(new)
        again.close()
    again = db_factory(checkpoint=layout.root)
    again.write("s", [("a", 128, 9000), ("a", 256, never)])
    again.tick()
    assert (delivered(out), delivered(each)) == ([1, 2, 4, 40], [1, 2, 4, 8, 32, 128])
    again.close()
    assert sum(len(path.read_text().splitlines()) for path in dead.glob("*.json")) == 3


@pytest.mark.slow
def test_sources_that_have_forgotten_rows_leave_everything_as_it_was(
    tmp_path: Path, db_factory: DatabaseFactory
) -> None:
    layout, folder = Layout(tmp_path / "checkpoint"), tmp_path / "in"
    folder.mkdir()
    files = f") WITH ('connector' = 'files', 'path' = '{folder}');"
    old = TEXT.format(out=tmp_path / "out").replace(");", files, 1)
    (folder / "1.json").write_text('{"k": "a", "v": 1, "ts": 100}\n')
    (folder / "2.json").write_text('{"k": "a", "v": 2, "ts": 200}\n')
    first = db_factory(checkpoint=layout.root)
    first.execute(old)
    first.tick()
    first.close()
    (folder / "1.json").unlink()
    new = old.replace("'1' SECOND", "'2' SECOND")
    with pytest.raises(CheckpointError, match="the sources of o still have 1 of the 2 rows that it took in"):
        migrate(layout, new, ["o"], lambda: db_factory(checkpoint=layout.root), partial=False)
    again = db_factory(checkpoint=layout.root)
    again.execute(old)
    (folder / "3.json").write_text('{"k": "a", "v": 4, "ts": 300}\n{"k": "a", "v": 0, "ts": 5000}\n')
    again.tick()
    assert [row["total"] for row in again.read("o")] == [7]
